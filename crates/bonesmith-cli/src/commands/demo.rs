//! `bonesmith demo`: an animation that the program makes itself, fitted and written.

use std::time::Instant;

use anyhow::Context;
use bonesmith_core::RawSequence;
use bonesmith_core::synthetic::{self, pieces::WallParams};

use crate::args::{DemoArgs, SceneArg};
use crate::errors::Outcome;
use crate::output::print;
use crate::session::Session;
use crate::settings::{JsonTarget, ReportTarget};
use crate::{load, pipeline, settings};

/// The report's size at most.
const REPORT_MB: f64 = 25.0;

pub fn run(args: DemoArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut params = settings::solver(&args.solver)?;
    let folder = args.output;
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let rig_path = settings::output(folder.join("demo.glb"))?;
    let sequence_path = settings::output(folder.join("demo.npz"))?;
    let page = settings::report_path(folder.join("report.html"))?;
    let json = settings::json(args.json)?;
    session.claim(&[], &[rig_path.clone(), sequence_path.clone(), page.clone()], json.as_ref(), None)?;

    session.stage("making the animation")?;
    let started = Instant::now();
    let sequence = load::check(scene(args.scene))?;
    params.importance = args.solver.importance.map(|source| load::importance(&source, &sequence)).transpose()?;
    let made_secs = started.elapsed().as_secs_f64();
    let job = pipeline::Job {
        params,
        skeleton: None,
        eigenskin: None,
        pieces: false,
        output: rig_path.clone(),
        picture: None,
    };
    let (mut summary, written) = pipeline::fit_and_export(&sequence, made_secs, job, session)?;
    let target = ReportTarget { path: page, max_bytes: settings::report_bytes(REPORT_MB)? };
    let page = pipeline::report("demo", &mut summary, written.view(), &sequence, &target, session);
    bonesmith_io::save_sequence(&sequence, &sequence_path)?;
    super::report(&summary, json.as_ref(), !session.quiet, session)?;
    page?;
    if !session.quiet && json != Some(JsonTarget::Stdout) {
        let (rig, sequence, page) = (rig_path.display(), sequence_path.display(), target.path.display());
        print(&format!(
            "\nOpen {page} in a browser to see it move beside the original, or {rig} in Blender\n\
             (File > Import > glTF) or any glTF viewer. What it was fitted to is {sequence}. Try:\n\n\
             \x20 bonesmith info {rig}\n  bonesmith eval {rig} {sequence}\n"
        ))?;
    }
    Ok(pipeline::outcome(&summary))
}

fn scene(scene: SceneArg) -> RawSequence {
    match scene {
        SceneArg::Fish => synthetic::clownfish(),
        SceneArg::Wall => synthetic::pieces::wall(&WallParams::default()),
        SceneArg::Robot => synthetic::pieces::robot_arm(72),
        SceneArg::Mixed => synthetic::pieces::mixed(80),
        SceneArg::Rubble => synthetic::pieces::wall(&synthetic::pieces::RUBBLE),
    }
}

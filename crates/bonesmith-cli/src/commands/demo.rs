//! `bonesmith demo`: an animation that the program makes itself, fitted and written.

use std::time::Instant;

use anyhow::Context;
use bonesmith::core::RawSequence;
use bonesmith::io::Needs;
use bonesmith::synthetic::{self, pieces::WallParams};
use bonesmith::{Layout, MeshSequence, ModelKind, REPORT_BYTES};
use bonesmith_core::Stage;

use super::fit::{Target, fit_and_write};
use crate::args::{DemoArgs, SceneArg};
use crate::errors::Outcome;
use crate::output::print;
use crate::session::Session;
use crate::settings::{self, JsonTarget, ReportTarget};

pub fn run(args: DemoArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let options = settings::fit_options(&args.solver)?;
    let folder = args.output;
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let rig_path = settings::fit_output(folder.join("demo.glb"), &options, Layout::Skin)?;
    let sequence_path = settings::output(folder.join("demo.npz"), Needs::of(ModelKind::Sequence))?;
    let page = settings::report_path(folder.join("report.html"))?;
    let json = settings::json(args.json)?;
    session.claim(&[], &[rig_path.clone(), sequence_path.clone(), page.clone()], json.as_ref(), None)?;

    session.stage(Stage::MakingTheAnimation)?;
    let started = Instant::now();
    let sequence = MeshSequence::try_from(scene(args.scene))?;
    let made_secs = started.elapsed().as_secs_f64();
    bonesmith::io::save_sequence(&sequence, &sequence_path)?;
    let target = Target {
        output: rig_path.clone(),
        others: None,
        layout: Layout::Skin,
        engine: None,
        compact: None,
        picture: None,
        report: Some(ReportTarget { path: page.clone(), max_bytes: REPORT_BYTES }),
        json: json.clone(),
    };
    let summary = fit_and_write("demo", &sequence, made_secs, &options, &target, session)?;
    if !session.quiet && json != Some(JsonTarget::Stdout) {
        let (rig, sequence, page) = (rig_path.display(), sequence_path.display(), page.display());
        print(&format!(
            "\nOpen {page} in a browser to see it move beside the original, or {rig} in Blender\n\
             (File > Import > glTF) or any glTF viewer. The animation it was fitted to is {sequence}. Try:\n\n\
             \x20 bonesmith info {rig}\n  bonesmith eval {rig} {sequence}\n"
        ))?;
    }
    Ok(super::outcome(&summary))
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

//! `bonesmith eval`: how far a rig is from an animation.

use std::time::Instant;

use anyhow::Context;
use bonesmith_core::{Clip, Rig, deform, metrics};

use crate::args::EvalArgs;
use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::summary::Summary;
use crate::{load, settings};

pub fn run(args: EvalArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let rig_input = settings::input(vec![args.rig], Default::default())?;
    let input = settings::input(args.inputs, args.input)?;
    let json = settings::json(args.json)?;

    session.stage("reading")?;
    let started = Instant::now();
    let two = bonesmith_io::load_two_layer(&rig_input.paths[0])?;
    let ddm = bonesmith_io::load_ddm(&rig_input.paths[0])?;
    // Master bones carry the clips; a rig with one layer is itself.
    let rig = match (&two, &ddm) {
        (Some(two), _) => two.master.clone(),
        (None, Some(ddm)) => ddm.rig.clone(),
        (None, None) => bonesmith_io::load_rig(&rig_input.paths[0])?,
    };
    let clip = find_clip(&rig, args.clip.as_deref())?;
    let sequence = load::animation(&input)?;
    let load_secs = started.elapsed().as_secs_f64();

    session.stage("measuring")?;
    let started = Instant::now();
    let single = metrics::evaluate_clip(&rig, clip, &sequence)
        .with_context(|| format!("{} cannot be compared", rig_input.paths[0].display()))?;
    let metrics = match (&two, &ddm) {
        (Some(two), _) => metrics::compare(&sequence, |t| deform::two_layer(two, clip.frame(t))),
        (None, Some(ddm)) => metrics::compare(&sequence, |t| bonesmith_core::ddm::evaluate(ddm, clip.frame(t))),
        (None, None) => single,
    };
    let mut summary = Summary::new(&rig, &sequence, metrics);
    if let Some(two) = &two {
        summary.influences = two.weights.max_influences();
        let cost = crate::output::figure(two.blends_per_vertex());
        summary.layers = Some(format!("{} virtual bones, {cost} blends per vertex", two.virtual_count()));
    }
    if let Some(ddm) = &ddm {
        summary.influences = ddm.layer.as_ref().unwrap_or(&ddm.rig.weights).max_influences();
        summary.layers = Some(match ddm.virtual_count() {
            0 => format!("Direct Delta Mush, variant {}", u8::from(ddm.variant)),
            count => format!("Direct Delta Mush, {count} virtual bones"),
        });
    }
    summary.seconds.load = load_secs;
    summary.seconds.evaluate = started.elapsed().as_secs_f64();
    summary.seconds.total = load_secs + summary.seconds.evaluate;
    session.finish_progress();
    // The table is what was asked for: --quiet only silences the progress.
    super::report(&summary, json.as_ref(), true, session)?;
    Ok(Outcome::Done)
}

fn find_clip<'a>(rig: &'a Rig, name: Option<&str>) -> anyhow::Result<&'a Clip> {
    let names = || rig.clips.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    match name {
        None => Ok(rig.clips.first().ok_or(metrics::MetricsError::NoClip)?),
        Some(name) => match rig.clips.iter().find(|clip| clip.name == name) {
            Some(clip) => Ok(clip),
            None => Err(Usage::new(format!("--clip {name}: the rig has no animation of this name"))
                .hint(format!("it has: {}", names()))
                .into()),
        },
    }
}

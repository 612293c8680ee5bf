//! The clips of each body, read and matched with the animations of the rig.

use std::path::PathBuf;

use anyhow::Context;
use bonesmith_core::fit::Warning;
use bonesmith_core::mesh::sequence::{Joined, Span};
use bonesmith_core::refit::resample::{self, ResampleError, Timing};
use bonesmith_core::refit::{Solve, correspondence};
use bonesmith_core::{Clip, MeshSequence, RawSequence, Rig};
use glam::DAffine3;

use super::align;
use super::plan::Plan;
use crate::errors::Usage;
use crate::load;
use crate::session::Session;

/// One body to fit: all its clips end to end, in the space of the rig.
pub struct Body {
    pub sequence: MeshSequence,
    pub spans: Vec<Span>,
    /// [F, B] how the rig moves in all its clips, where that is known.
    pub motion: Option<Vec<DAffine3>>,
    /// Whether its rest pose is another than the rig's.
    pub own_rest: bool,
    /// Animations of the rig that its clips stand for.
    pub used: Vec<String>,
}

impl Body {
    /// Sits in the rest pose of a rig that was found in it.
    pub fn at_home(&mut self, rig: &Rig) -> anyhow::Result<()> {
        if !self.own_rest {
            self.sequence = self.sequence.clone().with_rest(rig.rest.clone().into())?;
        }
        Ok(())
    }
}

/// One clip as it is read.
struct Read {
    label: String,
    sequence: MeshSequence,
    own_rest: bool,
}

/// Reads the clips of all bodies.
pub fn read(
    plan: &Plan,
    rig: Option<&Rig>,
    session: &mut Session,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Vec<Body>> {
    let mut bodies = Vec::new();
    if !plan.inputs.is_empty() {
        let clips = session.heed(|| read_clips(plan, &plan.inputs))?;
        session.stage("comparing with the rig")?;
        bodies.push(match rig {
            Some(rig) => with_rig(plan, rig, clips, warnings)?,
            None => joined(clips, false)?,
        });
    }
    for subject in &plan.subjects {
        let rest = session.heed(|| bonesmith_io::load_rest(&subject.rest))?;
        let mut clips = session.heed(|| read_clips(plan, &subject.clips))?;
        for clip in &mut clips {
            let sequence = clip.sequence.clone().with_rest(rest.clone());
            clip.sequence = sequence.with_context(|| format!("--subject {}", subject.rest.display()))?;
        }
        let own_rest = rig.is_some() || !bodies.is_empty();
        let mut body = joined(clips, own_rest)?;
        if let Some(rig) = rig {
            same_mesh(rig, &body.sequence, &subject.rest.display().to_string())?;
            if !plan.correction.keeps_space() {
                body.sequence = body.sequence.placed(plan.correction.rig_from_sequence())?;
            }
        }
        bodies.push(body);
    }
    Ok(bodies)
}

fn read_clips(plan: &Plan, inputs: &[PathBuf]) -> anyhow::Result<Vec<Read>> {
    let sources = bonesmith_io::clip_sources(inputs)?;
    let read = |source: &bonesmith_io::ClipSource| {
        let label = source.inputs.first().map(|path| path.display().to_string()).unwrap_or_default();
        let raw: RawSequence = bonesmith_io::load_sequence(&source.inputs, &plan.load)?;
        let own_rest = raw.rest.is_some();
        let raw = load::pick(raw, &plan.input(source.inputs.clone()))?;
        let sequence = load::check(raw).with_context(|| label.clone())?;
        let name = source.name.clone().unwrap_or_else(|| sequence.name().to_owned());
        Ok(Read { label, sequence: sequence.named(name), own_rest })
    };
    sources.iter().map(read).collect()
}

fn joined(clips: Vec<Read>, own_rest: bool) -> anyhow::Result<Body> {
    let Joined { sequence, spans } = MeshSequence::join(clips.into_iter().map(|clip| clip.sequence).collect())?;
    Ok(Body { sequence, spans, motion: None, own_rest, used: Vec::new() })
}

/// The rig's own body: in its space, in its rest pose, with its motion.
fn with_rig(plan: &Plan, rig: &Rig, clips: Vec<Read>, warnings: &mut Vec<Warning>) -> anyhow::Result<Body> {
    let matched = match_clips(plan, rig, &clips)?;
    let (mut sequences, mut motion, mut times) = (Vec::new(), Some(Vec::new()), Vec::new());
    for (Read { label, sequence, own_rest }, clip) in clips.into_iter().zip(&matched) {
        let sequence = in_rig_order(plan, rig, *clip, sequence, own_rest, &label, warnings)?;
        let correction = align::settle(plan, rig, *clip, &sequence, own_rest, &label, warnings)?;
        let offset = correction.frame_offset;
        let mut sequence = match correction.keeps_space() {
            true => sequence,
            false => sequence.placed(correction.rig_from_sequence()).with_context(|| label.clone())?,
        };
        let Some(clip) = clip else {
            motion = None;
            times.push(sequence.times_secs().to_vec());
            sequences.push(sequence);
            continue;
        };
        // The rig does not move outside its clip: a sequence that was shifted by hand or by fit is cut there.
        let shifted = plan.has_offset || offset != 0;
        let offset = if shifted { cut(&mut sequence, clip, offset, &label, warnings)? } else { offset };
        let timing = resample::timing(clip, sequence.times_secs(), offset).map_err(|e| explain(e, &label))?;
        let sampled = resample::sample(rig, clip, sequence.times_secs(), timing);
        if let Some(motion) = motion.as_mut() {
            motion.extend(sampled);
        }
        times.push(own_times(clip, &sequence, timing));
        if let Timing::Seconds { .. } = timing {
            let text = format!("{label}: the rig's clip {:?} was resampled at its times", clip.name);
            warnings.push(Warning::Note { text });
        }
        sequences.push(sequence);
    }
    let Joined { sequence, mut spans } = MeshSequence::join(sequences)?;
    spans.iter_mut().zip(times).for_each(|(span, times)| span.times_secs = times);
    Ok(Body {
        sequence: sequence.with_rest(rig.rest.clone().into())?,
        spans,
        motion,
        own_rest: false,
        used: replaced(rig, &matched),
    })
}

/// Animations of the rig that the fitted ones stand for: those they were matched with; where nothing was, as with motion
/// that is looked for, the only one, or all of them when there are as many.
fn replaced(rig: &Rig, matched: &[Option<&Clip>]) -> Vec<String> {
    let all = rig.clips.len() == 1 || rig.clips.len() == matched.len();
    let names = match matched.iter().all(Option::is_none) && all {
        true => rig.clips.iter().collect(),
        false => matched.iter().flatten().copied().collect::<Vec<_>>(),
    };
    names.into_iter().map(|clip| clip.name.clone()).collect()
}

/// Frames are the rig's: so are their times.
fn own_times(clip: &Clip, sequence: &MeshSequence, timing: Timing) -> Vec<f64> {
    match timing {
        Timing::Frames { offset } => {
            let start = usize::try_from(offset).unwrap_or(0);
            clip.times_secs[start..start + sequence.frame_count()].to_vec()
        }
        Timing::Seconds { .. } => sequence.times_secs().to_vec(),
    }
}

/// Keeps the frames that the clip covers; returns where they start in it.
fn cut(
    sequence: &mut MeshSequence,
    clip: &Clip,
    offset: i64,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<i64> {
    let frames = sequence.frame_count() as i64;
    let step =
        |times: &[f64]| times.last().zip(times.first()).map_or(0.0, |(b, a)| b - a) / (times.len().max(2) - 1) as f64;
    let (own, theirs) = (step(sequence.times_secs()), step(&clip.times_secs));
    let covered = match own > 0.0 && theirs > 0.0 && sequence.frame_count() != clip.frame_count() {
        true => ((clip.frame_count() - 1) as f64 * theirs / own + 1e-3).floor() as i64 + 1,
        false => clip.frame_count() as i64,
    };
    let (first, last) = ((-offset).max(0), (covered - offset).min(frames));
    if first >= last {
        let message = format!("--frame-offset {offset}: {label} and the rig's clip {:?} do not overlap", clip.name);
        return Err(Usage::new(message).into());
    }
    if (first, last) != (0, frames) {
        let text =
            format!("{label}: frames {first} to {} of 0 to {} are fitted, the rig has no others", last - 1, frames - 1);
        warnings.push(Warning::Note { text });
        *sequence = sequence.clone().with_frames(first as usize..last as usize);
    }
    Ok(offset.max(0))
}

fn explain(error: ResampleError, label: &str) -> anyhow::Error {
    /// Rates that people use: another one is no likely explanation.
    const RATES: [f64; 12] = [12.0, 15.0, 23.976, 24.0, 25.0, 29.97, 30.0, 48.0, 50.0, 59.94, 60.0, 120.0];
    let usage = Usage::new(format!("{label}: {error}"));
    let cutting = "--frames A..B cuts the sequence, --frame-offset N shifts and cuts it";
    let usage = match error {
        ResampleError::Range { fitting_fps: Some(fps), .. } => {
            let off = |rate: &&f64| (fps / **rate - 1.0).abs();
            match RATES.iter().min_by(|a, b| off(a).total_cmp(&off(b))).filter(|rate| off(rate) < 0.01) {
                Some(rate) => usage.hint(format!("if it has no times of its own, --fps {rate} fits; {cutting}")),
                None => usage.hint(cutting),
            }
        }
        ResampleError::Range { .. } => usage.hint(cutting),
        ResampleError::Empty { .. } => usage.hint("--rig-clip names another, or none"),
    };
    usage.into()
}

/// The rig's animation for each clip: as told, by name, the only one, or in order.
fn match_clips<'a>(plan: &Plan, rig: &'a Rig, clips: &[Read]) -> anyhow::Result<Vec<Option<&'a Clip>>> {
    let names = || rig.clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>().join(", ");
    if !plan.rig_clips.is_empty() {
        if plan.rig_clips.len() != clips.len() && plan.rig_clips.len() != 1 {
            let (told, inputs) = (plan.rig_clips.len(), clips.len());
            return Err(Usage::new(format!("--rig-clip names {told} animations for {inputs} inputs")).into());
        }
        let find = |name: &String| match rig.clips.iter().find(|clip| clip.name == *name) {
            Some(clip) => Ok(Some(clip)),
            None if name == "none" => Ok(None),
            None => Err(Usage::new(format!("--rig-clip {name}: the rig has no animation of this name"))
                .hint(format!("it has: {}", names()))
                .into()),
        };
        return (0..clips.len()).map(|at| find(&plan.rig_clips[at.min(plan.rig_clips.len() - 1)])).collect();
    }
    // A single frame is a pose, not an animation, unless poses are what is fitted.
    let poses = clips.iter().all(|clip| clip.sequence.frame_count() == 1);
    let moving: Vec<&Clip> = rig.clips.iter().filter(|clip| clip.frame_count() > 1 || poses).collect();
    let named = |clip: &Read| {
        let name = clip.sequence.name();
        moving.iter().copied().find(|own| own.name.eq_ignore_ascii_case(name))
    };
    let by_name: Vec<Option<&Clip>> = clips.iter().map(named).collect();
    // The motion is what is looked for: an animation that merely happens to be there says nothing.
    if plan.refit.solve == Solve::Motion && !plan.locks_bones() {
        let covers = |own: &Clip, clip: &Read| resample::timing(own, clip.sequence.times_secs(), 0).is_ok();
        let pairs = by_name.into_iter().zip(clips);
        return Ok(pairs.map(|(own, clip)| own.filter(|own| covers(own, clip))).collect());
    }
    if moving.is_empty() || by_name.iter().all(Option::is_some) {
        return Ok(by_name);
    }
    match moving.as_slice() {
        [only] => Ok(vec![Some(*only); clips.len()]),
        several if several.len() == clips.len() => Ok(several.iter().copied().map(Some).collect()),
        several => {
            let message = format!("the rig has {} animations; which of them is INPUT?", several.len());
            let best = clips.first().filter(|clip| clip.sequence.vertex_count() == rig.vertex_count());
            let best = best.map(|clip| align::best_clip(rig, &clip.sequence, clip.own_rest)).unwrap_or_default();
            Err(Usage::new(message).hint(format!("--rig-clip names it: {}, or none{best}", names())).into())
        }
    }
}

/// A sequence in the vertices of the rig. Where an exporter split, merged or reordered them, they are matched by their places.
fn in_rig_order(
    plan: &Plan,
    rig: &Rig,
    clip: Option<&Clip>,
    sequence: MeshSequence,
    own_rest: bool,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<MeshSequence> {
    let Err(refused) = same_mesh(rig, &sequence, label) else { return Ok(sequence) };
    // Compared in the space that the flags say; corrected by the caller.
    let to_rig = plan.correction.rig_from_sequence();
    let placed = if plan.correction.keeps_space() { sequence } else { sequence.placed(to_rig)? };
    let clips: Vec<&Clip> = clip.map_or_else(|| rig.clips.iter().collect(), |clip| vec![clip]);
    let Some((matched, how)) = correspondence::in_rig_order(rig, &clips, &placed, own_rest) else {
        return Err(refused.into());
    };
    let (own, n) = (placed.vertex_count(), rig.vertex_count());
    let unused = match how.unused {
        0 => String::new(),
        count => format!("; {count} vertices that the rig does not have are left out"),
    };
    let text = format!("{label}: its {own} vertices were matched with the rig's {n} by their places{unused}");
    warnings.push(Warning::Note { text });
    Ok(if plan.correction.keeps_space() { matched } else { matched.placed(to_rig.inverse())? })
}

/// Vertices, and faces where both have them, must be the same.
fn same_mesh(rig: &Rig, sequence: &MeshSequence, label: &str) -> Result<(), Usage> {
    let (n, own) = (rig.vertex_count(), sequence.vertex_count());
    let hint = "rig and animation must be one mesh: the same vertices in the same order";
    if n != own {
        // A glTF has a vertex for each normal and texture coordinate at a place; they are one here.
        let split = "or a pose in common, to match vertices by their places. In Blender: import the glTF with Merge \
                     Vertices, or let the exported frames start with the rest pose or the start of the rig's clip";
        return Err(Usage::new(format!("{label} has {own} vertices, the rig {n}")).hint(format!("{hint}, {split}")));
    }
    let (rig_faces, faces) = (rig.surface.topology.vertex_triangles(), sequence.surface().topology.vertex_triangles());
    if rig_faces.is_empty() || faces.is_empty() {
        return Ok(());
    }
    // Exporters reorder faces; only what they join must be the same.
    let key = |mut triangles: Vec<[u32; 3]>| {
        triangles.iter_mut().for_each(|corners| corners.sort_unstable());
        triangles.sort_unstable();
        triangles
    };
    match rig_faces.len() == faces.len() && key(rig_faces.clone()) == key(faces.clone()) {
        true => Ok(()),
        // Quads may be split along the other diagonal: only another number of edges is another mesh.
        false if shares_edges(&rig_faces, &faces) => Ok(()),
        false => Err(Usage::new(format!("the faces of {label} join other vertices than the rig's")).hint(hint)),
    }
}

/// Whether most edges of the smaller are edges of the other.
fn shares_edges(a: &[[u32; 3]], b: &[[u32; 3]]) -> bool {
    let edges = |triangles: &[[u32; 3]]| -> std::collections::BTreeSet<(u32, u32)> {
        let of = |t: &[u32; 3]| [(t[0], t[1]), (t[1], t[2]), (t[2], t[0])].map(|(p, q)| (p.min(q), p.max(q)));
        triangles.iter().flat_map(of).collect()
    };
    let (a, b) = (edges(a), edges(b));
    let common = a.intersection(&b).count();
    2 * common > a.len().min(b.len())
}

//! Clips of a finished model: the common motion in a root bone, clips in place, clips that loop.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bonesmith_core::clips::{self, RootMotion, Seam};
use bonesmith_core::metrics;
use bonesmith_core::{MeshSequence, Model, ModelKind, Rig, UpAxis};
use glam::{DAffine3, DQuat};
use serde::Serialize;

use crate::error::{Error, PickError};
use crate::warning::Warning;

/// What is done to the clips. `Default`: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MotionOptions {
    /// What of the model's common motion goes into one root bone.
    pub root: RootMotion,
    /// The axis that points up. `None`: that of the file, else y.
    pub up: Option<UpAxis>,
    /// The root bone stands still.
    pub in_place: bool,
    /// The last pose equals the first.
    pub close: bool,
    /// Only these clips loop. Empty: all.
    pub loop_clips: Vec<String>,
}

impl MotionOptions {
    /// Whether nothing is done.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Fails if a clip that should loop is not there: names can be known before a fit.
    pub(crate) fn check_clips<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<(), Error> {
        let Some(name) = self.loop_clips.iter().find(|name| !names.clone().any(|own| own == name.as_str())) else {
            return Ok(());
        };
        let available = names.map(str::to_owned).collect();
        Err(PickError::LoopClips { name: name.clone(), available }.into())
    }

    /// Checks combinations.
    pub fn validate(&self) -> Result<(), Error> {
        if self.root == RootMotion::None && self.in_place {
            return Err(Error::unsupported(
                "in_place needs root_motion plane or full: there is no root to stand still",
            ));
        }
        if self.root == RootMotion::None && self.up.is_some() {
            return Err(Error::unsupported("up is an option of root_motion plane or full"));
        }
        if !self.close && !self.loop_clips.is_empty() {
            return Err(Error::unsupported("loop_clips is an option of loop"));
        }
        Ok(())
    }
}

/// What was done to the clips.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MotionPart {
    /// The root bone, if the common motion is in one.
    pub root: Option<RootPart>,
    /// The clips that were made to loop.
    pub loops: Vec<LoopPart>,
}

/// A root bone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RootPart {
    /// What of the motion is in it.
    pub motion: RootMotion,
    /// The bone's name.
    pub bone: String,
    /// Whether the clips are written without it.
    pub in_place: bool,
    /// Each clip.
    pub clips: Vec<RootClip>,
}

/// The motion of a root bone in one clip.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RootClip {
    /// The clip.
    pub name: String,
    /// From the first frame to the last, in model units.
    pub distance: f64,
    /// Length of the path, in model units.
    pub path: f64,
    /// Sum of the rotations from frame to frame.
    pub degrees: f64,
}

/// A clip that loops.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LoopPart {
    /// The clip, and how it was made to loop.
    #[serde(flatten)]
    pub seam: Seam,
    /// Distance of the last pose from the first one as E_RMS, in the file where one was written.
    pub after: f64,
    /// E_RMS against the animation without the correction, where there is an animation.
    pub e_rms_before: Option<f64>,
}

/// Motion of the clips of one model: what was done, and what the animation must be compared with now.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Moved {
    /// What was done.
    pub part: MotionPart,
    /// What should be known.
    pub warnings: Vec<Warning>,
    /// [clips][F] the motion of the root bone; empty without one.
    tracks: Vec<Vec<DAffine3>>,
    /// Whether it was taken out.
    in_place: bool,
    /// [clips] whether a closing frame was added.
    closed: Vec<bool>,
}

/// Does to the clips of a rig of any kind what the options say. `reference` is the animation of its first clips, to measure what loops cost.
pub fn move_clips(
    model: &mut Model,
    options: &MotionOptions,
    reference: Option<&MeshSequence>,
) -> Result<Moved, Error> {
    options.validate()?;
    if options.is_none() {
        return Ok(Moved::default());
    }
    let before = match options.close {
        true => reference.map(|sequence| of_clips(model, sequence)).transpose()?,
        false => None,
    };
    let kind = model.view().kind();
    // The frames of bones driven by shapes follow from the shapes.
    let Some(rig) = model.rig_mut().filter(|_| kind != ModelKind::ShapeBones) else {
        return Err(Error::unsupported(format!("root_motion and loop are for rigs, and this is {}", kind.text())));
    };
    options.check_clips(rig.clips.iter().map(|clip| clip.name.as_str()))?;
    let mut moved = Moved { closed: vec![false; rig.clips.len()], ..Moved::default() };
    let up = options.up.or(rig.surface.space.up).unwrap_or(UpAxis::Y);
    let root = clips::root_motion(rig, options.root, up);
    let chosen = |name: &String| options.loop_clips.is_empty() || options.loop_clips.contains(name);
    let mut seams = Vec::new();
    for c in (0..rig.clips.len()).filter(|_| options.close) {
        if !chosen(&rig.clips[c].name) {
            continue;
        }
        if let Some(seam) = clips::close_loop(rig, c, root.as_ref().map(|root| root.bone)) {
            moved.closed[c] = seam.closing_frame;
            seams.push((c, seam));
        }
    }
    if let Some(root) = &root {
        let names = rig.clips.iter().map(|clip| clip.name.clone()).collect::<Vec<_>>();
        let tracks: Vec<Vec<DAffine3>> =
            rig.clips.iter().map(|clip| (0..clip.frame_count()).map(|t| clip.frame(t)[root.bone]).collect()).collect();
        if options.in_place {
            clips::stand_still(rig, root.bone);
            clear_still(rig);
        }
        moved.in_place = options.in_place;
        moved.part.root = Some(RootPart {
            motion: options.root,
            bone: rig.bones[root.bone].name.clone(),
            in_place: options.in_place,
            clips: names.into_iter().zip(&tracks).map(|(name, track)| RootClip::new(name, track)).collect(),
        });
        moved.tracks = tracks;
    }
    if let Model::Corrective(corrective) = model {
        for (c, seam) in &seams {
            corrective.shapes.iter_mut().for_each(|shape| seam.close_values(&mut shape.weights[*c]));
        }
    }
    for (c, seam) in seams {
        if !seam.loops {
            let Seam { clip, before, range, .. } = seam.clone();
            moved.warnings.push(Warning::DoesNotLoop { clip, before, range });
        }
        let e_rms_before = before.as_ref().and_then(|of| of.get(c).copied());
        moved.part.loops.push(LoopPart { seam, after: 0.0, e_rms_before });
    }
    Ok(moved)
}

/// Clips in place move what stood still: no mesh is marked as still any more.
fn clear_still(rig: &mut Rig) {
    if rig.surface.parts.meshes.iter().any(|part| part.still) {
        Arc::make_mut(&mut rig.surface).parts.meshes.iter_mut().for_each(|part| part.still = false);
    }
}

/// E_RMS of the first clips, whose frames are those of the animation.
fn of_clips(model: &Model, sequence: &MeshSequence) -> Result<Vec<f64>, Error> {
    let mut frames = 0;
    let lengths: Vec<usize> = model.view().clips().iter().map(|clip| clip.frame_count()).collect();
    let fitting = lengths.iter().take_while(|length| {
        frames += **length;
        frames <= sequence.frame_count()
    });
    let clips: Vec<usize> = (0..fitting.count()).collect();
    let mut rest = metrics::evaluate_clips(model, &clips, sequence)?.per_frame;
    let of = |clip: usize| {
        let others = rest.split_off(lengths[clip].min(rest.len()));
        let own = std::mem::replace(&mut rest, others);
        (own.iter().map(|e| e * e).sum::<f64>() / own.len().max(1) as f64).sqrt()
    };
    Ok(clips.into_iter().map(of).collect())
}

impl RootClip {
    fn new(name: String, track: &[DAffine3]) -> Self {
        let ends = track.first().zip(track.last());
        let turn = |pair: &[DAffine3]| {
            let step = DQuat::from_mat3(&(pair[1].matrix3 * pair[0].matrix3.transpose())).normalize();
            2.0 * step.w.abs().min(1.0).acos()
        };
        Self {
            name,
            distance: ends.map_or(0.0, |(first, last)| first.translation.distance(last.translation)),
            path: track.windows(2).map(|pair| pair[0].translation.distance(pair[1].translation)).sum(),
            degrees: track.windows(2).map(turn).sum::<f64>().to_degrees(),
        }
    }
}

impl Moved {
    /// Whether the frames are no longer those of the animation.
    pub fn changes_frames(&self) -> bool {
        self.in_place || self.closed.contains(&true)
    }

    /// The animation as the clips show it now: without the common motion where that was taken out, with the first frame repeated where one
    /// was added. `spans` are the frames of each clip.
    pub fn reference<'a>(
        &self,
        sequence: &'a MeshSequence,
        spans: &[Range<usize>],
    ) -> Result<Cow<'a, MeshSequence>, Error> {
        if !self.changes_frames() {
            return Ok(Cow::Borrowed(sequence));
        }
        let mut frames = Vec::new();
        for (c, span) in spans.iter().enumerate() {
            for t in 0..span.len() + usize::from(self.is_closed(c)) {
                // The closing frame is the first one, wherever the root is by then.
                let from = if t == span.len() { 0 } else { t };
                frames.push((span.start + from, self.place(c, from, t)));
            }
        }
        Ok(Cow::Owned(sequence.rearranged(&frames)?))
    }

    fn is_closed(&self, clip: usize) -> bool {
        self.closed.get(clip).is_some_and(|closed| *closed)
    }

    /// What brings frame `from` of a clip to where frame `to` shows it; `None` where it is there.
    fn place(&self, clip: usize, from: usize, to: usize) -> Option<DAffine3> {
        let track = self.tracks.get(clip)?;
        let back = track[from].inverse();
        match self.in_place {
            true => Some(back),
            false => (from != to).then(|| track[to] * back),
        }
    }

    /// The spans of the clips in [`Moved::reference`].
    pub(crate) fn spans(&self, spans: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut start = 0;
        let after = |(c, span): (usize, &Range<usize>)| {
            let length = span.len() + usize::from(self.is_closed(c));
            start += length;
            start - length..start
        };
        spans.iter().enumerate().map(after).collect()
    }

    /// What was done, with the seams of a file that was written.
    pub(crate) fn measured(&self, model: &Model) -> MotionPart {
        let mut part = self.part.clone();
        let Some(rig) = model.view().rig() else { return part };
        let root = part.root.as_ref().and_then(|root| rig.bones.iter().position(|bone| bone.name == root.bone));
        for found in &mut part.loops {
            if let Some(clip) = rig.clips.iter().find(|clip| clip.name == found.seam.clip) {
                found.after = clips::seam_error(rig, clip, root);
            }
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
    use bonesmith_core::{Part, PartNode, Parts};

    use super::*;

    /// A rig of one mesh that is marked as still.
    fn still() -> Rig {
        let mut rig = posed_rig(3, &PosedRigParams { bones: 2, frames: 4, detail: 1, ..PosedRigParams::default() }).rig;
        let (vertices, faces) = (rig.vertex_count(), rig.surface.topology.face_count());
        let node = PartNode { name: "floor".into(), parent: None, world_from_node: DAffine3::IDENTITY };
        let mesh = Part {
            node: 0,
            mesh: "floor".into(),
            vertices,
            faces,
            uv_sets: Vec::new(),
            colors: false,
            still: true,
            instance_of: None,
        };
        Arc::make_mut(&mut rig.surface).parts = Parts { nodes: vec![node], meshes: vec![mesh], skeleton: None };
        rig
    }

    #[test]
    fn in_place_no_mesh_is_still() {
        let is_still = |model: &Model| model.view().surface().parts.meshes[0].still;
        for in_place in [false, true] {
            let mut model = Model::from(still());
            let options = MotionOptions { root: RootMotion::Full, in_place, ..MotionOptions::default() };
            move_clips(&mut model, &options, None).unwrap();
            assert_eq!(is_still(&model), !in_place);
        }
    }

    #[test]
    fn clips_that_should_loop_are_there() {
        let options = MotionOptions { close: true, loop_clips: vec!["run".into()], ..MotionOptions::default() };
        options.check_clips(["walk", "run"].into_iter()).unwrap();
        let error = options.check_clips(["walk", "sit"].into_iter()).unwrap_err();
        assert_eq!(error.option(), Some("loop_clips"));
        assert_eq!(error.to_string(), "loop_clips run: there is no clip of this name; there are walk, sit");
    }
}

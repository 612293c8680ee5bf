//! Clips that are variants of a stage: each is selected in turn and read.

use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::{Clip, Model, Parts, RawSequence, Rig};

use super::{MAX_TRANSFORMS, check_positions};
use crate::load::Content;
use crate::usd::extras::{self, ClipExtras};
use crate::usd::stage::Stage;
use crate::{IoError, warning};

/// Most variants that are read: each is a stage of its own, so a small file could ask for any number of frames.
const MAX_VARIANTS: usize = 1024;

/// The variants of a stage that are clips: at least two.
pub struct Variants {
    set: String,
    /// Variants, and the names of their clips; the selected one first.
    names: Vec<(String, String)>,
}

impl Variants {
    /// Those of a stage.
    pub fn of(stage: &Stage) -> Option<Self> {
        let (prim, set, variants) = stage.clip_variants()?;
        let own: Vec<(String, String)> =
            extras::unpack::<ClipExtras>(stage, prim).map(|own| own.clips).unwrap_or_default();
        let shown = |variant: &String| own.iter().find(|(of, _)| of == variant).map(|(_, name)| name.clone());
        let mut names: Vec<(String, String)> =
            variants.into_iter().map(|v| (v.clone(), shown(&v).unwrap_or(v))).collect();
        if names.len() > MAX_VARIANTS {
            let (all, rest) = (names.len(), names.len() - MAX_VARIANTS);
            warning::left_out(stage.file(), format!("the last {rest} of {all} variants of {set:?}"));
            names.truncate(MAX_VARIANTS);
        }
        (names.len() > 1).then_some(Self { set, names })
    }

    /// All clips, of which `first` is the selected one. Animations of a skeleton that the stage has beside each other are clips already.
    pub fn join(
        &self,
        stage: &mut Stage,
        first: Content,
        read: impl Fn(&Stage) -> Result<Content, IoError>,
    ) -> Result<Content, IoError> {
        match first {
            Content::Model(Model::Rig(rig)) if rig.clips.len() <= 1 => {
                self.rigs(stage, rig, read).map(|rig| Content::model(Model::Rig(rig)))
            }
            Content::Sequence(sequence) => {
                let one = |stage: &Stage| match read(stage)? {
                    Content::Sequence(sequence) => Ok(sequence),
                    Content::Model(_) => Err(stage.unsupported("some of its variants have a skeleton, others none")),
                };
                self.sequences(stage, sequence, one).map(Content::Sequence)
            }
            Content::Model(model) => {
                let several = matches!(&model, Model::Rig(rig) if rig.clips.len() > 1);
                if !several && !matches!(&model, Model::Corrective(own) if own.rig.clips.len() > 1) {
                    warning::left_out(stage.file(), format!("all variants of {:?} but one", self.set));
                }
                Ok(Content::Model(model))
            }
        }
    }

    /// What a variant has; one that cannot be read is reported as a warning.
    fn one<T>(
        &self,
        stage: &mut Stage,
        (variant, name): &(String, String),
        read: impl Fn(&Stage) -> Result<T, IoError>,
    ) -> Option<T> {
        match stage.select(&self.set, variant).and_then(|()| read(stage)) {
            Ok(one) => Some(one),
            Err(error) => {
                warning::left_out(stage.file(), format!("clip {name:?}: {error}"));
                None
            }
        }
    }

    /// Each variant as a clip of one mesh.
    pub fn sequences(
        &self,
        stage: &mut Stage,
        mut all: RawSequence,
        read: impl Fn(&Stage) -> Result<RawSequence, IoError>,
    ) -> Result<RawSequence, IoError> {
        let vertices = |sequence: &RawSequence| sequence.frames.first().map_or(0, |frame| frame.positions.len());
        let span = |name: &str, start: usize, one: &RawSequence| Span {
            name: name.to_owned(),
            frames: start..start + one.frames.len(),
            times_secs: one.times_secs.clone(),
        };
        all.clips = vec![span(&self.names[0].1, 0, &all)];
        for own in &self.names[1..] {
            let name = &own.1;
            let Some(one) = self.one(stage, own, &read) else { continue };
            let (found, expected) = (vertices(&one), vertices(&all));
            if found != expected || one.surface.topology != all.surface.topology {
                let what = format!(
                    "clip {name:?} has another mesh than {:?}: {found} and {expected} vertices, {} and {} faces{}",
                    self.names[0].1,
                    one.surface.topology.face_count(),
                    all.surface.topology.face_count(),
                    first_difference(&one.surface.parts, &all.surface.parts)
                );
                warning::left_out(stage.file(), what);
                continue;
            }
            check_positions(stage, all.frames.len() + one.frames.len(), found)?;
            all.clips.push(span(name, all.frames.len(), &one));
            let step = match all.times_secs.as_slice() {
                [.., a, b] => b - a,
                _ => 1.0 / 24.0,
            };
            let start = all.times_secs.last().copied().unwrap_or_default() + step;
            let first = one.times_secs.first().copied().unwrap_or_default();
            all.times_secs.extend(one.times_secs.iter().map(|t| start + (t - first)));
            all.frames.extend(one.frames);
        }
        Ok(all)
    }

    /// Each variant as a clip of one rig.
    fn rigs(
        &self,
        stage: &mut Stage,
        mut all: Rig,
        read: impl Fn(&Stage) -> Result<Content, IoError>,
    ) -> Result<Rig, IoError> {
        all.clips.iter_mut().for_each(|clip| clip.name.clone_from(&self.names[0].1));
        let mut frames: usize = all.clips.iter().map(Clip::frame_count).sum();
        for own in &self.names[1..] {
            let name = &own.1;
            let Some(one) = self.one(stage, own, &read) else { continue };
            let Content::Model(Model::Rig(one)) = one else {
                let what = format!("clip {name:?}, which is no rig with the bones of {:?} alone", self.names[0].1);
                warning::left_out(stage.file(), what);
                continue;
            };
            let sizes = |rig: &Rig| (rig.vertex_count(), rig.bone_count());
            let other_bone = one.bones.iter().zip(&all.bones).find(|(a, b)| a.name != b.name);
            if sizes(&one) != sizes(&all) || other_bone.is_some() {
                let (found, expected) = (sizes(&one), sizes(&all));
                let names = other_bone.map(|(a, b)| format!("; bone {:?} in place of {:?}", a.name, b.name));
                let what = format!(
                    "clip {name:?} has another rig than {:?}: {} and {} vertices, {} and {} bones{}",
                    self.names[0].1,
                    found.0,
                    expected.0,
                    found.1,
                    expected.1,
                    names.unwrap_or_default()
                );
                warning::left_out(stage.file(), what);
                continue;
            }
            if one.clips.len() > 1 {
                let rest = one.clips.len() - 1;
                warning::left_out(stage.file(), format!("{rest} of {} animations of clip {name:?}", rest + 1));
            }
            frames += one.clips.first().map_or(0, Clip::frame_count);
            if frames.saturating_mul(all.bone_count()) > MAX_TRANSFORMS {
                let bones = all.bone_count();
                let what = format!("{frames} frames of {bones} bones are too many; use fewer frames per second");
                return Err(stage.unsupported(what));
            }
            let clips = one.clips.into_iter().take(1);
            all.clips.extend(clips.map(|clip| Clip { name: name.clone(), ..clip }));
        }
        all.check().map_err(|e| stage.malformed(e.to_string()))?;
        Ok(all)
    }
}

/// The first mesh of a scene that differs from that of another.
fn first_difference(found: &Parts, expected: &Parts) -> String {
    let size = |parts: &Parts, at: usize| parts.meshes.get(at).map_or((0, 0), |part| (part.vertices, part.faces));
    let most = found.meshes.len().max(expected.meshes.len());
    let name = |parts: &Parts, at: usize| parts.meshes.get(at).map(|part| parts.name(part).to_owned());
    let differs = |at: &usize| size(found, *at) != size(expected, *at) || name(found, *at) != name(expected, *at);
    let first = (0..most).find(differs).and_then(|at| name(expected, at).or_else(|| name(found, at)));
    first.map_or(String::new(), |name| format!("; the first difference is in mesh {name:?}"))
}

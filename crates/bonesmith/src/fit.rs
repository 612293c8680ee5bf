//! Fitting a rig to a mesh animation.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bonesmith_core::fit::{BoneCount, FitInfo, FitParams, Fitted, Method, Norm};
use bonesmith_core::skeleton::{self, SkeletonInfo, SkeletonMethod, SkeletonParams};
use bonesmith_core::{CorrectiveRig, MeshSequence, Model, ModelRef, Observer, Stage, corrective, methods};
use serde_json::json;

use crate::compact::{Against, CompactOptions};
use crate::convert::ConvertOptions;
use crate::distance::Distance;
use crate::error::{Error, PickError};
use crate::input::Input;
use crate::mask::VertexMask;
use crate::memory::Memory;
use crate::motion::{MotionOptions, Moved, move_clips};
use crate::saved::{Layout, Saved};
use crate::split::{keep_still, split_clips};
use crate::summary::{FitPart, SkeletonPart, Summary};
use crate::warning::{Noted, Warning};

/// A target error counts as reached within this fraction: files hold float32.
pub(crate) const TARGET_SLACK: f64 = 1e-3;

/// What is fitted. `Default` is the same as that of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FitOptions {
    /// Bones, influences, effort, method.
    pub params: FitParams,
    /// Bones with joints, in a tree. `None`: free bones.
    pub skeleton: Option<SkeletonParams>,
    /// Corrective shapes. `None`: none.
    pub eigenskin: Option<usize>,
    /// A length that vertices may be off by in the root mean square: takes the place of [`FitParams::bones`].
    pub target_distance: Option<Distance>,
    /// How much each vertex counts: takes the place of [`FitParams::importance`].
    pub importance: VertexMask,
    /// Root bone, clips in place, clips that loop.
    pub motion: MotionOptions,
}

impl FitOptions {
    /// Options around parameters.
    pub fn new(params: FitParams) -> Self {
        Self { params, ..Self::default() }
    }

    /// Checks ranges and combinations that do not depend on the animation.
    pub fn validate(&self) -> Result<(), Error> {
        self.params.validate()?;
        self.motion.validate()?;
        if let Some(skeleton) = &self.skeleton {
            skeleton::check(&self.params, skeleton)?;
        }
        if let Some(rank) = self.eigenskin
            && !(1..=corrective::MAX_RANK).contains(&rank)
        {
            return Err(corrective::EigenSkinError::Rank { rank }.into());
        }
        let weighs = self.params.norm != Norm::default() || self.params.area || self.importance != VertexMask::None;
        if weighs && (self.skeleton.is_some() || self.params.method != Method::Bonesmith) {
            let what = "norm, importance and area are for fits of the method bonesmith without a skeleton";
            return Err(Error::unsupported(what));
        }
        let method = self.params.method;
        if !method.makes_rigs() && (self.skeleton.is_some() || self.eigenskin.is_some()) {
            let what =
                format!("the method {} makes no rig: it has no skeleton and no corrective shapes", method.name());
            return Err(Error::unsupported(what));
        }
        if !method.makes_rigs() && !self.motion.is_none() {
            let what = format!("the method {} makes no rig: it has no root and no loops", method.name());
            return Err(Error::unsupported(what));
        }
        Ok(())
    }

    /// Whether a fit reads positions in blocks, so that they need not be in memory.
    pub fn reads_blocks(&self) -> bool {
        let skeleton = self.skeleton.as_ref().is_none_or(|skeleton| skeleton.method == SkeletonMethod::Multipass);
        skeleton && self.eigenskin.is_none() && self.params.method == Method::Bonesmith
    }

    /// With a number or an error as the goal.
    pub(crate) fn resolved(&self, sequence: &MeshSequence) -> Self {
        let mut resolved = self.clone();
        if let Some(distance) = self.target_distance {
            resolved.params.bones = distance.target(sequence);
        }
        resolved
    }

    /// The parameters, with the importance of every vertex.
    pub(crate) fn weighed(&self, sequence: &MeshSequence) -> Result<FitParams, Error> {
        let mut params = self.params.clone();
        if let Some(values) = self.importance.values("importance", sequence.surface(), sequence.vertex_count())? {
            params.importance = Some(Arc::new(values));
        }
        Ok(params)
    }

    /// As files store them.
    fn stored(&self) -> String {
        let mut params = json!({ "version": crate::VERSION, "fit": self.params });
        if let Some(skeleton) = &self.skeleton {
            params["skeleton"] = json!(skeleton);
        }
        if let Some(rank) = self.eigenskin {
            params["eigenskin"] = json!(rank);
        }
        params.to_string()
    }
}

/// A fitted model and the record of the fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fit {
    /// A rig, a rig with corrective shapes, or a basis, with the options stored in it.
    pub model: Model,
    /// The record of the fit.
    pub info: FitInfo,
    /// The record of the skeleton, if there is one.
    pub skeleton: Option<SkeletonInfo>,
    /// The options.
    pub options: FitOptions,
    /// What was done to the clips.
    pub moved: Moved,
    /// Seconds of all of it.
    pub wall_secs: f64,
    /// Memory of the process after the fit.
    pub memory: Option<Memory>,
    /// Names of the meshes that were fitted, where the model holds others beside them.
    fitted: Option<String>,
}

/// Fits bones, weights and bone motion to a mesh animation, as the options say. The animation is not changed.
pub fn fit(sequence: &MeshSequence, options: &FitOptions, observer: &mut dyn Observer) -> Result<Fit, Error> {
    options.validate()?;
    let options = &options.resolved(sequence);
    let started = Instant::now();
    Error::unless_cancelled(observer, Stage::Prepare)?;
    if !options.params.method.makes_rigs() {
        return represent(sequence, options, observer, started);
    }
    options.motion.check_clips(clip_names(sequence))?;
    let params = options.weighed(sequence)?;
    let (Fitted { mut rig, info }, skeleton) = match &options.skeleton {
        None => (methods::fit(sequence, &params, observer)?, None),
        Some(skeleton) => {
            let found = skeleton::skeleton(sequence, &params, skeleton, observer)?;
            (Fitted { rig: found.rig, info: found.info }, Some(found.skeleton))
        }
    };
    keep_still(&mut rig, sequence);
    let shapes = match options.eigenskin {
        Some(rank) => Some(corrective::eigenskin(&rig, sequence, rank, observer)?.shapes),
        None => None,
    };
    rig.params_json = options.stored();
    let mut model = match shapes {
        Some(shapes) => CorrectiveRig { rig, shapes }.into(),
        None => rig.into(),
    };
    split_clips(&mut model, sequence);
    let moved = move_clips(&mut model, &options.motion, Some(sequence))?;
    Ok(Fit { moved, ..Fit::new(model, info, skeleton, options, started) })
}

/// Names of the clips of a fit.
fn clip_names(sequence: &MeshSequence) -> impl Iterator<Item = &str> + Clone {
    let clips = sequence.clips();
    let own = clips.is_empty().then(|| sequence.name());
    clips.iter().map(|clip| clip.name.as_str()).chain(own)
}

/// An error about the meshes that were not picked.
fn others(what: impl Into<String>) -> Error {
    PickError::Others { what: what.into() }.into()
}

/// The methods that make no rig.
#[cfg(feature = "baselines")]
fn represent(
    sequence: &MeshSequence,
    options: &FitOptions,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Fit, Error> {
    let mut found = methods::represent(sequence, &options.params, observer)?;
    found.basis.params_json = options.stored();
    Ok(Fit::new(found.basis.into(), found.info, None, options, started))
}

#[cfg(not(feature = "baselines"))]
fn represent(_: &MeshSequence, options: &FitOptions, _: &mut dyn Observer, _: Instant) -> Result<Fit, Error> {
    Err(bonesmith_core::fit::FitError::NotBuilt { method: options.params.method }.into())
}

/// The clips of a model that was fitted to all clips of an animation. A model without bones has one.
fn fitted_clips(model: ModelRef<'_>, sequence: &MeshSequence) -> Vec<usize> {
    let clips = if model.rig().is_some() { sequence.clips().len().max(1) } else { 1 };
    (0..clips).collect()
}

impl Fit {
    fn new(
        model: Model,
        info: FitInfo,
        skeleton: Option<SkeletonInfo>,
        options: &FitOptions,
        started: Instant,
    ) -> Self {
        let memory = Memory::so_far();
        let (moved, wall_secs) = (Moved::default(), started.elapsed().as_secs_f64());
        Self { model, info, skeleton, options: options.clone(), moved, wall_secs, memory, fitted: None }
    }

    /// Adds the meshes of the input that were not picked, as they are there: with their bones, weights and motion. Figures stay those of the meshes that were fitted.
    pub fn keep_others(&mut self, input: &Input) -> Result<Vec<Warning>, Error> {
        let Some(picked) = &input.mesh else { return Ok(Vec::new()) };
        if !self.options.motion.is_none() {
            return Err(others("root motion and loops change the fitted meshes only"));
        }
        let Model::Rig(fitted) = &self.model else {
            let what = self.model.view().kind().text();
            return Err(others(format!("they are kept beside plain rigs, and the fit is {what}")));
        };
        let whole = Input { mesh: None, clips: Vec::new(), ..input.clone() };
        let Noted { value: whole, warnings } = whole.convertible(&ConvertOptions::default())?;
        let (whole, shapes) = match whole {
            Model::Rig(rig) => (rig, Vec::new()),
            Model::Corrective(own) => (own.rig, own.shapes),
            other => {
                let what = other.view().kind().text();
                return Err(others(format!(
                    "only meshes that bones, nodes or shapes move are kept, and the file is {what}"
                )));
            }
        };
        let (rig, shapes) = bonesmith_io::with_others(fitted, &whole, &shapes, picked).map_err(others)?;
        self.model = if shapes.is_empty() { rig.into() } else { CorrectiveRig { rig, shapes }.into() };
        self.fitted = Some(picked.clone());
        Ok(warnings)
    }

    /// A file that was written: what of it is measured are the fitted meshes.
    fn measured(&self, mut saved: Saved) -> Result<Saved, Error> {
        if let (Some(picked), Some(rig)) = (&self.fitted, saved.model.view().rig()) {
            let own = bonesmith_io::only_meshes(rig, picked).map_err(Error::unsupported);
            saved.model = own.map_err(|error| Error::ReadBack(Box::new(error)))?.into();
        }
        Ok(saved)
    }

    /// Writes the model and reads the file back; the extension chooses the format.
    pub fn save(&self, path: impl AsRef<Path>, observer: &mut dyn Observer) -> Result<Saved, Error> {
        self.save_as(path, Layout::Skin, observer)
    }

    /// As [`Fit::save`], with another layout.
    pub fn save_as(&self, path: impl AsRef<Path>, layout: Layout, observer: &mut dyn Observer) -> Result<Saved, Error> {
        if self.fitted.is_some() && layout != Layout::Skin {
            return Err(others("they are written with one skin for each mesh"));
        }
        self.measured(Saved::write(&self.model, path, layout, observer)?)
    }

    /// The animation as the model shows it: in place, or with its first frame repeated, where the options say so.
    pub fn reference<'a>(&self, sequence: &'a MeshSequence) -> Result<Cow<'a, MeshSequence>, Error> {
        let clips = sequence.clips().iter().map(|clip| clip.frames.clone()).collect::<Vec<_>>();
        match clips.is_empty() {
            true => self.moved.reference(sequence, std::slice::from_ref(&(0..sequence.frame_count()))),
            false => self.moved.reference(sequence, &clips),
        }
    }

    /// As [`Fit::save`], as a small file, with a bound on its additional error.
    pub fn save_compact(
        &self,
        path: impl AsRef<Path>,
        options: &CompactOptions,
        sequence: &MeshSequence,
        observer: &mut dyn Observer,
    ) -> Result<Saved, Error> {
        if self.fitted.is_some() {
            return Err(others("they are not written as small files"));
        }
        let reference = self.reference(sequence)?;
        let clips = fitted_clips(self.model.view(), sequence).len();
        Saved::write_compact(&self.model, path, options, Some(Against::new(&reference, 0..clips)), observer)
    }

    /// Measures the file against the animation: everything there is to know about the fit, as data.
    pub fn summary(&self, saved: &Saved, sequence: &MeshSequence) -> Result<Summary, Error> {
        let started = Instant::now();
        let clips = fitted_clips(saved.model.view(), sequence);
        let sequence = &*self.reference(sequence)?;
        let mut summary = match saved.has_nodes() {
            true => Summary::new(&saved.model, sequence, Some(saved.measure(sequence)?)),
            false => Summary::measured(&saved.model, &clips, sequence)?,
        };
        summary.command = "fit";
        let seconds = &mut summary.seconds;
        (seconds.prepare, seconds.fit) = (self.info.prepare_secs, self.info.fit_secs);
        seconds.export = saved.export_secs;
        seconds.total = self.wall_secs + saved.export_secs;
        seconds.evaluate = saved.read_secs + started.elapsed().as_secs_f64();
        if self.model.view().rig().is_some() {
            summary.bone_kind = self.options.params.bone_kind;
        }
        let goal = self.model.view().rig().map(|_| self.options.params.bones);
        summary.warnings = warnings_of_file(&self.info, goal, summary.e_rms().unwrap_or(0.0), summary.bones);
        summary.warnings.extend(self.moved.warnings.iter().cloned());
        summary.motion = self.moved.measured(&saved.model);
        summary.warnings.extend(saved.warnings.iter().cloned());
        let skeleton = self.options.skeleton.clone().zip(self.skeleton.clone());
        summary.fit = Some(FitPart {
            params: json!(self.options.params),
            method: self.options.params.method.name(),
            info: self.info.clone(),
            skeleton: skeleton.map(|(params, info)| SkeletonPart { params, info }),
            memory: self.memory,
        });
        summary.set_output(saved);
        Ok(summary)
    }
}

/// Warnings of a fit. It judges its own float64 numbers; what counts is the file, with an E_RMS of `reached`.
pub(crate) fn warnings_of_file(info: &FitInfo, goal: Option<BoneCount>, reached: f64, bones: usize) -> Vec<Warning> {
    use bonesmith_core::fit::Warning as Fit;
    let mut warnings = info.warnings.clone();
    for warning in &mut warnings {
        if let Fit::AutoMissed { reached: of_file, .. } = warning {
            *of_file = reached;
        }
    }
    if let Some(BoneCount::TargetError(target)) = goal {
        warnings.retain(|warning| !matches!(warning, Fit::TargetMissed { .. }));
        if reached > target * (1.0 + TARGET_SLACK) {
            warnings.push(Fit::TargetMissed { target, reached, bones });
        }
    }
    warnings.into_iter().map(Warning::from).collect()
}

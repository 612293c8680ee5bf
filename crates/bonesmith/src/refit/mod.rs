//! Fits that start from a rig, or have several clips or several subjects.
//!
//! [`read_clips`] (files) -> `clips` (matched with the rig's animations, joined) -> `align` (do they share space and time?) -> fit ->
//! [`Refit::save`], [`Refit::summaries`] (files, read back and measured).

mod align;
mod clips;
mod locks;
mod mismatch;

use std::path::PathBuf;
use std::time::Instant;

use bonesmith_core::fit::{BoneCount, FitInfo};
use bonesmith_core::methods;
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::refit::align::{Correction, SignedAxes};
use bonesmith_core::refit::subjects::transferred_binds;
use bonesmith_core::refit::{self as solver, Locks, RefitParams, Refitted, Solve, Subject};
use bonesmith_core::{Clip, Model, ModelRef, Observer, RawFrame, Rig, Stage};
use serde_json::{Value, json};

use crate::compact::{Against, CompactOptions};
use crate::error::Error;
use crate::fit::{FitOptions, warnings_of_file};
use crate::memory::Memory;
use crate::motion::{MotionOptions, Moved, move_clips};
use crate::saved::{Layout, Saved};
use crate::summary::{ClipPart, FitPart, SubjectPart, Summary};
use crate::warning::Warning;

pub use crate::mask::VertexMask;
pub(crate) use align::in_words;
pub use clips::{Body, ClipInput, read_clips};
pub use mismatch::RigMismatch;

/// One body to fit: its clips, and its rest pose where that is not the rig's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubjectInput {
    /// Its own rest pose. `None`: that of the rig, or of its first clip.
    pub rest: Option<RawFrame>,
    /// Its clips.
    pub clips: Vec<ClipInput>,
}

impl SubjectInput {
    /// The rig's own body.
    pub fn new(clips: Vec<ClipInput>) -> Self {
        Self { rest: None, clips }
    }

    /// Another body of the same mesh.
    pub fn with_rest(rest: RawFrame, clips: Vec<ClipInput>) -> Self {
        Self { rest: Some(rest), clips }
    }
}

/// Frames that an animation may be shifted by, either way.
pub const MAX_FRAME_OFFSET: u64 = 10_000_000;

/// What happens when a rig and an animation differ in units, axes or frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Align {
    /// The fit is refused, with what would bring them together.
    #[default]
    Check,
    /// The animation is corrected, with a warning.
    Auto,
    /// Nothing is compared.
    Off,
}

/// Options of [`refit`]. `Default` is the same as that of the command line.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RefitOptions {
    /// What is solved, influences, new bones.
    pub params: RefitParams,
    /// What happens when rig and animation differ in units, axes or frames.
    pub align: Align,
    /// Factor of the animation's coordinates. `None`: 1.
    pub scale: Option<f64>,
    /// Axes of the animation that are the rig's x, y and z. `None`: the same.
    pub axes: Option<SignedAxes>,
    /// Frame of the rig's clip that the animation starts at; what the rig does not cover is cut off. `None`: 0, and nothing is cut.
    pub frame_offset: Option<i64>,
    /// Which of the rig's animations each clip is, in order; "none": as if the rig had none. Empty: by name, else by order.
    pub rig_clips: Vec<String>,
    /// Names or patterns of bones whose motion stays.
    pub lock_bones: Vec<String>,
    /// Vertices whose weights stay.
    pub lock_vertices: VertexMask,
    /// Root bone, clips in place, clips that loop.
    pub motion: MotionOptions,
}

impl RefitOptions {
    fn correction(&self) -> Correction {
        Correction {
            scale: self.scale.unwrap_or(1.0),
            axes: self.axes.unwrap_or(Correction::NONE.axes),
            frame_offset: self.frame_offset.unwrap_or(0),
            ..Correction::NONE
        }
    }
}

/// Rigs that share weights, one for each subject, and the record of the fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refit {
    /// One for each subject, with its clips.
    pub rigs: Vec<Rig>,
    /// What each was fitted to.
    pub bodies: Vec<Body>,
    /// What was done to the clips of each.
    pub moved: Vec<Moved>,
    /// The record of the fit.
    pub info: FitInfo,
    /// What should be known besides the warnings of the fit.
    pub warnings: Vec<Warning>,
    /// The parameters, as files store them.
    pub params: Value,
    /// The name of the method.
    pub method: &'static str,
    /// Seconds of all of it.
    pub wall_secs: f64,
    /// Memory of the process after the fit.
    pub memory: Option<Memory>,
    /// What the number of bones was chosen by; `None` where a rig has its bones.
    goal: Option<BoneCount>,
}

/// Fits weights, motion or both of a rig to animations of its mesh. Animations of the rig that are not fitted stay.
pub fn refit(
    rig: &Rig,
    subjects: Vec<SubjectInput>,
    options: &RefitOptions,
    observer: &mut dyn Observer,
) -> Result<Refit, Error> {
    options.params.validate()?;
    options.motion.validate()?;
    let mut warnings = Vec::new();
    let mut bodies = clips::bodies(Some((rig, options)), subjects, &mut warnings, observer)?;
    let locks = locks::locks(rig, options)?;
    for body in &bodies {
        let kept = rig.clips.iter().filter(|_| !body.own_rest).filter(|clip| is_kept(clip, body));
        let fitted = body.spans.iter().map(|span| span.name.as_str());
        options.motion.check_clips(fitted.chain(kept.map(|clip| clip.name.as_str())))?;
    }
    let started = Instant::now();
    Error::unless_cancelled(observer, Stage::Prepare)?;
    let Refitted { rigs, info } = share(rig, &bodies, &locks, &options.params, observer)?;
    if options.params.solve == Solve::Motion && rig.weights.max_influences() == 1 && rig.bone_count() > 1 {
        warnings.push(Warning::OneBonePerVertex);
    }
    bodies.iter_mut().try_for_each(Body::return_rest)?;
    let params = json!(options.params);
    Refit { warnings, ..Refit::new(Some(rig), rigs, bodies, info, params, started) }.with_motion(&options.motion)
}

/// Fits one set of bones to several clips, and shares the weights among several subjects. Skeletons and corrective shapes are for one
/// animation.
pub fn fit_clips(
    subjects: Vec<SubjectInput>,
    options: &FitOptions,
    observer: &mut dyn Observer,
) -> Result<Refit, Error> {
    options.validate()?;
    if options.skeleton.is_some() || options.eigenskin.is_some() {
        return Err(Error::unsupported("skeletons and corrective shapes are fitted to one animation, not to several"));
    }
    let mut bodies = clips::bodies(None, subjects, &mut Vec::new(), observer)?;
    for body in &bodies {
        options.motion.check_clips(body.spans.iter().map(|span| span.name.as_str()))?;
    }
    let started = Instant::now();
    Error::unless_cancelled(observer, Stage::Prepare)?;
    let several = bodies.len() > 1;
    let Some(first) = bodies.first_mut() else { return Err(solver::RefitError::NoSubject.into()) };
    let params = &options.resolved(&first.sequence).weighed(&first.sequence)?;
    let fitted = methods::fit(&first.sequence, params, observer)?;
    let (rigs, info) = if !several {
        (vec![fitted.rig], fitted.info)
    } else {
        // The first body has found its bones; now all share weights.
        first.motion = Some(fitted.rig.clips[0].posed_from_rest.clone());
        bodies.iter_mut().try_for_each(|body| body.take_rest(&fitted.rig))?;
        let shared = RefitParams {
            influences: params.influences,
            bone_kind: Some(params.bone_kind),
            smooth: params.smooth,
            max_iterations: params.max_iterations,
            tolerance: params.tolerance.unwrap_or(RefitParams::default().tolerance),
            max_seconds: params.max_seconds,
            ..RefitParams::default()
        };
        let Refitted { rigs, mut info } = share(&fitted.rig, &bodies, &Locks::default(), &shared, observer)?;
        info.warnings.splice(0..0, fitted.info.warnings);
        info.history.splice(0..0, fitted.info.history);
        (rigs, info)
    };
    bodies.iter_mut().try_for_each(Body::return_rest)?;
    let (goal, method) = (Some(params.bones), params.method.name());
    let fit = Refit::new(None, rigs, bodies, info, json!(params), started);
    Refit { goal, method, ..fit }.with_motion(&options.motion)
}

fn share(
    rig: &Rig,
    bodies: &[Body],
    locks: &Locks,
    params: &RefitParams,
    observer: &mut dyn Observer,
) -> Result<Refitted, Error> {
    let binds: Vec<_> =
        bodies.iter().map(|body| body.own_rest.then(|| transferred_binds(rig, body.sequence.rest()))).collect();
    let subjects: Vec<Subject> = bodies
        .iter()
        .zip(&binds)
        .map(|(body, binds)| Subject {
            sequence: &body.sequence,
            motion: body.motion.as_deref(),
            binds: binds.as_deref(),
        })
        .collect();
    Ok(solver::refit(rig, &subjects, locks, params, observer)?)
}

impl Refit {
    fn new(
        given: Option<&Rig>,
        mut rigs: Vec<Rig>,
        bodies: Vec<Body>,
        info: FitInfo,
        params: Value,
        started: Instant,
    ) -> Self {
        let (memory, wall_secs) = (Memory::so_far(), started.elapsed().as_secs_f64());
        for (rig, body) in rigs.iter_mut().zip(&bodies) {
            let clip = rig.clips.remove(0);
            rig.clips = body.split(&clip);
            carry_over(rig, given.filter(|_| !body.own_rest), body);
            rig.params_json = json!({ "version": crate::VERSION, "fit": params }).to_string();
        }
        let (moved, warnings) = (Vec::new(), Vec::new());
        Self { rigs, bodies, moved, info, warnings, params, method: "bonesmith", wall_secs, memory, goal: None }
    }

    /// The same with a root bone, clips in place, or clips that loop. Each body is then what its clips show.
    pub fn with_motion(mut self, options: &MotionOptions) -> Result<Self, Error> {
        if options.is_none() {
            return Ok(self);
        }
        let rigs = std::mem::take(&mut self.rigs);
        for (rig, body) in rigs.into_iter().zip(&mut self.bodies) {
            let mut model = Model::from(rig);
            let moved = move_clips(&mut model, options, Some(&body.sequence))?;
            body.take_motion(&moved)?;
            if let Model::Rig(rig) = model {
                self.rigs.push(rig);
            }
            self.warnings.extend(moved.warnings.iter().cloned());
            self.moved.push(moved);
        }
        Ok(self)
    }

    /// Writes each rig to its file, and reads the files back.
    pub fn save(&self, outputs: &[PathBuf], observer: &mut dyn Observer) -> Result<Vec<Saved>, Error> {
        let pairs = self.rigs.iter().zip(outputs);
        pairs.map(|(rig, output)| Saved::write(rig, output, Layout::Skin, observer)).collect()
    }

    /// As [`Refit::save`], as small files, with a bound on their additional error.
    pub fn save_compact(
        &self,
        outputs: &[PathBuf],
        options: &CompactOptions,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Saved>, Error> {
        let all = self.rigs.iter().zip(&self.bodies).zip(outputs);
        all.map(|((rig, body), output)| {
            let against = Against::new(&body.sequence, 0..body.spans.len());
            Saved::write_compact(rig, output, options, Some(against), observer)
        })
        .collect()
    }

    /// Measures the files: a summary for each subject. The first has the record of the fit and the others in short.
    pub fn summaries(&self, saved: &[Saved]) -> Result<Vec<Summary>, Error> {
        let started = Instant::now();
        let measured = saved.iter().zip(&self.bodies).map(|(saved, body)| measure(saved, body));
        let mut summaries: Vec<Summary> = measured.collect::<Result<_, Error>>()?;
        let subjects = summaries.iter().skip(1).filter_map(in_short).collect();
        if let Some(first) = summaries.first_mut() {
            let export: f64 = saved.iter().map(|saved| saved.export_secs).sum();
            let read: f64 = saved.iter().map(|saved| saved.read_secs).sum();
            first.subjects = subjects;
            first.seconds.prepare = self.info.prepare_secs;
            first.seconds.fit = self.info.fit_secs;
            first.seconds.export = export;
            first.seconds.total = self.wall_secs + export;
            first.seconds.evaluate = read + started.elapsed().as_secs_f64();
            first.warnings = self.warnings.clone();
            let reached = first.e_rms().unwrap_or(0.0);
            first.warnings.extend(warnings_of_file(&self.info, self.goal, reached, first.bones));
            if let Some((moved, saved)) = self.moved.first().zip(saved.first()) {
                first.motion = moved.measured(&saved.model);
            }
            for warning in saved.iter().flat_map(|saved| &saved.warnings) {
                if !first.warnings.contains(warning) {
                    first.warnings.push(warning.clone());
                }
            }
            first.fit = Some(FitPart {
                params: self.params.clone(),
                method: self.method,
                info: self.info.clone(),
                skeleton: None,
                memory: self.memory,
            });
        }
        Ok(summaries)
    }
}

/// Whether an animation of the rig is none that was fitted.
fn is_kept(clip: &Clip, body: &Body) -> bool {
    clip.frame_count() > 1 && !body.used.contains(&clip.name)
}

/// Animations of the rig that were not fitted stay, so that the file can replace the old one; new bones follow their
/// parents there. A single frame is a pose, not an animation.
fn carry_over(rig: &mut Rig, given: Option<&Rig>, body: &Body) {
    let Some(given) = given else { return };
    let before = given.bone_count();
    for clip in given.clips.iter().filter(|clip| is_kept(clip, body)) {
        if rig.clips.iter().any(|fitted| fitted.name == clip.name) {
            continue;
        }
        let frame = |t: usize| {
            let pose = clip.frame(t);
            let helper = |j: usize| pose[rig.bones[j].parent.filter(|p| *p < before).unwrap_or(0)];
            (0..rig.bone_count()).map(move |j| if j < before { pose[j] } else { helper(j) }).collect::<Vec<_>>()
        };
        let posed_from_rest = (0..clip.frame_count()).flat_map(frame).collect();
        let times_secs = clip.times_secs.clone();
        rig.clips.push(Clip { name: clip.name.clone(), times_secs, posed_from_rest });
    }
}

/// The figures of a file over all clips, and of each where there are several.
fn measure(saved: &Saved, body: &Body) -> Result<Summary, Error> {
    let exported: &Model = &saved.model;
    let model = ModelRef::from(exported);
    let lengths = body.spans.iter().map(|span| span.frames.len());
    if !model.clips().iter().map(|clip| clip.frame_count()).take(body.spans.len()).eq(lengths) {
        let what = format!("{}: other clips than those that were written", saved.path.display());
        return Err(Error::ReadBack(Box::new(Error::Unsupported(what))));
    }
    let spans: Vec<usize> = (0..body.spans.len()).collect();
    let metrics = metrics::evaluate_clips(model, &spans, &body.sequence)?;
    let clips = if body.spans.len() > 1 { clip_parts(&metrics, body) } else { Vec::new() };
    let mut summary = Summary::new(model, &body.sequence, Some(metrics));
    summary.command = "fit";
    summary.clips = clips;
    summary.set_output(saved);
    Ok(summary)
}

fn clip_parts(metrics: &Metrics, body: &Body) -> Vec<ClipPart> {
    body.spans.iter().map(|span| ClipPart::new(&span.name, &metrics.per_frame[span.frames.clone()])).collect()
}

fn in_short(summary: &Summary) -> Option<SubjectPart> {
    let metrics = summary.metrics.as_ref()?;
    Some(SubjectPart {
        name: summary.name.clone(),
        output: summary.output.as_ref()?.path.clone(),
        frames: summary.frames,
        e_rms: metrics.e_rms,
        max_error: metrics.max_error,
        clips: summary.clips.clone(),
    })
}

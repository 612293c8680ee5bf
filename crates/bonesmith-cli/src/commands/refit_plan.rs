//! What was asked of a fit with a rig, several clips or several subjects, checked as far as it can be before anything is read.

use std::path::{Path, PathBuf};

use bonesmith::core::refit::{RefitParams, Solve};
use bonesmith::io::Needs;
use bonesmith::refit::{Align, MAX_FRAME_OFFSET, RefitOptions};
use bonesmith::targets::Target;
use bonesmith::{BoneCount, BoneKind, CompactOptions, Error, FitOptions, FitParams, Input, Layout, ModelKind};

use crate::args::{AlignArg, FitArgs, InfluencesArg, RigArgs, SolverArgs, SubjectArg};
use crate::errors::Usage;
use crate::settings::{self, JsonTarget, ReportTarget};

/// A fit with a rig, several clips or several subjects.
pub struct Plan {
    pub rig: Option<Input>,
    /// The clips of the rig's own body; may be empty where there are subjects.
    pub inputs: Vec<PathBuf>,
    pub subjects: Vec<SubjectArg>,
    /// How clips are read.
    pub input: Input,
    pub output: PathBuf,
    pub compact: Option<CompactOptions>,
    pub report: Option<ReportTarget>,
    /// Options without a rig.
    pub fit: FitOptions,
    /// Options with one.
    pub refit: RefitOptions,
    /// The engine that the files are for.
    pub engine: Option<&'static Target>,
}

impl Plan {
    pub fn new(args: FitArgs) -> anyhow::Result<(Self, Option<JsonTarget>)> {
        let FitArgs {
            inputs,
            output,
            mut solver,
            rig,
            input,
            report,
            json,
            motion,
            target,
            skeleton: _,
            eigenskin: _,
            pieces: _,
            max_joints: _,
            compact,
            parts: _,
            others: _,
        } = args;
        let engine = settings::engine(&target, &output, &mut solver)?;
        let mut fit = settings::fit_options(&solver)?;
        let mut refit = refit_options(&solver, &rig, &fit.params)?;
        fit.motion = settings::motion(&motion)?;
        refit.motion = fit.motion.clone();
        let clips: Vec<PathBuf> =
            inputs.iter().chain(rig.subject.iter().flat_map(|s| s.clips.iter().chain([&s.rest]))).cloned().collect();
        let input = settings::input(clips, input)?;
        let given = rig.rig.map(|path| settings::input(vec![path], Default::default())).transpose()?;
        if given.is_some() && input.rest.is_some() {
            let message = "--rest has no meaning with --rig: the rest pose is the rig's, that of subjects their own";
            return Err(Usage::new(message).into());
        }
        let output = match given.is_some() {
            true => settings::output(output, Needs::of(ModelKind::Rig).influences(refit.params.influences))?,
            false => settings::fit_output(output, &fit, Layout::Skin)?,
        };
        if let (Some(target), BoneCount::Exact(bones)) = (engine, fit.params.bones) {
            settings::one_skin_for(target, bones, "several clips are written as one skin")?;
        }
        let compact = settings::compact(compact, Layout::Skin, &output)?;
        let json = settings::json(json)?;
        let report = settings::report(&report)?;
        let subjects = rig.subject;
        let plan = Self { rig: given, inputs, subjects, input, output, compact, report, fit, refit, engine };
        plan.check_subjects()?;
        plan.outputs().iter().try_for_each(|(output, _)| settings::writable(output))?;
        Ok((plan, json))
    }

    fn check_subjects(&self) -> Result<(), Usage> {
        if self.subjects.is_empty() {
            return Ok(());
        }
        if self.rig.is_some() && self.refit.params.solve == Solve::Weights {
            let message =
                "--solve weights needs to know how the bones move, and the motion of a --subject is not known";
            return Err(Usage::new(message).hint("use --solve both or motion"));
        }
        if !self.refit.lock_bones.is_empty() {
            return Err(Usage::new("--lock-bones and --subject exclude each other: a subject has no motion to keep"));
        }
        Ok(())
    }

    /// All that is read, as the user named it.
    pub fn files(&self) -> Vec<PathBuf> {
        let subjects = self.subjects.iter().flat_map(|subject| subject.clips.iter().chain([&subject.rest]));
        let rig = self.rig.iter().flat_map(|rig| &rig.paths);
        let mask = self.refit.lock_vertices.file();
        let named = self.inputs.iter().chain(subjects).chain(rig).cloned().chain(mask);
        named.chain(settings::with_paths(&self.input, Vec::new()).files()).collect()
    }

    /// The rig and the report of each body. One alone has the names that were given.
    pub fn outputs(&self) -> Vec<(PathBuf, Option<ReportTarget>)> {
        let own = (!self.inputs.is_empty()).then(String::new);
        let bodies: Vec<String> = own.into_iter().chain(self.subjects.iter().map(SubjectArg::name)).collect();
        let of = |name: &String| {
            let name = if bodies.len() > 1 { name.as_str() } else { "" };
            let report = self.report.clone();
            let report = report.map(|target| ReportTarget { path: output_of(&target.path, name), ..target });
            (output_of(&self.output, name), report)
        };
        bodies.iter().map(of).collect()
    }
}

/// Short name of an output for a subject: `out.glb` and `tall` give `out_tall.glb`.
fn output_of(output: &Path, name: &str) -> PathBuf {
    if name.is_empty() {
        return output.to_owned();
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let ending = output.extension().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!("{stem}_{name}.{ending}"))
}

/// The options of a fit with a rig.
fn refit_options(solver: &SolverArgs, rig: &RigArgs, fit: &FitParams) -> anyhow::Result<RefitOptions> {
    if let Some(scale) = rig.input_scale.filter(|scale| !(*scale > 0.0 && scale.is_finite())) {
        return Err(Usage::new(format!("--input-scale is {scale}; it must be above 0")).into());
    }
    if let Some(n) = rig.frame_offset.filter(|n| n.unsigned_abs() > MAX_FRAME_OFFSET) {
        let message = format!("--frame-offset is {n}; it must be -{MAX_FRAME_OFFSET} to {MAX_FRAME_OFFSET}");
        return Err(Usage::new(message).into());
    }
    let mut options = RefitOptions::default();
    options.params = refit_params(solver, rig, fit)?;
    options.align = match rig.align {
        AlignArg::Check => Align::Check,
        AlignArg::Auto => Align::Auto,
        AlignArg::Off => Align::Off,
    };
    (options.scale, options.axes, options.frame_offset) = (rig.input_scale, rig.input_axes, rig.frame_offset);
    options.rig_clips = rig.rig_clip.clone();
    options.lock_bones = rig.lock_bones.clone();
    options.lock_vertices = settings::mask(rig.lock_vertices.as_deref());
    Ok(options)
}

/// Options that mean something only when bones are looked for are refused beside a rig.
fn refit_params(solver: &SolverArgs, rig: &RigArgs, fit: &FitParams) -> anyhow::Result<RefitParams> {
    if rig.rig.is_some() {
        let clash = match () {
            _ if solver.method.is_some() => Some("--method"),
            _ if solver.target_error.is_some() => Some("--target-error"),
            _ if solver.bones.is_some() => Some("--bones"),
            _ => None,
        };
        if let Some(option) = clash {
            let message = format!("{option} and --rig exclude each other: the rig brings its bones");
            return Err(Usage::new(message).hint("--add-bones N adds helpers to them").into());
        }
        let unused = match solver {
            SolverArgs { prune: Some(_), .. } => Some("--prune"),
            SolverArgs { shading: Some(_), .. } => Some("--shading"),
            SolverArgs { keep_rest: true, .. } => Some("--keep-rest"),
            SolverArgs { bandwidth: Some(_), .. } => Some("--bandwidth"),
            SolverArgs { effort: Some(_), .. } => Some("--effort"),
            SolverArgs { seed: Some(_), .. } => Some("--seed"),
            _ => None,
        };
        if let Some(option) = unused {
            return Err(Usage::new(format!("{option} has no effect with --rig: it is for fits that find bones")).into());
        }
    }
    if rig.add_bones == Some(0) {
        return Err(Usage::new("--add-bones is 0; it must be 1 or more").into());
    }
    let solve = match (rig.solve, rig.add_bones) {
        (Some(solve), _) => solve.into(),
        (None, Some(_)) => Solve::Weights,
        (None, None) => Solve::Both,
    };
    if solve == Solve::Motion && rig.add_bones.is_some() {
        let message = "--add-bones needs weights: use --solve weights or both, not motion";
        return Err(Usage::new(message).into());
    }
    let params = RefitParams {
        solve,
        influences: match solver.influences {
            Some(InfluencesArg::AtMost(k)) => Some(k),
            Some(InfluencesArg::All) if rig.rig.is_some() => {
                return Err(Usage::new("--influences all has no meaning with --rig").into());
            }
            _ => None,
        },
        bone_kind: solver.bone_kind.map(BoneKind::from),
        smooth: fit.smooth,
        add_bones: rig.add_bones.unwrap_or(0),
        max_iterations: solver.max_iterations,
        tolerance: fit.tolerance.unwrap_or(RefitParams::default().tolerance),
        max_seconds: fit.max_seconds,
        free_translation: rig.free_translation,
        keep_normals: rig.keep_normals,
    };
    if rig.rig.is_none() {
        return Ok(RefitParams { influences: fit.influences, bone_kind: Some(fit.bone_kind), ..params });
    }
    params.validate().map_err(Error::from)?;
    Ok(params)
}

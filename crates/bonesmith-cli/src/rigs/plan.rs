//! What was asked, checked as far as it can be before anything is read.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith_core::BoneKind;
use bonesmith_core::Rig;
use bonesmith_core::fit::{BoneCount, FitParams, Method};
use bonesmith_core::refit::align::Correction;
use bonesmith_core::refit::{Locks, RefitParams, Solve};
use bonesmith_io::LoadOptions;

use crate::args::{AlignArg, FitArgs, FramesArg, InfluencesArg, RestArg, RigArgs, SolverArgs, SubjectArg};
use crate::errors::Usage;
use crate::settings::{self, Input, JsonTarget, ReportTarget};

/// A fit with a rig, several clips or several subjects.
pub struct Plan {
    pub rig: Option<PathBuf>,
    /// The clips of the rig's own body; may be empty where there are subjects.
    pub inputs: Vec<PathBuf>,
    pub subjects: Vec<SubjectArg>,
    pub load: LoadOptions,
    /// `--rest` and `--frames`.
    pub rest: Option<RestArg>,
    pub frames: Option<FramesArg>,
    pub output: PathBuf,
    pub report: Option<ReportTarget>,
    /// Parameters without a rig.
    pub fit: FitParams,
    /// Parameters with one.
    pub refit: RefitParams,
    pub align: AlignArg,
    /// What the flags say about space and time.
    pub correction: Correction,
    /// Whether `--frame-offset` was given.
    pub has_offset: bool,
    pub rig_clips: Vec<String>,
    lock_bones: Vec<String>,
    lock_vertices: Option<PathBuf>,
}

impl Plan {
    pub fn new(args: FitArgs) -> anyhow::Result<(Self, Option<JsonTarget>)> {
        let FitArgs { inputs, output, solver, rig, input, report, json, skeleton: _, eigenskin: _, pieces: _ } = args;
        let fit = settings::solver(&solver)?;
        let refit = refit_params(&solver, &rig, &fit)?;
        let clips: Vec<PathBuf> =
            inputs.iter().chain(rig.subject.iter().flat_map(|s| s.clips.iter().chain([&s.rest]))).cloned().collect();
        let Input { load, rest, frames, .. } = settings::input(clips, input)?;
        if let Some(path) = &rig.rig {
            settings::input(vec![path.clone()], Default::default())?;
            if rest.is_some() {
                let message =
                    "--rest has no meaning with --rig: the rest pose is the rig's, that of subjects their own";
                return Err(Usage::new(message).into());
            }
        }
        let output = settings::output(output)?;
        settings::influences_fit(&output, &fit)?;
        let json = settings::json(json)?;
        let report = settings::report(&report)?;
        let correction = correction(&rig)?;
        let plan = Self {
            inputs,
            load,
            rest,
            frames,
            output,
            report,
            fit,
            refit,
            correction,
            align: rig.align,
            has_offset: rig.frame_offset.is_some(),
            rig_clips: rig.rig_clip,
            lock_bones: rig.lock_bones,
            lock_vertices: rig.lock_vertices,
            subjects: rig.subject,
            rig: rig.rig,
        };
        plan.check_subjects()?;
        plan.outputs().iter().try_for_each(|(output, _)| settings::writable(output))?;
        Ok((plan, json))
    }

    fn check_subjects(&self) -> Result<(), Usage> {
        if self.subjects.is_empty() {
            return Ok(());
        }
        if self.rig.is_some() && self.refit.solve == Solve::Weights {
            let message = "--solve weights needs to know how the bones move, and for a --subject nobody does";
            return Err(Usage::new(message).hint("use --solve both or motion"));
        }
        if !self.lock_bones.is_empty() {
            return Err(Usage::new("--lock-bones and --subject exclude each other: a subject has no motion to keep"));
        }
        Ok(())
    }

    /// All that is read, as the user named it.
    pub fn files(&self) -> Vec<PathBuf> {
        let subjects = self.subjects.iter().flat_map(|subject| subject.clips.iter().chain([&subject.rest]));
        let named = self.inputs.iter().chain(subjects).chain(&self.rig).chain(&self.lock_vertices).cloned();
        named.chain(self.input(Vec::new()).files()).collect()
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

    /// Whether any bone's motion is to stay.
    pub fn locks_bones(&self) -> bool {
        !self.lock_bones.is_empty()
    }

    /// As the reader of animations wants it.
    pub fn input(&self, paths: Vec<PathBuf>) -> Input {
        Input { paths, load: self.load.clone(), rest: self.rest.clone(), frames: self.frames }
    }

    /// Locked bones and vertices, by name and by mask.
    pub fn locks(&self, rig: &Rig) -> anyhow::Result<Locks> {
        let mut bones = vec![false; rig.bone_count()];
        for wanted in &self.lock_bones {
            let pattern = glob::Pattern::new(wanted).with_context(|| format!("--lock-bones {wanted}"))?;
            let mut any = false;
            for (locked, bone) in bones.iter_mut().zip(&rig.bones) {
                if bone.name == *wanted || pattern.matches(&bone.name) {
                    (*locked, any) = (true, true);
                }
            }
            if !any {
                let message = format!("--lock-bones {wanted}: no bone of the rig has this name");
                return Err(Usage::new(message).hint(some_names(rig)).into());
            }
        }
        Ok(Locks { bones, vertices: self.mask(rig)? })
    }

    fn mask(&self, rig: &Rig) -> anyhow::Result<Vec<f32>> {
        let Some(source) = &self.lock_vertices else { return Ok(Vec::new()) };
        if self.refit.solve == Solve::Motion {
            let message = "--lock-vertices has no meaning with --solve motion: all weights stay";
            return Err(Usage::new(message).into());
        }
        if source == Path::new("color") && !source.exists() {
            return bonesmith_io::surface_mask(&rig.surface, rig.vertex_count()).ok_or_else(|| {
                let message = "--lock-vertices color: the rig has no vertex colours";
                Usage::new(message).hint("give a file instead: an npz with `mask`, or a mesh with colours").into()
            });
        }
        let mask = bonesmith_io::load_mask(source)?;
        if mask.len() != rig.vertex_count() {
            let (found, expected) = (mask.len(), rig.vertex_count());
            let message = format!("--lock-vertices {}: {found} values for {expected} vertices", source.display());
            return Err(Usage::new(message).into());
        }
        if let Some(vertex) = mask.iter().position(|m| !(0.0..=1.0).contains(m)) {
            let value = mask[vertex];
            let message = format!("--lock-vertices {}: vertex {vertex} has {value}, not 0 to 1", source.display());
            return Err(Usage::new(message).into());
        }
        Ok(mask)
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

/// "the rig has: hips, spine, ..."
fn some_names(rig: &Rig) -> String {
    const SHOWN: usize = 12;
    let names: Vec<&str> = rig.bones.iter().take(SHOWN).map(|bone| bone.name.as_str()).collect();
    let more = if rig.bone_count() > SHOWN { ", ... (`bonesmith info` lists all)" } else { "" };
    format!("the rig has: {}{more}", names.join(", "))
}

fn correction(args: &RigArgs) -> Result<Correction, Usage> {
    let scale = args.input_scale.unwrap_or(1.0);
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(Usage::new(format!("--input-scale is {scale}; it must be above 0")));
    }
    const FARTHEST: i64 = 10_000_000;
    if let Some(n) = args.frame_offset.filter(|n| !(-FARTHEST..=FARTHEST).contains(n)) {
        return Err(Usage::new(format!("--frame-offset is {n}; it must be -{FARTHEST} to {FARTHEST}")));
    }
    let axes = args.input_axes.unwrap_or(Correction::NONE.axes);
    Ok(Correction { scale, axes, frame_offset: args.frame_offset.unwrap_or(0), ..Correction::NONE })
}

/// Options that mean something only when bones are looked for are refused beside a rig.
fn refit_params(solver: &SolverArgs, rig: &RigArgs, fit: &FitParams) -> anyhow::Result<RefitParams> {
    if rig.rig.is_some() {
        let clash = match fit {
            FitParams { method, .. } if *method != Method::Bonesmith => Some("--method"),
            _ if solver.target_error.is_some() => Some("--target-error"),
            FitParams { bones: BoneCount::Exact(_), .. } => Some("--bones"),
            _ => None,
        };
        if let Some(option) = clash {
            let message = format!("{option} and --rig exclude each other: the rig brings its bones");
            return Err(Usage::new(message).hint("--add-bones N adds helpers to them").into());
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
    let params = RefitParams {
        solve,
        influences: match solver.influences {
            Some(InfluencesArg::AtMost(k)) => Some(k),
            Some(InfluencesArg::All) => return Err(Usage::new("--influences all has no meaning with --rig").into()),
            None => None,
        },
        bone_kind: solver.bone_kind.map(BoneKind::from),
        smooth: fit.smooth,
        add_bones: rig.add_bones.unwrap_or(0),
        max_iterations: solver.max_iterations,
        tolerance: fit.tolerance.unwrap_or(RefitParams::default().tolerance),
        max_seconds: fit.max_seconds,
    };
    if rig.rig.is_none() {
        return Ok(RefitParams { influences: fit.influences, bone_kind: Some(fit.bone_kind), ..params });
    }
    params.validate()?;
    Ok(params)
}

//! Bonesmith turns mesh animations into skinned rigs: bones, sparse weights, bone animation.
//!
//! This crate is what the command line, Python and batch jobs share: files in, a fit, files out, figures of the file that
//! was written, a report.
//!
//! ```
//! use bonesmith::{BoneCount, Cancel, FitOptions, Input, Progress, REPORT_BYTES};
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # let made = bonesmith_core::synthetic::posed_rig(1, &Default::default()).sequence;
//! # bonesmith::save(&bonesmith::MeshSequence::try_from(made)?, "walk.npz")?;
//! let walk = Input::new("walk.npz").frames(0..12).animation()?.value;
//!
//! let mut options = FitOptions::default();
//! options.params.bones = BoneCount::Exact(6);
//! let cancel = Cancel::new(); // `cancel.cancel()` on any thread ends the fit.
//! let mut watch = cancel.observe(|p: &Progress| eprintln!("{} {}: {:?}", p.stage, p.step, p.e_rms));
//! let fit = bonesmith::fit(&walk, &options, &mut watch)?;
//!
//! let saved = fit.save("walk.glb", &mut watch)?; // Written, and read back.
//! let summary = fit.summary(&saved, &walk)?; // Figures of the file.
//! println!("{} bones, E_RMS {:.3}", summary.bones, summary.e_rms().unwrap_or(0.0));
//! bonesmith::write_report(&summary.saved_scene(&saved, &walk), "walk.html", REPORT_BYTES)?;
//! # assert!(std::fs::metadata("walk.html")?.len() > 100_000 && summary.e_rms().unwrap() < 50.0);
//! # std::env::set_current_dir("/")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | step | here |
//! |---|---|
//! | files in | [`Input`]: any format, opened and parsed once; frames, rest pose, mesh and rate are picked |
//! | work | [`fit()`], [`shapes()`], [`refit::refit`], [`refit::fit_clips`], [`reduce`], [`compress`], [`ddm()`], [`delta_mush`] |
//! | files out | [`save`], [`Saved`]: written, and read back |
//! | figures | [`Summary`], [`Compared`], [`Info`]: data, with one JSON layout |
//! | many files | [`batch`]: a job file, its jobs, their records, one page |
//! | report | [`Summary::scene`], [`Simplified::scene`], [`write_report`] |
//!
//! Work reports its progress to an [`Observer`], which may be a function, and ends when that says so ([`Cancel`]). Nothing is
//! changed in place. Every option has the default of the command line. Warnings are data ([`Warning`]) and travel with
//! the value they are about ([`Noted`]). Errors are one type ([`Error`]).
//!
//! [`options`] has name, type, default and help of every option as data, and makes options out of values by name.
//!
//! Features: `baselines` (published methods, to compare with), `synthetic` (animations made by arithmetic), `gpu` (poses on the GPU).

pub mod batch;
mod cancel;
mod compact;
mod compare;
mod convert;
mod curves;
mod distance;
mod error;
mod fit;
#[cfg(feature = "gpu")]
pub mod gpu;
mod info;
mod input;
mod lod;
mod mask;
mod matching;
mod memory;
mod motion;
pub mod options;
pub mod refit;
mod saved;
mod scene;
mod shapes;
mod simplify;
mod split;
mod summary;
mod sweep;
pub mod targets;
pub mod text;
mod warning;

/// Version that files store.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use bonesmith_core as core;
#[cfg(feature = "gpu")]
pub use bonesmith_gpu;
pub use bonesmith_io as io;
pub use bonesmith_report as report;
pub use glam;

pub use bonesmith_core::clips::RootMotion;
pub use bonesmith_core::fit::{BoneCount, Effort, FitParams, Method};
pub use bonesmith_core::metrics::Metrics;
#[cfg(feature = "synthetic")]
pub use bonesmith_core::synthetic;
pub use bonesmith_core::{
    BoneKind, Measure, MeshSequence, Model, ModelKind, ModelRef, Observer, Progress, Rig, Round, Silent, Stage, UpAxis,
};
pub use cancel::{Cancel, Observed};
pub use compact::{Against, Allowed, CompactOptions, CompactPart};
pub use compare::{COLUMNS, Compared, comparison_json, comparison_scene};
pub use convert::{ConvertOptions, simplified_for};
pub use curves::{ARKIT_SHAPES, bake_curves};
pub use distance::Distance;
pub use error::{Error, PickError};
pub use fit::{Fit, FitOptions, fit};
pub use info::{BasisInfo, Bounds, ClipInfo, DdmInfo, EngineInfo, Info, LayerInfo, MeshInfo, RigInfo, Times};
pub use input::{FrameRange, Input, Rest, baked, find_clip, measured_clips};
pub use lod::{LevelPart, Levels, lod};
pub use matching::in_order_of;
pub use memory::{DEFAULT_SHARE, Memory, default_limit, free_memory, parse_bytes};
pub use motion::{LoopPart, MotionOptions, MotionPart, Moved, RootClip, RootPart, move_clips};
pub use saved::{COMMON_INFLUENCES, Layout, Saved, save, save_as};
pub use scene::{REPORT_BYTES, frames_scene, model_scene, write_report};
pub use shapes::{DriverRule, Face, ShapeBonesPart, ShapeFigures, ShapesFit, ShapesOptions, shapes};
pub use simplify::{
    CompressDetails, DdmDetails, DdmOptions, Details, ReduceDetails, Shape, Simplification, Simplified, SourceRig,
    WeightBytes, compress, ddm, delta_mush, reduce,
};
pub use summary::{ClipPart, FitPart, OutputPart, Seconds, ShapePart, SkeletonPart, SubjectPart, Summary};
pub use sweep::{Swept, sweep};
pub use warning::{Noted, Warning};

//! The native part of the Python package `bonesmith`: arrays in, models out. `python/bonesmith` is the part that people import.
//!
//! | module | what |
//! |---|---|
//! | `arrays` | NumPy arrays as animations and back; float32 arrays are read in place |
//! | `values` | Python's arguments as the values that the library's tables of options take |
//! | `run` | work on another thread: progress to a function of the caller, Ctrl-C, cancel, panics |
//! | `handle` | a model, and what it is measured against |
//! | `parts` | parts of a model as arrays |
//! | `rig` | rigs of arrays |
//! | `stages` | fit, refit, reduce, compress, ddm, sweep |
//! | `measure` | metrics, comparisons, reports |
//! | `files` | load, save, pickle, the command line |
//! | `batch` | the jobs of a job file, for engines that are written in Python |
//! | `errors` | errors as exceptions, warnings as Python's warnings |

mod arrays;
mod batch;
mod errors;
mod files;
mod handle;
mod measure;
mod parts;
mod rig;
mod run;
mod stages;
mod values;

use pyo3::prelude::*;

/// The native part of bonesmith.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::arrays::animation;
    #[pymodule_export]
    use super::batch::BatchPlan;
    #[pymodule_export]
    use super::files::{command_line, compact, load, pickled, save, unpickled};
    #[pymodule_export]
    use super::handle::Handle;
    #[pymodule_export]
    use super::measure::{compare, evaluate, metrics, page, report};
    #[pymodule_export]
    use super::parts::{pose, pose_matrices};
    #[pymodule_export]
    use super::rig::rig;
    #[pymodule_export]
    use super::run::panic_for_tests;
    #[pymodule_export]
    use super::stages::{compress, ddm, delta_mush, fit, fit_clips, lod, reduce, refit, shapes, sweep};
    #[pymodule_export]
    use super::values::options;

    #[allow(non_upper_case_globals, reason = "the name that Python has for it")]
    #[pymodule_export]
    const __version__: &str = bonesmith::VERSION;
}

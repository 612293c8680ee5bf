//! A model, and the animation that it is measured against.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bonesmith::core::metrics::{self, Metrics};
use bonesmith::{Error, Input, MeshSequence, Model, ModelRef, Rig, Warning};
use pyo3::prelude::*;
use rayon::prelude::*;
use serde_json::Value;

use crate::errors;
use crate::run::quickly;

/// A model of any kind. Never changed; arrays may show its memory.
#[pyclass(frozen, module = "bonesmith._native")]
pub struct Handle {
    pub model: Arc<Model>,
    /// Whether the frames of an animation are in the memory of the caller's array.
    is_shared: bool,
    against: Mutex<Against>,
    /// How it was made, as JSON; null where that is not known.
    pub record: Value,
    /// The file that it was read from, and what of it.
    pub source: Option<Input>,
}

/// What a model is measured against, and its figures once they are measured.
#[derive(Default)]
pub struct Against {
    reference: Option<Reference>,
    metrics: Option<Arc<Metrics>>,
}

impl From<Option<Reference>> for Against {
    fn from(reference: Option<Reference>) -> Self {
        Self { reference, metrics: None }
    }
}

/// An animation, and the clips of the model that are its frames.
#[derive(Clone)]
pub struct Reference {
    pub sequence: MeshSequence,
    pub clips: Vec<usize>,
    /// Of frames that someone else may change: a checksum at the time of the fit.
    sum: Option<u64>,
    /// The part of the model that the animation shows, where the model holds other meshes beside it.
    pub fitted: Option<Arc<Model>>,
}

impl Reference {
    /// Whether the frames are those of the time of the fit.
    fn is_unchanged(&self) -> bool {
        self.sum.is_none_or(|sum| sum == checksum(&self.sequence))
    }
}

impl Handle {
    /// Of a model that nothing more is known about.
    pub fn new(model: impl Into<Model>) -> Self {
        Self::made(model, None, Value::Null)
    }

    /// Of a model that was made, and is measured when that is asked for.
    pub fn made(model: impl Into<Model>, against: Option<Reference>, record: Value) -> Self {
        let against = Mutex::new(against.into());
        Self { model: Arc::new(model.into()), is_shared: false, against, record, source: None }
    }

    /// Of a model that was read from a file.
    pub fn of_file(model: Model, source: Input) -> Self {
        Self { source: Some(source), ..Self::new(model) }
    }

    /// An animation.
    pub fn of_animation(sequence: MeshSequence, is_shared: bool) -> Self {
        Self { is_shared, ..Self::new(sequence) }
    }

    /// Whether the frames are in the memory of the caller's array.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The animation in here; models that move are baked.
    pub fn animation(&self, py: Python<'_>) -> PyResult<MeshSequence> {
        if let Model::Sequence(sequence) = &*self.model {
            return Ok(sequence.clone());
        }
        let baked = quickly(py, || bonesmith::baked(&*self.model))?;
        baked.ok_or_else(|| errors::raise(py, Error::Unsupported("the model has no animation".to_owned())))
    }

    /// To be measured against this animation.
    pub fn reference(&self, sequence: &MeshSequence, clips: Vec<usize>) -> Reference {
        let sum = self.is_shared.then(|| checksum(sequence));
        Reference { sequence: sequence.clone(), clips, sum, fitted: None }
    }

    /// The plain rig: virtual bones as bones; what a plain rig does not have is reported.
    pub fn rig(&self, warnings: &mut Vec<Warning>) -> PyResult<Rig> {
        let mut left_out = |rig: &Rig, what: String| {
            warnings.push(Warning::File(bonesmith::io::Warning::LeftOut { path: rig.name.clone().into(), what }));
        };
        match &*self.model {
            Model::Rig(rig) => Ok(rig.clone()),
            Model::TwoLayer(two) => Ok(two.bake()),
            Model::Ddm(ddm) => Ok(ddm.bake().unwrap_or_else(|| {
                left_out(&ddm.rig, "multi-weights of Direct Delta Mush: the plain weights are taken".to_owned());
                ddm.rig.clone()
            })),
            Model::Corrective(corrective) => {
                left_out(
                    &corrective.rig,
                    format!("{} corrective shapes: the bones are taken", corrective.shapes.len()),
                );
                Ok(corrective.rig.clone())
            }
            Model::ShapeBones(face) => {
                left_out(&face.rig, format!("what {} shapes do to bones: the rig is taken", face.shapes.len()));
                Ok(face.rig.clone())
            }
            other => Err(errors::kind(format!("a rig is needed, not {}", other.view().kind().text()))),
        }
    }

    /// Borrowed.
    pub fn view(&self) -> ModelRef<'_> {
        self.model.view()
    }

    /// The figures against the animation that the model was made from; `None` where there is none. Measured once.
    pub fn measured(&self, py: Python<'_>) -> PyResult<Option<Arc<Metrics>>> {
        if let Some(metrics) = &self.against().metrics {
            return Ok(Some(metrics.clone()));
        }
        let measure = || -> Result<Option<Metrics>, Error> {
            let Some(reference) = self.reference_unchanged()? else { return Ok(None) };
            let model = reference.fitted.as_ref().unwrap_or(&self.model);
            Ok(Some(metrics::evaluate_clips(&**model, &reference.clips, &reference.sequence)?))
        };
        let metrics = quickly(py, measure)?.map(Arc::new);
        self.against().metrics.clone_from(&metrics);
        Ok(metrics)
    }

    /// What it is measured against, if that is kept; an error where it has changed.
    pub fn reference_unchanged(&self) -> Result<Option<Reference>, Error> {
        let reference = self.against().reference.clone();
        match reference.as_ref().is_none_or(Reference::is_unchanged) {
            true => Ok(reference),
            false => {
                let what =
                    "the array was changed since the fit, so the rig cannot be measured against it: use evaluate";
                Err(Error::Unsupported(what.to_owned()))
            }
        }
    }

    /// What it is measured against, if that is kept and has not changed.
    pub fn original(&self) -> Option<Reference> {
        self.against().reference.clone().filter(Reference::is_unchanged)
    }

    /// Whether the model holds other meshes beside those that were fitted.
    pub fn keeps_others(&self) -> bool {
        self.against().reference.as_ref().is_some_and(|reference| reference.fitted.is_some())
    }

    fn against(&self) -> MutexGuard<'_, Against> {
        self.against.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the animation that it is measured against.
    pub fn drop_reference(&self) {
        self.against().reference = None;
    }
}

/// A sum over all bits of all frames, the same on any number of threads.
fn checksum(sequence: &MeshSequence) -> u64 {
    let add = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let of_frame = |t: usize| {
        let frame = sequence.frame(t);
        let words: &[u32] = bytemuck::cast_slice(&frame);
        // Each product waits for the one before it: four sums side by side, two words at once.
        let mut sums = [t as u64; 4];
        let mut blocks = words.chunks_exact(8);
        for block in blocks.by_ref() {
            for (sum, pair) in sums.iter_mut().zip(block.chunks_exact(2)) {
                *sum = add(*sum, u64::from(pair[0]) | u64::from(pair[1]) << 32);
            }
        }
        let rest = blocks.remainder().iter().map(|&word| u64::from(word));
        sums.into_iter().chain(rest).fold(0, add)
    };
    let frames: Vec<u64> = (0..sequence.frame_count()).into_par_iter().map(of_frame).collect();
    frames.into_iter().fold(0, add)
}

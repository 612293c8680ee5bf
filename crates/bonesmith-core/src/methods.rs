//! One entry for all methods: Bonesmith's own and, with the feature `baselines`, the published ones.

use crate::mesh::sequence::MeshSequence;
use crate::observer::Observer;
use crate::skinning::params::{FitError, FitParams, Fitted, Method};

/// Fits bones, weights and bone motion to a mesh animation by the method that `params` names.
pub fn fit(sequence: &MeshSequence, params: &FitParams, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    match params.method {
        Method::Bonesmith => crate::fit::fit(sequence, params, observer),
        #[cfg(feature = "baselines")]
        _ => crate::baselines::fit(sequence, params, observer),
        #[cfg(not(feature = "baselines"))]
        method => Err(FitError::NotBuilt { method }),
    }
}

#[cfg(feature = "baselines")]
pub use crate::baselines::basis::{Represented, represent};

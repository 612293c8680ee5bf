//! Published methods as their authors describe them, to compare with.

pub(crate) mod basis;
mod cpca;
mod fsd;
mod lssp;
mod published;
mod sad;
mod sma;
mod ssdr;
mod subspace;
mod svd;
#[cfg(test)]
mod tests;
mod vertices;

use crate::mesh::sequence::MeshSequence;
use crate::observer::Observer;
use crate::skinning::params::{FitError, FitParams, Fitted, Method, check_bones};

/// Fits bones by one of the published methods that make rigs.
pub(crate) fn fit(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    params.validate()?;
    check_bones(sequence, params)?;
    let name = params.method.name();
    if params.smooth > 0.0 {
        return Err(FitError::Unsupported(format!("the method {name} has no smoothing of weights")));
    }
    match params.method {
        Method::Fsd => fsd::fsd(sequence, params, observer),
        Method::Ssdr => ssdr::ssdr(sequence, params, observer),
        Method::Sma => sma::sma(sequence, params, observer),
        Method::Sad => sad::sad(sequence, params, observer),
        Method::Lssp => lssp::lssp(sequence, params, observer),
        Method::Bonesmith => Err(FitError::Unsupported(format!("the method {name} is not a published one"))),
        Method::Cpca | Method::Svd => {
            Err(FitError::Unsupported(format!("the method {name} makes no rig: a basis of trajectories")))
        }
    }
}

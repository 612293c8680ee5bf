//! Published methods as their authors describe them, to compare with.

pub(crate) mod basis;
mod cpca;
pub(crate) mod frame;
mod fsd;
mod lssp;
mod products;
mod sad;
mod sma;
mod ssdr;
mod subspace;
mod svd;
#[cfg(test)]
mod tests;

use crate::mesh::sequence::MeshSequence;
use crate::observer::Observer;
use crate::skinning::params::{FitError, FitParams, Fitted, Method};

/// Fits bones by one of the published methods; `params` and the number of bones are in range.
pub(crate) fn fit(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    match params.method {
        Method::Bonesmith | Method::Fsd => fsd::fsd(sequence, params, observer),
        Method::Ssdr => ssdr::ssdr(sequence, params, observer),
        Method::Sma => sma::sma(sequence, params, observer),
        Method::Sad => sad::sad(sequence, params, observer),
        Method::Lssp => lssp::lssp(sequence, params, observer),
        Method::Cpca | Method::Svd => {
            let text = format!("the method {} makes no rig: a basis of trajectories", params.method.name());
            Err(FitError::Unsupported(text))
        }
    }
}

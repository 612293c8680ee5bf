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

use crate::mesh::MeshSequence;
use crate::observer::Observer;
use crate::skinning::{FitError, FitParams, Fitted, MAX_PAIRED_BONES, Method, Run, check_bones};
use published::{Input, Rest};

/// Fits bones by one of the published methods that make rigs.
pub(crate) fn fit(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    params.validate()?;
    check_bones(sequence, params, MAX_PAIRED_BONES)?;
    let refuse = |what: &str| FitError::Unsupported(format!("the method {} {what}", params.method.name()));
    let rest = match params.method {
        Method::Fsd | Method::Sma | Method::Sad => Rest::FirstFrame,
        Method::Ssdr | Method::Lssp => Rest::Input,
        Method::Bonesmith => return Err(refuse("is not a published one")),
        Method::Cpca | Method::Svd => return Err(refuse("makes no rig: a basis of trajectories")),
    };
    let mut run = Run::new(params, observer);
    let input = &Input::new(sequence, params, rest, &mut run)?;
    let attempt = match params.method {
        Method::Fsd => fsd::fit(input, &mut run)?,
        Method::Sma => sma::fit(input, &mut run)?,
        method => input.with_bones(&mut run, |count, run| match method {
            Method::Ssdr => ssdr::decompose(input, count, run),
            Method::Lssp => lssp::decompose(input, count, run),
            _ => sad::decompose(input, count, run),
        })?,
    };
    Ok(input.fitted(attempt, run))
}

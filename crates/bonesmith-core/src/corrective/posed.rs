//! The error that remains when residuals are truncated to low rank in the posed frames [Kavan2010 s.2: "compressing
//! per-vertex residuals using truncated SVD"].
//!
//! This gives the figures in brackets of [Kavan2010 table 2]. The shapes of [`crate::corrective::eigenskin`] are in the rest pose, as
//! in [Kry2002, Le2014] and in all file formats; they cannot correct what a flat blended matrix flattens.

use crate::corrective::eigenskin::{EigenSkinError, Residuals, products};
use crate::mesh::MeshSequence;
use crate::metrics;
use crate::model::Rig;
use crate::observer::{Observer, Stage, Stages};
use crate::solve::matrix::eigen;

/// E_RMS of the rig's first clip with `rank` displacement fields added after the bones, each with a weight in every
/// frame: no [F, 3 N] matrix of this rank is closer to the residuals.
pub fn posed_residual(
    rig: &Rig,
    sequence: &MeshSequence,
    rank: usize,
    observer: &mut dyn Observer,
) -> Result<f64, EigenSkinError> {
    let residuals = Residuals::new(rig, sequence, rank)?;
    let stages = &mut Stages::new(observer);
    stages.begin(Stage::Residuals, None)?;
    let frames = residuals.vectors(|residual| residual.missing, stages)?;
    let without = metrics::evaluate(rig, 0, sequence)?.e_rms;
    let products = products(&frames, stages)?;
    let f = frames.len();
    let all: f64 = (0..f).map(|t| products[(t, t)]).sum();
    let Some((squares, _)) = stages.wait(move || eigen(&products))? else { return Ok(without) };
    let left: f64 = squares[..f.saturating_sub(rank)].iter().map(|square| square.max(0.0)).sum();
    Ok(if all > 0.0 { without * (left / all).sqrt() } else { 0.0 })
}

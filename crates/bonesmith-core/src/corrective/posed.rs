//! What is left when residuals are cut to low rank where they are seen: in the posed frames [Kavan2010 s.2: "compressing
//! per-vertex residuals using truncated SVD"].
//!
//! This is what the brackets of [Kavan2010 table 2] can be had by; [`crate::corrective::eigenskin`]'s shapes are in the rest pose, as
//! [Kry2002, Le2014] and all file formats have them, and cannot take back what a flat blended matrix flattens.

use faer::Side;
use glam::Vec3;
use rayon::prelude::*;

use crate::corrective::eigenskin::{EigenSkinError, Missed, products, tell};
use crate::mesh::sequence::MeshSequence;
use crate::metrics;
use crate::model::rig::Rig;
use crate::observer::Observer;

/// E_RMS of the rig's first clip with `rank` displacement fields added after the bones, each with a weight in every
/// frame: no [F, 3 N] matrix of this rank is closer to what the rig misses.
pub fn posed_residual(
    rig: &Rig,
    sequence: &MeshSequence,
    rank: usize,
    observer: &mut dyn Observer,
) -> Result<f64, EigenSkinError> {
    let missed = Missed::new(rig, sequence, rank)?;
    let f = sequence.frame_count();
    let mut frames: Vec<Vec<Vec3>> = Vec::with_capacity(f);
    for t in 0..f {
        tell(observer, 0)?;
        frames.push((0..rig.vertex_count()).into_par_iter().map(|i| missed.of(t, i).missing.as_vec3()).collect());
    }
    let without = metrics::evaluate(rig, 0, sequence)?.e_rms;
    let products = products(&frames);
    let all: f64 = (0..f).map(|t| products[(t, t)]).sum();
    let Ok(eigen) = products.self_adjoint_eigen(Side::Lower) else { return Ok(without) };
    let squares = eigen.S().column_vector();
    let left: f64 = (0..f.saturating_sub(rank)).map(|k| squares[k].max(0.0)).sum();
    Ok(if all > 0.0 { without * (left / all).sqrt() } else { 0.0 })
}

//! Multi-weights of a rig [LeLewis2019 s.4].
//!
//! One bone after the other: the ten numbers of `w_kj u_k u_k^T` at every node are smoothed, moved to the centres and
//! kept where they are large enough. Totals over bones come from smoothing `u_k u_k^T` itself, so that what was
//! dropped is known without having been kept.

use std::ops::ControlFlow;

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::ddm::params::{DdmError, DdmMaps, DdmParams};
use crate::ddm::smooth::{Neighbours, Smoother};
use crate::ddm::weld::Weld;
use crate::mesh::sphere::smallest_enclosing_sphere;
use crate::mesh::topology::{Adjacency, Topology};
use crate::model::ddm::{DdmRig, Variant};
use crate::model::multi_weights::{Moments, MultiWeights};
use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;
use crate::observer::{Observer, Progress};

/// Isotropic part of every multi-weight, over the squared radius of the model: defines the rotation of vertices whose
/// surroundings are flat, straight or nothing at all, and is nothing beside the others' moments.
const ISOTROPIC: f64 = 1e-7;
/// Bones whose translation weights are smoothed side by side.
const BATCH: usize = 8;
/// Influences of the plain weights for players that know no multi-weights.
const FALLBACK_INFLUENCES: usize = 4;

/// Precomputes multi-weights from a rig's weights (of [`crate::ddm::rigid_bind`] for the classic setup).
pub fn precompute(
    rig: &Rig,
    params: &DdmParams,
    maps: &DdmMaps,
    observer: &mut dyn Observer,
) -> Result<DdmRig, DdmError> {
    params.validate()?;
    rig.check()?;
    maps.validate(rig.vertex_count())?;
    if rig.rest.is_empty() {
        return Err(DdmError::Empty);
    }
    let field = Field::new(rig, params, maps);
    let mut influences: Vec<Vec<(u16, Moments)>> = vec![Vec::new(); field.weld.count()];
    let bones: Vec<usize> = field.used_bones();
    for (done, batch) in bones.chunks(BATCH).enumerate() {
        let progress =
            Progress { stage: "smoothing weights", step: done * BATCH, steps: Some(bones.len()), e_rms: None };
        if observer.report(&progress) == ControlFlow::Break(()) {
            return Err(crate::observer::Cancelled.into());
        }
        field.smooth_bones(batch, params, &mut influences);
    }
    let finished: Vec<Vec<(u16, Moments)>> =
        influences.into_par_iter().enumerate().map(|(node, row)| select(row, &field.totals[node], params)).collect();
    let rows = field.weld.node.iter().map(|&node| {
        let node = node as usize;
        (field.centres[node], finished[node].clone())
    });
    let weights = MultiWeights::from_rows(rows);
    let rig = Rig { weights: scalars(&weights), ..rig.clone() };
    Ok(DdmRig { rig, origin: field.origin, weights, layer: None, variant: Variant::V0 })
}

/// Plain weights: the largest scalars.
pub(super) fn scalars(weights: &MultiWeights) -> SparseWeights {
    let slots = weights.max_influences().clamp(1, FALLBACK_INFLUENCES);
    let mut plain = SparseWeights::new(weights.count(), slots);
    for i in 0..weights.count() {
        let row: Vec<(usize, f64)> = weights.of(i).map(|(j, values)| (j, f64::from(values[0]))).collect();
        plain.set(i, &row);
    }
    plain
}

/// lambda, kappa, alpha and p of every node.
pub(super) struct Settings {
    pub lambda: Vec<f64>,
    pub kappa: Vec<f64>,
    pub alpha: Vec<f64>,
    pub steps: Vec<u32>,
}

impl Settings {
    pub fn new(weld: &Weld, topology: &Topology, places: &[DVec3], params: &DdmParams, maps: &DdmMaps) -> Self {
        let automatic = || automatic_lambda(topology, places, params.steps);
        let lambda = params.rotation_smooth.unwrap_or_else(automatic);
        let kappa = params.translation_smooth.unwrap_or(lambda * DdmParams::KAPPA_SHARE);
        let spread = |map: &Option<Vec<f32>>, global: f64| match map {
            Some(map) => weld.mean(map.iter().map(|v| f64::from(*v))),
            None => vec![global; weld.count()],
        };
        let steps = spread(&maps.steps, f64::from(params.steps));
        Self {
            lambda: spread(&maps.rotation_smooth, lambda),
            kappa: spread(&maps.translation_smooth, kappa),
            alpha: spread(&maps.alpha, params.alpha),
            steps: steps.into_iter().map(|p| p.round().max(1.0) as u32).collect(),
        }
    }
}

/// The lambda whose reach `sqrt(lambda p)` edges of the median length is [`DdmParams::REACH`] of the model's radius. The
/// median: a few large triangles on a flat back say nothing about the joints.
fn automatic_lambda(topology: &Topology, places: &[DVec3], steps: u32) -> f64 {
    let adjacency = Adjacency::new(topology, places.len());
    let mut squares: Vec<f64> = (0..places.len())
        .flat_map(|i| adjacency.of(i).iter().map(move |&k| places[i].distance_squared(places[k as usize])))
        .filter(|d| *d > 0.0)
        .collect();
    if squares.is_empty() {
        return 0.0;
    }
    let middle = squares.len() / 2;
    let (_, &mut median, _) = squares.select_nth_unstable_by(middle, f64::total_cmp);
    let reach = DdmParams::REACH * smallest_enclosing_sphere(places.iter().copied()).radius;
    (reach * reach / (median * f64::from(steps))).min(crate::ddm::params::MOST_SMOOTH)
}

/// Everything that does not depend on the bone.
struct Field {
    weld: Weld,
    origin: DVec3,
    neighbours: Neighbours,
    settings: Settings,
    /// [nodes] relative to `origin`.
    places: Vec<DVec3>,
    /// [nodes] p_i, relative to `origin`.
    centres: Vec<DVec3>,
    /// [nodes] sum over all bones of Psi about the centre, without alpha.
    totals: Vec<Moments>,
    /// [nodes] (bone, weight), mean over the node's vertices.
    weights: Vec<Vec<(u16, f64)>>,
    /// Isotropic part.
    floor: f64,
}

impl Field {
    fn new(rig: &Rig, params: &DdmParams, maps: &DdmMaps) -> Self {
        let weld = Weld::new(&rig.rest, params.weld);
        let sphere = smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3()));
        // A number that float32 holds: positions about it keep every bit they have.
        let origin = sphere.center.as_vec3().as_dvec3();
        let places = weld.places(&rig.rest, origin);
        let topology = weld.topology(&rig.surface.topology);
        let floats: Vec<Vec3> = places.iter().map(|p| p.as_vec3()).collect();
        let neighbours = Neighbours::new(params.laplacian, &topology, &floats);
        let settings = Settings::new(&weld, &topology, &places, params, maps);
        let smoother = Smoother::new(&neighbours, &settings.lambda, &settings.steps);
        let squares: Vec<Moments> = places.iter().map(|u| moments(1.0, *u)).collect();
        let mut totals = smoother.apply(&squares);
        let centres: Vec<DVec3> = totals.iter().map(|m| DVec3::new(m[1], m[2], m[3])).collect();
        totals.iter_mut().zip(&centres).for_each(|(total, centre)| *total = centred(total, *centre));
        let mut field = Self {
            weights: node_weights(rig, &weld),
            floor: ISOTROPIC * sphere.radius * sphere.radius,
            totals: Vec::new(),
            weld,
            origin,
            neighbours,
            settings,
            places,
            centres,
        };
        field.totals = totals.iter().enumerate().map(|(i, psi)| field.omega(i, psi, 1.0)).collect();
        field
    }

    fn used_bones(&self) -> Vec<usize> {
        let mut bones: Vec<usize> = self.weights.iter().flatten().map(|(j, _)| usize::from(*j)).collect();
        bones.sort_unstable();
        bones.dedup();
        bones
    }

    /// [LeLewis2019] Omega about the centre, where `w' [p;1][p;1]^T` is its corner alone; and the isotropic part.
    fn omega(&self, node: usize, psi: &Moments, slow: f64) -> Moments {
        let alpha = self.settings.alpha[node];
        let mut omega = psi.map(|m| (1.0 - alpha) * m);
        omega[0] += alpha * slow;
        for at in [4, 7, 9] {
            omega[at] += self.floor * omega[0];
        }
        omega
    }

    /// Smooths what a few bones do, and files what is large enough.
    fn smooth_bones(&self, bones: &[usize], params: &DdmParams, influences: &mut [Vec<(u16, Moments)>]) {
        let weight = |node: usize, bone: usize| -> f64 {
            let found = self.weights[node].iter().find(|(j, _)| usize::from(*j) == bone);
            found.map_or(0.0, |(_, w)| *w)
        };
        let slow = Smoother::new(&self.neighbours, &self.settings.kappa, &self.settings.steps);
        let columns: Vec<[f64; BATCH]> = (0..self.weld.count())
            .map(|node| std::array::from_fn(|b| bones.get(b).map_or(0.0, |&bone| weight(node, bone))))
            .collect();
        let slow = slow.apply(&columns);
        let fast = Smoother::new(&self.neighbours, &self.settings.lambda, &self.settings.steps);
        let smoothed: Vec<Vec<(u32, Moments)>> = bones
            .par_iter()
            .enumerate()
            .map(|(b, _)| {
                let squares: Vec<Moments> = self.places.iter().zip(&columns).map(|(u, w)| moments(w[b], *u)).collect();
                let psi = fast.apply(&squares);
                let keep = |(node, psi): (usize, &Moments)| {
                    let omega = self.omega(node, &centred(psi, self.centres[node]), slow[node][b]);
                    (omega[0] > params.threshold.max(1e-9)).then_some((node as u32, omega))
                };
                psi.iter().enumerate().filter_map(keep).collect()
            })
            .collect();
        for (&bone, kept) in bones.iter().zip(smoothed) {
            for (node, omega) in kept {
                influences[node as usize].push((bone as u16, omega));
            }
        }
    }
}

/// [nodes] weights, mean over the vertices of each node.
fn node_weights(rig: &Rig, weld: &Weld) -> Vec<Vec<(u16, f64)>> {
    let mut rows: Vec<Vec<(u16, f64)>> = vec![Vec::new(); weld.count()];
    for (i, &node) in weld.node.iter().enumerate() {
        let row = &mut rows[node as usize];
        let size = f64::from(weld.sizes[node as usize]);
        for (j, w) in rig.weights.of(i) {
            let w = f64::from(w) / size;
            match row.iter_mut().find(|(other, _)| usize::from(*other) == j) {
                Some((_, sum)) => *sum += w,
                None => row.push((j as u16, w)),
            }
        }
        // Stored weights sum to 1 within float32; here they should to the last bit.
    }
    for row in &mut rows {
        let sum: f64 = row.iter().map(|(_, w)| w).sum();
        row.iter_mut().for_each(|(_, w)| *w /= sum);
    }
    rows
}

/// `w [u;1][u;1]^T`.
fn moments(w: f64, u: DVec3) -> Moments {
    let DVec3 { x, y, z } = u;
    [w, w * x, w * y, w * z, w * x * x, w * x * y, w * x * z, w * y * y, w * y * z, w * z * z]
}

/// `T(-p) Omega T(-p)^T` [Le2021 eq. 13d].
pub(super) fn centred(m: &Moments, p: DVec3) -> Moments {
    let [w, x, y, z, xx, xy, xz, yy, yz, zz] = *m;
    let (cx, cy, cz) = (x - w * p.x, y - w * p.y, z - w * p.z);
    [
        w,
        cx,
        cy,
        cz,
        xx - p.x * x - cx * p.x,
        xy - p.x * y - cx * p.y,
        xz - p.x * z - cx * p.z,
        yy - p.y * y - cy * p.y,
        yz - p.y * z - cy * p.z,
        zz - p.z * z - cz * p.z,
    ]
}

/// The largest influences; what is missing to the total is shared among them by weight, so that the total stays what it
/// was: the rest pose, and any common rigid motion, is reproduced exactly.
fn select(mut row: Vec<(u16, Moments)>, total: &Moments, params: &DdmParams) -> Vec<(u16, Moments)> {
    row.sort_by(|a, b| b.1[0].total_cmp(&a.1[0]).then(a.0.cmp(&b.0)));
    row.truncate(params.max_influences);
    let sum: f64 = row.iter().map(|(_, m)| m[0]).sum();
    let mut missing = *total;
    for (_, omega) in &row {
        missing.iter_mut().zip(omega).for_each(|(missing, m)| *missing -= m);
    }
    for (_, omega) in &mut row {
        let share = omega[0] / sum;
        omega.iter_mut().zip(&missing).for_each(|(m, missing)| *m += share * missing);
    }
    row
}

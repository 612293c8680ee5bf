//! Multi-weights of a rig [LeLewis2019 s.4].
//!
//! One bone after the other: the ten numbers of `w_kj u_k u_k^T` at every node are smoothed, moved to the centres and
//! kept where they are large enough. Totals over all bones come from smoothing `u_k u_k^T` itself, so that the dropped part
//! is known.

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::ddm::params::{DdmError, DdmMaps, DdmParams, MAX_SMOOTH};
use crate::ddm::smooth::{Neighbours, Smoother};
use crate::ddm::weld::Weld;
use crate::mesh::{Adjacency, Topology, smallest_enclosing_sphere};
use crate::model::{DdmRig, MultiWeight, MultiWeights, Rig, Row, SparseWeights, Variant, add_to, normalise};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::solve::check::ensure;

/// Isotropic part of every multi-weight, over the squared radius of the model: defines the rotation of vertices whose
/// surroundings are flat, straight or empty, and is negligible beside other moments.
const ISOTROPIC: f64 = 1e-7;
/// Bones whose translation weights are smoothed side by side.
const BATCH: usize = 8;
/// Influences of the plain weights for players without multi-weights.
const FALLBACK_INFLUENCES: usize = 4;

/// Precomputes multi-weights from a rig's weights (of [`crate::ddm::rigid_bind`] for the classic setup).
pub fn precompute(
    rig: &Rig,
    params: &DdmParams,
    maps: &DdmMaps,
    observer: &mut dyn Observer,
) -> Result<DdmRig, DdmError> {
    let nodes = Nodes::new(rig, params, maps)?;
    let stages = &mut Stages::new(observer);
    stages.begin(Stage::SmoothingWeights, None)?;
    let field = Field::new(rig, nodes, stages)?;
    let mut influences: Vec<Vec<(u16, MultiWeight)>> = vec![Vec::new(); field.nodes.weld.count()];
    let bones: Vec<usize> = field.used_bones();
    stages.begin(Stage::SmoothingWeights, Some(bones.len()))?;
    for batch in bones.chunks(BATCH) {
        field.smooth_bones(batch, params, &mut influences, stages)?;
    }
    let finished: Vec<Vec<(u16, MultiWeight)>> =
        influences.into_par_iter().enumerate().map(|(node, row)| select(row, &field.totals[node], params)).collect();
    let row = |&node: &u32| (field.centres[node as usize], finished[node as usize].clone());
    let weights = MultiWeights::from_rows(field.nodes.weld.node.iter().map(row));
    let rig = Rig { weights: scalars(&weights), ..rig.clone() };
    Ok(DdmRig { rig, origin: field.nodes.origin, weights, layer: None, variant: Variant::V0 })
}

/// Plain weights: the largest scalars.
pub(super) fn scalars(weights: &MultiWeights) -> SparseWeights {
    let row = |i: usize| weights.of(i).map(|(j, values)| (j, f64::from(values[0]))).collect();
    let rows: Vec<Row> = (0..weights.count()).map(row).collect();
    SparseWeights::from_rows(weights.max_influences().clamp(1, FALLBACK_INFLUENCES), &rows)
}

/// The surface as nodes, and what each is smoothed with.
pub(super) struct Nodes {
    pub weld: Weld,
    pub topology: Topology,
    pub neighbours: Neighbours,
    /// The middle of the model.
    pub origin: DVec3,
    radius: f64,
    /// [nodes] relative to `origin`.
    pub places: Vec<DVec3>,
    /// [nodes] lambda, kappa, alpha and p.
    pub lambda: Vec<f64>,
    kappa: Vec<f64>,
    alpha: Vec<f64>,
    pub steps: Vec<u32>,
}

impl Nodes {
    /// Of a sound rig with vertices.
    pub fn new(rig: &Rig, params: &DdmParams, maps: &DdmMaps) -> Result<Self, DdmError> {
        params.validate()?;
        rig.check()?;
        maps.validate(rig.vertex_count())?;
        ensure(!rig.rest.is_empty(), || DdmError::Empty)?;
        let weld = Weld::new(&rig.rest, params.weld);
        let sphere = smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3()));
        // A number that float32 holds: positions about it keep every bit they have.
        let origin = sphere.center.as_vec3().as_dvec3();
        let places = weld.places(&rig.rest, origin);
        let topology = weld.topology(&rig.surface.topology);
        let floats: Vec<Vec3> = places.iter().map(|p| p.as_vec3()).collect();
        let lambda = params.rotation_smooth.unwrap_or_else(|| automatic_lambda(&topology, &places, params.steps));
        let kappa = params.translation_smooth.unwrap_or(lambda * DdmParams::KAPPA_SHARE);
        let spread = |map: &Option<Vec<f32>>, global: f64| match map {
            Some(map) => weld.mean(map.iter().map(|v| f64::from(*v))),
            None => vec![global; weld.count()],
        };
        let steps = spread(&maps.steps, f64::from(params.steps));
        Ok(Self {
            lambda: spread(&maps.rotation_smooth, lambda),
            kappa: spread(&maps.translation_smooth, kappa),
            alpha: spread(&maps.alpha, params.alpha),
            steps: steps.into_iter().map(|p| p.round().max(1.0) as u32).collect(),
            neighbours: Neighbours::new(params.laplacian, &topology, &floats),
            radius: sphere.radius,
            weld,
            topology,
            origin,
            places,
        })
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
    (reach * reach / (median * f64::from(steps))).min(MAX_SMOOTH)
}

/// Everything that does not depend on the bone.
struct Field {
    nodes: Nodes,
    /// Smoothing with lambda, and with kappa.
    rotation: Smoother,
    translation: Smoother,
    /// [nodes] p_i, relative to the origin.
    centres: Vec<DVec3>,
    /// [nodes] sum over all bones of Psi about the centre, without alpha.
    totals: Vec<MultiWeight>,
    /// [nodes] (bone, weight), mean over the node's vertices.
    weights: Vec<Row>,
}

impl Field {
    fn new(rig: &Rig, nodes: Nodes, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        let rotation = Smoother::new(&nodes.neighbours, &nodes.lambda, &nodes.steps);
        let translation = Smoother::new(&nodes.neighbours, &nodes.kappa, &nodes.steps);
        let squares: Vec<MultiWeight> = nodes.places.iter().map(|u| moments(1.0, *u)).collect();
        let psi = rotation.apply(&nodes.neighbours, &squares, stages)?;
        let centres: Vec<DVec3> = psi.iter().map(|m| DVec3::new(m[1], m[2], m[3])).collect();
        let weights = node_weights(rig, &nodes.weld);
        let mut field = Self { weights, totals: Vec::new(), nodes, rotation, translation, centres };
        field.totals = psi.iter().enumerate().map(|(i, psi)| field.omega(i, psi, 1.0)).collect();
        Ok(field)
    }

    fn used_bones(&self) -> Vec<usize> {
        let mut bones: Vec<usize> = self.weights.iter().flatten().map(|(j, _)| *j).collect();
        bones.sort_unstable();
        bones.dedup();
        bones
    }

    /// [LeLewis2019] Omega about the centre, where `w' [p;1][p;1]^T` is its corner alone; and the isotropic part.
    fn omega(&self, node: usize, psi: &MultiWeight, slow: f64) -> MultiWeight {
        let (alpha, floor) = (self.nodes.alpha[node], ISOTROPIC * self.nodes.radius * self.nodes.radius);
        let mut omega = centred(psi, self.centres[node]).map(|m| (1.0 - alpha) * m);
        omega[0] += alpha * slow;
        [4, 7, 9].into_iter().for_each(|at| omega[at] += floor * omega[0]);
        omega
    }

    /// Smooths the multi-weights of a few bones, and keeps those that are large enough.
    fn smooth_bones(
        &self,
        bones: &[usize],
        params: &DdmParams,
        influences: &mut [Vec<(u16, MultiWeight)>],
        stages: &mut Stages<'_>,
    ) -> Result<(), Cancelled> {
        let weight =
            |row: &Row, bone: Option<&usize>| row.iter().find(|(j, _)| Some(j) == bone).map_or(0.0, |(_, w)| *w);
        let column = |row: &Row| std::array::from_fn(|b| weight(row, bones.get(b)));
        let columns: Vec<[f64; BATCH]> = self.weights.iter().map(column).collect();
        let slow = self.translation.apply(&self.nodes.neighbours, &columns, stages)?;
        for (b, &bone) in bones.iter().enumerate() {
            let squares: Vec<MultiWeight> =
                self.nodes.places.iter().zip(&columns).map(|(u, w)| moments(w[b], *u)).collect();
            let psi = self.rotation.apply(&self.nodes.neighbours, &squares, stages)?;
            for (node, (psi, kept)) in psi.iter().zip(influences.iter_mut()).enumerate() {
                let omega = self.omega(node, psi, slow[node][b]);
                if omega[0] > params.threshold.max(1e-9) {
                    kept.push((bone as u16, omega));
                }
            }
            stages.step(None)?;
        }
        Ok(())
    }
}

/// [nodes] weights, mean over the vertices of each node.
fn node_weights(rig: &Rig, weld: &Weld) -> Vec<Row> {
    let mut rows: Vec<Row> = vec![Row::new(); weld.count()];
    for (i, &node) in weld.node.iter().enumerate() {
        let row = &mut rows[node as usize];
        let size = f64::from(weld.sizes[node as usize]);
        for (j, w) in rig.weights.of(i) {
            add_to(row, j, f64::from(w) / size);
        }
    }
    // Stored weights sum to 1 within float32, these exactly.
    rows.iter_mut().for_each(normalise);
    rows
}

/// `w [u;1][u;1]^T`.
fn moments(w: f64, u: DVec3) -> MultiWeight {
    let DVec3 { x, y, z } = u;
    [w, w * x, w * y, w * z, w * x * x, w * x * y, w * x * z, w * y * y, w * y * z, w * z * z]
}

/// `T(-p) Omega T(-p)^T` [Le2021 eq. 13d].
pub(super) fn centred(m: &MultiWeight, p: DVec3) -> MultiWeight {
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

/// The largest influences; the difference to the total is shared among them by weight, so that the total stays the
/// same: the rest pose, and any common rigid motion, is reproduced exactly.
fn select(mut row: Vec<(u16, MultiWeight)>, total: &MultiWeight, params: &DdmParams) -> Vec<(u16, MultiWeight)> {
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

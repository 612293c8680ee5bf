//! Direct Delta Mush at run time: float32, all variants, one layer or two.
//!
//! Influences are summed one vertex at a time, one matrix column per register; rotations follow for sixteen vertices at
//! once (`solve::polar32`). Positions are relative to the model's origin at rest and to where bone 0 moves it, so that
//! float32 holds no large numbers; multi-weights are about their own centres [Le2021 eq. 13]. `ddm_reference` is the same in
//! float64.

// Loops over lanes and columns are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use glam::{DAffine3, DVec3, Vec3};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::deform::Posed;
use crate::mesh::vertex_normals;
use crate::model::{DdmRig, MultiWeights, SparseWeights, Variant};
use crate::solve::polar32::{LANES, Lane, nearest_rotations};

/// Vertices per task, a multiple of [`LANES`].
const CHUNK: usize = 1024;

/// Columns of a 3x4 matrix, each with room for a fourth row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Columns(pub [[f32; 4]; 4]);

/// Columns of a 3x3 matrix.
type Linear = [[f32; 3]; 3];

/// The bones of one frame, and the rows that follow them.
struct Frame<'a> {
    table: &'a MultiWeights,
    /// [B]
    bones: &'a [Columns],
    /// [B] quaternions.
    rotations: &'a [[f32; 4]],
}

/// A rig ready to be posed many times.
pub struct DdmDeformer<'a> {
    rig: &'a DdmRig,
    /// [N] rest positions about the origin.
    rest: Vec<[f32; 3]>,
    /// [N] unit rest normals.
    normals: Vec<Vec3>,
    /// [rows] inverse of the moments at rest, `xx xy xz yy yz zz`: variant 1 only.
    inverses: Vec<[f32; 6]>,
    /// [virtual bones] of the last frame.
    virtual_bones: Vec<Columns>,
}

impl<'a> DdmDeformer<'a> {
    /// Prepares a sound rig.
    pub fn new(rig: &'a DdmRig) -> Self {
        let rest = rig.rig.rest.iter().map(|p| (p.as_dvec3() - rig.origin).as_vec3().to_array()).collect();
        let normals = vertex_normals(&rig.rig.rest, &rig.rig.surface.topology.vertex_triangles());
        let normals = normals.iter().map(|n| n.try_normalize().unwrap_or(DVec3::ZERO).as_vec3()).collect();
        let inverses = match rig.variant {
            Variant::V1 => (0..rig.weights.count()).map(|row| rig.weights.rest_inverse(row)).collect(),
            _ => Vec::new(),
        };
        Self { rig, rest, normals, inverses, virtual_bones: vec![Columns::default(); rig.virtual_count()] }
    }

    /// [N] posed vertices of one frame.
    pub fn pose_into(&mut self, pose: &[DAffine3], posed: &mut [Vec3]) {
        self.pose_with_normals_into(pose, posed, &mut []);
    }

    /// As [`DdmDeformer::pose_into`], with [N] unit normals: those of the rest pose, deformed with the vertex.
    pub fn pose_with_normals_into(&mut self, pose: &[DAffine3], posed: &mut [Vec3], normals: &mut [Vec3]) {
        let Posed { bones, rotations, posed_origin, .. } = Posed::new(pose, self.rig.origin);
        let bones: Vec<Columns> = bones.iter().map(columns).collect();
        let rotations: Vec<[f32; 4]> = rotations.iter().map(|q| q.as_quat().to_array()).collect();
        let frame = &Frame { table: &self.rig.weights, bones: &bones, rotations: &rotations };
        if self.rig.layer.is_some() {
            let chunks = self.virtual_bones.par_chunks_mut(CHUNK / 8).enumerate();
            chunks.for_each(|(chunk, out)| virtual_transforms(frame, chunk * CHUNK / 8, out));
        }
        // Without normals, every chunk of positions has an empty slice beside it.
        let mut normals: Vec<&mut [Vec3]> = normals.chunks_mut(CHUNK).collect();
        normals.resize_with(posed.len().div_ceil(CHUNK), Default::default);
        posed.par_chunks_mut(CHUNK).zip(normals.par_iter_mut()).enumerate().for_each(|(chunk, (posed, normals))| {
            let first = chunk * CHUNK;
            let rows = first..first + posed.len();
            let mut place = |i: usize, m: &Linear, point: Vec3| {
                posed[i - first] = point;
                if let Some(normal) = normals.get_mut(i - first) {
                    *normal = posed_normal(m, self.normals[i]);
                }
            };
            // Rows of vertices: a linear part, and where the centre goes.
            let row = |i: usize, m: &Linear, q: [f32; 3]| {
                let (p, u) = (frame.table.centres()[i], self.rest[i]);
                place(i, m, apply(m, [u[0] - p.x, u[1] - p.y, u[2] - p.z], q));
            };
            match (&self.rig.layer, self.rig.variant) {
                (Some(layer), _) => blend_rows(layer, &self.virtual_bones, &self.rest, rows, |i, m, point| {
                    place(i, &std::array::from_fn(|c| [m[c][0], m[c][1], m[c][2]]), point);
                }),
                (None, Variant::V0) => rotation_rows(frame, rows, row),
                (None, Variant::V1) => shear_rows(frame, &self.inverses, rows, row),
                (None, variant) => scalar_rows(frame, variant, rows, row),
            }
            posed.iter_mut().for_each(|p| *p = (p.as_dvec3() + posed_origin).as_vec3());
        });
    }
}

/// [N] posed vertices for [B] `posed_from_rest`, one frame.
pub fn ddm(rig: &DdmRig, pose: &[DAffine3]) -> Vec<Vec3> {
    let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
    DdmDeformer::new(rig).pose_into(pose, &mut posed);
    posed
}

/// Linear blend skinning in float32 with the same inner loop as the second layer: the base of speed comparisons.
/// `rest` and `bones` should be about an origin in the model.
pub fn lbs_f32_into(rest: &[[f32; 3]], weights: &SparseWeights, bones: &[DAffine3], posed: &mut [Vec3]) {
    let bones: Vec<Columns> = bones.iter().map(columns).collect();
    posed.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, posed)| {
        let first = chunk * CHUNK;
        blend_rows(weights, &bones, rest, first..first + posed.len(), |i, _, point| posed[i - first] = point);
    });
}

fn columns(m: &DAffine3) -> Columns {
    let column = |v: DVec3| [v.x as f32, v.y as f32, v.z as f32, 0.0];
    Columns([column(m.matrix3.x_axis), column(m.matrix3.y_axis), column(m.matrix3.z_axis), column(m.translation)])
}

#[inline(always)]
fn apply(m: &Linear, d: [f32; 3], q: [f32; 3]) -> Vec3 {
    Vec3::from_array(std::array::from_fn(|r| m[0][r] * d[0] + m[1][r] * d[1] + m[2][r] * d[2] + q[r]))
}

/// As the one of the reference.
fn posed_normal(m: &Linear, normal: Vec3) -> Vec3 {
    let [x, y, z] = m.map(Vec3::from_array);
    let posed = y.cross(z) * normal.x + z.cross(x) * normal.y + x.cross(y) * normal.z;
    posed.try_normalize().unwrap_or(Vec3::ZERO)
}

/// `Q - q p^T` and q of one row, columns first.
#[inline(always)]
fn moments(&Frame { table, bones, .. }: &Frame<'_>, row: usize) -> ([[f32; 4]; 3], [f32; 4]) {
    let p = table.centres()[row];
    let range = table.starts()[row] as usize..table.starts()[row + 1] as usize;
    let (mut h, mut q) = ([[0.0f32; 4]; 3], [0.0f32; 4]);
    let values = table.values()[10 * range.start..10 * range.end].as_chunks::<10>().0;
    for (&j, v) in table.bones()[range].iter().zip(values) {
        let Columns([a, b, c, t]) = &bones[j as usize];
        let [w, x, y, z, xx, xy, xz, yy, yz, zz] = *v;
        for r in 0..4 {
            let moved = a[r] * p.x + b[r] * p.y + c[r] * p.z + t[r];
            q[r] += a[r] * x + b[r] * y + c[r] * z + moved * w;
            h[0][r] += a[r] * xx + b[r] * xy + c[r] * xz + moved * x;
            h[1][r] += a[r] * xy + b[r] * yy + c[r] * yz + moved * y;
            h[2][r] += a[r] * xz + b[r] * yz + c[r] * zz + moved * z;
        }
    }
    (h, q)
}

/// Rotation and q of some rows.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn rotation_rows<F: FnMut(usize, &Linear, [f32; 3])>(frame: &Frame<'_>, rows: Range<usize>, mut finish: F) {
    let &Frame { table, bones, .. } = frame;
    for start in rows.clone().step_by(LANES) {
        let here = LANES.min(rows.end - start);
        // Lanes without a row have nothing to turn.
        let identity = std::array::from_fn(|c| std::array::from_fn(|r| Lane([f32::from(u8::from(c == r)); LANES])));
        let (mut target, mut rotation): ([[Lane; 3]; 3], [[Lane; 3]; 3]) = (identity, identity);
        let mut q = [[0.0f32; 4]; LANES];
        for l in 0..here {
            let row = start + l;
            let (h, own) = moments(frame, row);
            q[l] = own;
            // The bone with the largest influence comes first: a good start.
            let guess = &bones[table.bones()[table.starts()[row] as usize] as usize].0;
            for c in 0..3 {
                for r in 0..3 {
                    target[c][r].0[l] = h[c][r];
                    rotation[c][r].0[l] = guess[c][r];
                }
            }
        }
        nearest_rotations(&target, &mut rotation);
        for l in 0..here {
            let r: Linear = std::array::from_fn(|c| std::array::from_fn(|r| rotation[c][r].0[l]));
            finish(start + l, &r, [q[l][0], q[l][1], q[l][2]]);
        }
    }
}

/// Transforms of virtual bones.
fn virtual_transforms(frame: &Frame<'_>, first: usize, out: &mut [Columns]) {
    rotation_rows(frame, first..first + out.len(), |k, r, q| {
        let p = frame.table.centres()[k];
        let t: [f32; 3] = std::array::from_fn(|a| q[a] - (r[0][a] * p.x + r[1][a] * p.y + r[2][a] * p.z));
        let wide = |v: [f32; 3]| [v[0], v[1], v[2], 0.0];
        out[k - first] = Columns([wide(r[0]), wide(r[1]), wide(r[2]), wide(t)]);
    });
}

/// Blended matrices and the points they make of `rest`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn blend_rows<F: FnMut(usize, &[[f32; 4]; 4], Vec3)>(
    layer: &SparseWeights,
    bones: &[Columns],
    rest: &[[f32; 3]],
    rows: Range<usize>,
    mut finish: F,
) {
    let slots = layer.slots();
    for i in rows {
        let row = i * slots..(i + 1) * slots;
        let mut m = [[0.0f32; 4]; 4];
        for (&k, &a) in layer.bone_table()[row.clone()].iter().zip(&layer.weight_table()[row]) {
            // Unused slots come last.
            if a == 0.0 {
                break;
            }
            let bone = &bones[k as usize].0;
            for c in 0..4 {
                for r in 0..4 {
                    m[c][r] += a * bone[c][r];
                }
            }
        }
        let u = rest[i];
        let point = std::array::from_fn(|r| m[0][r] * u[0] + m[1][r] * u[1] + m[2][r] * u[2] + m[3][r]);
        finish(i, &m, Vec3::from_array(point));
    }
}

/// Linear part and posed centre of rows of variant 1.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn shear_rows<F: FnMut(usize, &Linear, [f32; 3])>(
    frame: &Frame<'_>,
    inverses: &[[f32; 6]],
    rows: Range<usize>,
    mut finish: F,
) {
    for i in rows {
        let (h, q) = moments(frame, i);
        let [xx, xy, xz, yy, yz, zz] = inverses[i];
        let mix =
            |a: f32, b: f32, c: f32| -> [f32; 3] { std::array::from_fn(|r| h[0][r] * a + h[1][r] * b + h[2][r] * c) };
        finish(i, &[mix(xx, xy, xz), mix(xy, yy, yz), mix(xz, yz, zz)], [q[0], q[1], q[2]]);
    }
}

/// The same of variants 2 to 5.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn scalar_rows<F: FnMut(usize, &Linear, [f32; 3])>(
    frame: &Frame<'_>,
    variant: Variant,
    rows: Range<usize>,
    mut finish: F,
) {
    for i in rows {
        let (m, q) = match variant {
            Variant::V2 => blend_row::<true, true>(frame, i),
            Variant::V3 => blend_row::<false, true>(frame, i),
            Variant::V4 => blend_row::<true, false>(frame, i),
            _ => blend_row::<false, false>(frame, i),
        };
        finish(i, &m, q);
    }
}

/// Linear part and posed centre of variants 2 to 5.
#[inline(always)]
fn blend_row<const QUATERNIONS: bool, const LEVERS: bool>(frame: &Frame<'_>, row: usize) -> (Linear, [f32; 3]) {
    let &Frame { table, bones, rotations } = frame;
    let p = table.centres()[row];
    let (mut m, mut q, mut turn) = ([[0.0f32; 4]; 3], [0.0f32; 4], [0.0f32; 4]);
    let start = table.starts()[row] as usize;
    let base = rotations[table.bones()[start] as usize];
    let width = table.width();
    for at in start..table.starts()[row + 1] as usize {
        let j = table.bones()[at] as usize;
        let Columns([a, b, c, t]) = &bones[j];
        let v = &table.values()[at * width..];
        let w = v[0];
        let [x, y, z] = if LEVERS { [v[1], v[2], v[3]] } else { [0.0; 3] };
        for r in 0..4 {
            let moved = a[r] * p.x + b[r] * p.y + c[r] * p.z + t[r];
            q[r] += a[r] * x + b[r] * y + c[r] * z + moved * w;
        }
        if QUATERNIONS {
            let other = rotations[j];
            let side: f32 = (0..4).map(|k| base[k] * other[k]).sum();
            let w = if side < 0.0 { -w } else { w };
            (0..4).for_each(|k| turn[k] += w * other[k]);
        } else {
            for (sum, column) in m.iter_mut().zip([a, b, c]) {
                (0..4).for_each(|r| sum[r] += w * column[r]);
            }
        }
    }
    let linear = if QUATERNIONS {
        let size: f32 = turn.iter().map(|x| x * x).sum();
        rotation_matrix(if size > 1e-24 { turn.map(|x| x / size.sqrt()) } else { base })
    } else {
        m.map(|c| [c[0], c[1], c[2]])
    };
    (linear, [q[0], q[1], q[2]])
}

fn rotation_matrix([x, y, z, w]: [f32; 4]) -> Linear {
    [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + z * w), 2.0 * (x * z - y * w)],
        [2.0 * (x * y - z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + x * w)],
        [2.0 * (x * z + y * w), 2.0 * (y * z - x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddm::compress::{DdmCompressParams, compress};
    use crate::ddm::{DdmMaps, DdmParams, precompute};
    use crate::deform::ddm_with_normals_f64;
    use crate::observer::Silent;
    use crate::synthetic::{BarParams, bar};
    use glam::DQuat;

    fn soft() -> DdmRig {
        let rig = bar(3, &BarParams { bones: 4, bend: 1.5, twist: 2.9, jitter: 0.3, ..BarParams::default() });
        let params = DdmParams { rotation_smooth: Some(5.0), ..DdmParams::default() };
        precompute(&rig, &params, &DdmMaps::default(), &mut Silent).unwrap()
    }

    fn agrees(rig: &DdmRig, pose: &[DAffine3], tolerance: f32) {
        let (points, normals) = ddm_with_normals_f64(rig, pose);
        let (mut fast, mut fast_normals) = (points.clone(), normals.clone());
        DdmDeformer::new(rig).pose_with_normals_into(pose, &mut fast, &mut fast_normals);
        for i in 0..points.len() {
            let off = points[i].distance(fast[i]);
            assert!(off < tolerance, "{:?} vertex {i}: {off}", rig.variant);
            assert!(normals[i].distance(fast_normals[i]) < 2e-3, "{:?} normal {i}", rig.variant);
        }
        assert_eq!(ddm(rig, pose), fast);
    }

    #[test]
    fn float32_agrees_with_float64_in_all_variants() {
        let rig = soft();
        let (small, _) =
            compress(&rig, &DdmCompressParams { virtual_bones: 20, ..Default::default() }, &mut Silent).unwrap();
        for clip in &rig.rig.clips {
            for t in 0..clip.frame_count() {
                Variant::ALL.iter().for_each(|&v| agrees(&rig.with_variant(v), clip.frame(t), 1e-5));
                agrees(&small, clip.frame(t), 1e-5);
            }
        }
        // Bones that pull apart by half a turn and more: nothing is near the start.
        let pose: Vec<DAffine3> = (0..4).map(|j| DAffine3::from_quat(DQuat::from_rotation_y(2.5 * j as f64))).collect();
        agrees(&rig, &pose, 1e-4);
    }

    #[test]
    fn a_model_far_away_loses_nothing_but_the_last_rounding() {
        let near = soft();
        let by = DVec3::new(1000.0, -700.0, 400.0);
        let (there, back) = (DAffine3::from_translation(by), DAffine3::from_translation(-by));
        let mut rig = near.rig.clone();
        // The same numbers as float32 can hold there.
        rig.rest.iter_mut().for_each(|p| *p = (p.as_dvec3() + by).as_vec3());
        let mut home = near.rig.clone();
        home.rest = rig.rest.iter().map(|p| (p.as_dvec3() - by).as_vec3()).collect();
        rig.clips.iter_mut().flat_map(|c| &mut c.posed_from_rest).for_each(|m| *m = there * *m * back);
        let params = DdmParams { rotation_smooth: Some(5.0), ..DdmParams::default() };
        let make = |rig: &crate::model::rig::Rig| precompute(rig, &params, &DdmMaps::default(), &mut Silent).unwrap();
        let (far, home) = (make(&rig), make(&home));
        for (away, here) in far.rig.clips.iter().zip(&home.rig.clips) {
            let (a, b) = (ddm(&far, away.frame(4)), ddm(&home, here.frame(4)));
            for (a, b) in a.iter().zip(&b) {
                // Half a step of float32 at 1000 is 3e-5 in each coordinate.
                let off = (a.as_dvec3() - by).distance(b.as_dvec3());
                assert!(off < 1e-4, "{off}");
            }
        }
    }
}

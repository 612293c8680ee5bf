//! Normals as engines compute them, and the rest normals that make them right.
//!
//! An engine stores a normal `n` of the rest pose and multiplies it by the blended matrix `M_it = sum_j w_ij A_jt` of its vertex: `M n`
//! (three.js, most game code), or by the transposed inverse of `M` (UsdSkel). Neither sees that weights differ between the
//! vertices of a face, so the normal of the rest pose is not the best one to store. [`solve_rest_normals`] finds for each shading vertex
//!
//! ```text
//! min_n sum_t |m_t - M_t n|        m_t: true normal of frame t
//! ```
//!
//! by least squares, reweighted twice by the inverse distance [Weiszfeld1937]: a few frames that no normal fits do not decide.
//! [`solve_rest_tangents`] does the same for the directions that a normal map is painted along, where there is one: engines deform
//! them by `M`, too.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use glam::{DAffine3, DMat3, DVec3, Vec3};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::mesh::normal_rows::{NormalRows, RowBuffer};
use crate::mesh::sequence::MeshSequence;
use crate::mesh::shading::ShadingVertices;
use crate::mesh::surface::CornerAttribute;
use crate::mesh::tangents::TangentVertices;
use crate::model::rig::{Clip, Rig};
use crate::model::weights::SparseWeights;
use crate::solve::lanes::{Floats, LANES};

/// Least-squares solves: plain, then reweighted.
const SOLVES: usize = 3;

/// Distances between unit normals below this weigh alike.
const NEAR: f32 = 0.05;

/// Share of the trace by which the normal of the rest pose counts: it decides where the frames do not.
const RIDGE: f64 = 1e-5;

/// Normals held at once.
const HELD: usize = 1 << 22;

/// How an engine deforms a stored normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalRule {
    /// `M n`, normalised.
    Matrix,
    /// `M^-T n`, normalised.
    InverseTranspose,
}

impl NormalRule {
    /// The deformed normal, not normalised.
    pub fn deform(self, m: &DMat3, n: DVec3) -> DVec3 {
        match self {
            Self::Matrix => *m * n,
            // The cofactors: no division, and a mirrored matrix turns the normal over as the inverse would.
            Self::InverseTranspose => {
                let cofactors =
                    DMat3::from_cols(m.y_axis.cross(m.z_axis), m.z_axis.cross(m.x_axis), m.x_axis.cross(m.y_axis));
                cofactors * n * m.determinant().signum()
            }
        }
    }
}

/// `M_i` of vertex `i` in a frame.
pub fn blended_matrix(weights: &SparseWeights, posed_from_rest: &[DAffine3], i: usize) -> DMat3 {
    weights.of(i).fold(DMat3::ZERO, |sum, (j, w)| sum + posed_from_rest[j].matrix3 * f64::from(w))
}

/// Rest normals for which the normals of `rig`'s clips come closest to those of the sequences, one sequence for each clip; `None` without
/// faces or frames. Faces and hard edges are those of the rig.
pub fn solve_rest_normals(rig: &Rig, sequences: &[&MeshSequence]) -> Option<CornerAttribute<3>> {
    solve_rest_normals_from(rig, sequences, None)
}

/// As [`solve_rest_normals`], with the normals of all vertices of the only sequence, where they are known.
pub(crate) fn solve_rest_normals_from(
    rig: &Rig,
    sequences: &[&MeshSequence],
    of_vertices: Option<&NormalRows>,
) -> Option<CornerAttribute<3>> {
    if sequences.is_empty() {
        return None;
    }
    let shading = ShadingVertices::new(&rig.surface);
    if shading.count() == 0 {
        return None;
    }
    let solver = DirectionSolver::new(rig, sequences);
    let start: Vec<DVec3> = shading.rest_normals(&rig.rest).iter().map(|n| n.normalize_or_zero()).collect();
    let sides = shading.sides(&rig.rest);
    let of_vertices = of_vertices.filter(|_| shading.is_smooth());
    let most_frames = sequences.iter().map(|sequence| sequence.frame_count()).max().unwrap_or(0);
    // Normals that are not in memory are all found at once.
    let stored = sequences.iter().all(|sequence| sequence.is_stored());
    let held = if of_vertices.is_some() || stored { shading.count() } else { (HELD / most_frames.max(1)).max(1) };
    let mut normals = start.clone();
    for (at, part) in normals.chunks_mut(held).enumerate() {
        let range = at * held..at * held + part.len();
        let find = |s: &&MeshSequence| NormalRows::new(s, shading.vertices(), shading.triangles(), range.clone());
        let found: Vec<NormalRows> =
            if of_vertices.is_some() { Vec::new() } else { sequences.iter().map(find).collect() };
        let sides = &sides[range.clone()];
        let points = shading.vertices()[range].iter().enumerate();
        match of_vertices {
            Some(rows) => {
                let points = points.map(|(k, &i)| (i, i as usize, sides[k])).collect::<Vec<_>>();
                solver.solve(part, &points, std::slice::from_ref(&rows));
            }
            None => {
                let points = points.map(|(k, &i)| (i, k, sides[k])).collect::<Vec<_>>();
                solver.solve(part, &points, &found.iter().collect::<Vec<_>>());
            }
        }
    }
    let values = normals.iter().map(|n| n.normalize_or(DVec3::Z).as_vec3().to_array()).collect();
    let name = rig.surface.normals.as_ref().map_or_else(|| "normals".to_owned(), |own| own.name.clone());
    Some(CornerAttribute { name, values, indices: shading.of_corner().to_vec() })
}

/// Rest tangents for which the tangents of `rig`'s clips, `M t`, come closest to those of the sequences; `None` without frames, and where
/// no normal map asks for them. Call it with the normals that are stored.
pub fn solve_rest_tangents(rig: &Rig, sequences: &[&MeshSequence]) -> Option<CornerAttribute<4>> {
    let surface = &*rig.surface;
    if sequences.is_empty() || !surface.needs_tangents() {
        return None;
    }
    let shading = ShadingVertices::new(surface);
    let tangents = TangentVertices::new(surface, &shading)?;
    let normals = shading.rest_normals(&rig.rest);
    let mut solved = tangents.tangents(&rig.rest, &normals);
    let find = |positions: &[Vec3]| tangents.tangents(positions, &shading.normals(positions));
    let rows: Vec<NormalRows> =
        sequences.iter().map(|sequence| NormalRows::of_frames(sequence, solved.len(), find)).collect();
    let points: Vec<(u32, usize, f64)> =
        tangents.vertices().iter().enumerate().map(|(k, &vertex)| (vertex, k, 1.0)).collect();
    DirectionSolver::new(rig, sequences).solve(&mut solved, &points, &rows.iter().collect::<Vec<_>>());
    let sides = shading.sides(&rig.rest);
    let value = |(k, tangent): (usize, &DVec3)| {
        let g = tangents.shading()[k] as usize;
        let direction = tangent.try_normalize().unwrap_or_else(|| any_tangent(normals[g]));
        let sign = if tangents.mirrored()[k] { -sides[g] } else { sides[g] };
        direction.extend(sign).as_vec4().to_array()
    };
    let mut values: Vec<[f32; 4]> = solved.iter().enumerate().map(value).collect();
    let index = |(corner, k): (usize, &Option<u32>)| {
        k.unwrap_or_else(|| {
            let normal = normals[shading.of_corner()[corner] as usize];
            values.push(any_tangent(normal).extend(1.0).as_vec4().to_array());
            values.len() as u32 - 1
        })
    };
    let indices = tangents.of_corner().iter().enumerate().map(index).collect();
    let name = surface.tangents.as_ref().map_or_else(|| "tangents".to_owned(), |own| own.name.clone());
    Some(CornerAttribute { name, values, indices })
}

/// A direction along the surface.
fn any_tangent(normal: DVec3) -> DVec3 {
    normal.try_normalize().map_or(DVec3::X, |normal| normal.any_orthonormal_vector())
}

/// Finds directions of the rest pose, point by point, for clips and what they should show.
struct DirectionSolver<'a> {
    rig: &'a Rig,
    clips: Vec<ClipRows>,
}

impl<'a> DirectionSolver<'a> {
    fn new(rig: &'a Rig, sequences: &[&MeshSequence]) -> Self {
        let rows = |(clip, sequence): (&Clip, &&MeshSequence)| ClipRows::new(clip, sequence);
        Self { rig, clips: rig.clips.iter().zip(sequences).map(rows).collect() }
    }

    /// Replaces the directions, which are those to start from. Of each: its vertex, its row in `truth` (one for each clip), and 1 or -1 where it
    /// points against what is true.
    fn solve(&self, directions: &mut [DVec3], points: &[(u32, usize, f64)], truth: &[&NormalRows]) {
        let all = directions.par_iter_mut().zip(points).with_min_len(64);
        all.for_each_init(Point::default, |point, (direction, &(vertex, row, side))| {
            point.clear();
            for (c, (clip, truth)) in self.clips.iter().zip(truth).enumerate() {
                point.load(clip, self.rig.weights.of(vertex as usize), (truth, c), row, side);
            }
            *direction = point.solve(*direction);
        });
    }
}

/// Linear parts of the bones of a clip, a row over time for each entry.
struct ClipRows {
    frames: usize,
    /// [B, 9, F] columns end to end.
    rows: Vec<f32>,
}

impl ClipRows {
    fn new(clip: &Clip, sequence: &MeshSequence) -> Self {
        let frames = sequence.frame_count().min(clip.frame_count());
        let bones = if frames > 0 { clip.frame(0).len() } else { 0 };
        let mut rows = vec![0.0; bones * 9 * frames];
        for t in 0..frames {
            for (j, bone) in clip.frame(t).iter().enumerate() {
                for (entry, x) in bone.matrix3.to_cols_array().into_iter().enumerate() {
                    rows[(j * 9 + entry) * frames + t] = x as f32;
                }
            }
        }
        Self { frames, rows }
    }
}

/// One shading vertex in all frames: rows over time, padded to whole groups of lanes with zeros, which add nothing.
#[derive(Default)]
struct Point {
    /// [groups, 9] entries of `M`, columns end to end.
    matrices: Vec<[Floats; 9]>,
    /// [groups, 3]
    truth: Vec<[Floats; 3]>,
    /// [3, F] of one clip.
    normals: Vec<f32>,
    /// [clips] rows of true normals that were read last.
    buffers: Vec<RowBuffer>,
}

impl Point {
    fn clear(&mut self) {
        self.matrices.clear();
        self.truth.clear();
    }

    /// Adds the frames of a clip, with its true normals and its number.
    fn load(
        &mut self,
        clip: &ClipRows,
        weights: impl Iterator<Item = (usize, f32)>,
        (normals, number): (&NormalRows, usize),
        row: usize,
        side: f64,
    ) {
        let (f, all) = (clip.frames, normals.frames());
        self.normals.resize(3 * all, 0.0);
        let (x, rest) = self.normals.split_at_mut(all);
        let (y, z) = rest.split_at_mut(all);
        self.buffers.resize_with(self.buffers.len().max(number + 1), RowBuffer::default);
        load_normals(normals, row, side as f32, [&mut *x, &mut *y, &mut *z], &mut self.buffers[number]);
        let first = self.matrices.len();
        let groups = f.div_ceil(LANES);
        self.matrices.resize(first + groups, [Floats::ZERO; 9]);
        let cut = |row: &[f32], group: usize| match row[group * LANES..f].first_chunk() {
            Some(whole) => Floats(*whole),
            None => Floats::from_fn(|l| row[..f].get(group * LANES + l).copied().unwrap_or(0.0)),
        };
        self.truth.extend((0..groups).map(|group| [&*x, y, z].map(|row| cut(row, group))));
        for (j, w) in weights {
            for entry in 0..9 {
                let row = &clip.rows[(j * 9 + entry) * f..][..f];
                add_row(&mut self.matrices[first..], entry, row, w);
            }
        }
    }

    /// The best normal; that of the rest pose decides where the frames do not.
    fn solve(&self, start: DVec3) -> DVec3 {
        let mut normal = start;
        for solve in 0..SOLVES {
            let guess = (solve > 0).then(|| normal.as_vec3().to_array());
            normal = System::new(&self.matrices, &self.truth, guess).solved(start);
        }
        normal
    }
}

/// The true normals of one point over time.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn load_normals(normals: &NormalRows, row: usize, scale: f32, [x, y, z]: [&mut [f32]; 3], buffer: &mut RowBuffer) {
    normals.load(row, scale, [x, y, z], buffer);
}

/// Adds a row to one entry of the matrices.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn add_row(matrices: &mut [[Floats; 9]], entry: usize, row: &[f32], weight: f32) {
    let whole = row.len() / LANES * LANES;
    for (matrix, x) in matrices.iter_mut().zip(row[..whole].chunks_exact(LANES)) {
        for l in 0..LANES {
            matrix[entry].0[l] += weight * x[l];
        }
    }
    if let Some(last) = matrices.get_mut(whole / LANES) {
        last[entry].0.iter_mut().zip(&row[whole..]).for_each(|(sum, x)| *sum += weight * x);
    }
}

/// Normal equations of one rest normal.
struct System {
    matrix: DMat3,
    right: DVec3,
}

impl System {
    fn new(matrices: &[[Floats; 9]], truth: &[[Floats; 3]], guess: Option<[f32; 3]>) -> Self {
        let sums = sums(matrices, truth, guess).map(|sum| sum.0.iter().map(|x| f64::from(*x)).sum::<f64>());
        let [xx, xy, xz, yy, yz, zz, x, y, z] = sums;
        Self { matrix: DMat3::from_cols_array(&[xx, xy, xz, xy, yy, yz, xz, yz, zz]), right: DVec3::new(x, y, z) }
    }

    fn solved(&self, start: DVec3) -> DVec3 {
        let trace = self.matrix.x_axis.x + self.matrix.y_axis.y + self.matrix.z_axis.z;
        if trace <= 0.0 || !trace.is_finite() {
            return start;
        }
        let ridge = RIDGE * trace;
        let solved = (self.matrix + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * (self.right + start * ridge);
        if solved.is_finite() { solved } else { start }
    }
}

/// `sum_t g_t M^T M` (six entries) and `sum_t g_t M^T m`: weights `g` are 1, or the inverse distance of a guess. Frames without a true normal
/// do not count.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn sums(matrices: &[[Floats; 9]], truth: &[[Floats; 3]], guess: Option<[f32; 3]>) -> [Floats; 9] {
    const ENTRIES: [(usize, usize); 6] = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)];
    let mut sums = [Floats::ZERO; 9];
    for (m, truth) in matrices.iter().zip(truth) {
        let column = |c: usize| [m[3 * c], m[3 * c + 1], m[3 * c + 2]];
        let dot = |a: [Floats; 3], b: [Floats; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let mut weight = Floats::from_fn(|l| if dot(*truth, *truth).0[l] > 0.5 { 1.0 } else { 0.0 });
        if let Some(guess) = guess {
            let [x, y, z] = guess.map(Floats::splat);
            let off: [Floats; 3] = std::array::from_fn(|a| truth[a] - (m[a] * x + m[3 + a] * y + m[6 + a] * z));
            let squared = dot(off, off);
            weight = weight * Floats::from_fn(|l| 1.0 / squared.0[l].sqrt().max(NEAR));
        }
        for (sum, (c, d)) in sums.iter_mut().zip(ENTRIES) {
            *sum += weight * dot(column(c), column(d));
        }
        for c in 0..3 {
            sums[6 + c] += weight * dot(column(c), *truth);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::surface::{Image, Material, Texture, Textures};
    use crate::synthetic::{PosedRigParams, posed_rig};
    use std::sync::Arc;

    #[test]
    fn both_rules_turn_normals_of_a_rotation_and_differ_for_a_stretch() {
        let turn = DMat3::from_rotation_y(0.7);
        for rule in [NormalRule::Matrix, NormalRule::InverseTranspose] {
            assert!(rule.deform(&turn, DVec3::X).distance(turn * DVec3::X) < 1e-12);
        }
        let stretch = DMat3::from_diagonal(DVec3::new(2.0, 1.0, 1.0));
        let n = DVec3::new(1.0, 1.0, 0.0);
        assert_eq!(NormalRule::Matrix.deform(&stretch, n), DVec3::new(2.0, 1.0, 0.0));
        let inverse = stretch.inverse().transpose() * n;
        assert!(NormalRule::InverseTranspose.deform(&stretch, n).normalize().distance(inverse.normalize()) < 1e-12);
        let mirror = DMat3::from_diagonal(DVec3::new(-1.0, 1.0, 1.0));
        assert!(NormalRule::InverseTranspose.deform(&mirror, n).distance(DVec3::new(-1.0, 1.0, 0.0)) < 1e-12);
    }

    /// No other direction near a solved normal has a smaller sum of distances.
    #[test]
    fn solved_normals_are_the_best_nearby() {
        let made = posed_rig(11, &PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let mut rig = made.rig;
        let solved = solve_rest_normals(&rig, &[&sequence]).unwrap();
        let shading = ShadingVertices::new(sequence.surface());
        let cost = |g: usize, n: DVec3| -> f64 {
            let i = shading.vertices()[g] as usize;
            let one = |t: usize| {
                let m = blended_matrix(&rig.weights, rig.clips[0].frame(t), i);
                shading.normals(&sequence.frame(t))[g].normalize().angle_between(m * n)
            };
            (0..sequence.frame_count()).map(one).sum()
        };
        let (mut before, mut after) = (0.0, 0.0);
        for g in (0..shading.count()).step_by(7) {
            let i = shading.vertices()[g] as usize;
            let corner = sequence.surface().topology.corners().iter().position(|&v| v as usize == i).unwrap();
            let n = Vec3::from_array(solved.values[solved.indices[corner] as usize]).as_dvec3();
            before += cost(g, shading.normals(&rig.rest)[g]);
            after += cost(g, n);
            for axis in [DVec3::X, DVec3::Y, DVec3::Z] {
                let other = DMat3::from_axis_angle(axis, 0.15) * n;
                assert!(cost(g, other) > 0.98 * cost(g, n), "shading vertex {g}");
            }
        }
        assert!(after < before, "{after} of {before}");
        Arc::make_mut(&mut rig.surface).normals = Some(solved);
        assert!(rig.check().is_ok());
    }

    /// As above in the mean, for the tangents of a rig with a normal map; a rig without one gets none.
    #[test]
    fn solved_tangents_are_the_best_nearby() {
        let made = posed_rig(11, &PosedRigParams::default());
        let mut surface = made.sequence.surface.clone();
        let uv = |p: &Vec3| [p.x + 0.3 * p.z, p.y - 0.2 * p.x];
        surface.uv_sets = vec![CornerAttribute {
            name: "uv".into(),
            values: made.rig.rest.iter().map(uv).collect(),
            indices: surface.topology.corners().to_vec(),
        }];
        let mut rig = made.rig;
        rig.surface = Arc::new(surface.clone());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        assert!(solve_rest_tangents(&rig, &[&sequence]).is_none());
        let texture = Texture { image: 0, uv_set: 0, wrap: Default::default() };
        let textures = Textures { normal: Some(texture), ..Default::default() };
        surface.materials.push(Material { textures, ..Default::default() });
        surface.images.push(Image { name: "map".into(), mime: "image/png".into(), bytes: Vec::new() });
        rig.surface = Arc::new(surface);
        let solved = solve_rest_tangents(&rig, &[&sequence]).unwrap();
        let shading = ShadingVertices::new(&rig.surface);
        let tangents = TangentVertices::new(&rig.surface, &shading).unwrap();
        let of = |positions: &[Vec3]| tangents.tangents(positions, &shading.normals(positions));
        let truth: Vec<Vec<DVec3>> = (0..sequence.frame_count()).map(|t| of(&sequence.frame(t))).collect();
        let cost = |g: usize, tangent: DVec3| -> f64 {
            let matrix =
                |t: usize| blended_matrix(&rig.weights, rig.clips[0].frame(t), tangents.vertices()[g] as usize);
            truth.iter().enumerate().map(|(t, truth)| truth[g].angle_between(matrix(t) * tangent)).sum()
        };
        let (rest, mut before, mut after, mut others) = (of(&rig.rest), 0.0, 0.0, [0.0; 3]);
        for (corner, g) in tangents.of_corner().iter().enumerate().step_by(11) {
            let (Some(g), [x, y, z, sign]) = (g, solved.values[solved.indices[corner] as usize]) else { continue };
            let (g, tangent) = (*g as usize, Vec3::new(x, y, z).as_dvec3());
            before += cost(g, rest[g]);
            after += cost(g, tangent);
            for (sum, axis) in others.iter_mut().zip([DVec3::X, DVec3::Y, DVec3::Z]) {
                *sum += cost(g, DMat3::from_axis_angle(axis, 0.15) * tangent);
            }
            // Seen along the direction that the texture is laid on from, or against it.
            let topology = &rig.surface.topology;
            let f = (0..topology.face_count()).find(|&f| topology.corner_range(f).contains(&corner)).unwrap();
            let face = topology.face(f);
            let [a, b, c] = [0, 1, 2].map(|at| rig.rest[face[at] as usize].as_dvec3());
            let facing = (b - a).cross(c - a).dot(DVec3::new(-0.3, -0.06, 1.0));
            assert_eq!(facing > 0.0, sign > 0.0, "corner {corner}");
        }
        assert!(after < before && others.iter().all(|other| after < *other), "{after} of {before}, {others:?}");
        Arc::make_mut(&mut rig.surface).tangents = Some(solved);
        assert!(rig.check().is_ok());
    }
}

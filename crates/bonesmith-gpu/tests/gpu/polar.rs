//! The 3x3 polar decomposition inside the kernel of variant 0, on matrices of every kind.

use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use bonesmith_core::transform::nearest_rotation;
use bonesmith_core::{DdmRig, SparseWeights};
use bonesmith_gpu::{Gpu, GpuModel, GpuOptions, Tuning};
use glam::{DAffine3, DMat3, DVec3, Vec3};

use super::gpu;
use super::rigs::{self, Random, Size};

/// Bones of an instance where there are many: workgroup memory holds four instances of them.
const BONES: usize = 24;

/// Rotations that the kernel finds for matrices, each the bone of an instance; with second moments of 1 and nothing else the
/// matrix to decompose is the bone's own, and the three vertices of a bone show the columns of its rotation. `layered`: by a
/// virtual bone between the two.
fn rotations(gpu: &Gpu, matrices: &[DMat3], layered: bool) -> Vec<DMat3> {
    let (bones, n) = (BONES, 3 * BONES);
    let mut rig = rigs::lbs(1, Size { vertices: n, bones, influences: 1, frames: 1 });
    rig.rest = (0..n).map(|i| Vec3::AXES[i % 3]).collect();
    rig.weights = SparseWeights::new(n, 1);
    (0..n).for_each(|i| rig.weights.set(i, &[(i / 3, 1.0)]));
    rig.clips.clear();
    let (rows, each) = if layered { (bones, 1) } else { (n, 3) };
    let values = (0..rows).flat_map(|_| [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]).collect();
    let of_rows = (0..rows).map(|row| (row / each) as u16).collect();
    let weights =
        MultiWeights::from_tables(10, (0..=rows as u32).collect(), of_rows, values, vec![Vec3::ZERO; rows]).unwrap();
    let layer = layered.then(|| rig.weights.clone());
    let rig = DdmRig { rig, origin: DVec3::ZERO, weights, layer, variant: Variant::V0 };
    let instances = matrices.len().div_ceil(BONES);
    let batch = GpuModel::ddm(gpu, &rig).unwrap().batch(instances).unwrap();
    let mut poses: Vec<DAffine3> = matrices.iter().map(|m| DAffine3::from_mat3(*m)).collect();
    poses.resize(instances * BONES, DAffine3::IDENTITY);
    for (t, pose) in poses.chunks(BONES).enumerate() {
        batch.write_bones(t, pose).unwrap();
    }
    batch.submit().unwrap();
    let rotation = |c: &[Vec3; 3]| DMat3::from_cols(c[0].as_dvec3(), c[1].as_dvec3(), c[2].as_dvec3());
    let columns = |t: usize| batch.read(t).unwrap().positions;
    let mut found: Vec<DMat3> =
        (0..instances).flat_map(|t| columns(t).as_chunks::<3>().0.iter().map(rotation).collect::<Vec<_>>()).collect();
    found.truncate(matrices.len());
    found
}

fn trace(a: DMat3, b: DMat3) -> f64 {
    let q = a.transpose() * b;
    q.x_axis.x + q.y_axis.y + q.z_axis.z
}

/// As good as the exact decomposition, however the kernel is tuned: a rotation, and none is nearer.
fn judge(matrices: &[DMat3]) {
    let Some(gpu) = gpu(&GpuOptions::default()) else { return };
    for (tile, staged) in [(1, false), (3, true), (4, false), (4, true)] {
        let tuning = Some(Tuning { workgroup: 64, tile, staged });
        judge_found(&rotations(&gpu.with_tuning(tuning, None), matrices, false), matrices);
        judge_found(&rotations(&gpu.with_tuning(None, tuning), matrices, true), matrices);
    }
}

fn judge_found(found: &[DMat3], matrices: &[DMat3]) {
    for (r, m) in found.iter().zip(matrices) {
        assert!((*r * r.transpose()).abs_diff_eq(DMat3::IDENTITY, 1e-4) && r.determinant() > 0.0, "{r} of {m}");
        let size = trace(*m, *m).sqrt().max(1e-12);
        let (got, best) = (trace(*r, *m) / size, trace(nearest_rotation(m), *m) / size);
        assert!(got >= best - 1e-4, "{got} of {best} for {m}: {r}");
    }
}

fn random_matrix(random: &mut Random) -> DMat3 {
    DMat3::from_cols(random.vector(), random.vector(), random.vector())
}

#[test]
fn of_any_matrix_reflections_included() {
    let mut random = Random(1);
    judge(&(0..4000).map(|_| random_matrix(&mut random)).collect::<Vec<_>>());
}

/// From three equal to one alone, and of both signs.
#[test]
fn of_any_singular_values() {
    let mut random = Random(2);
    let mut matrices = Vec::new();
    for middle in [1.0, 0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 0.0] {
        for share in [1.0, 0.5, 0.01, 0.0, -0.01, -0.5, -0.98, -1.0] {
            for _ in 0..40 {
                let (u, v) =
                    (nearest_rotation(&random_matrix(&mut random)), nearest_rotation(&random_matrix(&mut random)));
                matrices.push(u * DMat3::from_diagonal(DVec3::new(1.0, middle, middle * share)) * v);
            }
        }
    }
    judge(&matrices);
}

/// Nothing to go by gives a rotation all the same; so does any scale.
#[test]
fn of_nothing_and_of_any_scale() {
    let mut random = Random(3);
    let mut matrices = vec![DMat3::ZERO, DMat3::IDENTITY, -DMat3::IDENTITY];
    for exponent in [-12, -6, 6, 12] {
        matrices.extend((0..20).map(|_| random_matrix(&mut random) * 10f64.powi(exponent)));
    }
    judge(&matrices);
}

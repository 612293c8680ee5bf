//! Both representations on sequences made by arithmetic.

use crate::baselines::basis::{Represented, represent};
use crate::mesh::sequence::MeshSequence;
use crate::metrics::evaluate;
use crate::model::rig::BoneKind;
use crate::observer::Silent;
use crate::skinning::params::{BoneCount, FitParams, Method};
use crate::synthetic::{PosedRigParams, awkward, posed_rig};

fn params(method: Method, bones: usize) -> FitParams {
    FitParams { bones: BoneCount::Exact(bones), method, ..FitParams::default() }
}

fn known(bones: usize) -> MeshSequence {
    let shape = PosedRigParams { bones, kind: BoneKind::Affine, ..PosedRigParams::default() };
    MeshSequence::try_from(posed_rig(11, &shape).sequence).unwrap()
}

/// A sound basis, and its measured error, which must be the one that was reported.
fn checked(sequence: &MeshSequence, params: &FitParams) -> (Represented, f64) {
    let found = represent(sequence, params, &mut Silent).unwrap();
    assert_eq!(found.basis.check(), Ok(()));
    let e_rms = evaluate(&found.basis, 0, sequence).unwrap().e_rms;
    let reported = found.info.history.last().unwrap().error;
    assert!((reported - e_rms).abs() < 1e-3 * e_rms + 2e-3, "{reported} reported, {e_rms} measured");
    (found, e_rms)
}

#[test]
fn a_rig_lies_in_as_many_columns_as_it_has() {
    let sequence = known(5);
    // Affine bones: 4 columns each, and one more for the place that frames are centred at.
    let (found, e_rms) = checked(&sequence, &params(Method::Svd, 6));
    assert!(e_rms < 1e-3, "{e_rms}");
    assert_eq!((found.basis.cluster_count, found.basis.dimension), (1, 24));
    // Sixteen of twenty are too few.
    let (_, fewer) = checked(&sequence, &params(Method::Svd, 4));
    assert!(fewer > 0.1, "{fewer}");
}

#[test]
fn the_stored_mean_is_the_mean_of_all_vertices() {
    let sequence = known(5);
    let (found, _) = checked(&sequence, &params(Method::Svd, 2));
    let n = sequence.vertex_count() as f64;
    for t in 0..sequence.frame_count() {
        let mean = sequence.frame(t).iter().map(|p| p.as_dvec3()).sum::<glam::DVec3>() / n;
        let stored: [f32; 3] = found.basis.mean[3 * t..3 * t + 3].try_into().unwrap();
        assert!(mean.distance(glam::Vec3::from_array(stored).as_dvec3()) < 1e-5, "frame {t}");
    }
}

#[test]
fn stiff_pieces_are_clusters() {
    let shape = PosedRigParams { softness: 0.02, influences: 1, ..PosedRigParams::default() };
    let sequence = MeshSequence::try_from(posed_rig(3, &shape).sequence).unwrap();
    let (found, e_rms) = checked(&sequence, &params(Method::Cpca, 6));
    let (_, few) = checked(&sequence, &params(Method::Cpca, 2));
    assert!(e_rms < 0.1 * few, "{e_rms} with six clusters, {few} with two");
    assert_eq!((found.basis.cluster_count, found.basis.dimension), (6, 4));
    // Nothing at this rank is closer than the decomposition of all.
    let (_, least) = checked(&sequence, &params(Method::Svd, 6));
    assert!(least <= e_rms + 1e-3);
}

#[test]
fn a_target_is_reached_with_few() {
    let sequence = known(5);
    for method in [Method::Svd, Method::Cpca] {
        let asked = FitParams { bones: BoneCount::TargetError(2.0), method, ..FitParams::default() };
        let found = represent(&sequence, &asked, &mut Silent).unwrap();
        let e_rms = evaluate(&found.basis, 0, &sequence).unwrap().e_rms;
        assert!(e_rms <= 2.0 + 2e-3, "{method:?} {e_rms}");
    }
}

#[test]
fn awkward_meshes_give_sound_bases() {
    for (name, raw) in awkward::all() {
        let sequence = MeshSequence::try_from(raw).unwrap();
        for method in [Method::Svd, Method::Cpca] {
            for bones in [1, sequence.vertex_count().min(9)] {
                let found = represent(&sequence, &params(method, bones), &mut Silent).unwrap();
                assert_eq!(found.basis.check(), Ok(()), "{name} {method:?} {bones}");
                assert!(evaluate(&found.basis, 0, &sequence).unwrap().e_rms.is_finite());
            }
        }
    }
}

#[test]
fn unsound_bases_are_refused() {
    let sequence = known(5);
    let (found, _) = checked(&sequence, &params(Method::Cpca, 3));
    let mut wrong = found.basis.clone();
    wrong.clusters[7] = 9;
    assert_eq!(wrong.check().unwrap_err().to_string(), "vertex 7 is in cluster 9, but there are 3");
    let mut wrong = found.basis;
    wrong.coefficients.pop();
    assert!(wrong.check().unwrap_err().to_string().starts_with("basis_coefficients has"));
    assert!(represent(&sequence, &params(Method::Fsd, 3), &mut Silent).is_err());
}

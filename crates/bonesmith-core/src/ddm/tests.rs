//! Tests of the whole model: exactness, Delta Mush as the reference, awkward meshes, far-away models.

use std::sync::Arc;

use glam::{DAffine3, DQuat, DVec3, Vec3};

use crate::ddm::*;
use crate::deform::{ddm_f64, ddm_with_normals_f64};
use crate::mesh::laplacian::Laplacian;
use crate::mesh::sequence::RawSequence;
use crate::mesh::surface::Surface;
use crate::mesh::topology::Topology;
use crate::model::ddm::{DdmRig, Variant};
use crate::model::rig::{Bone, BoneKind, Rig};
use crate::model::weights::SparseWeights;
use crate::observer::Silent;
use crate::synthetic::{BarParams, PosedRigParams, awkward, bar, posed_rig};

pub(super) fn made(rig: &Rig, params: &DdmParams) -> DdmRig {
    let made = precompute(rig, params, &DdmMaps::default(), &mut Silent).unwrap();
    made.check().unwrap();
    made
}

/// Loose bones spread over a mesh, each vertex on the nearest.
fn bound(raw: &RawSequence, bones: usize) -> Rig {
    let rest = raw.frames[0].positions.clone();
    let places: Vec<Vec3> = (0..bones).map(|j| rest[j * rest.len() / bones]).collect();
    let mut weights = SparseWeights::new(rest.len(), 1);
    for (i, p) in rest.iter().enumerate() {
        let nearest = (0..bones).min_by(|&a, &b| p.distance(places[a]).total_cmp(&p.distance(places[b])));
        weights.set(i, &[(nearest.unwrap(), 1.0)]);
    }
    let bone = |j: usize| Bone {
        name: format!("{j}"),
        parent: None,
        world_from_bind: DAffine3::from_translation(places[j].as_dvec3()),
        tip: None,
    };
    Rig {
        name: raw.name.clone(),
        rest,
        surface: Arc::new(raw.surface.clone()),
        weights,
        bones: (0..bones).map(bone).collect(),
        kind: BoneKind::Rigid,
        clips: Vec::new(),
        params_json: String::new(),
    }
}

/// Irregular, obtuse, open, in several pieces, with seams, lone vertices, slivers, walls inside, no faces.
fn awkward_rigs() -> Vec<(String, Rig)> {
    let mut rigs: Vec<(String, Rig)> =
        awkward::all().into_iter().map(|(name, raw)| (name.to_owned(), bound(&raw, 3))).collect();
    rigs.push(("obtuse".into(), bar(1, &BarParams { jitter: 0.45, bones: 3, ..BarParams::default() })));
    rigs.push(("open".into(), bar(2, &BarParams { closed: false, jitter: 0.3, ..BarParams::default() })));
    rigs.push(("branching".into(), posed_rig(3, &PosedRigParams::default()).rig));
    let mut degenerate = bar(4, &BarParams::default());
    let mut surface = Surface::clone(&degenerate.surface);
    surface.topology.push_face(&[3, 3, 3]);
    surface.topology.push_face(&[5, 6, 5]);
    surface.topology.push_face(&[0, 100, 200]);
    degenerate.surface = Arc::new(surface);
    // Zero-length edges: neighbours moved onto each other.
    degenerate.rest[41] = degenerate.rest[40];
    degenerate.rest[42] = degenerate.rest[40];
    rigs.push(("degenerate".into(), degenerate));
    // All at one place, all in a row.
    let mut point = bar(5, &BarParams { rings: 2, ..BarParams::default() });
    let mut line = point.clone();
    point.rest.fill(Vec3::ONE);
    line.rest.iter_mut().for_each(|p| *p = Vec3::new(0.0, p.y, 0.0));
    rigs.push(("point".into(), point));
    rigs.push(("line".into(), line));
    rigs
}

fn rigid(seed: f64) -> DAffine3 {
    let axis = DVec3::new(seed.sin(), seed.cos(), 0.3).normalize();
    DAffine3::from_rotation_translation(DQuat::from_axis_angle(axis, 1.0 + seed), DVec3::new(seed, -2.0, 0.7))
}

#[test]
fn rest_and_common_rigid_motions_are_reproduced_exactly() {
    for (name, rig) in awkward_rigs() {
        let size = crate::mesh::sphere::unit_radius(&rig.rest) as f32;
        for (laplacian, weld) in [(Laplacian::Cotangent, true), (Laplacian::Uniform, false)] {
            for lambda in [None, Some(25.0)] {
                let params = DdmParams { laplacian, weld, rotation_smooth: lambda, ..DdmParams::default() };
                let ddm = made(&rig, &params);
                for variant in Variant::ALL {
                    let ddm = ddm.with_variant(variant);
                    for motion in [DAffine3::IDENTITY, rigid(0.3), rigid(2.1)] {
                        let posed = ddm_f64(&ddm, &vec![motion; rig.bone_count()]);
                        for (i, (got, u)) in posed.iter().zip(&rig.rest).enumerate() {
                            let expected = motion.transform_point3(u.as_dvec3()).as_vec3();
                            let off = got.distance(expected) / size;
                            assert!(off < 1e-5, "{name} {variant:?} {laplacian:?} vertex {i}: {off}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn any_pose_of_any_mesh_is_finite() {
    for (name, rig) in awkward_rigs() {
        let ddm = made(&rig, &DdmParams::default());
        let pose: Vec<DAffine3> = (0..rig.bone_count()).map(|j| rigid(j as f64)).collect();
        for variant in Variant::ALL {
            let (points, normals) = ddm_with_normals_f64(&ddm.with_variant(variant), &pose);
            assert!(points.iter().chain(&normals).all(|p| p.is_finite()), "{name} {variant:?}");
        }
    }
}

/// Mean distance over the frames of a clip.
fn distance(rig: &Rig, clip: usize, a: impl Fn(&[DAffine3]) -> Vec<Vec3>, b: impl Fn(&[DAffine3]) -> Vec<Vec3>) -> f64 {
    let clip = &rig.clips[clip];
    let squared: f64 = (0..clip.frame_count())
        .flat_map(|t| a(clip.frame(t)).into_iter().zip(b(clip.frame(t))).collect::<Vec<_>>())
        .map(|(a, b)| a.as_dvec3().distance_squared(b.as_dvec3()))
        .sum();
    (squared / (rig.vertex_count() * clip.frame_count()) as f64).sqrt()
}

#[test]
fn without_alpha_it_is_delta_mush() {
    let rig = bar(7, &BarParams { jitter: 0.35, ..BarParams::default() });
    let params = DdmParams { rotation_smooth: Some(6.0), alpha: 0.0, threshold: 0.0, ..DdmParams::default() };
    let ddm = made(&rig, &params);
    let plain = |pose: &[DAffine3]| crate::deform::lbs(&rig.rest, &rig.weights, pose);
    for clip in 0..2 {
        let direct = |pose: &[DAffine3]| ddm_f64(&ddm, pose);
        // The same rotations by iteration: nothing but rounding and the isotropic part may differ.
        let same = DeltaMush::new(&rig, &params, &DdmMaps::default(), Frames::Procrustes).unwrap();
        let off = distance(&rig, clip, direct, |pose| same.pose(pose));
        assert!(off < 2e-5, "clip {clip}: {off}");
        // Tangent frames, as published: a ninth of what the smoothing does.
        let classic = DeltaMush::new(&rig, &params, &DdmMaps::default(), Frames::Tangent).unwrap();
        let off = distance(&rig, clip, direct, |pose| classic.pose(pose));
        let effect = distance(&rig, clip, plain, |pose| classic.pose(pose));
        assert!(off < 0.13 * effect, "clip {clip}: {off} of {effect}");
    }
}

#[test]
fn steps_and_smoothness_per_vertex_agree_with_delta_mush_too() {
    let rig = bar(8, &BarParams { jitter: 0.2, ..BarParams::default() });
    let n = rig.vertex_count();
    let maps = DdmMaps {
        rotation_smooth: Some((0..n).map(|i| (i % 5) as f32).collect()),
        steps: Some((0..n).map(|i| 1.0 + (i % 3) as f32).collect()),
        ..DdmMaps::default()
    };
    let params = DdmParams { alpha: 0.0, threshold: 0.0, ..DdmParams::default() };
    let ddm = precompute(&rig, &params, &maps, &mut Silent).unwrap();
    let mush = DeltaMush::new(&rig, &params, &maps, Frames::Procrustes).unwrap();
    let off = distance(&rig, 0, |pose| ddm_f64(&ddm, pose), |pose| mush.pose(pose));
    assert!(off < 2e-5, "{off}");
}

/// Volume of a closed triangle mesh.
fn volume(rig: &Rig, points: &[Vec3]) -> f64 {
    let triangles = rig.surface.topology.vertex_triangles();
    let corner = |v: u32| points[v as usize].as_dvec3();
    triangles.iter().map(|t| corner(t[0]).dot(corner(t[1]).cross(corner(t[2]))) / 6.0).sum()
}

#[test]
fn a_twisted_bar_keeps_more_volume_than_linear_blending() {
    let params = BarParams { bones: 2, rings: 16, twist: 2.8, ..BarParams::default() };
    let rig = bar(9, &params);
    let ddm = made(&rig, &DdmParams { rotation_smooth: Some(12.0), alpha: 0.3, ..DdmParams::default() });
    let pose = rig.clips[1].frame(params.frames - 1);
    let rest = volume(&rig, &rig.rest);
    let kept = |variant: Variant| volume(&rig, &ddm_f64(&ddm.with_variant(variant), pose)) / rest;
    let (direct, linear) = (kept(Variant::V0), kept(Variant::V5));
    assert!(direct > linear + 0.05 && direct > 0.8, "{direct} {linear}");
}

#[test]
fn quaternions_bulge_at_a_bend_and_direct_delta_mush_pulls_in() {
    let params = BarParams { rings: 16, ..BarParams::default() };
    let rig = bar(10, &params);
    let pose = rig.clips[0].frame(params.frames - 1);
    // How far the outside of the bend stands off the joint along the bisector, over the half width.
    let out = DVec3::new(0.0, 1.0, -1.0).normalize();
    let bulge = |alpha: f64, variant: Variant| {
        let ddm = made(&rig, &DdmParams { rotation_smooth: Some(12.0), alpha, ..DdmParams::default() });
        let posed = ddm_f64(&ddm.with_variant(variant), pose);
        posed.iter().map(|p| (p.as_dvec3() - DVec3::Y).dot(out)).fold(0.0, f64::max) / params.width
    };
    let (direct, quaternions) = (bulge(0.5, Variant::V0), bulge(0.5, Variant::V4));
    assert!(direct < quaternions - 0.4, "direct {direct}, quaternions {quaternions}");
    // Alpha says how much.
    let by_alpha = [0.0, 0.5, 0.8, 0.95].map(|alpha| bulge(alpha, Variant::V0));
    assert!(by_alpha.is_sorted_by(|a, b| a < b), "{by_alpha:?}");
}

#[test]
fn more_translation_smoothing_makes_more_skin_slide() {
    let rig = bar(11, &BarParams { rings: 16, ..BarParams::default() });
    let slide = |kappa: f64| {
        let params = DdmParams {
            rotation_smooth: Some(12.0),
            translation_smooth: Some(kappa),
            alpha: 1.0 - 1e-3,
            ..DdmParams::default()
        };
        let ddm = made(&rig, &params);
        let posed = ddm_f64(&ddm, rig.clips[0].frame(4));
        let stiff = crate::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(4));
        // Vertices a good way from the joint: rigid there is where linear blending puts them.
        let far = rig.rest.iter().zip(posed.iter().zip(&stiff)).filter(|(u, _)| (u.y - 1.35).abs() < 0.1);
        let moved: Vec<f64> = far.map(|(_, (a, b))| f64::from(a.distance(*b))).collect();
        moved.iter().sum::<f64>() / moved.len() as f64
    };
    let (little, much) = (slide(0.5), slide(8.0));
    assert!(much > 1.8 * little, "{little} {much}");
}

#[test]
fn influences_are_few_and_dropping_small_ones_changes_little() {
    let rig = bar(12, &BarParams { bones: 6, ..BarParams::default() });
    let all = made(&rig, &DdmParams { threshold: 0.0, max_influences: 256, ..DdmParams::default() });
    let few = made(&rig, &DdmParams { threshold: 1e-3, ..DdmParams::default() });
    assert!(few.weights.influences() * 10 < all.weights.influences() * 9);
    let off = distance(&rig, 0, |pose| ddm_f64(&all, pose), |pose| ddm_f64(&few, pose));
    assert!(off < 1e-3, "{off}");
    let capped = made(&rig, &DdmParams { max_influences: 2, ..DdmParams::default() });
    assert_eq!(capped.weights.max_influences(), 2);
}

#[test]
fn units_and_resolution_do_not_change_the_shape() {
    let params = BarParams { rings: 10, around: 12, ..BarParams::default() };
    let rig = bar(13, &params);
    let mut large = rig.clone();
    large.rest.iter_mut().for_each(|p| *p *= 100.0);
    let scaled = |pose: &[DAffine3]| -> Vec<DAffine3> {
        pose.iter().map(|m| DAffine3 { translation: m.translation * 100.0, ..*m }).collect()
    };
    let (small, big) = (made(&rig, &DdmParams::default()), made(&large, &DdmParams::default()));
    let shrunk = |pose: &[DAffine3]| ddm_f64(&big, &scaled(pose)).iter().map(|p| *p / 100.0).collect();
    let off = distance(&rig, 0, |pose| ddm_f64(&small, pose), shrunk);
    assert!(off < 1e-5, "{off}");
    // Twice as fine: vertices that both have move alike.
    let fine = bar(13, &BarParams { rings: 20, around: 24, ..params });
    let ddm = made(&fine, &DdmParams::default());
    let coarse_posed = ddm_f64(&small, rig.clips[0].frame(4));
    let fine_posed = ddm_f64(&ddm, fine.clips[0].frame(4));
    let twin = |u: &Vec3| fine.rest.iter().position(|p| p.distance(*u) < 1e-4);
    let pairs = rig.rest.iter().enumerate().filter_map(|(i, u)| Some((i, twin(u)?)));
    let distances: Vec<f32> = pairs.map(|(i, k)| coarse_posed[i].distance(fine_posed[k])).collect();
    assert!(distances.len() > 200);
    let mean = distances.iter().sum::<f32>() / distances.len() as f32;
    assert!(mean < 0.02, "{mean}");
}

#[test]
fn seams_do_not_open() {
    // Every triangle with corners of its own: nothing but places joins them.
    let whole = bar(14, &BarParams::default());
    let corners: Vec<u32> = whole.surface.topology.corners().to_vec();
    let mut weights = SparseWeights::new(corners.len(), 1);
    for (i, &v) in corners.iter().enumerate() {
        let (bone, _) = whole.weights.of(v as usize).next().unwrap();
        weights.set(i, &[(bone, 1.0)]);
    }
    let triangles: Vec<[u32; 3]> = (0..corners.len() as u32 / 3).map(|t| [3 * t, 3 * t + 1, 3 * t + 2]).collect();
    let split = Rig {
        rest: corners.iter().map(|&v| whole.rest[v as usize]).collect(),
        surface: Arc::new(Surface::bare(Topology::from_triangles(&triangles))),
        weights,
        ..whole.clone()
    };
    let pose = whole.clips[0].frame(3);
    let expected = ddm_f64(&made(&whole, &DdmParams::default()), pose);
    let got = ddm_f64(&made(&split, &DdmParams::default()), pose);
    for (i, &v) in corners.iter().enumerate() {
        assert!(got[i].distance(expected[v as usize]) < 2e-6, "{i}");
    }
}

#[test]
fn bad_maps_and_parameters_are_named() {
    let rig = bar(15, &BarParams::default());
    let error = |params: &DdmParams, maps: &DdmMaps| {
        precompute(&rig, params, maps, &mut Silent).map(|_| ()).unwrap_err().to_string()
    };
    let plain = DdmParams::default();
    let short = DdmMaps { alpha: Some(vec![0.5; 3]), ..DdmMaps::default() };
    assert!(error(&plain, &short).contains("3 values"));
    let mut values = vec![1.0; rig.vertex_count()];
    values[7] = f32::NAN;
    let nan = DdmMaps { rotation_smooth: Some(values), ..DdmMaps::default() };
    assert!(error(&plain, &nan).contains("NaN at vertex 7"));
    for params in [
        DdmParams { alpha: 1.5, ..plain.clone() },
        DdmParams { steps: 0, ..plain.clone() },
        DdmParams { rotation_smooth: Some(-1.0), ..plain.clone() },
        DdmParams { translation_smooth: Some(f64::NAN), ..plain.clone() },
        DdmParams { max_influences: 0, ..plain.clone() },
    ] {
        assert!(error(&params, &DdmMaps::default()).contains("are possible"));
    }
}

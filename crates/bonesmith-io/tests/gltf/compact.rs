//! Small files: within their bound, in the source's order of vertices, and no larger the second time.

use bonesmith_core::BoneKind;
use bonesmith_core::Rig;
use bonesmith_core::deform::lbs;
use bonesmith_io::{Compact, file_bytes, load_rig, save_compact, save_rig};

use crate::rigs::Recipe;

/// Root mean square per coordinate between the poses of two rigs.
fn rms(a: &Rig, b: &Rig) -> f64 {
    assert_eq!((a.vertex_count(), a.clips.len()), (b.vertex_count(), b.clips.len()));
    let (mut sum, mut count) = (0.0, 0usize);
    for (clip, other) in a.clips.iter().zip(&b.clips) {
        assert_eq!(clip.times_secs.len(), other.times_secs.len(), "{}", clip.name);
        for (t, (secs, again)) in clip.times_secs.iter().zip(&other.times_secs).enumerate() {
            assert!((secs - again).abs() < 1e-6, "{secs} {again}");
            let (p, q) = (lbs(&a.rest, &a.weights, clip.frame(t)), lbs(&b.rest, &b.weights, other.frame(t)));
            sum += p.iter().zip(&q).map(|(p, q)| f64::from(p.distance_squared(*q))).sum::<f64>();
            count += 3 * p.len();
        }
    }
    (sum / count as f64).sqrt()
}

fn recipes() -> Vec<Rig> {
    let plain = [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine].map(|kind| Recipe::new("plain", kind).build());
    let seams = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    plain.into_iter().chain([seams]).collect()
}

#[test]
fn the_bound_holds_on_the_file_and_the_file_is_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    for rig in recipes() {
        save_rig(&rig, &path).unwrap();
        let whole = file_bytes(&path);
        let size = rig.rest.iter().map(|p| p.length()).fold(0.0, f32::max);
        for compressed in [true, false] {
            let mut last = u64::MAX;
            for share in [1e-5, 1e-3, 1e-2] {
                let compact = Compact { rms: share * f64::from(size), compressed };
                save_compact(&rig, &path, &compact).unwrap();
                let back = load_rig(&path).unwrap();
                let found = rms(&rig, &back);
                let bytes = file_bytes(&path);
                let what = format!("{} {:?} {share} {compressed}: {found:e}, {bytes} bytes", rig.name, rig.kind);
                assert!(found <= 1.02 * compact.rms, "{what}");
                assert!(bytes <= whole && bytes <= last, "{what}, {last} before, {whole} plain");
                last = bytes;
                assert_eq!(back.surface.topology.face_count(), rig.surface.topology.face_count());
            }
        }
    }
}

#[test]
fn weights_sum_to_one_as_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let rig = Recipe::new("weights", BoneKind::Rigid).build();
    save_compact(&rig, &path, &Compact { rms: 1e-2, compressed: true }).unwrap();
    let back = load_rig(&path).unwrap();
    for i in 0..back.vertex_count() {
        let sum: f64 = back.weights.of(i).map(|(_, w)| f64::from(w)).sum();
        assert!((sum - 1.0).abs() < 1e-6, "vertex {i}: {sum}");
    }
}

#[test]
fn a_pose_without_motion_and_a_bound_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.glb");
    let mut rig = Recipe::new("still", BoneKind::Rigid).build();
    let bones = rig.bone_count();
    for clip in &mut rig.clips {
        clip.times_secs.truncate(1);
        clip.posed_from_rest.truncate(bones);
    }
    for compressed in [true, false] {
        for rms in [0.0, 1e-3, 1e6] {
            save_compact(&rig, &path, &Compact { rms, compressed }).unwrap();
            assert_eq!(load_rig(&path).unwrap().vertex_count(), rig.vertex_count());
        }
    }
    rig.clips.clear();
    save_compact(&rig, &path, &Compact { rms: 1e-3, compressed: true }).unwrap();
    assert_eq!(load_rig(&path).unwrap().clips.len(), 0);
}

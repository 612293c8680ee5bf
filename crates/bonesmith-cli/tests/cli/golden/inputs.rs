//! Animations and rigs that rows read and that no one has to bring along.

use std::path::Path;

use bonesmith_core::synthetic::{BarParams, PosedRig, PosedRigParams, bar, clownfish, jointed_body, posed_rig};
use bonesmith_core::{BoneKind, Clip, MeshSequence, RawSequence, Rig, SparseWeights};
use bonesmith_io::{save_rig, save_sequence};
use glam::{DAffine3, DVec3, Vec3};

use crate::harness::write_npz;

/// Rows that read third-party data only.
pub fn none(_: &Path) {}

/// `walk.npz`: 8 soft affine bones, more than any row asks for, so that there is an error to pin. `start.npz` and
/// `stop.npz`: the same as two clips.
pub fn walk(folder: &Path) {
    let params =
        PosedRigParams { bones: 8, frames: 24, kind: BoneKind::Affine, softness: 0.4, ..PosedRigParams::default() };
    let walk = write_clips(posed_rig(11, &params).sequence, folder);
    assert_eq!(walk.frame_count(), 24);
}

/// `fish.npz`: the demo; long enough to be streamed.
pub fn fish(folder: &Path) {
    let fish = MeshSequence::try_from(clownfish()).expect("sound");
    assert!(fish.position_bytes() > 4 << 20, "{} bytes", fish.position_bytes());
    save_sequence(&fish, &folder.join("fish.npz")).expect("written");
}

/// `body.npz`: joints that turn.
pub fn body(folder: &Path) {
    write_npz(softened(jointed_body(5, 24, 2).sequence), &folder.join("body.npz"));
}

/// `rig.npz`: a tree of named bones; `bound.npz`: each vertex on its first bone only; `walk.npz`, `start.npz`,
/// `stop.npz`: its motion, and more than it can do; `cm.npz`: the same 100 times as large; `mask.obj`: every other vertex
/// red; `tall.obj`, `tall_walk.npz`: another body.
pub fn given(folder: &Path) {
    let PosedRig { rig, sequence } = jointed_body(4, 24, 3);
    let tall = |p: &Vec3| Vec3::new(p.x, 1.4 * p.y, p.z);
    let tall_rig = Rig { rest: rig.rest.iter().map(tall).collect(), ..rig.clone() };
    let clip = &rig.clips[0];
    let mut tall_walk = sequence.clone();
    tall_walk.rest.as_mut().expect("a rest pose").positions = tall_rig.rest.clone();
    for (t, frame) in tall_walk.frames.iter_mut().enumerate() {
        frame.positions = bonesmith_core::deform::lbs(&tall_rig.rest, &rig.weights, clip.frame(t));
    }
    write_npz(softened(tall_walk), &folder.join("tall_walk.npz"));
    let walk = write_clips(softened(sequence), folder);
    let cm = walk.placed(DAffine3::from_scale(DVec3::splat(100.0))).expect("sound");
    save_sequence(&cm, &folder.join("cm.npz")).expect("written");
    save_rig(&rig, &folder.join("rig.npz")).expect("written");
    save_rig(&bound(&rig), &folder.join("bound.npz")).expect("written");
    let lines = |positions: &[Vec3], red: fn(usize) -> &'static str| -> String {
        positions.iter().enumerate().map(|(i, p)| format!("v {} {} {}{}\n", p.x, p.y, p.z, red(i))).collect()
    };
    std::fs::write(folder.join("tall.obj"), lines(&tall_rig.rest, |_| "")).expect("written");
    // Colours are those of corners: there have to be faces.
    let face = |face: &[u32]| format!("f {} {} {} {}\n", face[0] + 1, face[1] + 1, face[2] + 1, face[3] + 1);
    let faces: String = rig.surface.topology.faces().map(face).collect();
    let mask = lines(&rig.rest, |i| if i % 2 == 0 { " 1 0 0" } else { " 0 0 0" }) + &faces;
    std::fs::write(folder.join("mask.obj"), mask).expect("written");
}

/// `bar.npz`: four bones, bound rigidly, which bend and twist.
pub fn bar_rig(folder: &Path) {
    let rig = bar(1, &BarParams { bones: 4, rings: 8, jitter: 0.2, ..BarParams::default() });
    save_rig(&rig, &folder.join("bar.npz")).expect("written");
}

/// A body that moves near the origin (`near.npz`), 1000 sizes away (`far.npz`), and from the one place to the other
/// (`leaving.npz`), with rigs that have each vertex on one bone (`near_rig.npz` and so on).
pub fn far(folder: &Path) {
    let PosedRig { rig, sequence } = jointed_body(4, 24, 3);
    let (low, high) =
        rig.rest.iter().fold((Vec3::INFINITY, Vec3::NEG_INFINITY), |(low, high), p| (low.min(*p), high.max(*p)));
    let away = DVec3::new(0.6, 0.0, 0.8) * 1000.0 * f64::from((high - low).length());
    let sequence = softened(sequence);
    for (name, rest, end) in [("near", DVec3::ZERO, DVec3::ZERO), ("far", away, away), ("leaving", DVec3::ZERO, away)] {
        let last = sequence.frames.len() - 1;
        let at = |t: usize| rest.lerp(end, t as f64 / last as f64);
        let mut moved = sequence.clone();
        shift(&mut moved.rest.as_mut().expect("a rest pose").positions, rest);
        moved.frames.iter_mut().enumerate().for_each(|(t, frame)| shift(&mut frame.positions, at(t)));
        write_npz(moved, &folder.join(format!("{name}.npz")));
        let mut rig = bound(&rig);
        shift(&mut rig.rest, rest);
        let home = DAffine3::from_translation(-rest);
        rig.bones.iter_mut().for_each(|bone| bone.world_from_bind = home.inverse() * bone.world_from_bind);
        let bones = rig.bones.len();
        let Clip { posed_from_rest, .. } = &mut rig.clips[0];
        for (k, posed) in posed_from_rest.iter_mut().enumerate() {
            *posed = DAffine3::from_translation(at(k / bones)) * *posed * home;
        }
        save_rig(&rig, &folder.join(format!("{name}_rig.npz"))).expect("written");
    }
}

/// Rounded once.
fn shift(positions: &mut [Vec3], by: DVec3) {
    positions.iter_mut().for_each(|p| *p = (p.as_dvec3() + by).as_vec3());
}

/// The whole as `walk.npz`, its parts as `start.npz` and `stop.npz`.
fn write_clips(raw: RawSequence, folder: &Path) -> MeshSequence {
    let walk = MeshSequence::try_from(raw).expect("sound");
    let cut = walk.frame_count() * 2 / 5;
    save_sequence(&walk, &folder.join("walk.npz")).expect("written");
    save_sequence(&walk.clone().with_frames(0..cut), &folder.join("start.npz")).expect("written");
    save_sequence(&walk.clone().with_frames(cut..walk.frame_count()), &folder.join("stop.npz")).expect("written");
    walk
}

/// Every vertex on the bone of its largest weight.
fn bound(rig: &Rig) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), 1);
    for i in 0..rig.vertex_count() {
        let (j, _) = rig.weights.of(i).next().expect("weights");
        weights.set(i, &[(j, 1.0)]);
    }
    Rig { weights, ..rig.clone() }
}

/// A wave that runs over the surface: no few bones can do it.
fn softened(mut raw: RawSequence) -> RawSequence {
    let rest = raw.rest.as_ref().expect("a rest pose").positions.clone();
    let turns = std::f64::consts::TAU / raw.frames.len() as f64;
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (p, r) in frame.positions.iter_mut().zip(&rest) {
            let phase = turns * t as f64 + 1.7 * f64::from(r.x) + 2.3 * f64::from(r.y);
            *p += Vec3::new(0.0, 0.03, 0.05) * phase.sin() as f32;
        }
    }
    raw
}

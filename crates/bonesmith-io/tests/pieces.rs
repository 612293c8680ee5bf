//! Rigid pieces as nodes, in every format that has them: each vertex where the rig has it, soft parts as a skin beside them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bonesmith_core::deform::lbs;
use bonesmith_core::fit::{BoneCount, FitParams};
use bonesmith_core::methods::fit;
use bonesmith_core::synthetic::pieces::{Hidden, WallParams, appearing, beside, robot_arm, soft_body, wall};
use bonesmith_core::{BoneKind, MeshSequence, RawSequence, Rig, Silent, Space, UpAxis};
use bonesmith_io::{
    FORMATS, LoadOptions, list_meshes, load_rig, load_sequence, piece_order, save_pieces, save_rig, with_warnings,
};
use glam::{DAffine3, DMat3, DVec3, Vec3};
use serde_json::json;

const WALL: WallParams =
    WallParams { columns: 5, rows: 4, frames: 12, split: false, welded: false, standing: 0.2, gap: 0.1 };

fn fitted(raw: RawSequence, bones: BoneCount) -> Rig {
    let sequence = MeshSequence::try_from(raw).unwrap();
    fit(&sequence, &FitParams { bones, ..FitParams::default() }, &mut Silent).unwrap().rig
}

/// 20 cubes and a soft body, whose vertices come first.
fn mixed() -> &'static Rig {
    static RIG: OnceLock<Rig> = OnceLock::new();
    RIG.get_or_init(|| {
        let raw = beside(soft_body(12), wall(&WALL), Vec3::new(9.0, 0.0, 0.0));
        Rig { name: "mixed".into(), ..fitted(raw, BoneCount::Auto) }
    })
}

fn endings() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().filter(|row| row.writes_nodes).map(|row| row.extensions[0])
}

fn pose(rig: &Rig, t: usize) -> Vec<Vec3> {
    lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t))
}

/// Largest distance of the file's vertices from the rig's.
fn worst(rig: &Rig, path: &Path) -> f32 {
    let read = load_sequence(&[path.to_owned()], &LoadOptions::default()).unwrap();
    let clip = &rig.clips[0];
    assert_eq!(read.frames.len(), clip.frame_count(), "{path:?}");
    assert!(read.times_secs.iter().zip(&clip.times_secs).all(|(a, b)| (a - b).abs() < 1e-6), "{path:?}");
    let order = piece_order(rig).unwrap();
    // Whatever the axes and units of the format: files of our own come back in their own.
    let apart = |t: usize| {
        assert_eq!(read.frames[t].positions.len(), order.len());
        let posed = pose(rig, t);
        let pairs = order.iter().zip(&read.frames[t].positions);
        pairs.map(|(&i, p)| p.distance(posed[i as usize])).fold(0.0, f32::max)
    };
    (0..clip.frame_count()).map(apart).fold(0.0, f32::max)
}

#[test]
fn pieces_come_back_from_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut far = fitted(wall(&WALL), BoneCount::Auto);
    let there = DAffine3::from_translation(DVec3::new(3e4, -2e4, 1e4));
    far = far.placed(there);
    let robot = fitted(robot_arm(12), BoneCount::Auto);
    let mut chained = robot.clone();
    (1..chained.bone_count()).for_each(|j| chained.bones[j].parent = Some(j - 1));
    let mut z_up = fitted(wall(&WallParams { split: true, ..WALL }), BoneCount::Auto);
    let space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    std::sync::Arc::make_mut(&mut z_up.surface).space = space;
    let rigs = [("far", far, 0.02), ("robot", robot, 2e-5), ("chained", chained, 2e-5), ("z_up", z_up, 2e-5)];
    for ending in endings() {
        for (name, rig, tolerance) in &rigs {
            let path = folder.path().join(format!("{name}.{ending}"));
            let (saved, warnings) = with_warnings(|| save_pieces(rig, &path));
            saved.unwrap();
            assert!(warnings.iter().all(|w| w.to_string().contains("faces between")), "{name}.{ending}: {warnings:?}");
            assert!(worst(rig, &path) < *tolerance, "{name}.{ending}: {}", worst(rig, &path));
            let names: Vec<String> = list_meshes(&path).unwrap().into_iter().map(|mesh| mesh.name).collect();
            let bones: Vec<&str> = rig.bones.iter().map(|bone| bone.name.as_str()).collect();
            assert_eq!((names.iter().map(String::as_str).collect::<Vec<_>>(), bones[0]), (bones, "piece_0001"));
            let refused = load_rig(&path).unwrap_err().to_string();
            assert!(refused.contains("no skinned mesh"), "{name}.{ending}: {refused}");
        }
    }
}

/// Pieces that shear need two nodes, others one: their order is kept.
#[test]
fn pieces_that_shear_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = fitted(wall(&WALL), BoneCount::Auto);
    rig.kind = BoneKind::Affine;
    let bones = rig.bone_count();
    let shear =
        |t: usize| DMat3::from_cols(DVec3::X * (1.0 + 0.05 * t as f64), DVec3::new(0.1 * t as f64, 1.0, 0.0), DVec3::Z);
    for (at, m) in rig.clips[0].posed_from_rest.iter_mut().enumerate().filter(|(at, _)| at % bones % 3 == 1) {
        m.matrix3 *= shear(at / bones);
    }
    for ending in endings() {
        let path = folder.path().join(format!("sheared.{ending}"));
        save_pieces(&rig, &path).unwrap();
        assert!(worst(&rig, &path) < 2e-5, "{ending}: {}", worst(&rig, &path));
    }
}

#[test]
fn soft_parts_are_a_skin_beside_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let rig = mixed();
    let pieces = rig.bones.iter().filter(|bone| bone.name.starts_with("piece_")).count();
    assert!(pieces > 10 && pieces < rig.bone_count(), "{pieces} of {}", rig.bone_count());
    for ending in endings() {
        let path = folder.path().join(format!("mixed.{ending}"));
        save_pieces(rig, &path).unwrap();
        assert!(worst(rig, &path) < 2e-5, "{ending}: {}", worst(rig, &path));
        assert_eq!(list_meshes(&path).unwrap().len(), pieces + 1, "{ending}");
        // As a rig, with a bone for each node.
        let read = load_rig(&path).unwrap();
        assert_eq!(read.bone_count(), rig.bone_count(), "{ending}");
    }
    let path = folder.path().join("mixed.gltf");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let joints = json["skins"].as_array().unwrap().iter().map(|skin| skin["joints"].as_array().unwrap().len());
    assert_eq!(joints.collect::<Vec<_>>(), [rig.bone_count() - pieces]);
}

/// Scale 0 before a piece appears: as nodes and as a skin, in every format.
#[test]
fn pieces_that_appear_later_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for hidden in [Hidden::InPlace, Hidden::AtOrigin, Hidden::FarAway] {
        let sequence = MeshSequence::try_from(appearing(&WALL, hidden)).unwrap();
        let rig = fit(&sequence, &FitParams::default(), &mut Silent).unwrap().rig;
        let off = |posed: &[Vec3], t: usize| {
            posed.iter().zip(sequence.frame(t).iter()).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max)
        };
        // Float32 is coarser far away.
        let tolerance = if hidden == Hidden::FarAway { 3e-4 } else { 2e-5 };
        let worst_fit = (0..WALL.frames).map(|t| off(&pose(&rig, t), t)).fold(0.0, f32::max);
        assert!(worst_fit < tolerance, "{hidden:?}: {worst_fit}");
        for ending in endings() {
            let path = folder.path().join(format!("{hidden:?}.{ending}"));
            save_pieces(&rig, &path).unwrap();
            assert!(worst(&rig, &path) < tolerance, "{hidden:?}.{ending}: {}", worst(&rig, &path));
            let path = folder.path().join(format!("{hidden:?}_skin.{ending}"));
            save_rig(&rig, &path).unwrap();
            let read = load_rig(&path).unwrap();
            let worst = (0..WALL.frames).map(|t| off(&pose(&read, t), t)).fold(0.0, f32::max);
            assert!(worst < tolerance, "{hidden:?}_skin.{ending}: {worst}");
        }
    }
}

#[test]
fn a_rig_without_pieces_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rig = fitted(soft_body(8), BoneCount::Exact(4));
    assert!(piece_order(&rig).is_none());
    for ending in endings() {
        let path = folder.path().join(format!("soft.{ending}"));
        let message = save_pieces(&rig, &path).unwrap_err().to_string();
        assert!(message.contains("vertex") && message.contains("influences") && !path.exists(), "{message}");
    }
}

/// Materials and corner attributes stay with their faces.
#[test]
fn surfaces_stay_with_their_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = mixed().clone();
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    use bonesmith_core::mesh::surface::{CornerAttribute, Material};
    let named = |name: &str| Material { name: name.into(), ..Material::default() };
    surface.materials = vec![named("red"), named("blue")];
    let faces = surface.topology.face_count();
    surface.face_materials = (0..faces as u32).map(|f| f % 2).collect();
    let corners = surface.topology.corners().len();
    let values = (0..corners).map(|c| [c as f32 / corners as f32, 0.25]).collect();
    surface.uv_sets = vec![CornerAttribute { name: "uv".into(), values, indices: (0..corners as u32).collect() }];
    // What lies on each face, by its original vertices.
    let on_faces = |surface: &bonesmith_core::Surface, vertex: &dyn Fn(u32) -> u32| {
        let of = |f: usize| {
            let mut corners: Vec<(u32, u32)> = surface
                .topology
                .corner_range(f)
                .map(|c| {
                    let uv = surface.uv_sets[0].values[surface.uv_sets[0].indices[c] as usize];
                    (vertex(surface.topology.corners()[c]), (uv[0] * corners as f32).round() as u32)
                })
                .collect();
            corners.sort_unstable();
            (corners, surface.materials[surface.face_materials[f] as usize].name.clone())
        };
        let mut all: Vec<_> = (0..surface.topology.face_count()).map(of).collect();
        all.sort();
        all
    };
    let order = piece_order(&rig).unwrap();
    let expected = on_faces(&rig.surface, &|i| i);
    for ending in endings() {
        let path = folder.path().join(format!("painted.{ending}"));
        save_pieces(&rig, &path).unwrap();
        let read = load_sequence(&[path], &LoadOptions::default()).unwrap();
        assert!(on_faces(&read.surface, &|i| order[i as usize]) == expected, "{ending}");
    }
}

fn folder() -> PathBuf {
    let folder = match std::env::var_os("BONESMITH_JUDGE_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judges"),
    };
    std::fs::create_dir_all(folder.join("usd")).unwrap();
    folder
}

/// Files for the outside judges in `tests/clients`, as `gltf/judges.rs` and `usd/judges.rs` write them.
///
/// `all_there`: the frame that distinguishes Blender's vertices, where the rest pose does not.
fn write_for_judges(name: &str, rig: &Rig, all_there: Option<usize>) {
    let list = |positions: Vec<Vec3>| positions.iter().map(|p| p.to_array()).collect::<Vec<_>>();
    let frames = [0, 1, 5, 9, rig.clips[0].frame_count() - 1];
    for ending in ["glb", "fbx"] {
        save_pieces(rig, &folder().join(format!("{name}.{ending}"))).unwrap();
    }
    let poses: Vec<_> = frames.iter().map(|&t| json!({ "frame": t, "positions": list(pose(rig, t)) })).collect();
    let reference = json!({ "fps": 24, "rest": list(rig.rest.clone()), "frames": poses, "match": all_there });
    std::fs::write(folder().join(format!("{name}.json")), reference.to_string()).unwrap();
    let order = piece_order(rig).unwrap();
    let in_order = |positions: Vec<Vec3>| list(order.iter().map(|&i| positions[i as usize]).collect());
    for ending in ["usda", "usdc", "usdz"] {
        let path = folder().join("usd").join(format!("{name}.{ending}"));
        save_pieces(rig, &path).unwrap();
        let meshes: Vec<String> = list_meshes(&path).unwrap().into_iter().map(|mesh| mesh.name).collect();
        let secs = |t: usize| rig.clips[0].times_secs[t];
        let poses = frames.iter().map(|&t| json!({ "secs": secs(t), "positions": in_order(pose(rig, t)) }));
        let soft = rig.bones.iter().filter(|bone| !bone.name.starts_with("piece_")).count();
        let reference = json!({
            "fps": 24.0, "up": "Y", "metres_per_unit": 1.0, "bones": soft, "meshes": meshes,
            "rest": in_order(rig.rest.clone()), "frames": poses.collect::<Vec<_>>(),
        });
        std::fs::write(folder().join("usd").join(format!("{name}.{ending}.json")), reference.to_string()).unwrap();
    }
}

#[test]
fn pieces_for_the_judges() {
    write_for_judges("nodes", &Rig { name: "nodes".into(), ..fitted(wall(&WALL), BoneCount::Auto) }, None);
    let later = fitted(appearing(&WALL, Hidden::InPlace), BoneCount::Auto);
    write_for_judges("nodes_that_appear", &Rig { name: "nodes_that_appear".into(), ..later }, Some(9));
    write_for_judges("nodes_and_skin", &Rig { name: "nodes_and_skin".into(), ..mixed().clone() }, None);
}

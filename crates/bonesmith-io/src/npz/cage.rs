//! Cages and other models `v = sum_j w_ij c_j` in archives: dense `weights` [N, J] and `controls` [F, J, 3].
//!
//! A control point is a bone whose matrix has no linear part, so that a cage is read as a rig and goes wherever rigs go.

use std::io::{self, Seek, Write};
use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use bonesmith_core::{Bone, BoneKind, Clip, Rig, SparseWeights};
use glam::{DAffine3, DMat3, DVec3, Vec3};

use super::archive::{Archive, Writer};
use super::{positions, stem, surface};
use crate::IoError;
use crate::weights::{BadWeights, weights_of_rows};

/// Whether an archive holds a cage.
pub fn is_cage_archive(archive: &Archive) -> bool {
    ["weights", "controls"].iter().all(|key| archive.has(key))
}

/// Whether every bone of a rig is a control point, in every frame.
pub fn is_cage(rig: &Rig) -> bool {
    let mut bones = rig.clips.iter().flat_map(|clip| &clip.posed_from_rest).peekable();
    bones.peek().is_some() && bones.all(|bone| bone.matrix3 == DMat3::ZERO)
}

/// Reads and checks a cage. Only `weights` and `controls` are needed; without `rest` the first frame is the rest pose.
pub fn load(archive: &mut Archive, bad: BadWeights) -> Result<Rig, IoError> {
    let path = archive.path().to_owned();
    let array = archive.required("controls")?;
    let [f, j, three] = array.shape()?;
    if three != 3 || f == 0 || j == 0 || j > 1 << 16 {
        return Err(array.bad(format!("shape [{f}, {j}, {three}], but [frames, 1 to 65536 points, 3] is expected")));
    }
    let controls = array.f64s()?;
    let weights = read_dense(archive, j, bad)?;
    let times_secs = match archive.array("times")? {
        Some(array) => array.f64s()?,
        None => (0..f).map(|t| t as f64 / DEFAULT_FPS).collect(),
    };
    let points = controls.as_chunks::<3>().0.iter().map(|&c| DVec3::from_array(c));
    let posed_from_rest: Vec<DAffine3> = points.map(|c| DAffine3::from_mat3_translation(DMat3::ZERO, c)).collect();
    let bone = |at: usize| Bone {
        name: format!("control_{at}"),
        parent: None,
        world_from_bind: DAffine3::from_translation(posed_from_rest[at].translation),
        tip: None,
    };
    let bones: Vec<Bone> = (0..j).map(bone).collect();
    let n = weights.vertex_count();
    let rest = match archive.array("rest")? {
        Some(array) => positions(array)?,
        None => lbs(&vec![Vec3::ZERO; n], &weights, &posed_from_rest[..j]),
    };
    let mut meta = surface::read_meta(archive)?;
    let surface = Arc::new(surface::read(archive, &mut meta)?);
    let name = meta.name.unwrap_or_else(|| stem(&path));
    let clips = vec![Clip { name: name.clone(), times_secs, posed_from_rest }];
    let params_json = String::new();
    let rig = Rig { name, rest, surface, weights, bones, kind: BoneKind::Affine, clips, params_json };
    rig.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(rig)
}

/// [N, J] weights as rows of those that are not 0.
fn read_dense(archive: &mut Archive, points: usize, bad: BadWeights) -> Result<SparseWeights, IoError> {
    let path = archive.path().to_owned();
    let array = archive.required("weights")?;
    let [_, j] = array.shape()?;
    if j != points {
        return Err(array.bad(format!("weights for {j} control points, but \"controls\" has {points}")));
    }
    let values = array.f64s()?;
    weights_of_rows(&values, j, bad).map_err(|what| IoError::Weights { path, what: format!("\"weights\": {what}") })
}

/// Writes the control points of a cage beside what every rig has.
pub fn write<W: Write + Seek>(writer: &mut Writer<W>, rig: &Rig) -> io::Result<()> {
    let f: usize = rig.clips.iter().map(Clip::frame_count).sum();
    let points = rig.clips.iter().flat_map(|clip| &clip.posed_from_rest);
    writer.array("controls", &[f, rig.bone_count(), 3], points.flat_map(|bone| bone.translation.to_array()))
}

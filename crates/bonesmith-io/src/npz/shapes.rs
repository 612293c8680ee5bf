//! Rigs with shapes in archives: a rig, and `shapes`, `shape_weights`, `shape_names` beside it.

use std::path::Path;

use bonesmith_core::{BlendShape, Clip, CorrectiveRig};
use glam::Vec3;

use super::archive::Archive;
use super::rig::{self, write_weights};
use crate::IoError;
use crate::weights::BadWeights;

/// Whether an archive holds a rig with shapes.
pub fn is_corrective(archive: &Archive) -> bool {
    rig::is_rig(archive) && archive.has("shapes")
}

/// Reads and checks a rig with shapes.
pub fn load(archive: &mut Archive, bad: BadWeights) -> Result<CorrectiveRig, IoError> {
    let path = archive.path().to_owned();
    let rig = rig::load(archive, bad)?;
    let array = archive.required("shapes")?;
    let [r, n, three] = array.shape()?;
    if (n, three) != (rig.vertex_count(), 3) {
        return Err(
            array.bad(format!("shape [{r}, {n}, {three}], but [shapes, {}, 3] is expected", rig.vertex_count()))
        );
    }
    let offsets: Vec<Vec3> = array.f32s()?.as_chunks::<3>().0.iter().map(|p| Vec3::from_array(*p)).collect();
    let array = archive.required("shape_weights")?;
    let frames: usize = rig.clips.iter().map(Clip::frame_count).sum();
    let [f, columns] = array.shape()?;
    if (f, columns) != (frames, r) {
        return Err(array.bad(format!("shape [{f}, {columns}], but [{frames}, {r}] is expected")));
    }
    let weights = array.f32s()?;
    let names = names(archive, r)?;
    let shape = |k: usize| {
        let mut start = 0;
        let of_clip = |clip: &Clip| {
            let frames = start..start + clip.frame_count();
            start = frames.end;
            frames.map(|t| weights[t * r + k]).collect()
        };
        BlendShape {
            name: names[k].clone(),
            offsets: offsets[k * n..(k + 1) * n].to_vec(),
            weights: rig.clips.iter().map(of_clip).collect(),
        }
    };
    let shapes = (0..r).map(shape).collect();
    let corrective = CorrectiveRig { rig, shapes };
    corrective.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(corrective)
}

/// Names of the shapes; numbers where the file has none.
fn names(archive: &mut Archive, count: usize) -> Result<Vec<String>, IoError> {
    let path = archive.path().to_owned();
    let Some(array) = archive.array("shape_names")? else {
        return Ok((0..count).map(|k| format!("shape_{k}")).collect());
    };
    let names: Vec<String> = serde_json::from_str(&array.text()?)
        .map_err(|e| IoError::malformed(&path, format!("array \"shape_names\": {e}")))?;
    match names.len() == count {
        true => Ok(names),
        false => Err(IoError::malformed(path, format!("{} \"shape_names\" for {count} shapes", names.len()))),
    }
}

/// Writes a rig with shapes.
pub fn save(corrective: &CorrectiveRig, path: &Path) -> Result<(), IoError> {
    let CorrectiveRig { rig, shapes } = corrective;
    corrective.check().map_err(|e| IoError::malformed(path, format!("the rig is not sound: {e}")))?;
    rig::save_with(rig, path, |writer| {
        write_weights(writer, ["joint_indices", "joint_weights"], &rig.weights)?;
        let offsets = shapes.iter().flat_map(|shape| shape.offsets.iter().flat_map(|d| d.to_array()));
        writer.array("shapes", &[shapes.len(), rig.vertex_count(), 3], offsets)?;
        let frames: usize = rig.clips.iter().map(Clip::frame_count).sum();
        let keys = rig.clips.iter().enumerate().flat_map(|(c, clip)| (0..clip.frame_count()).map(move |t| (c, t)));
        let weights = keys.flat_map(|(c, t)| shapes.iter().map(move |shape| shape.weights[c][t]));
        writer.array("shape_weights", &[frames, shapes.len()], weights)?;
        let names: Vec<&str> = shapes.iter().map(|shape| shape.name.as_str()).collect();
        writer.text("shape_names", &serde_json::json!(names).to_string())
    })
}

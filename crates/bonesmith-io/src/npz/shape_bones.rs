//! Bones driven by shapes in archives: a rig, and the numbers of the shapes beside it.

use std::path::Path;

use bonesmith_core::ShapeBones;
use bonesmith_core::model::shape_bones::{BoneShape, Driver, ShapeKind, ShapeNumber};
use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::rig::{self, write_weights};
use crate::IoError;
use crate::weights::BadWeights;

/// The array `shape_bones`, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Meta {
    kind: ShapeKind,
    shapes: Vec<ShapeMeta>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ShapeMeta {
    name: String,
    #[serde(default)]
    driver: Driver,
}

/// Whether an archive holds bones driven by shapes.
pub fn is_shape_bones(archive: &Archive) -> bool {
    rig::is_rig(archive) && archive.has("shape_bones")
}

/// Reads and checks bones driven by shapes.
pub fn load(archive: &mut Archive, bad: BadWeights) -> Result<ShapeBones, IoError> {
    let path = archive.path().to_owned();
    let rig = rig::load(archive, bad)?;
    let text = archive.required("shape_bones")?.text()?;
    let meta: Meta =
        serde_json::from_str(&text).map_err(|e| IoError::malformed(&path, format!("array \"shape_bones\": {e}")))?;
    let values = archive.required("shape_numbers")?.f32s()?;
    let bones = archive.required("shape_number_bones")?.integers(0, i64::from(u16::MAX))?;
    let components = archive.required("shape_number_components")?.integers(0, i64::from(u8::MAX))?;
    let starts = archive.required("shape_starts")?.indices()?;
    let rise = starts.windows(2).all(|pair| pair[0] <= pair[1]);
    let ends = starts.first() == Some(&0) && starts.last().is_some_and(|last| *last as usize == values.len());
    if !(rise && ends && starts.len() == meta.shapes.len() + 1) || [bones.len(), components.len()] != [values.len(); 2]
    {
        let (numbers, shapes) = (values.len(), meta.shapes.len());
        let what = format!("\"shape_starts\" and {numbers} \"shape_numbers\" do not fit {shapes} shapes");
        return Err(IoError::malformed(path, what));
    }
    let number = |at: usize| ShapeNumber { bone: bones[at] as u16, component: components[at] as u8, value: values[at] };
    let shape = |(s, ShapeMeta { name, driver }): (usize, ShapeMeta)| BoneShape {
        name,
        driver,
        numbers: (starts[s] as usize..starts[s + 1] as usize).map(number).collect(),
    };
    let face = ShapeBones { rig, kind: meta.kind, shapes: meta.shapes.into_iter().enumerate().map(shape).collect() };
    face.check().map_err(|e| IoError::malformed(path, e.to_string()))?;
    Ok(face)
}

/// Writes bones driven by shapes.
pub fn save(face: &ShapeBones, path: &Path) -> Result<(), IoError> {
    face.check().map_err(|e| IoError::malformed(path, format!("the model is not sound: {e}")))?;
    let meta = |shape: &BoneShape| ShapeMeta { name: shape.name.clone(), driver: shape.driver.clone() };
    let meta = Meta { kind: face.kind, shapes: face.shapes.iter().map(meta).collect() };
    let meta = serde_json::to_string(&meta).map_err(|e| IoError::malformed(path, e.to_string()))?;
    rig::save_with(&face.rig, path, |writer| {
        write_weights(writer, ["joint_indices", "joint_weights"], &face.rig.weights)?;
        let numbers = || face.shapes.iter().flat_map(|shape| &shape.numbers);
        let count = [face.number_count()];
        writer.array("shape_numbers", &count, numbers().map(|x| x.value))?;
        writer.array("shape_number_bones", &count, numbers().map(|x| x.bone))?;
        writer.array("shape_number_components", &count, numbers().map(|x| x.component))?;
        let mut end = 0;
        let ends = face.shapes.iter().map(|shape| {
            end += shape.numbers.len() as i32;
            end
        });
        writer.array("shape_starts", &[face.shapes.len() + 1], std::iter::once(0).chain(ends))?;
        writer.text("shape_bones", &meta)
    })
}

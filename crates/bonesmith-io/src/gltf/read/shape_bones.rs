//! Bones driven by shapes: the extension `BONESMITH_shape_bones` on the skin.

use bonesmith_core::model::shape_bones::{BoneShape, ShapeNumber};
use bonesmith_core::{Clip, ShapeBones};
use glam::DAffine3;
use gltf_json::Index;

use super::document::Document;
use super::model::Model;
use super::two_layer::extension;
use crate::IoError;
use crate::gltf::extras::{SHAPE_BONES_EXTENSION, ShapeBonesExtension};

/// What the extension adds to a plain rig; `None` if the file holds something else.
pub fn read(document: &Document) -> Result<Option<ShapeBonesExtension>, IoError> {
    extension(document, SHAPE_BONES_EXTENSION)
}

/// The model, in the space in which it was written.
pub fn load(
    content: ShapeBonesExtension,
    document: &Document,
    model: Model,
    fps: Option<f64>,
) -> Result<ShapeBones, IoError> {
    let broken = |what: String| document.malformed(format!("{SHAPE_BONES_EXTENSION}: {what}"));
    let what = |key: &str| format!("{SHAPE_BONES_EXTENSION}, {key}");
    let joints = document.integers::<1>(Index::new(content.joints), &what("joints"))?;
    let components = document.integers::<1>(Index::new(content.components), &what("components"))?;
    let values = document.floats::<1>(Index::new(content.numbers), &what("numbers"))?;
    let total = content.shapes.iter().fold(0usize, |sum, shape| sum.saturating_add(shape.count as usize));
    if [joints.len(), components.len()] != [values.len(); 2] || total > values.len() {
        let (j, c, v) = (joints.len(), components.len(), values.len());
        return Err(broken(format!("{j} joints, {c} components and {v} numbers do not fit shapes of {total} numbers")));
    }
    let turn = super::own_space(document).map_or(DAffine3::IDENTITY, |(_, turn)| turn);
    let scale = (turn * model.world_from_mesh).matrix3.x_axis.length() as f32;
    let mut rig = super::to_rig(document, model, fps)?;
    let number = |at: usize| {
        let ([joint], [component], [value]) = (joints[at], components[at], values[at]);
        let length = if component < 3 { scale } else { 1.0 };
        let (bone, component) = (u16::try_from(joint).ok()?, u8::try_from(component).ok()?);
        Some(ShapeNumber { bone, component, value: value * length })
    };
    let (mut start, mut shapes) = (0, Vec::with_capacity(content.shapes.len()));
    for shape in content.shapes {
        let range = start..start + shape.count as usize;
        start = range.end;
        let numbers: Option<Vec<ShapeNumber>> = range.map(number).collect();
        let numbers = numbers.ok_or_else(|| broken(format!("shape {:?} names joints that cannot be", shape.name)))?;
        shapes.push(BoneShape { name: shape.name, driver: shape.driver, numbers });
    }
    // The first clip follows from the numbers; a file that another program wrote may be without it.
    if rig.clips.first().is_none_or(|clip| clip.frame_count() != shapes.len()) {
        rig.clips.insert(0, Clip { name: String::new(), times_secs: Vec::new(), posed_from_rest: Vec::new() });
    }
    let mut face = ShapeBones { rig, kind: content.kind, shapes };
    let sound = face
        .shapes
        .iter()
        .flat_map(|shape| &shape.numbers)
        .all(|x| usize::from(x.bone) < face.rig.bone_count() && usize::from(x.component) < face.kind.numbers());
    if !sound {
        return Err(broken("a number names a joint or a component that does not exist".into()));
    }
    face.set_first_clip();
    face.check().map_err(|e| broken(e.to_string()))?;
    Ok(face)
}

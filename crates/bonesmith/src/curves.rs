//! Curves of shape weights as clips of bones.

use std::collections::HashMap;
use std::path::Path;

use bonesmith_core::model::shape_bones::Driver;
use bonesmith_core::{Rig, ShapeBones};
use bonesmith_io::Curves;

use crate::error::Error;
use crate::warning::{Noted, Warning};

/// The shapes that face capture on phones tracks. Names are compared without case and separators, and `_L` is `Left`.
pub const ARKIT_SHAPES: [&str; 52] = [
    "browDownLeft",
    "browDownRight",
    "browInnerUp",
    "browOuterUpLeft",
    "browOuterUpRight",
    "cheekPuff",
    "cheekSquintLeft",
    "cheekSquintRight",
    "eyeBlinkLeft",
    "eyeBlinkRight",
    "eyeLookDownLeft",
    "eyeLookDownRight",
    "eyeLookInLeft",
    "eyeLookInRight",
    "eyeLookOutLeft",
    "eyeLookOutRight",
    "eyeLookUpLeft",
    "eyeLookUpRight",
    "eyeSquintLeft",
    "eyeSquintRight",
    "eyeWideLeft",
    "eyeWideRight",
    "jawForward",
    "jawLeft",
    "jawOpen",
    "jawRight",
    "mouthClose",
    "mouthDimpleLeft",
    "mouthDimpleRight",
    "mouthFrownLeft",
    "mouthFrownRight",
    "mouthFunnel",
    "mouthLeft",
    "mouthLowerDownLeft",
    "mouthLowerDownRight",
    "mouthPressLeft",
    "mouthPressRight",
    "mouthPucker",
    "mouthRight",
    "mouthRollLower",
    "mouthRollUpper",
    "mouthShrugLower",
    "mouthShrugUpper",
    "mouthSmileLeft",
    "mouthSmileRight",
    "mouthStretchLeft",
    "mouthStretchRight",
    "mouthUpperUpLeft",
    "mouthUpperUpRight",
    "noseSneerLeft",
    "noseSneerRight",
    "tongueOut",
];

/// A name without case and separators, `_L` and `_R` as words.
fn plain(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let sided = [("l", "left"), ("r", "right")].iter().find_map(|(letter, word)| {
        let rest = lower.strip_suffix(letter)?;
        let stem = rest.strip_suffix(['_', '.', '-', ' '])?;
        Some(format!("{stem}{word}"))
    });
    sided.unwrap_or(lower).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The same without a side, where it has one.
fn without_side(plain: &str) -> Option<&str> {
    plain.strip_suffix("left").or_else(|| plain.strip_suffix("right")).filter(|stem| !stem.is_empty())
}

/// The rig of a face with one clip: bones for each frame of the curves. Columns are found by name; ARKit's names fit those with `_L` and `_R`, and a column
/// without a side moves both sides. Shapes without a column have the weight 0; driven shapes follow their rules. Columns that fit no shape are reported.
pub fn bake_curves(face: &ShapeBones, curves: &Curves, path: &Path) -> Result<Noted<Rig>, Error> {
    let columns: HashMap<String, usize> = curves.names.iter().enumerate().map(|(c, name)| (plain(name), c)).collect();
    let names: Vec<String> = face.shapes.iter().map(|shape| plain(&shape.name)).collect();
    let column = |name: &String| {
        let both = || without_side(name).and_then(|stem| columns.get(stem));
        columns.get(name).or_else(both).copied()
    };
    let of_shapes: Vec<Option<usize>> = names.iter().map(column).collect();
    if of_shapes.iter().all(Option::is_none) {
        let (have, want) = (curves.names.first(), face.shapes.first().map(|shape| &shape.name));
        let what = format!("curves: no column is named as a shape: there is {:?}, the first shape is {:?}", have, want);
        return Err(Error::Unsupported(what));
    }
    let mut warnings = Vec::new();
    let unused = |c: &usize| !of_shapes.contains(&Some(*c));
    let unused: Vec<&str> = (0..curves.names.len()).filter(unused).map(|c| curves.names[c].as_str()).collect();
    if !unused.is_empty() {
        let what = format!("columns that are no shapes: {}", unused.join(", "));
        warnings.push(Warning::from(bonesmith_io::Warning::LeftOut { path: path.to_owned(), what }));
    }
    let without = face.shapes.iter().zip(&of_shapes).filter(|(shape, c)| c.is_none() && shape.driver == Driver::Own);
    let without: Vec<&str> = without.map(|(shape, _)| shape.name.as_str()).collect();
    if !without.is_empty() {
        let what = format!("{} shapes without a column, which stay at 0: {}", without.len(), without.join(", "));
        warnings.push(Warning::from(bonesmith_io::Warning::LeftOut { path: path.to_owned(), what }));
    }
    let frame = |row: &Vec<f32>| of_shapes.iter().map(|c| c.map_or(0.0, |c| row[c])).collect::<Vec<f32>>();
    let frames: Vec<Vec<f32>> = curves.weights.iter().map(frame).collect();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut rig = face.rig.clone();
    rig.clips = vec![face.clip(&name, curves.times_secs.clone(), &frames)];
    Ok(Noted { value: rig, warnings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_face_capture_are_recognised() {
        for (ours, theirs) in
            [("browDown_L", "browDownLeft"), ("mouthSmile_R", "MouthSmileRight"), ("jawOpen", "JawOpen")]
        {
            assert_eq!(plain(ours), plain(theirs));
            assert!(ARKIT_SHAPES.iter().any(|name| plain(name) == plain(ours)), "{ours}");
        }
        assert_eq!(without_side(&plain("browInnerUp_L")), Some("browinnerup"));
        assert_eq!((plain("tail"), without_side("left")), ("tail".to_owned(), None));
    }
}

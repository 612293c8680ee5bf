//! Shapes whose weights lie between 0 and 1, as Blender and others take them, and back. Shapes of several meshes that are one.

use std::collections::HashMap;

use glam::Vec3;

use crate::BlendShape;
use crate::skinned::UniqueNames;

/// What the name of a shape in the opposite direction ends with.
const OPPOSITE: &str = "_negative";

/// The same shapes with weights from 0 to 1: negative weights go to a shape of their own in the opposite direction,
/// those beyond 1 into the offsets.
pub fn within_unit_weights(shapes: &[BlendShape]) -> Vec<BlendShape> {
    let mut out = Vec::new();
    for shape in shapes {
        for (sign, ending) in [(1.0f32, ""), (-1.0, OPPOSITE)] {
            let all = shape.weights.iter().flatten().map(|w| sign * w);
            let most = all.fold(0.0, f32::max);
            if most <= 0.0 && sign < 0.0 {
                continue;
            }
            let scale = if most > 1.0 { most } else { 1.0 };
            let weight = |w: &f32| (sign * w / scale).clamp(0.0, 1.0);
            out.push(BlendShape {
                name: format!("{}{ending}", shape.name),
                offsets: shape.offsets.iter().map(|offset| sign * scale * *offset).collect(),
                weights: shape.weights.iter().map(|clip| clip.iter().map(weight).collect()).collect(),
            });
        }
    }
    out
}

/// Joins every shape with the one after it that is its opposite.
pub fn joined(shapes: Vec<BlendShape>) -> Vec<BlendShape> {
    let mut out: Vec<BlendShape> = Vec::with_capacity(shapes.len());
    for shape in shapes {
        match out.last_mut().filter(|last| are_opposite(last, &shape)) {
            Some(last) => last
                .weights
                .iter_mut()
                .flatten()
                .zip(shape.weights.iter().flatten())
                .for_each(|(weight, other)| *weight -= other),
            None => out.push(shape),
        }
    }
    out
}

/// The shapes of all meshes, read mesh by mesh: those of one name and with the same weights, in meshes of their own, are one shape. What remains has a name of its own.
pub fn gathered(shapes: Vec<BlendShape>) -> Vec<BlendShape> {
    let mut out: Vec<BlendShape> = Vec::with_capacity(shapes.len());
    let mut of_name: HashMap<String, Vec<usize>> = HashMap::new();
    for shape in shapes {
        let known = of_name.entry(shape.name.clone()).or_default();
        match known.iter().find(|&&at| out[at].weights == shape.weights && are_apart(&out[at], &shape)) {
            Some(&at) => out[at].offsets.iter_mut().zip(&shape.offsets).for_each(|(to, d)| *to += *d),
            None => {
                known.push(out.len());
                out.push(shape);
            }
        }
    }
    let names: Vec<String> = out.iter().map(|shape| shape.name.clone()).collect();
    let mut unique = UniqueNames::new(names.iter().map(String::as_str));
    out.iter_mut().zip(&names).for_each(|(shape, name)| shape.name = unique.name(name));
    out
}

/// Whether no vertex is moved by both.
fn are_apart(a: &BlendShape, b: &BlendShape) -> bool {
    a.offsets.iter().zip(&b.offsets).all(|(d, e)| *d == Vec3::ZERO || *e == Vec3::ZERO)
}

/// Whether `b` is called the opposite of `a` and is, to rounding.
fn are_opposite(a: &BlendShape, b: &BlendShape) -> bool {
    let size = a.offsets.iter().map(|d| d.length()).fold(0f32, f32::max);
    b.name.strip_suffix(OPPOSITE) == Some(a.name.as_str())
        && a.offsets.iter().zip(&b.offsets).all(|(d, e)| (*d + *e).length() <= 1e-5 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(weights: &[f32]) -> BlendShape {
        BlendShape { name: "bulge".into(), offsets: vec![Vec3::X, Vec3::ZERO], weights: vec![weights.to_vec()] }
    }

    #[test]
    fn both_signs_are_two_shapes_and_one_again() {
        let given = vec![shape(&[0.5, -0.25, 1.0]), BlendShape { name: "other".into(), ..shape(&[0.0, 0.5, 0.5]) }];
        let apart = within_unit_weights(&given);
        let names: Vec<&str> = apart.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["bulge", "bulge_negative", "other"]);
        assert!(apart.iter().flat_map(|s| &s.weights[0]).all(|w| (0.0..=1.0).contains(w)));
        assert_eq!(apart[1].weights[0], [0.0, 0.25, 0.0]);
        assert_eq!(joined(apart), given);
    }

    #[test]
    fn shapes_of_several_meshes_are_one() {
        let other = BlendShape { offsets: vec![Vec3::ZERO, Vec3::Y], ..shape(&[0.5]) };
        let again = BlendShape { name: "bulge".into(), ..shape(&[0.25]) };
        let all = gathered(vec![shape(&[0.5]), other.clone(), again.clone(), other.clone()]);
        let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
        // A third mesh with the same vertices moved, and other weights, are shapes of their own.
        assert_eq!(names, ["bulge", "bulge.001", "bulge.002"]);
        assert_eq!(all[0].offsets, [Vec3::X, Vec3::Y]);
        assert_eq!((&all[1].offsets, &all[2].offsets), (&again.offsets, &other.offsets));
    }

    #[test]
    fn only_opposites_are_joined() {
        let other = BlendShape { name: "bulge_negative".into(), offsets: vec![Vec3::Y; 2], ..shape(&[1.0]) };
        let given = vec![shape(&[0.5]), other];
        assert_eq!(joined(given.clone()), given);
        let large = within_unit_weights(&[shape(&[4.0, 1.0])]);
        assert_eq!((large[0].offsets[0], large[0].weights[0][1]), (4.0 * Vec3::X, 0.25));
    }
}

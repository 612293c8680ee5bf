//! Regions of a model: where an error is, in words.
//!
//! The vertices that follow one bone most are a region, named after the bone. Bones that a fit numbered say nothing, so those are described
//! by their place in the rest pose's bounding box; a model without bones is divided into eight boxes.

use glam::{DVec3, Vec3};

use crate::mesh::sequence::MeshSequence;
use crate::mesh::space::UpAxis;
use crate::model::ModelRef;

/// Vertices by region.
pub(super) struct Regions {
    /// [N] region of each vertex.
    pub of_vertex: Vec<u16>,
    /// [R] name and number of vertices; those without a vertex stay unnamed.
    pub names: Vec<(String, usize)>,
}

impl Regions {
    pub fn new(model: Option<ModelRef<'_>>, sequence: &MeshSequence) -> Self {
        let rest = sequence.rest();
        let bones = model.and_then(|model| model.rig()).map_or(&[][..], |rig| &rig.bones);
        let boxes = Boxes::new(rest, sequence.surface().space.up);
        let of_vertex: Vec<u16> = match model.filter(|_| !bones.is_empty()) {
            Some(model) => {
                let strongest = |i: usize| {
                    let row = model.weights_on_bones(i);
                    row.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a }).map_or(0, |(j, _)| j as u16)
                };
                (0..rest.len()).map(strongest).collect()
            }
            None => rest.iter().map(|p| boxes.octant(*p)).collect(),
        };
        let count = if bones.is_empty() { 8 } else { bones.len() };
        let mut middles = vec![(DVec3::ZERO, 0usize); count];
        for (&region, p) in of_vertex.iter().zip(rest) {
            let (sum, vertices) = &mut middles[usize::from(region)];
            (*sum, *vertices) = (*sum + p.as_dvec3(), *vertices + 1);
        }
        let name = |(region, &(sum, vertices)): (usize, &(DVec3, usize))| {
            let place = || boxes.place((sum / vertices.max(1) as f64).as_vec3());
            match bones.get(region) {
                Some(bone) if !is_numbered(&bone.name) => (bone.name.clone(), vertices),
                Some(bone) => (format!("{} ({})", place(), bone.name), vertices),
                None => (place(), vertices),
            }
        };
        Self { names: middles.iter().enumerate().map(name).collect(), of_vertex }
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }
}

/// "bone_07", the names that fits give.
fn is_numbered(name: &str) -> bool {
    name.strip_prefix("bone_").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// The bounding box of a rest pose.
struct Boxes {
    low: Vec3,
    size: Vec3,
    up: usize,
}

impl Boxes {
    fn new(rest: &[Vec3], up: Option<UpAxis>) -> Self {
        let low = rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
        let high = rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
        Self { low, size: high - low, up: if up == Some(UpAxis::Z) { 2 } else { 1 } }
    }

    /// 0 to 1 along each axis; the middle where the box is flat.
    fn share(&self, p: Vec3) -> Vec3 {
        let at = (p - self.low) / self.size;
        Vec3::select(at.is_finite_mask(), at, Vec3::splat(0.5))
    }

    fn octant(&self, p: Vec3) -> u16 {
        let at = self.share(p);
        (0..3).map(|a| u16::from(at[a] > 0.5) << a).sum()
    }

    /// "top, +x side"; thirds of the box.
    fn place(&self, p: Vec3) -> String {
        let at = self.share(p);
        let end = |a: usize, words: [&str; 2]| match at[a] {
            x if x > 2.0 / 3.0 => Some(words[0].to_owned()),
            x if x < 1.0 / 3.0 => Some(words[1].to_owned()),
            _ => None,
        };
        let mut words: Vec<String> = end(self.up, ["top", "bottom"]).into_iter().collect();
        let across = [(0, ["+x", "-x"]), (1, ["+y", "-y"]), (2, ["+z", "-z"])];
        let across: Vec<String> =
            across.into_iter().filter(|(a, _)| *a != self.up).filter_map(|(a, words)| end(a, words)).collect();
        if !across.is_empty() {
            words.push(format!("{} side", across.join(" ")));
        }
        if words.is_empty() { "the middle".to_owned() } else { words.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn places_are_thirds_of_the_box() {
        let boxes = Boxes::new(&[Vec3::ZERO, Vec3::splat(3.0)], None);
        assert_eq!(boxes.place(Vec3::splat(1.5)), "the middle");
        assert_eq!(boxes.place(Vec3::new(2.9, 2.9, 0.1)), "top, +x -z side");
        assert_eq!(boxes.place(Vec3::new(1.5, 0.1, 1.5)), "bottom");
        let flat = Boxes::new(&[Vec3::ZERO, Vec3::X], Some(UpAxis::Z));
        assert_eq!(flat.place(Vec3::X), "+x side");
    }

    #[test]
    fn a_vertex_belongs_to_its_strongest_bone() {
        let mut made = posed_rig(5, &PosedRigParams::default());
        made.rig.bones[1].name = "tail".to_owned();
        made.rig.bones[0].name = "bone_00".to_owned();
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let regions = Regions::new(Some((&made.rig).into()), &sequence);
        assert_eq!(regions.names[1].0, "tail");
        assert!(regions.names[0].0.ends_with("(bone_00)"), "{}", regions.names[0].0);
        for (i, &region) in regions.of_vertex.iter().enumerate() {
            let own = made.rig.weights.of(i).find(|(j, _)| *j == usize::from(region)).unwrap().1;
            assert!(made.rig.weights.of(i).all(|(_, w)| w <= own));
        }
        let places = Regions::new(None, &sequence);
        assert_eq!((places.count(), places.names.iter().map(|n| n.1).sum::<usize>()), (8, sequence.vertex_count()));
    }
}

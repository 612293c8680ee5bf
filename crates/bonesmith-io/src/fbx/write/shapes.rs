//! Blend shapes of a mesh: a channel each, the offsets of the vertices that it moves, and curves of its weight in percent.
//!
//! Other programs keep weights between 0 and 100 percent (`crate::shapes`), and read curves with straight lines between their keys.

use std::io;

use bonesmith_core::BlendShape;
use glam::Vec3;

use super::Scene;
use super::binary::{Properties, Record};
use super::mesh::Mesh;

/// A weight of one, as FBX counts.
pub const PERCENT: f64 = 100.0;

/// The channels of all meshes: which object has the weights of which shape.
#[derive(Default)]
pub struct Channels(pub Vec<Channel>);

/// One channel.
pub struct Channel {
    /// Its object.
    pub id: i64,
    /// Number of its shape.
    pub shape: usize,
}

/// One shape of one mesh.
pub struct MeshShape<'a> {
    /// Number of the shape, for its curves.
    pub number: usize,
    /// Its name.
    pub name: &'a str,
    /// [vertices of the mesh].
    pub offsets: Vec<Vec3>,
}

impl Channels {
    /// Adds the shapes of a mesh.
    pub fn write<'a>(
        &mut self,
        scene: &mut Scene,
        mesh: &Mesh,
        shapes: impl Iterator<Item = MeshShape<'a>>,
    ) -> io::Result<()> {
        let mut shapes = shapes.peekable();
        if shapes.peek().is_none() {
            return Ok(());
        }
        let deformer = scene.id();
        let record = Record::new("Deformer").i64(deformer).object("shapes", "Deformer").text("BlendShape");
        scene.object("Deformer", record.child(Record::new("Version").i32(100)));
        scene.connect(deformer, mesh.geometry);
        for shape in shapes {
            let geometry = write_offsets(scene, &shape)?;
            let id = scene.id();
            let record = Record::new("Deformer").i64(id).object(shape.name, "SubDeformer").text("BlendShapeChannel");
            let record = record.children([
                Record::new("Version").i32(100),
                Record::new("DeformPercent").f64(0.0),
                Properties::new().animated("DeformPercent", 0.0).done(),
                Record::new("FullWeights").f64s([PERCENT])?,
            ]);
            scene.object("Deformer", record);
            scene.connect(id, deformer);
            scene.connect(geometry, id);
            self.0.push(Channel { id, shape: shape.number });
        }
        Ok(())
    }
}

fn write_offsets(scene: &mut Scene, shape: &MeshShape<'_>) -> io::Result<i64> {
    let id = scene.id();
    let moved = || shape.offsets.iter().enumerate().filter(|(_, d)| **d != Vec3::ZERO);
    let record = Record::new("Geometry").i64(id).object(shape.name, "Geometry").text("Shape").children([
        Record::new("Version").i32(100),
        Properties::new().done(),
        Record::new("Indexes").i32s(moved().map(|(i, _)| i as i32))?,
        Record::new("Vertices").f64s(moved().flat_map(|(_, d)| d.to_array().map(f64::from)))?,
        // Readers expect them; that normals stay as they are is what Blender writes too.
        Record::new("Normals").f64s(moved().flat_map(|_| [0.0; 3]))?,
    ]);
    scene.object("Geometry", record);
    Ok(id)
}

/// Some shapes on a part of the vertices.
pub fn of_vertices<'a>(
    shapes: &'a [BlendShape],
    numbers: impl IntoIterator<Item = usize>,
    vertices: std::ops::Range<usize>,
) -> impl Iterator<Item = MeshShape<'a>> {
    numbers.into_iter().map(move |number| MeshShape {
        number,
        name: &shapes[number].name,
        offsets: shapes[number].offsets[vertices.clone()].to_vec(),
    })
}

/// Frames of a weight that need a key: where it begins or ends to change, and the first and the last one. A weight that stands still has one key.
pub fn keys(weights: &[f64]) -> Vec<usize> {
    let last = weights.len().saturating_sub(1);
    if weights.iter().all(|w| *w == weights[0]) {
        return (0..weights.len().min(1)).collect();
    }
    let changes = |t: usize| t == 0 || t == last || weights[t - 1] != weights[t] || weights[t + 1] != weights[t];
    (0..weights.len()).filter(|&t| changes(t)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_where_a_weight_changes() {
        assert_eq!(keys(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), [0, 2, 3, 4, 7]);
        assert_eq!(keys(&[1.0, 0.0, 0.0, 0.0]), [0, 1, 3]);
        assert_eq!(keys(&[0.5, 0.5]), [0]);
        assert_eq!(keys(&[0.5]), [0]);
        assert!(keys(&[]).is_empty());
    }
}

//! A clownfish that swims on the spot for two seconds, and over again.
//!
//! `shape` builds it straight, `motion` bends it; every position is a function of a rest position and the phase,
//! so the animation is smooth and its end meets its beginning.

mod fins;
mod motion;
mod shape;

use glam::DVec3;

use self::motion::Pose;
use crate::mesh::sequence::RawSequence;
use crate::synthetic::mesh;

/// Frames of the animation; one more would be the first again.
pub const FISH_FRAMES: usize = 60;

/// Frames per second.
const FPS: f64 = 30.0;

/// Which part of the fish a vertex belongs to. Sides are -1 (right) and 1 (left, +x).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Body,
    Eye(f64),
    Tail,
    /// Fins in the plane of symmetry: 1 on the back, -1 at the belly.
    Median(f64),
    Pectoral(f64),
    Pelvic(f64),
}

/// One vertex of the straight fish.
#[derive(Clone, Copy, Debug)]
struct FishVertex {
    /// Side (left is positive), up, and distance from the nose towards the tail, in body lengths.
    place: DVec3,
    part: Part,
    /// Place on a fin: along its root (-1 or 0 to 1) and from root (0) to edge (1).
    u: f64,
    v: f64,
}

/// The demo animation: a clownfish of about 7500 vertices (quads and triangles, UVs, normals, 3 materials), 60
/// frames at 30 per second. Looks along +z, up is +y, one unit is its length without the tail fin.
///
/// The body bends in a travelling wave; belly, gills and mouth swell; fins ripple and flap: too soft for a few
/// rigid bones, which is the point.
pub fn clownfish() -> RawSequence {
    let (vertices, faces, materials) = shape::build();
    let frame = |pose: &Pose| mesh::frame(vertices.iter().map(|vertex| pose.place(vertex)).collect());
    let rest = frame(&Pose::straight());
    let surface = faces.finish(&rest.positions, materials);
    let frames = (0..FISH_FRAMES).map(|t| frame(&Pose::swimming(t as f64 / FISH_FRAMES as f64))).collect();
    RawSequence { name: "clownfish".into(), rest: Some(rest), frames, fps: FPS, surface, ..RawSequence::default() }
}

#[cfg(test)]
mod tests {
    use glam::Vec3;

    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::mesh::topology::Adjacency;

    #[test]
    fn is_sound_and_of_the_promised_size() {
        let sequence = MeshSequence::try_from(clownfish()).unwrap();
        assert!((5000..=8000).contains(&sequence.vertex_count()), "{}", sequence.vertex_count());
        assert_eq!(sequence.frame_count(), 60);
        let surface = sequence.surface();
        assert_eq!(surface.materials.len(), 3);
        assert!((0..3).all(|m| surface.face_materials.contains(&m)));
        let corner_counts: Vec<usize> = surface.topology.faces().map(<[u32]>::len).collect();
        assert!(corner_counts.contains(&3) && corner_counts.contains(&4));
        let adjacency = Adjacency::new(&surface.topology, sequence.vertex_count());
        assert!((0..sequence.vertex_count()).all(|i| !adjacency.of(i).is_empty()), "no isolated vertices");
    }

    /// The step from the last frame to the first is like any other step.
    #[test]
    fn loops_smoothly() {
        let fish = clownfish();
        let step = |a: usize, b: usize| {
            let pairs = fish.frames[a].positions.iter().zip(&fish.frames[b].positions);
            pairs.map(|(p, q)| p.distance(*q)).fold(0.0f32, f32::max)
        };
        let largest = (1..FISH_FRAMES).map(|t| step(t - 1, t)).fold(0.0, f32::max);
        assert!(step(FISH_FRAMES - 1, 0) <= 1.05 * largest);
        assert!(largest < 0.15, "{largest}");
    }

    /// Faces look outward: every piece has a positive volume about its own middle.
    #[test]
    fn is_not_inside_out() {
        let fish = clownfish();
        let rest = fish.rest.unwrap().positions;
        let (piece, pieces) = Adjacency::new(&fish.surface.topology, rest.len()).components();
        assert_eq!(pieces, 10, "body, two eyes, tail, two fins in the middle, two pairs");
        for p in 0..pieces {
            let inside: Vec<Vec3> =
                rest.iter().zip(&piece).filter(|(_, q)| **q as usize == p).map(|(v, _)| *v).collect();
            let middle = inside.iter().sum::<Vec3>() / inside.len() as f32;
            let triangles = fish.surface.topology.vertex_triangles();
            let own = triangles.iter().filter(|t| piece[t[0] as usize] as usize == p);
            let corners = own.map(|t| t.map(|v| (rest[v as usize] - middle).as_dvec3()));
            let volume: f64 = corners.map(|[a, b, c]| a.dot(b.cross(c)) / 6.0).sum();
            assert!(volume > 1e-6, "piece {p}: {volume}");
        }
    }
}

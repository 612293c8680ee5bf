//! Small animations with the oddities of real files. All are valid: a fit must handle every one of them.

use std::f32::consts::TAU;

use glam::{Quat, Vec3};

use crate::mesh::sequence::RawSequence;
use crate::mesh::surface::Surface;
use crate::mesh::topology::Topology;
use crate::synthetic::mesh::{frame, tube};

/// Every awkward animation with its name.
pub fn all() -> Vec<(&'static str, RawSequence)> {
    vec![
        ("single-frame", single_frame()),
        ("no-motion", no_motion()),
        ("isolated-vertices", isolated_vertices()),
        ("duplicate-vertices", duplicate_vertices()),
        ("several-components", several_components()),
        ("non-manifold-edges", non_manifold_edges()),
        ("many-corners", many_corners()),
        ("point-cloud", point_cloud()),
        ("flat", flat()),
        ("smallest", smallest()),
    ]
}

const RINGS: usize = 8;
const SEGMENTS: usize = 6;
const FRAMES: usize = 10;

/// An open tube of quads along y that bends to and fro: the plain case that the others spoil.
pub fn bending_tube() -> RawSequence {
    let mut topology = Topology::empty();
    tube(RINGS, SEGMENTS).for_each(|quad| topology.push_face(&quad));
    let vertex = |at: usize| {
        let angle = TAU * (at % SEGMENTS) as f32 / SEGMENTS as f32;
        Vec3::new(0.4 * angle.cos(), 0.5 * (at / SEGMENTS) as f32, 0.4 * angle.sin())
    };
    sequence("bending_tube", (0..RINGS * SEGMENTS).map(vertex).collect(), topology, FRAMES)
}

/// `rest` bent about the x axis, more with height.
fn sequence(name: &str, rest: Vec<Vec3>, topology: Topology, frames: usize) -> RawSequence {
    let bent = |t: usize| {
        let swing = (TAU * t as f32 / FRAMES as f32).sin();
        rest.iter().map(|p| Quat::from_rotation_x(0.25 * swing * p.y) * *p).collect()
    };
    RawSequence {
        name: name.to_owned(),
        frames: (0..frames).map(|t| frame(bent(t))).collect(),
        fps: 24.0,
        surface: Surface::bare(topology),
        ..RawSequence::default()
    }
}

/// The same change to every frame.
fn each_frame(mut raw: RawSequence, change: impl Fn(&mut Vec<Vec3>)) -> RawSequence {
    raw.frames.iter_mut().for_each(|frame| change(&mut frame.positions));
    raw
}

/// One frame only.
pub fn single_frame() -> RawSequence {
    let mut raw = bending_tube();
    raw.frames.truncate(1);
    raw
}

/// Ten equal frames.
pub fn no_motion() -> RawSequence {
    let mut raw = bending_tube();
    let first = raw.frames[0].clone();
    raw.frames.fill(first);
    raw
}

/// Vertices that no face names.
pub fn isolated_vertices() -> RawSequence {
    each_frame(bending_tube(), |positions| {
        let extra: Vec<Vec3> = positions.iter().step_by(7).map(|p| *p * 1.5).collect();
        positions.extend(extra);
    })
}

/// Every third vertex there twice, the copies in no face.
pub fn duplicate_vertices() -> RawSequence {
    each_frame(bending_tube(), |positions| {
        let copies: Vec<Vec3> = positions.iter().step_by(3).copied().collect();
        positions.extend(copies);
    })
}

/// Three tubes that move apart.
pub fn several_components() -> RawSequence {
    let mut raw = bending_tube();
    let n = raw.frames[0].positions.len();
    let faces: Vec<Vec<u32>> = raw.surface.topology.faces().map(<[u32]>::to_vec).collect();
    for copy in 1..3 {
        let shifted = |face: &Vec<u32>| face.iter().map(|v| v + (copy * n) as u32).collect::<Vec<u32>>();
        faces.iter().for_each(|face| raw.surface.topology.push_face(&shifted(face)));
    }
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for copy in 1..3 {
            let offset = Vec3::new(copy as f32 * (1.5 + 0.05 * t as f32), 0.0, 0.0);
            frame.positions.extend_from_within(..n);
            frame.positions[copy * n..].iter_mut().for_each(|p| *p += offset);
        }
    }
    raw
}

/// Walls inside the tube: edges with three and four faces.
pub fn non_manifold_edges() -> RawSequence {
    let mut raw = bending_tube();
    for r in 0..RINGS as u32 - 1 {
        let (low, high) = (r * SEGMENTS as u32, (r + 1) * SEGMENTS as u32);
        raw.surface.topology.push_face(&[low, low + 3, high + 3, high]);
        raw.surface.topology.push_face(&[low + 1, low + 4, high + 4, high + 1]);
        raw.surface.topology.push_face(&[low, high, high + 3]);
    }
    raw
}

/// Both ends closed with a hexagon.
pub fn many_corners() -> RawSequence {
    let mut raw = bending_tube();
    let ring = |r: usize| (0..SEGMENTS).map(move |c| (r * SEGMENTS + c) as u32);
    raw.surface.topology.push_face(&ring(0).rev().collect::<Vec<_>>());
    raw.surface.topology.push_face(&ring(RINGS - 1).collect::<Vec<_>>());
    raw
}

/// No faces at all.
pub fn point_cloud() -> RawSequence {
    RawSequence { surface: Surface::bare(Topology::empty()), ..bending_tube() }
}

/// A sheet in one plane that moves within it.
pub fn flat() -> RawSequence {
    each_frame(bending_tube(), |positions| positions.iter_mut().for_each(|p| p.x = 0.0))
}

/// Four vertices, the fewest there can be.
pub fn smallest() -> RawSequence {
    let rest = vec![Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z];
    let topology = Topology::from_triangles(&[[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]);
    sequence("smallest", rest, topology, FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::mesh::topology::Adjacency;

    #[test]
    fn all_pass_the_door() {
        for (name, raw) in all() {
            assert!(MeshSequence::try_from(raw).is_ok(), "{name}");
        }
    }

    #[test]
    fn each_has_its_oddity() {
        let pieces =
            |raw: &RawSequence| Adjacency::new(&raw.surface.topology, raw.frames[0].positions.len()).components().1;
        assert_eq!(pieces(&bending_tube()), 1);
        assert_eq!(pieces(&several_components()), 3);
        assert!(pieces(&isolated_vertices()) > 1);
        assert!(many_corners().surface.topology.faces().any(|face| face.len() > 4));
        assert_eq!(no_motion().frames[0].positions, no_motion().frames[9].positions);
        assert_ne!(bending_tube().frames[0].positions, bending_tube().frames[2].positions);
    }
}

//! Animations of rigid parts: a wall that breaks, rubble, a robot arm, and parts beside soft bodies.

use std::f64::consts::TAU;

use glam::{DAffine3, DQuat, DVec3, Vec3};

use crate::mesh::sequence::RawSequence;
use crate::mesh::surface::Surface;
use crate::mesh::topology::Topology;
use crate::solve::random::Random;
use crate::synthetic::mesh::{frame, tube};

/// A wall of loose cubes, 1 unit each, that a blow breaks from one point on.
#[derive(Clone, Copy, Debug)]
pub struct WallParams {
    /// Cubes along the wall.
    pub columns: usize,
    /// Cubes above each other.
    pub rows: usize,
    /// Frames, at 24 per second.
    pub frames: usize,
    /// Every face has vertices of its own: 24 of a cube instead of 8.
    pub split: bool,
    /// Faces join neighbouring cubes, so that the wall is one connected mesh; they stretch when it breaks.
    pub welded: bool,
    /// Share of the cubes that stay where they are.
    pub standing: f64,
    /// Distance between neighbouring cubes.
    pub gap: f64,
}

impl Default for WallParams {
    /// 300 cubes, 2400 vertices, 80 frames; all of them fall.
    fn default() -> Self {
        Self { columns: 20, rows: 15, frames: 80, split: false, welded: false, standing: 0.0, gap: 0.0 }
    }
}

/// 10,000 cubes of 24 vertices, 250 frames.
pub const RUBBLE: WallParams =
    WallParams { columns: 125, rows: 80, frames: 250, split: true, welded: false, standing: 0.0, gap: 0.0 };

/// Corners of a cube about its centre; bits of the number are x, y, z.
fn corner(at: usize) -> DVec3 {
    DVec3::new((at & 1) as f64, (at >> 1 & 1) as f64, (at >> 2 & 1) as f64) - 0.5
}

/// Faces of a cube, counterclockwise from outside.
const FACES: [[usize; 4]; 6] = [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]];

/// A wall that breaks.
pub fn wall(params: &WallParams) -> RawSequence {
    let count = params.columns * params.rows;
    let centre = |j: usize| {
        let (column, row) = ((j % params.columns) as f64, (j / params.columns) as f64);
        DVec3::new(column - 0.5 * params.columns as f64, row, 0.0) * (1.0 + params.gap) + DVec3::Y * 0.5
    };
    let centres: Vec<DVec3> = (0..count).map(centre).collect();
    let local: Vec<DVec3> = match params.split {
        true => FACES.iter().flatten().map(|&at| corner(at)).collect(),
        false => (0..8).map(corner).collect(),
    };
    let mut topology = Topology::empty();
    for j in 0..count as u32 {
        for (at, face) in FACES.iter().enumerate() {
            let first = j * local.len() as u32;
            let vertex = |k: usize| first + if params.split { 4 * at + k } else { face[k] } as u32;
            topology.push_face(&[vertex(0), vertex(1), vertex(2), vertex(3)]);
        }
        if params.welded && !params.split {
            weld(&mut topology, j, params);
        }
    }
    let motions: Vec<Fall> = centres.iter().enumerate().map(|(j, c)| Fall::new(j, *c, params)).collect();
    let positions = |t: usize| {
        let posed =
            centres.iter().zip(&motions).map(|(c, motion)| motion.at(t as f64) * DAffine3::from_translation(*c));
        posed.flat_map(|m| local.iter().map(move |p| m.transform_point3(*p).as_vec3())).collect()
    };
    sequence("wall", (0..params.frames).map(positions).collect(), topology)
}

/// Where the vertices of a piece are while it does not exist, as simulators write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// In one point, where it will appear.
    InPlace,
    /// In one point at the origin.
    AtOrigin,
    /// As it is, but far away.
    FarAway,
}

/// A wall of which two in three cubes appear later, and some of those vanish again.
pub fn appearing(params: &WallParams, hidden: Hidden) -> RawSequence {
    let mut raw = wall(params);
    let each = if params.split { 24 } else { 8 };
    let frames = raw.frames.len();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (j, cube) in frame.positions.chunks_mut(each).enumerate() {
            let first = frames * (j % 3) / 6 + (j % 3) * (j % 5) / 2;
            let end = if j % 7 == 4 { 5 * frames / 6 } else { frames };
            if (first..end).contains(&t) {
                continue;
            }
            let centre = cube.iter().sum::<Vec3>() / each as f32;
            match hidden {
                Hidden::InPlace => cube.fill(centre),
                Hidden::AtOrigin => cube.fill(Vec3::ZERO),
                Hidden::FarAway => cube.iter_mut().for_each(|p| *p += Vec3::new(0.0, -1000.0, 0.0)),
            }
        }
    }
    raw
}

/// Faces from cube `j` to its neighbours at the right and above.
fn weld(topology: &mut Topology, j: u32, params: &WallParams) {
    let columns = params.columns as u32;
    if j % columns + 1 < columns {
        let (a, b) = (8 * j, 8 * (j + 1));
        topology.push_face(&[a + 1, b, b + 2, a + 3]);
        topology.push_face(&[a + 5, a + 7, b + 6, b + 4]);
    }
    if ((j / columns + 1) as usize) < params.rows {
        let (a, b) = (8 * j, 8 * (j + columns));
        topology.push_face(&[a + 2, a + 3, b + 1, b]);
        topology.push_face(&[a + 6, b + 4, b + 5, a + 7]);
    }
}

/// How one cube flies.
struct Fall {
    centre: DVec3,
    /// Frame in which it leaves the wall; infinite if never.
    start: f64,
    /// Units per frame.
    velocity: DVec3,
    /// Radians per frame.
    spin: DVec3,
    /// Frames until it lies on the floor.
    flight: f64,
}

/// Units per frame squared.
const GRAVITY: f64 = 0.02;

impl Fall {
    fn new(j: usize, centre: DVec3, params: &WallParams) -> Self {
        let mut random = Random::new(j as u64 + 1);
        let blow = DVec3::new(-0.1 * params.columns as f64, 0.4 * params.rows as f64, 0.0);
        let reach = DVec3::new(params.columns as f64, params.rows as f64, 0.0).length();
        let away = centre - blow;
        let start = 2.0 + 0.5 * params.frames as f64 * away.length() / reach;
        let force = 0.4 / (1.0 + 4.0 * away.length() / reach);
        let velocity = away.normalize_or(DVec3::X) * (0.5 * force) + DVec3::Z * force + random.vector() * 0.1;
        let drop = centre.y - 0.5;
        let flight = (velocity.y + (velocity.y * velocity.y + 2.0 * GRAVITY * drop).max(0.0).sqrt()) / GRAVITY;
        let stays = random.unit() < params.standing;
        let start = if stays { f64::INFINITY } else { start };
        Self { centre, start, velocity, spin: random.vector() * 0.15, flight: flight.max(4.0) }
    }

    fn at(&self, t: f64) -> DAffine3 {
        let time = (t - self.start).clamp(0.0, self.flight);
        let moved = self.velocity * time - DVec3::Y * (0.5 * GRAVITY * time * time);
        let turn = DAffine3::from_quat(DQuat::from_scaled_axis(self.spin * time));
        DAffine3::from_translation(self.centre + moved) * turn * DAffine3::from_translation(-self.centre)
    }
}

fn sequence(name: &str, positions: Vec<Vec<Vec3>>, topology: Topology) -> RawSequence {
    RawSequence {
        name: name.to_owned(),
        frames: positions.into_iter().map(frame).collect(),
        fps: 24.0,
        surface: Surface::bare(topology),
        ..RawSequence::default()
    }
}

/// Adds noise to every coordinate of every frame but the first: uniform, up to `amplitude`.
pub fn with_noise(mut raw: RawSequence, amplitude: f64, seed: u64) -> RawSequence {
    let mut random = Random::new(seed);
    for frame in raw.frames.iter_mut().skip(1) {
        frame.positions.iter_mut().for_each(|p| *p += (random.vector() * amplitude).as_vec3());
    }
    raw
}

/// The meshes of `b` beside those of `a`, as one mesh; frames of the shorter one.
pub fn beside(mut a: RawSequence, b: RawSequence, offset: Vec3) -> RawSequence {
    let first = a.frames.first().map_or(0, |frame| frame.positions.len()) as u32;
    for face in b.surface.topology.faces() {
        let face: Vec<u32> = face.iter().map(|i| i + first).collect();
        a.surface.topology.push_face(&face);
    }
    a.frames.truncate(b.frames.len());
    for (to, from) in a.frames.iter_mut().zip(b.frames) {
        to.positions.extend(from.positions.into_iter().map(|p| p + offset));
    }
    a
}

/// A bar of rings that bends and twists, without a rigid part.
pub fn soft_body(frames: usize) -> RawSequence {
    const RINGS: usize = 24;
    const AROUND: usize = 12;
    let mut topology = Topology::empty();
    tube(RINGS, AROUND).for_each(|quad| topology.push_face(&quad));
    let position = |t: usize, at: usize| {
        let (angle, along) = (TAU * (at % AROUND) as f64 / AROUND as f64, (at / AROUND) as f64 / (RINGS - 1) as f64);
        let phase = TAU * t as f64 / frames as f64;
        let ring = DVec3::new(angle.cos(), 0.0, angle.sin()) * (1.0 + 0.15 * (phase + 5.0 * along).sin());
        let bend = DQuat::from_rotation_z(0.9 * phase.sin() * along)
            * DQuat::from_rotation_y(0.8 * along * (2.0 * phase).sin());
        (bend * (ring + DVec3::Y * (8.0 * along))).as_vec3()
    };
    let of_frame = |t: usize| (0..RINGS * AROUND).map(|at| position(t, at)).collect();
    sequence("soft", (0..frames).map(of_frame).collect(), topology)
}

/// A cloth that waves.
pub fn cloth(frames: usize) -> RawSequence {
    const SIDE: usize = 20;
    let mut topology = Topology::empty();
    for (r, c) in (0..SIDE - 1).flat_map(|r| (0..SIDE - 1).map(move |c| (r, c))) {
        let at = |r: usize, c: usize| (r * SIDE + c) as u32;
        topology.push_face(&[at(r, c), at(r, c + 1), at(r + 1, c + 1), at(r + 1, c)]);
    }
    let position = |t: usize, at: usize| {
        let (x, y) = ((at % SIDE) as f64 * 0.4, (at / SIDE) as f64 * 0.4);
        let phase = TAU * t as f64 / frames as f64;
        let wave = 0.12 * x * ((1.2 * x - 2.0 * phase).sin() + 0.5 * (1.7 * y + 3.0 * phase).sin());
        Vec3::new(x as f32, y as f32, wave as f32)
    };
    let of_frame = |t: usize| (0..SIDE * SIDE).map(|at| position(t, at)).collect();
    sequence("cloth", (0..frames).map(of_frame).collect(), topology)
}

/// 200 cubes, a soft body and a cloth in one mesh. Cubes come first, then the soft body, then the cloth.
pub fn mixed(frames: usize) -> RawSequence {
    let cubes = wall(&WallParams { columns: 20, rows: 10, frames, ..WallParams::default() });
    let with_body = beside(cubes, soft_body(frames), Vec3::new(16.0, 0.0, 0.0));
    RawSequence { name: "mixed".into(), ..beside(with_body, cloth(frames), Vec3::new(-22.0, 1.0, 0.0)) }
}

/// Links of [`robot_arm`].
pub const ROBOT_LINKS: usize = 5;

/// A robot arm of rigid links in one connected tube: each link turns about a hinge across the tube, the first about its own axis.
pub fn robot_arm(frames: usize) -> RawSequence {
    const RINGS: usize = 6;
    const AROUND: usize = 10;
    let rings = RINGS * ROBOT_LINKS;
    let mut topology = Topology::empty();
    tube(rings, AROUND).for_each(|quad| topology.push_face(&quad));
    topology.push_face(&(0..AROUND as u32).rev().collect::<Vec<_>>());
    topology.push_face(&((rings - 1) as u32 * AROUND as u32..(rings * AROUND) as u32).collect::<Vec<_>>());
    let height = |ring: usize| (ring / RINGS) as f64 * 3.0 + 0.25 + 0.5 * (ring % RINGS) as f64;
    let links = |t: usize| {
        let phase = TAU * t as f64 / frames as f64;
        let mut above = DAffine3::IDENTITY;
        (0..ROBOT_LINKS)
            .map(|j| {
                let joint = DAffine3::from_translation(DVec3::Y * (3.0 * j as f64));
                let angle = [0.0, 1.2, 0.7, 0.9, 0.5][j] * (phase * [1.0, 1.0, 2.0, 1.0, 3.0][j] + j as f64).sin();
                let axis = [DVec3::Y, DVec3::X, DVec3::Z, DVec3::X, DVec3::Y][j];
                above = above * joint * DAffine3::from_quat(DQuat::from_axis_angle(axis, angle)) * joint.inverse();
                above
            })
            .collect::<Vec<DAffine3>>()
    };
    let of_frame = |t: usize| {
        let links = links(t);
        let vertex = |at: usize| {
            let (ring, angle) = (at / AROUND, TAU * (at % AROUND) as f64 / AROUND as f64);
            let rest = DVec3::new(0.8 * angle.cos(), height(ring), 0.8 * angle.sin());
            links[ring / RINGS].transform_point3(rest).as_vec3()
        };
        (0..rings * AROUND).map(vertex).collect()
    };
    sequence("robot_arm", (0..frames).map(of_frame).collect(), topology)
}

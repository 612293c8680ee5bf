//! The straight fish: rings of the body, balls for the eyes, and (in `fins`) thin sheets for the fins.

use std::f64::consts::{PI, TAU};

use glam::DVec3;

use crate::mesh::surface::Material;
use crate::synthetic::fish::{FishVertex, Part};
use crate::synthetic::mesh::{FaceBuilder, curve};

pub(super) const ORANGE: u32 = 0;
const WHITE: u32 = 1;
pub(super) const BLACK: u32 = 2;

/// Vertices around the body and rings along it.
const SEGMENTS: usize = 40;
const RINGS: usize = 84;

/// Half height of the body along it.
const HEIGHT: &[(f64, f64)] = &[
    (0.0, 0.030),
    (0.03, 0.062),
    (0.08, 0.102),
    (0.15, 0.146),
    (0.25, 0.188),
    (0.38, 0.210),
    (0.5, 0.203),
    (0.62, 0.174),
    (0.75, 0.128),
    (0.86, 0.088),
    (0.95, 0.070),
    (1.0, 0.066),
];
/// Half width over half height.
const ROUNDNESS: &[(f64, f64)] = &[(0.0, 0.95), (0.1, 0.76), (0.3, 0.58), (0.6, 0.48), (0.85, 0.38), (1.0, 0.22)];
/// Height of the body's middle.
const MIDDLE: &[(f64, f64)] = &[(0.0, -0.028), (0.12, -0.010), (0.35, 0.0), (1.0, 0.012)];
/// White bands: middle of each and half its width, then the black border outside it.
const BANDS: [(f64, f64); 3] = [(0.235, 0.036), (0.545, 0.042), (0.945, 0.026)];
const BORDER: f64 = 0.016;

/// Half height and half width of the body, and the height of its middle.
pub(super) fn section(back: f64) -> (f64, f64, f64) {
    let height = curve(HEIGHT, back);
    (height, height * curve(ROUNDNESS, back), curve(MIDDLE, back))
}

/// Where the eyes are: side, up, back.
pub(super) fn eye_center(side: f64) -> DVec3 {
    let (_, width, middle) = section(0.115);
    DVec3::new(side * (width - 0.014), middle + 0.038, 0.115)
}

/// Vertices, faces and materials.
pub(super) fn build() -> (Vec<FishVertex>, FaceBuilder, Vec<Material>) {
    let mut fish = Builder { vertices: Vec::new(), faces: FaceBuilder::default() };
    fish.body();
    [1.0, -1.0].into_iter().for_each(|side| fish.eye(side));
    fish.tail();
    fish.back_and_belly_fins();
    [1.0, -1.0].into_iter().for_each(|side| fish.paired_fins(side));
    (fish.vertices, fish.faces, materials())
}

fn materials() -> Vec<Material> {
    let material = |name: &str, [r, g, b]: [f32; 3], roughness| Material {
        name: name.into(),
        base_color: [r, g, b, 1.0],
        roughness,
        double_sided: true,
        ..Material::default()
    };
    vec![
        material("orange", [0.93, 0.20, 0.02], 0.45),
        material("white", [0.90, 0.88, 0.82], 0.5),
        material("black", [0.012, 0.012, 0.015], 0.3),
    ]
}

/// The fish under construction.
pub(super) struct Builder {
    vertices: Vec<FishVertex>,
    pub faces: FaceBuilder,
}

impl Builder {
    pub fn vertex(&mut self, place: DVec3, part: Part, u: f64, v: f64) -> u32 {
        self.vertices.push(FishVertex { place, part, u, v });
        self.vertices.len() as u32 - 1
    }

    /// Throat, lips, body, end: one closed surface from pole to pole.
    fn body(&mut self) {
        // (distance from the nose, share of the section) of each ring; the mouth is a pocket in the nose.
        let mut rings: Vec<(f64, f64)> =
            vec![(0.034, 0.35), (0.022, 0.5), (0.008, 0.55), (-0.002, 0.62), (-0.007, 0.78)];
        let mouth = rings.len();
        rings.extend((0..RINGS).map(|r| (r as f64 / (RINGS - 1) as f64, 1.0)));
        rings.extend([(1.012, 0.8), (1.018, 0.45)]);
        let start = self.vertices.len() as u32;
        for &(back, share) in &rings {
            self.ring(back, share);
        }
        let front = self.vertex(DVec3::new(0.0, section(0.0).2, 0.036), Part::Body, 0.0, 0.0);
        let end = self.vertex(DVec3::new(0.0, section(1.0).2, 1.020), Part::Body, 0.0, 0.0);

        let uv = self.faces.uv_grid(SEGMENTS + 1, rings.len(), [0.0, 0.5], [1.0, 0.5]);
        let uv = |r: usize, c: usize| uv[r * (SEGMENTS + 1) + c];
        let corner = |r: usize, c: usize| (start + (r * SEGMENTS + c % SEGMENTS) as u32, uv(r, c));
        for r in 0..rings.len() - 1 {
            let material = if r + 1 < mouth { BLACK } else { band_material((rings[r].0 + rings[r + 1].0) / 2.0) };
            for c in 0..SEGMENTS {
                let quad = [corner(r, c), corner(r + 1, c), corner(r + 1, c + 1), corner(r, c + 1)];
                self.faces.face(&quad, material, false);
            }
        }
        let last = rings.len() - 1;
        for c in 0..SEGMENTS {
            self.faces.face(&[(front, uv(0, c)), corner(0, c), corner(0, c + 1)], BLACK, false);
            self.faces.face(&[corner(last, c), (end, uv(last, c)), corner(last, c + 1)], ORANGE, false);
        }
    }

    /// Rings bulge towards the tail at mid height, so that the bands are curved.
    fn ring(&mut self, back: f64, share: f64) {
        let (height, width, middle) = section(back);
        for c in 0..SEGMENTS {
            let angle = TAU * c as f64 / SEGMENTS as f64;
            let (x, y) = (angle.cos(), angle.sin());
            let bulge = 0.028 * (PI * back.clamp(0.0, 1.0)).sin() * (1.0 - y * y);
            let point = DVec3::new(share * width * x, middle + share * height * y, back + bulge);
            self.vertex(point, Part::Body, 0.0, 0.0);
        }
    }

    /// A ball whose pole looks sideways: pupil, then a white ring, then orange.
    fn eye(&mut self, side: f64) {
        const ROWS: usize = 10;
        const AROUND: usize = 16;
        let (center, radius) = (eye_center(side), 0.029);
        // The pole leans forward a little, as a fish's eyes do.
        let (lean_cos, lean_sin) = (0.3f64.cos(), 0.3f64.sin());
        let point = |row: usize, c: usize| {
            let (polar, angle) = (PI * row as f64 / ROWS as f64, TAU * c as f64 / AROUND as f64);
            let (out, up, back) = (0.75 * polar.cos(), polar.sin() * angle.sin(), polar.sin() * angle.cos());
            let (out, back) = (lean_cos * out + lean_sin * back, lean_cos * back - lean_sin * out);
            center + DVec3::new(side * radius * out, radius * up, radius * back)
        };
        let part = Part::Eye(side);
        let outer = self.vertex(point(0, 0), part, 0.0, 0.0);
        let start = self.vertices.len() as u32;
        for row in 1..ROWS {
            (0..AROUND).for_each(|c| {
                self.vertex(point(row, c), part, 0.0, 0.0);
            });
        }
        let inner = self.vertex(point(ROWS, 0), part, 0.0, 0.0);
        let u0 = if side > 0.0 { 0.0 } else { 0.1 };
        let uv = self.faces.uv_grid(AROUND + 1, ROWS + 1, [u0, 0.0], [0.1, 0.1]);
        let flip = side < 0.0;
        for row in 0..ROWS {
            let material = [BLACK, BLACK, BLACK, WHITE].get(row).copied().unwrap_or(ORANGE);
            for c in 0..AROUND {
                let corner = |r: usize, c: usize| {
                    let vertex = match r {
                        0 => outer,
                        ROWS => inner,
                        r => start + ((r - 1) * AROUND + c % AROUND) as u32,
                    };
                    (vertex, uv[r * (AROUND + 1) + c])
                };
                let quad = [corner(row, c), corner(row + 1, c), corner(row + 1, c + 1), corner(row, c + 1)];
                self.faces.face(&quad, material, flip);
            }
        }
    }
}

fn band_material(back: f64) -> u32 {
    let inside = |half: f64| BANDS.iter().any(|(middle, band)| (back - middle).abs() < band + half);
    match (inside(0.0), inside(BORDER)) {
        (true, _) => WHITE,
        (false, true) => BLACK,
        _ => ORANGE,
    }
}

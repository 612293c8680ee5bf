//! The straight fish: rings of the body, balls for the eyes, thin closed sheets for the fins.

use std::f64::consts::{PI, TAU};

use super::{FishVertex, Part};
use crate::surface::Material;
use crate::synthetic::mesh::{FaceBuilder, curve};

const ORANGE: u32 = 0;
const WHITE: u32 = 1;
const BLACK: u32 = 2;

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
pub(super) fn eye_center(side: f64) -> [f64; 3] {
    let (_, width, middle) = section(0.115);
    [side * (width - 0.014), middle + 0.038, 0.115]
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

struct Builder {
    vertices: Vec<FishVertex>,
    faces: FaceBuilder,
}

/// A fin: where a point of it lies, its thickness direction, and how it is painted.
struct Fin<'a> {
    part: Part,
    /// Points along the root and from root to edge.
    size: (usize, usize),
    /// First value of `u`; the last is 1.
    u_start: f64,
    /// (u, v) to [side, up, back] of the middle sheet.
    point: &'a dyn Fn(f64, f64) -> [f64; 3],
    /// Unit vector across the sheet: [side, up, back].
    across: [f64; 3],
    /// Width of the black edge, in `v`.
    edge: f64,
    /// Corner of its square in texture space.
    uv: [f64; 2],
}

impl Builder {
    fn vertex(&mut self, [side, up, back]: [f64; 3], part: Part, u: f64, v: f64) -> u32 {
        self.vertices.push(FishVertex { side, up, back, part, u, v });
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
        let front = self.vertex([0.0, section(0.0).2, 0.036], Part::Body, 0.0, 0.0);
        let end = self.vertex([0.0, section(1.0).2, 1.020], Part::Body, 0.0, 0.0);

        let uv: Vec<Vec<u32>> = (0..rings.len())
            .map(|r| {
                let v = 0.5 + 0.5 * r as f64 / (rings.len() - 1) as f64;
                (0..=SEGMENTS).map(|c| self.faces.uv(c as f64 / SEGMENTS as f64, v)).collect()
            })
            .collect();
        let id = |r: usize, c: usize| start + (r * SEGMENTS + c % SEGMENTS) as u32;
        for r in 0..rings.len() - 1 {
            let material = if r + 1 < mouth { BLACK } else { band_material((rings[r].0 + rings[r + 1].0) / 2.0) };
            for c in 0..SEGMENTS {
                let corner = |r: usize, c: usize| (id(r, c), uv[r][c]);
                let quad = [corner(r, c), corner(r + 1, c), corner(r + 1, c + 1), corner(r, c + 1)];
                self.faces.face(&quad, material, false);
            }
        }
        let last = rings.len() - 1;
        for c in 0..SEGMENTS {
            let corner = |r: usize, c: usize| (id(r, c), uv[r][c]);
            self.faces.face(&[(front, uv[0][c]), corner(0, c), corner(0, c + 1)], BLACK, false);
            self.faces.face(&[corner(last, c), (end, uv[last][c]), corner(last, c + 1)], ORANGE, false);
        }
    }

    /// Rings bulge towards the tail at mid height, so that the bands are curved.
    fn ring(&mut self, back: f64, share: f64) {
        let (height, width, middle) = section(back);
        for c in 0..SEGMENTS {
            let angle = TAU * c as f64 / SEGMENTS as f64;
            let (x, y) = (angle.cos(), angle.sin());
            let bulge = 0.028 * (PI * back.clamp(0.0, 1.0)).sin() * (1.0 - y * y);
            let point = [share * width * x, middle + share * height * y, back + bulge];
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
            [center[0] + side * radius * out, center[1] + radius * up, center[2] + radius * back]
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
        let uv: Vec<Vec<u32>> = (0..=ROWS)
            .map(|r| {
                (0..=AROUND)
                    .map(|c| self.faces.uv(u0 + 0.1 * c as f64 / AROUND as f64, 0.1 * r as f64 / ROWS as f64))
                    .collect()
            })
            .collect();
        let flip = side < 0.0;
        for row in 0..ROWS {
            let material = [BLACK, BLACK, BLACK, WHITE].get(row).copied().unwrap_or(ORANGE);
            for c in 0..AROUND {
                let corner = |r: usize, c: usize| match r {
                    0 => (outer, uv[0][c]),
                    ROWS => (inner, uv[ROWS][c]),
                    r => (start + ((r - 1) * AROUND + c % AROUND) as u32, uv[r][c]),
                };
                match row {
                    0 => self.faces.face(&[corner(0, c), corner(1, c), corner(1, c + 1)], material, flip),
                    r if r == ROWS - 1 => {
                        self.faces.face(&[corner(r, c), corner(ROWS, c), corner(r, c + 1)], material, flip)
                    }
                    r => self.faces.face(
                        &[corner(r, c), corner(r + 1, c), corner(r + 1, c + 1), corner(r, c + 1)],
                        material,
                        flip,
                    ),
                }
            }
        }
    }

    fn tail(&mut self) {
        let point = |u: f64, v: f64| {
            // A fan that opens upwards and downwards, with a rounded edge that falls back in the middle.
            let (root_up, root_back) = (0.058 * u, 0.972);
            let angle = 0.92 * u;
            let reach = 0.30 + 0.03 * (2.0 * PI * u).cos().mul_add(-0.5, 0.5);
            let (tip_up, tip_back) = (reach * angle.sin(), 0.955 + reach * angle.cos());
            let spread = v.powf(1.15);
            [0.0, 0.012 + root_up + spread * (tip_up - root_up), root_back + v * (tip_back - root_back)]
        };
        self.fin(&Fin {
            part: Part::Tail,
            size: (33, 21),
            u_start: -1.0,
            point: &point,
            across: [1.0, 0.0, 0.0],
            edge: 0.1,
            uv: [0.2, 0.2],
        });
    }

    fn back_and_belly_fins(&mut self) {
        const DORSAL: &[(f64, f64)] =
            &[(0.0, 0.012), (0.1, 0.062), (0.3, 0.082), (0.52, 0.056), (0.74, 0.112), (0.9, 0.098), (1.0, 0.03)];
        const ANAL: &[(f64, f64)] = &[(0.0, 0.02), (0.3, 0.085), (0.65, 0.105), (1.0, 0.03)];
        let fin = |sign: f64, from: f64, to: f64, reach: &'static [(f64, f64)]| {
            move |u: f64, v: f64| {
                let root = from + (to - from) * u;
                let (height, _, middle) = section(root);
                let reach = curve(reach, u);
                // Leans back, more so towards the end.
                [0.0, middle + sign * (height - 0.018 + v * (reach + 0.018)), root + v * reach * (0.35 + 0.45 * u)]
            }
        };
        let across = [1.0, 0.0, 0.0];
        let dorsal = fin(1.0, 0.27, 0.83, DORSAL);
        self.fin(&Fin {
            part: Part::Median(1.0),
            size: (41, 9),
            u_start: 0.0,
            point: &dorsal,
            across,
            edge: 0.13,
            uv: [0.4, 0.2],
        });
        let anal = fin(-1.0, 0.60, 0.86, ANAL);
        self.fin(&Fin {
            part: Part::Median(-1.0),
            size: (19, 9),
            u_start: 0.0,
            point: &anal,
            across,
            edge: 0.13,
            uv: [0.6, 0.2],
        });
    }

    fn paired_fins(&mut self, side: f64) {
        let row = if side > 0.0 { 0.2 } else { 0.35 };
        for (part, size, fan, u0) in
            [(Part::Pectoral(side), (19, 13), PECTORAL, 0.8), (Part::Pelvic(side), (11, 9), PELVIC, 0.0)]
        {
            let point = |u: f64, v: f64| {
                let (along, across) = (fan.spread * u, fan.reach * (1.0 - 0.12 * u * u) * v);
                let (sin, cos) = along.sin_cos();
                let hinge = fan.hinge(side);
                let place = |k: usize| {
                    let (out, wide) = (fan.out(side)[k], fan.wide(side)[k]);
                    hinge[k] + fan.root * u * wide + across * (cos * out + sin * wide)
                };
                [place(0), place(1), place(2)]
            };
            let across = fan.across(side);
            self.fin(&Fin { part, size, u_start: -1.0, point: &point, across, edge: 0.15, uv: [u0, row] });
        }
    }

    /// Two sheets that share their edge; open at the root, which sits inside the body.
    fn fin(&mut self, fin: &Fin) {
        let (columns, rows) = fin.size;
        let coordinate = |c: usize, r: usize| {
            let u = fin.u_start + (1.0 - fin.u_start) * c as f64 / (columns - 1) as f64;
            (u, r as f64 / (rows - 1) as f64)
        };
        let is_edge = |c: usize, r: usize| c == 0 || c == columns - 1 || r == rows - 1;
        let mut sheets = [Vec::new(), Vec::new()];
        for (sheet, sign) in [(0, 1.0), (1, -1.0)] {
            for r in 0..rows {
                for c in 0..columns {
                    if sheet == 1 && is_edge(c, r) {
                        let shared = sheets[0][r * columns + c];
                        sheets[1].push(shared);
                        continue;
                    }
                    let (u, v) = coordinate(c, r);
                    let half = if is_edge(c, r) { 0.0 } else { sign * (0.0065 * (1.0 - v) + 0.0012) };
                    let middle = (fin.point)(u, v);
                    let point = [0, 1, 2].map(|k| middle[k] + half * fin.across[k]);
                    let id = self.vertex(point, fin.part, u, v);
                    sheets[sheet].push(id);
                }
            }
        }
        let uv: Vec<u32> = (0..rows * columns)
            .map(|at| {
                let (c, r) = (at % columns, at / columns);
                let (c, r) = (c as f64 / (columns - 1) as f64, r as f64 / (rows - 1) as f64);
                self.faces.uv(fin.uv[0] + 0.18 * c, fin.uv[1] + 0.13 * r)
            })
            .collect();
        let flip = self.faces_inward(fin);
        for (sheet, ids) in sheets.iter().enumerate() {
            for r in 0..rows - 1 {
                let v = (r as f64 + 0.5) / (rows - 1) as f64;
                let material = if v > 1.0 - fin.edge { BLACK } else { ORANGE };
                for c in 0..columns - 1 {
                    let corner = |c: usize, r: usize| (ids[r * columns + c], uv[r * columns + c]);
                    let quad = [corner(c, r), corner(c + 1, r), corner(c + 1, r + 1), corner(c, r + 1)];
                    self.faces.face(&quad, material, flip != (sheet == 1));
                }
            }
        }
    }

    /// Whether going along `u`, then `v`, turns against the side that the first sheet lies on.
    fn faces_inward(&self, fin: &Fin) -> bool {
        let middle = 0.5 * (1.0 + fin.u_start);
        let at = |u: f64, v: f64| {
            let [side, up, back] = (fin.point)(u, v);
            glam::DVec3::new(side, up, -back)
        };
        let (along, outward) = (at(middle + 0.01, 0.5) - at(middle, 0.5), at(middle, 0.51) - at(middle, 0.5));
        let [side, up, back] = fin.across;
        along.cross(outward).dot(glam::DVec3::new(side, up, -back)) < 0.0
    }
}

/// A paired fin: a fan around a hinge at the flank. Vectors are [side, up, back] of the left one.
pub(super) struct Fan {
    hinge: [f64; 3],
    out: [f64; 3],
    wide: [f64; 3],
    /// Half width at the root, length, and half the opening angle in radians.
    root: f64,
    reach: f64,
    spread: f64,
}

pub(super) const PECTORAL: Fan = Fan {
    hinge: [0.098, -0.055, 0.315],
    out: [0.60, -0.20, 0.775],
    wide: [0.10, 0.979, 0.175],
    root: 0.026,
    reach: 0.21,
    spread: 0.72,
};
pub(super) const PELVIC: Fan = Fan {
    hinge: [0.034, -0.186, 0.36],
    out: [0.30, -0.66, 0.69],
    wide: [0.05, 0.72, 0.69],
    root: 0.016,
    reach: 0.17,
    spread: 0.34,
};

impl Fan {
    fn mirrored(vector: [f64; 3], side: f64) -> [f64; 3] {
        [side * vector[0], vector[1], vector[2]]
    }

    pub fn hinge(&self, side: f64) -> [f64; 3] {
        Self::mirrored(self.hinge, side)
    }

    fn out(&self, side: f64) -> [f64; 3] {
        Self::mirrored(self.out, side)
    }

    /// Direction of the hinge.
    pub fn wide(&self, side: f64) -> [f64; 3] {
        Self::mirrored(self.wide, side)
    }

    /// Unit vector across the fan, away from the body.
    pub fn across(&self, side: f64) -> [f64; 3] {
        let (a, b) = (glam::DVec3::from(self.out), glam::DVec3::from(self.wide));
        let across = a.cross(b).normalize();
        Self::mirrored((across * across.x.signum()).to_array(), side)
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

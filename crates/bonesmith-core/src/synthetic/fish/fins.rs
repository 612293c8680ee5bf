//! Fins: thin closed sheets that stick in the body.

use std::f64::consts::PI;

use glam::DVec3;

use crate::synthetic::fish::Part;
use crate::synthetic::fish::shape::{BLACK, Builder, ORANGE, section};
use crate::synthetic::mesh::curve;

/// A fin: where a point of it lies, its thickness direction, and how it is painted.
struct Fin<'a> {
    part: Part,
    /// Points along the root and from root to edge.
    size: (usize, usize),
    /// First value of `u`; the last is 1.
    u_start: f64,
    /// (u, v) to a place on the middle sheet.
    point: &'a dyn Fn(f64, f64) -> DVec3,
    /// Unit vector across the sheet.
    across: DVec3,
    /// Width of the black edge, in `v`.
    edge: f64,
    /// Corner of its square in texture space.
    uv: [f64; 2],
}

impl Builder {
    pub fn tail(&mut self) {
        let point = |u: f64, v: f64| {
            // A fan that opens upwards and downwards, with a rounded edge that falls back in the middle.
            let (root_up, root_back) = (0.058 * u, 0.972);
            let angle = 0.92 * u;
            let reach = 0.30 + 0.03 * (2.0 * PI * u).cos().mul_add(-0.5, 0.5);
            let (tip_up, tip_back) = (reach * angle.sin(), 0.955 + reach * angle.cos());
            let spread = v.powf(1.15);
            DVec3::new(0.0, 0.012 + root_up + spread * (tip_up - root_up), root_back + v * (tip_back - root_back))
        };
        self.fin(&Fin {
            part: Part::Tail,
            size: (33, 21),
            u_start: -1.0,
            point: &point,
            across: DVec3::X,
            edge: 0.1,
            uv: [0.2, 0.2],
        });
    }

    pub fn back_and_belly_fins(&mut self) {
        const DORSAL: &[(f64, f64)] =
            &[(0.0, 0.012), (0.1, 0.062), (0.3, 0.082), (0.52, 0.056), (0.74, 0.112), (0.9, 0.098), (1.0, 0.03)];
        const ANAL: &[(f64, f64)] = &[(0.0, 0.02), (0.3, 0.085), (0.65, 0.105), (1.0, 0.03)];
        let (dorsal, anal) = ((1.0, 0.27, 0.83, DORSAL, 41, 0.4), (-1.0, 0.60, 0.86, ANAL, 19, 0.6));
        for (sign, from, to, reach, columns, uv) in [dorsal, anal] {
            let point = |u: f64, v: f64| {
                let root = from + (to - from) * u;
                let (height, _, middle) = section(root);
                let reach = curve(reach, u);
                // Leans back, more so towards the end.
                let up = middle + sign * (height - 0.018 + v * (reach + 0.018));
                DVec3::new(0.0, up, root + v * reach * (0.35 + 0.45 * u))
            };
            self.fin(&Fin {
                part: Part::Median(sign),
                size: (columns, 9),
                u_start: 0.0,
                point: &point,
                across: DVec3::X,
                edge: 0.13,
                uv: [uv, 0.2],
            });
        }
    }

    pub fn paired_fins(&mut self, side: f64) {
        let row = if side > 0.0 { 0.2 } else { 0.35 };
        for (part, size, fan, u0) in
            [(Part::Pectoral(side), (19, 13), PECTORAL, 0.8), (Part::Pelvic(side), (11, 9), PELVIC, 0.0)]
        {
            let point = |u: f64, v: f64| {
                let (along, across) = (fan.spread * u, fan.reach * (1.0 - 0.12 * u * u) * v);
                let (sin, cos) = along.sin_cos();
                let (out, wide) = (mirrored(fan.out, side), mirrored(fan.wide, side));
                mirrored(fan.hinge, side) + fan.root * u * wide + across * (cos * out + sin * wide)
            };
            let across = fan.across(side);
            self.fin(&Fin { part, size, u_start: -1.0, point: &point, across, edge: 0.15, uv: [u0, row] });
        }
    }

    /// Vertices of the two sheets, row by row: the same ones along the edge; open at the root, inside the body.
    fn sheets(&mut self, fin: &Fin) -> [Vec<u32>; 2] {
        let (columns, rows) = fin.size;
        let is_edge = |c: usize, r: usize| c == 0 || c == columns - 1 || r == rows - 1;
        let mut sheets = [Vec::new(), Vec::new()];
        for (sheet, sign) in [(0, 1.0), (1, -1.0)] {
            for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
                if sheet == 1 && is_edge(c, r) {
                    let shared = sheets[0][r * columns + c];
                    sheets[1].push(shared);
                    continue;
                }
                let u = fin.u_start + (1.0 - fin.u_start) * c as f64 / (columns - 1) as f64;
                let v = r as f64 / (rows - 1) as f64;
                let half = if is_edge(c, r) { 0.0 } else { sign * (0.0065 * (1.0 - v) + 0.0012) };
                let id = self.vertex((fin.point)(u, v) + half * fin.across, fin.part, u, v);
                sheets[sheet].push(id);
            }
        }
        sheets
    }

    /// Both sheets of a fin, each looking away from the other.
    fn fin(&mut self, fin: &Fin) {
        let (columns, rows) = fin.size;
        let sheets = self.sheets(fin);
        let uv = self.faces.uv_grid(columns, rows, fin.uv, [0.18, 0.13]);
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
        let forward = DVec3::new(1.0, 1.0, -1.0);
        let at = |u: f64, v: f64| (fin.point)(u, v) * forward;
        let (along, outward) = (at(middle + 0.01, 0.5) - at(middle, 0.5), at(middle, 0.51) - at(middle, 0.5));
        along.cross(outward).dot(fin.across * forward) < 0.0
    }
}

/// A paired fin: a fan around a hinge at the flank. Vectors are those of the left one.
pub(super) struct Fan {
    pub hinge: DVec3,
    out: DVec3,
    /// Direction of the hinge.
    pub wide: DVec3,
    /// Half width at the root, length, and half the opening angle in radians.
    root: f64,
    reach: f64,
    spread: f64,
}

pub(super) const PECTORAL: Fan = Fan {
    hinge: DVec3::new(0.098, -0.055, 0.315),
    out: DVec3::new(0.60, -0.20, 0.775),
    wide: DVec3::new(0.10, 0.979, 0.175),
    root: 0.026,
    reach: 0.21,
    spread: 0.72,
};
pub(super) const PELVIC: Fan = Fan {
    hinge: DVec3::new(0.034, -0.186, 0.36),
    out: DVec3::new(0.30, -0.66, 0.69),
    wide: DVec3::new(0.05, 0.72, 0.69),
    root: 0.016,
    reach: 0.17,
    spread: 0.34,
};

/// A vector of the left side on either side.
pub(super) fn mirrored(vector: DVec3, side: f64) -> DVec3 {
    vector.with_x(side * vector.x)
}

impl Fan {
    /// Unit vector across the fan, away from the body.
    pub fn across(&self, side: f64) -> DVec3 {
        let across = self.out.cross(self.wide).normalize();
        mirrored(across * across.x.signum(), side)
    }
}

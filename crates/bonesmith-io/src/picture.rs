//! A picture of a rig: the rest pose and its skeleton, from the front and from the side, as SVG.
//!
//! The surface is drawn by a small depth buffer and written as runs of a few greys, so that the file stays small
//! however fine the mesh is. Front is x to the right, y up; side is z to the left, y up, as glTF stands.

use std::fmt::Write;
use std::path::Path;

use bonesmith_core::Rig;
use glam::{DVec3, IVec2};

use crate::{IoError, atomic};

/// Pixels of the larger side of one view.
const VIEW: f64 = 480.0;
/// Empty border around a view, in pixels.
const MARGIN: f64 = 20.0;
/// Pixels of one cell of the depth buffer.
const CELL: f64 = 1.5;
/// Greys of the surface, dark to light.
const GREYS: [&str; 6] = ["#9aa1a8", "#aeb4ba", "#bfc4c9", "#cfd3d7", "#dee1e4", "#eceef0"];

/// Writes the picture.
pub fn save(rig: &Rig, path: &Path) -> Result<(), IoError> {
    rig.check().map_err(|e| IoError::malformed(path, format!("the rig is not sound: {e}")))?;
    atomic::write(path, svg(rig).as_bytes())
}

/// One direction to look from.
struct View {
    right: DVec3,
    /// Towards the viewer.
    near: DVec3,
    /// Lower left corner in model units, and pixels per model unit.
    low: (f64, f64),
    scale: f64,
    /// Pixels.
    width: f64,
    height: f64,
    /// Pixels from the left edge of the picture.
    left: f64,
}

impl View {
    fn pixel(&self, p: DVec3) -> (f64, f64) {
        let x = (p.dot(self.right) - self.low.0) * self.scale + MARGIN;
        let y = (p.y - self.low.1) * self.scale + MARGIN;
        (self.left + x, self.height - y)
    }
}

fn svg(rig: &Rig) -> String {
    let views = views(rig);
    let (width, height) = (views.iter().map(|v| v.width).sum::<f64>(), views[0].height);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    );
    for view in &views {
        surface(rig, view, &mut out);
        bones(rig, view, &mut out);
    }
    out.push_str("</svg>\n");
    out
}

fn views(rig: &Rig) -> [View; 2] {
    let places = || {
        let tips = rig.bones.iter().flat_map(|bone| [Some(bone.world_from_bind.translation), bone.tip]).flatten();
        rig.rest.iter().map(|p| p.as_dvec3()).chain(tips)
    };
    let low = places().fold(DVec3::INFINITY, DVec3::min);
    let high = places().fold(DVec3::NEG_INFINITY, DVec3::max);
    let largest = (high - low).max_element();
    let scale = if largest > 0.0 { VIEW / largest } else { 1.0 };
    let height = (high.y - low.y) * scale + 2.0 * MARGIN;
    let front_width = (high.x - low.x) * scale + 2.0 * MARGIN;
    let side_width = (high.z - low.z) * scale + 2.0 * MARGIN;
    let front =
        View { right: DVec3::X, near: DVec3::Z, low: (low.x, low.y), scale, width: front_width, height, left: 0.0 };
    let side =
        View { right: -DVec3::Z, near: DVec3::X, low: (-high.z, low.y), width: side_width, left: front_width, ..front };
    [front, side]
}

/// Nearest surface in every cell: (depth, grey).
struct Depths {
    columns: i32,
    rows: i32,
    cells: Vec<(f64, u8)>,
}

impl Depths {
    fn put(&mut self, at: IVec2, depth: f64, grey: u8) {
        if (0..self.columns).contains(&at.x) && (0..self.rows).contains(&at.y) {
            let cell = &mut self.cells[(at.y * self.columns + at.x) as usize];
            if depth > cell.0 {
                *cell = (depth, grey);
            }
        }
    }
}

fn surface(rig: &Rig, view: &View, out: &mut String) {
    let (columns, rows) = ((view.width / CELL).ceil() as i32, (view.height / CELL).ceil() as i32);
    let mut depths = Depths { columns, rows, cells: vec![(f64::NEG_INFINITY, 0); (columns * rows) as usize] };
    let place = |p: DVec3| {
        let (x, y) = view.pixel(p);
        DVec3::new((x - view.left) / CELL, y / CELL, p.dot(view.near) * view.scale)
    };
    let triangles = rig.surface.topology.vertex_triangles();
    for triangle in &triangles {
        fill(&mut depths, triangle.map(|v| place(rig.rest[v as usize].as_dvec3())));
    }
    if triangles.is_empty() {
        for p in rig.rest.iter().map(|p| place(p.as_dvec3())) {
            depths.put(IVec2::new(p.x as i32, p.y as i32), p.z, 2);
        }
    }
    for (grey, colour) in GREYS.iter().enumerate() {
        let runs = runs(&depths, grey as u8, view.left);
        if !runs.is_empty() {
            let _ = write!(out, "<path stroke=\"{colour}\" stroke-width=\"{:.1}\" d=\"{runs}\"/>", CELL * 1.1);
        }
    }
}

/// Fills a triangle, brighter the more it faces the viewer.
fn fill(depths: &mut Depths, [a, b, c]: [DVec3; 3]) {
    let normal = (b - a).cross(c - a);
    let facing = normal.z.abs() / normal.length().max(1e-300);
    let grey = ((facing * GREYS.len() as f64) as u8).min(GREYS.len() as u8 - 1);
    let (low, high) = (a.min(b).min(c), a.max(b).max(c));
    if normal.z == 0.0 || !(low.is_finite() && high.is_finite()) {
        return;
    }
    let (first, last) = (IVec2::new(low.x.max(0.0) as i32, low.y.max(0.0) as i32), (high.x, high.y));
    for y in first.y..=(last.1 as i32).min(depths.rows - 1) {
        for x in first.x..=(last.0 as i32).min(depths.columns - 1) {
            let p = DVec3::new(f64::from(x) + 0.5, f64::from(y) + 0.5, 0.0);
            let share = |u: DVec3, v: DVec3| ((v.x - u.x) * (p.y - u.y) - (v.y - u.y) * (p.x - u.x)) / normal.z;
            let weights = [share(b, c), share(c, a), share(a, b)];
            if weights.iter().all(|w| *w >= -1e-9) {
                let depth = weights[0] * a.z + weights[1] * b.z + weights[2] * c.z;
                depths.put(IVec2::new(x, y), depth, grey);
            }
        }
    }
}

/// Horizontal runs of one grey as a path.
fn runs(depths: &Depths, grey: u8, left: f64) -> String {
    let mut path = String::new();
    for y in 0..depths.rows {
        let row = &depths.cells[(y * depths.columns) as usize..((y + 1) * depths.columns) as usize];
        let mut x = 0;
        while x < row.len() {
            let filled = |x: usize| row[x].0 > f64::NEG_INFINITY && row[x].1 == grey;
            let start = x;
            while x < row.len() && filled(x) {
                x += 1;
            }
            if x > start {
                let (px, py) = (left + start as f64 * CELL, (f64::from(y) + 0.5) * CELL);
                let _ = write!(path, "M{px:.1} {py:.1}h{:.1}", (x - start) as f64 * CELL);
            }
            x = x.max(start + 1);
        }
    }
    path
}

/// Bones as darts from joint to child or tip, joints as dots.
fn bones(rig: &Rig, view: &View, out: &mut String) {
    for bone in &rig.bones {
        let Some(parent) = bone.parent.map(|p| &rig.bones[p]) else { continue };
        let (from, to) = (parent.world_from_bind.translation, bone.world_from_bind.translation);
        dart(view.pixel(from), view.pixel(to), colour(&parent.name), out);
    }
    for bone in &rig.bones {
        if let Some(tip) = bone.tip {
            dart(view.pixel(bone.world_from_bind.translation), view.pixel(tip), colour(&bone.name), out);
        }
    }
    for bone in &rig.bones {
        let (x, y) = view.pixel(bone.world_from_bind.translation);
        let (radius, fill) = if bone.parent.is_none() { (5.0, "#111") } else { (3.2, "white") };
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1.4\"/>",
            colour(&bone.name)
        );
    }
}

/// Left blue, right red, the rest dark.
fn colour(name: &str) -> &'static str {
    match (name.ends_with("_l"), name.ends_with("_r")) {
        (true, _) => "#1f5fbf",
        (_, true) => "#c0392b",
        _ => "#333",
    }
}

fn dart(from: (f64, f64), to: (f64, f64), colour: &str, out: &mut String) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 0.5 {
        return;
    }
    let half = (0.1 * length).clamp(1.0, 5.0);
    let (nx, ny) = (-dy / length * half, dx / length * half);
    let (mx, my) = (from.0 + 0.18 * dx, from.1 + 0.18 * dy);
    let _ = write!(
        out,
        "<path fill=\"{colour}\" fill-opacity=\"0.75\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
        from.0,
        from.1,
        mx + nx,
        my + ny,
        to.0,
        to.1,
        mx - nx,
        my - ny
    );
}

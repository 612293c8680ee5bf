//! A small picture of a model in motion: poses beside each other in one PNG, which a page shows one after the other.
//!
//! Orthographic, from the front, a little from the right and from above; every pose centred, all at one scale. Twice the resolution is
//! drawn and averaged.

use std::io::Write;

use bonesmith_core::ModelRef;
use bonesmith_core::deform::Poser;
use flate2::{Compression, Crc, write::ZlibEncoder};
use glam::{Mat3, Vec3};

/// Poses in the picture.
pub(super) const POSES: usize = 8;
/// Pixels of a pose, both ways.
const SIZE: usize = 128;
/// Drawn pixels for each pixel, both ways.
const FINE: usize = 2;

/// Poses of a model's first clip, evenly spread over it, as a PNG of grey and alpha.
pub fn thumbnail(model: ModelRef<'_>) -> Vec<u8> {
    let view = Mat3::from_rotation_x(0.3) * Mat3::from_rotation_y(-0.5);
    let frames = model.clips().first().map_or(0, |clip| clip.times_secs.len());
    let mut poser = Poser::new(model);
    let mut pose = |at: usize| match frames {
        0 => model.rest().to_vec(),
        frames => poser.posed(0, at * frames / POSES),
    };
    let triangles = model.surface().topology.vertex_triangles();
    let mut poses: Vec<Vec<Vec3>> = (0..POSES).map(|at| pose(at).iter().map(|p| view * *p).collect()).collect();
    let mut extent = 0f32;
    for pose in &mut poses {
        let low = pose.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        let high = pose.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
        let middle = (low + high) / 2.0;
        pose.iter_mut().for_each(|p| *p -= middle);
        extent = extent.max((high - low).x).max((high - low).y);
    }
    let fine = SIZE * FINE;
    let scale = if extent > 0.0 && extent.is_finite() { 0.94 * fine as f32 / extent } else { 1.0 };
    let mut pixels = vec![[0u8; 2]; POSES * SIZE * SIZE];
    for (at, pose) in poses.iter().enumerate() {
        let place = |p: Vec3| {
            Vec3::new(p.x * scale, -p.y * scale, p.z * scale) + Vec3::new(1.0, 1.0, 0.0) * (fine as f32 / 2.0)
        };
        let mut cells = vec![(f32::NEG_INFINITY, 0f32); fine * fine];
        for triangle in &triangles {
            fill(&mut cells, fine, triangle.map(|v| place(pose[v as usize])));
        }
        if triangles.is_empty() {
            pose.iter().for_each(|p| put(&mut cells, fine, place(*p), 0.6));
        }
        average(&cells, at, &mut pixels);
    }
    png(&pixels, POSES * SIZE, SIZE)
}

fn put(cells: &mut [(f32, f32)], width: usize, p: Vec3, grey: f32) {
    let inside = |x: f32| x >= 0.0 && (x as usize) < width;
    if inside(p.x) && inside(p.y) {
        let cell = &mut cells[p.y as usize * width + p.x as usize];
        if p.z > cell.0 {
            *cell = (p.z, grey);
        }
    }
}

fn fill(cells: &mut [(f32, f32)], width: usize, [a, b, c]: [Vec3; 3]) {
    let normal = (b - a).cross(c - a);
    let (low, high) = (a.min(b).min(c), a.max(b).max(c));
    if normal.z == 0.0 || !(low.is_finite() && high.is_finite()) {
        return;
    }
    let light = Vec3::new(-0.35, -0.5, 0.79);
    // Both sides of a surface are lit: which one is outside is not known.
    let facing = normal.normalize_or_zero() * normal.z.signum();
    let grey = 0.3 + 0.65 * facing.dot(light).max(0.0);
    let last = |x: f32| (x.max(0.0) as usize).min(width - 1);
    for y in last(low.y)..=last(high.y) {
        for x in last(low.x)..=last(high.x) {
            let p = Vec3::new(x as f32 + 0.5, y as f32 + 0.5, 0.0);
            let share = |u: Vec3, v: Vec3| ((v.x - u.x) * (p.y - u.y) - (v.y - u.y) * (p.x - u.x)) / normal.z;
            let weights = [share(b, c), share(c, a), share(a, b)];
            if weights.iter().all(|w| *w >= -1e-4) {
                let depth = weights[0] * a.z + weights[1] * b.z + weights[2] * c.z;
                put(cells, width, p.with_z(depth), grey);
            }
        }
    }
}

/// Into its place in the strip.
fn average(cells: &[(f32, f32)], at: usize, pixels: &mut [[u8; 2]]) {
    for y in 0..SIZE {
        for x in 0..SIZE {
            let parts = (0..FINE * FINE).map(|k| cells[(y * FINE + k / FINE) * SIZE * FINE + x * FINE + k % FINE]);
            let (sum, hits) =
                parts.filter(|(depth, _)| *depth > f32::NEG_INFINITY).fold((0.0, 0), |(s, n), c| (s + c.1, n + 1));
            if hits > 0 {
                let grey = (sum / hits as f32 * 255.0) as u8;
                // Few greys: the file is a third of the size.
                pixels[(y * POSES + at) * SIZE + x] = [grey & !7, (hits * 255 / (FINE * FINE)) as u8];
            }
        }
    }
}

/// Grey and alpha as PNG (RFC 2083): one image chunk, each row with the filter "up".
fn png(pixels: &[[u8; 2]], width: usize, height: usize) -> Vec<u8> {
    let mut rows = Vec::with_capacity(height * (1 + 2 * width));
    for y in 0..height {
        rows.push(2);
        for x in 0..width {
            let above = if y > 0 { pixels[(y - 1) * width + x] } else { [0; 2] };
            let own = pixels[y * width + x];
            rows.extend([own[0].wrapping_sub(above[0]), own[1].wrapping_sub(above[1])]);
        }
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = packed.write_all(&rows);
    let packed = packed.finish().unwrap_or_default();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(data);
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(kind);
        file.extend(data);
        file.extend(crc.sum().to_be_bytes());
    };
    let mut header = [(width as u32).to_be_bytes(), (height as u32).to_be_bytes()].concat();
    header.extend([8, 4, 0, 0, 0]);
    chunk(b"IHDR", &header);
    chunk(b"IDAT", &packed);
    chunk(b"IEND", &[]);
    file
}

//! True unit normals in all frames, a row for each shaded point: what fits and rest normals are compared with. Tangents alike.
//!
//! A normal is the area-weighted mean over the faces of its point. It is kept in octahedral coordinates of 16 bits [Meyer2010], a third
//! of what a position takes. Where positions are not in memory, normals are not either: they are in a table beside them.

use std::ops::Range;
use std::sync::Arc;

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::mesh::frames::by_frame;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::stored::{TILE, Table};

/// Frames whose normals are found at once.
const FRAME_BLOCK: usize = 16;

/// [G, F] unit normals.
pub(crate) struct NormalRows {
    frames: usize,
    points: usize,
    codes: Codes,
}

/// [G, F] codes.
enum Codes {
    Memory(Vec<[i16; 2]>),
    Stored {
        table: Arc<dyn Table>,
        /// [G] whether there is a normal in any frame.
        known: Vec<bool>,
    },
}

/// Rows that were read last, where they are not in memory.
#[derive(Default)]
pub(crate) struct RowBuffer {
    points: Range<usize>,
    cells: Vec<u32>,
    /// [points, F]
    codes: Vec<[i16; 2]>,
}

impl NormalRows {
    /// Of the points in `range`: `vertices` has the vertex of every point, `triangles` the points of every triangle.
    ///
    /// A point without a normal in some frame has that of the frame before; one without any has none.
    pub fn new(sequence: &MeshSequence, vertices: &[u32], triangles: &[[u32; 3]], range: Range<usize>) -> Self {
        let is_seen = |triangle: &[u32; 3]| triangle.iter().any(|&g| range.contains(&(g as usize)));
        let seen: Vec<([u32; 3], [u32; 3])> = (triangles.iter().filter(|triangle| is_seen(triangle)))
            .map(|points| (*points, points.map(|g| vertices[g as usize])))
            .collect();
        Self::of_frames(sequence, range.len(), |positions| {
            let mut normals = vec![DVec3::ZERO; range.len()];
            for (points, corners) in &seen {
                let [a, b, c] = corners.map(|v| positions[v as usize].as_dvec3());
                let normal = (b - a).cross(c - a);
                for &g in points {
                    if let Some(sum) = normals.get_mut((g as usize).wrapping_sub(range.start)) {
                        *sum += normal;
                    }
                }
            }
            normals
        })
    }

    /// Of `points` points, from what `find` makes of the positions of a frame: [G] directions of any length, zero where there is none.
    pub fn of_frames(sequence: &MeshSequence, points: usize, find: impl Fn(&[Vec3]) -> Vec<DVec3> + Sync) -> Self {
        let (frames, source) = (sequence.frame_count(), sequence.frames());
        let find = |_: usize, positions: &[Vec3]| find(positions).into_iter().map(encode).collect::<Vec<_>>();
        if let Some(scratch) = source.scratch() {
            let (mut writer, mut known, mut cells) =
                (scratch.table(points, frames, 1), vec![false; points], Vec::new());
            for first in (0..frames).step_by(FRAME_BLOCK) {
                for codes in by_frame(&*source, first..frames.min(first + FRAME_BLOCK), find) {
                    known.iter_mut().zip(&codes).for_each(|(known, code)| *known |= *code != NONE);
                    cells.clear();
                    cells.extend(codes.iter().map(|&code| packed(code)));
                    writer.push(&cells);
                }
            }
            return Self { frames, points, codes: Codes::Stored { table: writer.finish(), known } };
        }
        let mut codes = vec![NONE; points * frames];
        for first in (0..frames).step_by(FRAME_BLOCK) {
            let found: Vec<Vec<[i16; 2]>> = by_frame(&*source, first..frames.min(first + FRAME_BLOCK), find);
            codes.par_chunks_mut(frames).with_min_len(256).enumerate().for_each(|(g, row)| {
                row[first..].iter_mut().zip(&found).for_each(|(code, found)| *code = found[g]);
            });
        }
        codes.par_chunks_mut(frames.max(1)).with_min_len(256).for_each(fill);
        Self { frames, points, codes: Codes::Memory(codes) }
    }

    /// Known ones: [G, F].
    #[cfg(test)]
    pub fn known(frames: usize, normals: &[DVec3]) -> Self {
        let codes: Vec<_> = normals.iter().map(|n| encode(*n)).collect();
        Self { frames, points: codes.len() / frames.max(1), codes: Codes::Memory(codes) }
    }

    /// Only some points and frames.
    pub fn pick(&self, points: &[u32], frames: &[u32]) -> Self {
        let mut codes = vec![NONE; points.len() * frames.len()];
        let rows = codes.chunks_exact_mut(frames.len().max(1));
        let mut rows: Vec<(u32, &mut [[i16; 2]])> = points.iter().copied().zip(rows).collect();
        rows.sort_unstable_by_key(|row| row.0);
        rows.par_chunks_mut(TILE).for_each_init(RowBuffer::default, |buffer, rows| {
            for (g, row) in rows {
                let all = self.row(*g as usize, buffer);
                row.iter_mut().zip(frames).for_each(|(code, &t)| *code = all[t as usize]);
            }
        });
        Self { frames: frames.len(), points: points.len(), codes: Codes::Memory(codes) }
    }

    /// F.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Whether point `g` has normals: in all frames, or in none.
    pub fn is_known(&self, g: usize) -> bool {
        match &self.codes {
            Codes::Memory(codes) => codes.get(g * self.frames).is_some_and(|code| *code != NONE),
            Codes::Stored { known, .. } => known.get(g).is_some_and(|known| *known),
        }
    }

    /// Normals of point `g` times `scale`, all x over time, all y, all z; zero where there are none.
    #[inline(always)]
    pub fn load(&self, g: usize, scale: f32, [x, y, z]: [&mut [f32]; 3], buffer: &mut RowBuffer) {
        for (((&code, x), y), z) in self.row(g, buffer).iter().zip(x).zip(y).zip(z) {
            let n = decode(code) * scale;
            (*x, *y, *z) = (n.x, n.y, n.z);
        }
    }
}

impl NormalRows {
    /// [F] codes of point `g`; with those around it in `buffer` where they are not in memory.
    fn row<'a>(&'a self, g: usize, buffer: &'a mut RowBuffer) -> &'a [[i16; 2]] {
        let frames = self.frames;
        match &self.codes {
            Codes::Memory(codes) => &codes[g * frames..(g + 1) * frames],
            Codes::Stored { table, .. } => {
                if !buffer.points.contains(&g) {
                    buffer.fill(&**table, g / TILE * TILE..self.points.min(g / TILE * TILE + TILE), frames);
                }
                let at = g - buffer.points.start;
                &buffer.codes[at * frames..(at + 1) * frames]
            }
        }
    }
}

impl RowBuffer {
    fn fill(&mut self, table: &dyn Table, points: Range<usize>, frames: usize) {
        table.read(0..frames, points.clone(), &mut self.cells);
        self.codes.resize(points.len() * frames, NONE);
        for (t, cells) in self.cells.chunks_exact(points.len()).enumerate() {
            cells.iter().enumerate().for_each(|(at, &cell)| self.codes[at * frames + t] = unpacked(cell));
        }
        self.codes.chunks_mut(frames.max(1)).for_each(fill);
        self.points = points;
    }
}

/// A code as one word, and back.
fn packed([x, y]: [i16; 2]) -> u32 {
    u32::from(x as u16) | u32::from(y as u16) << 16
}

fn unpacked(cell: u32) -> [i16; 2] {
    [cell as u16 as i16, (cell >> 16) as u16 as i16]
}

/// No normal: the one value that [`encode`] does not make.
const NONE: [i16; 2] = [i16::MIN; 2];

/// Largest coordinate.
const UNIT: f32 = 32767.0;

/// On the octahedron |x| + |y| + |z| = 1, its lower half folded over the upper one.
fn encode(normal: DVec3) -> [i16; 2] {
    let sum = normal.abs().element_sum();
    if sum <= 0.0 || !sum.is_finite() {
        return NONE;
    }
    let (x, y) = (normal.x / sum, normal.y / sum);
    let fold = |a: f64, b: f64| if normal.z >= 0.0 { a } else { (1.0 - b.abs()).copysign(a) };
    // Rounded by hand: the function is a call on processors without an instruction for it.
    [fold(x, y), fold(y, x)].map(|a| (a * f64::from(UNIT) + 0.5f64.copysign(a)) as i16)
}

/// A unit vector; zero where there is none.
#[inline(always)]
fn decode(code: [i16; 2]) -> Vec3 {
    let [x, y] = code.map(|a| f32::from(a) * (1.0 / UNIT));
    let z = 1.0 - x.abs() - y.abs();
    let over = (-z).max(0.0);
    let out = Vec3::new(x - over.copysign(x), y - over.copysign(y), z);
    let scale = if code[0] == NONE[0] { 0.0 } else { 1.0 / out.length() };
    out * scale
}

/// A unit normal as rows keep it; zero where there is none.
pub(crate) fn rounded(normal: DVec3) -> Vec3 {
    decode(encode(normal))
}

/// Fills gaps with the normal before, or the first one there is.
fn fill(row: &mut [[i16; 2]]) {
    let mut last = row.iter().copied().find(|code| *code != NONE).unwrap_or(NONE);
    for code in row {
        if *code == NONE {
            *code = last;
        }
        last = *code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::normals::vertex_normals;
    use crate::solve::random::Random;
    use crate::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn codes_keep_directions() {
        let mut random = Random::new(5);
        let mut worst: f64 = 0.0;
        for _ in 0..10_000 {
            let n = random.vector().normalize();
            worst = worst.max(n.distance(decode(encode(n * 3.0)).as_dvec3()));
        }
        assert!(worst < 1e-4, "{worst}");
        for n in [DVec3::X, -DVec3::X, DVec3::Y, -DVec3::Z, DVec3::Z, DVec3::new(-1.0, -1.0, -1.0).normalize()] {
            assert!(n.distance(decode(encode(n)).as_dvec3()) < 1e-4, "{n}");
        }
        assert_eq!(decode(encode(DVec3::ZERO)), Vec3::ZERO);
        let mut row = [NONE, encode(DVec3::X), NONE];
        fill(&mut row);
        assert_eq!(row, [encode(DVec3::X); 3]);
    }

    /// Every row is that of plain vertex normals, also where only a part of the points is asked for.
    #[test]
    fn rows_are_those_of_vertex_normals() {
        let sequence = MeshSequence::try_from(posed_rig(3, &PosedRigParams::default()).sequence).unwrap();
        let triangles = sequence.surface().topology.vertex_triangles();
        let (n, f) = (sequence.vertex_count(), sequence.frame_count());
        let vertices: Vec<u32> = (0..n as u32).collect();
        for range in [0..n, n / 3..n / 2] {
            let rows = NormalRows::new(&sequence, &vertices, &triangles, range.clone());
            for i in range.clone() {
                let (mut x, mut y, mut z) = (vec![0.0; f], vec![0.0; f], vec![0.0; f]);
                rows.load(i - range.start, 2.0, [&mut x, &mut y, &mut z], &mut RowBuffer::default());
                for t in 0..f {
                    let truth = vertex_normals(&sequence.frame(t), &triangles)[i].normalize() * 2.0;
                    let found = DVec3::new(x[t].into(), y[t].into(), z[t].into());
                    assert!(found.distance(truth) < 3e-4, "vertex {i}, frame {t}: {found} {truth}");
                }
            }
        }
    }
}

//! One mesh: its primitives as one, and vertices that an exporter split at seams merged back.
//!
//! A vertex is split where texture coordinates, normals, colours or materials differ. Vertices of a surface that
//! agree in position, influences and all morph targets therefore move as one and become one again; what distinguished them
//! apart stays on the corners. Files of our own say which vertices belong together, in which order.

use glam::Vec3;
use gltf_json::{Index, Mesh};

use super::document::Document;
use super::primitive::{RawPrimitive, unread_attributes};
use crate::classes::{bits, refine};
use crate::gltf::extras::{self, MeshExtras, from_runs};
use crate::{IoError, merge, warning};

/// A mesh; n merged vertices.
#[derive(Default)]
pub struct MeshData {
    /// Name in the file.
    pub name: String,
    /// [n] in mesh space.
    pub positions: Vec<Vec3>,
    /// [n] (joint of the skin, weight), as stored.
    pub influences: Vec<Vec<(u32, f32)>>,
    /// [targets][n] displacements.
    pub targets: Vec<Vec<Vec3>>,
    /// [targets] weights without animation.
    pub target_weights: Vec<f64>,
    /// Corners of each face.
    pub face_sizes: Vec<u32>,
    /// [faces] index into the file's materials.
    pub face_materials: Vec<Option<usize>>,
    /// [corners] merged vertex.
    pub corners: Vec<u32>,
    /// [sets][corners].
    pub uvs: Vec<Vec<[f32; 2]>>,
    /// [corners], if all primitives have them.
    pub normals: Option<Vec<[f32; 3]>>,
    /// [corners], if all primitives have them.
    pub tangents: Option<Vec<[f32; 4]>>,
    /// [corners], if any primitive has them.
    pub colors: Option<Vec<[f32; 4]>>,
}

impl MeshData {
    /// Reads a mesh.
    pub fn read(document: &Document, index: Index<Mesh>) -> Result<Self, IoError> {
        let mesh = document.root.meshes.get(index.value());
        let mesh = mesh.ok_or_else(|| document.malformed(format!("mesh {index} does not exist")))?;
        let mut primitives = Vec::new();
        for (p, primitive) in mesh.primitives.iter().enumerate() {
            let place = format!("mesh {index}, primitive {p}");
            let read = RawPrimitive::read(document, primitive, &place)?;
            if read.is_none() {
                warning::left_out(document.path(), format!("lines of mesh {:?}", mesh.name.as_deref().unwrap_or("")));
            }
            primitives.extend(read);
        }
        let others = mesh.primitives.iter().flat_map(unread_attributes).collect();
        let what = format!("mesh {:?}: the attributes", mesh.name.as_deref().unwrap_or(""));
        warning::left_out_all(document.path(), &what, others);
        let ours = extras::unpack::<MeshExtras>(&mesh.extras).unwrap_or_default();
        let mut pool = Pool::new(&primitives);
        let (merged, count) = pool.own_vertices(&primitives, ours.vertices).unwrap_or_else(|| pool.merge(&primitives));
        let mut data = pool.take(&merged, count);
        data.name = mesh.name.clone().unwrap_or_default();
        data.target_weights = mesh.weights.iter().flatten().map(|w| f64::from(*w)).collect();
        data.target_weights.resize(data.targets.len(), 0.0);
        data.add_faces(document, &primitives, &merged, &ours);
        Ok(data)
    }

    fn add_faces(&mut self, document: &Document, primitives: &[RawPrimitive], merged: &[u32], ours: &MeshExtras) {
        let sets = primitives.iter().map(|p| p.uvs.len()).max().unwrap_or(0);
        self.uvs = vec![Vec::new(); sets];
        let surfaces = || primitives.iter().filter(|p| !p.face_sizes.is_empty());
        let with_normals = !ours.computed_normals && surfaces().all(|p| p.normals.is_some());
        if !with_normals && !ours.computed_normals && surfaces().any(|p| p.normals.is_some()) {
            warning::left_out(document.path(), merge::SOME_NORMALS);
        }
        let with_tangents = with_normals && surfaces().all(|p| p.tangents.is_some());
        let with_colors = surfaces().any(|p| p.colors.is_some());
        let mut normals: Vec<[f32; 3]> = Vec::new();
        let mut tangents: Vec<[f32; 4]> = Vec::new();
        let mut colors: Vec<[f32; 4]> = Vec::new();
        let firsts = starts(primitives.iter().map(|p| p.positions.len()));
        let mut cursors = vec![(0usize, 0usize); primitives.len()];
        for p in face_order(primitives, &ours.face_primitives) {
            let primitive = &primitives[p];
            let (face, corner) = &mut cursors[p];
            let size = primitive.face_sizes[*face];
            self.face_sizes.push(size);
            self.face_materials.push(primitive.material);
            for &v in &primitive.corners[*corner..*corner + size as usize] {
                let v = v as usize;
                self.corners.push(merged[firsts[p] + v]);
                for (set, uvs) in self.uvs.iter_mut().enumerate() {
                    uvs.push(primitive.uvs.get(set).map_or([0.0; 2], |uv| uv[v]));
                }
                normals.extend(primitive.normals.as_ref().filter(|_| with_normals).map(|n| n[v]));
                tangents.extend(primitive.tangents.as_ref().filter(|_| with_tangents).map(|t| t[v]));
                if with_colors {
                    colors.push(primitive.colors.as_ref().map_or([1.0; 4], |c| c[v]));
                }
            }
            *face += 1;
            *corner += size as usize;
        }
        self.normals = (with_normals && !normals.is_empty()).then_some(normals);
        self.tangents = (with_tangents && !tangents.is_empty()).then_some(tangents);
        self.colors = (with_colors && !colors.is_empty()).then_some(colors);
    }
}

/// Where each of several ranges starts when laid end to end.
fn starts(lengths: impl Iterator<Item = usize>) -> Vec<usize> {
    lengths
        .scan(0, |next, length| {
            let start = *next;
            *next += length;
            Some(start)
        })
        .collect()
}

/// Primitive of each face, in the order of the source where it is known and fits, else one after the other.
fn face_order(primitives: &[RawPrimitive], runs: &[(u32, u32)]) -> Vec<usize> {
    let counts: Vec<usize> = primitives.iter().map(|p| p.face_sizes.len()).collect();
    if let Some(order) = from_runs(runs, counts.iter().sum()) {
        let mut seen = vec![0usize; counts.len()];
        let known = order.iter().all(|&p| seen.get_mut(p as usize).map(|seen| *seen += 1).is_some());
        if known && seen == counts {
            return order.into_iter().map(|p| p as usize).collect();
        }
    }
    counts.iter().enumerate().flat_map(|(p, &count)| std::iter::repeat_n(p, count)).collect()
}

/// Vertices of all primitives, end to end.
struct Pool {
    positions: Vec<Vec3>,
    influences: Vec<Vec<(u32, f32)>>,
    targets: Vec<Vec<Vec3>>,
}

impl Pool {
    fn new(primitives: &[RawPrimitive]) -> Self {
        let target_count = primitives.iter().map(|p| p.targets.len()).max().unwrap_or(0);
        let mut pool = Self {
            positions: primitives.iter().flat_map(|p| p.positions.iter().copied()).collect(),
            influences: Vec::new(),
            targets: vec![Vec::new(); target_count],
        };
        for primitive in primitives {
            let n = primitive.positions.len();
            for v in 0..n {
                let sets = primitive.joints.iter().zip(&primitive.weights);
                let slots = sets.flat_map(|(joints, weights)| joints[v].into_iter().zip(weights[v]));
                pool.influences.push(slots.filter(|(_, weight)| *weight != 0.0).collect());
            }
            for (t, deltas) in pool.targets.iter_mut().enumerate() {
                match primitive.targets.get(t) {
                    Some(own) => deltas.extend_from_slice(own),
                    None => deltas.resize(deltas.len() + n, Vec3::ZERO),
                }
            }
        }
        pool
    }

    /// Class of each vertex: equal classes move as one.
    fn classes(&self, start: Vec<u32>) -> Vec<u32> {
        let mut classes = start;
        refine(&mut classes, self.positions.iter().map(|p| bits(p.to_array())));
        // Slots may be in any order.
        let key = |slots: &Vec<(u32, f32)>| {
            let mut key: Vec<(u32, u32)> = slots.iter().map(|&(j, w)| (j, w.to_bits())).collect();
            key.sort_unstable();
            key
        };
        refine(&mut classes, self.influences.iter().map(key));
        for target in &self.targets {
            refine(&mut classes, target.iter().map(|d| bits(d.to_array())));
        }
        classes
    }

    /// Merged vertex of each, numbered by first appearance, and how many there are.
    fn merge(&self, primitives: &[RawPrimitive]) -> (Vec<u32>, usize) {
        // Points each start in a class of their own, vertices of surfaces all in one.
        let mut next = 0;
        let start = primitives.iter().flat_map(|p| {
            std::iter::repeat_n(p.points, p.positions.len())
                .map(|point| {
                    next += u32::from(point);
                    if point { next } else { 0 }
                })
                .collect::<Vec<_>>()
        });
        let classes = self.classes(start.collect());
        let count = classes.iter().max().map_or(0, |c| *c as usize + 1);
        (classes, count)
    }

    /// The original vertices as our own files name them; `None` if they do not, or not consistently.
    fn own_vertices(&mut self, primitives: &[RawPrimitive], count: u32) -> Option<(Vec<u32>, usize)> {
        let count = count as usize;
        let total = self.positions.len();
        let originals: Vec<u32> = match primitives {
            [only] if only.originals.is_none() => (0..total as u32).collect(),
            _ => {
                let all: Option<Vec<&Vec<u32>>> = primitives.iter().map(|p| p.originals.as_ref()).collect();
                all?.into_iter().flatten().copied().collect()
            }
        };
        if count == 0 || count > total {
            return None;
        }
        let classes = self.classes(vec![0; total]);
        let mut class_of = vec![None; count];
        for (&original, &class) in originals.iter().zip(&classes) {
            let slot = class_of.get_mut(original as usize)?;
            if *slot.get_or_insert(class) != class {
                return None;
            }
        }
        class_of.iter().all(Option::is_some).then_some((originals, count))
    }

    /// Keeps the first of each merged vertex.
    fn take(self, merged: &[u32], count: usize) -> MeshData {
        let mut first = vec![usize::MAX; count];
        for (v, &m) in merged.iter().enumerate().rev() {
            first[m as usize] = v;
        }
        let pick = |values: &Vec<Vec3>| first.iter().map(|&v| values[v]).collect::<Vec<_>>();
        MeshData {
            positions: pick(&self.positions),
            targets: self.targets.iter().map(pick).collect(),
            influences: first.iter().map(|&v| self.influences[v].clone()).collect(),
            ..MeshData::default()
        }
    }
}

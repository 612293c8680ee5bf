//! Faces in an order that is short to write: neighbours follow each other.
//!
//! A walk over the faces with the state of the codec: the next face is behind an edge that can be named in one byte, where there is one. Among those, a
//! score prefers recent edges and vertices that have few faces left. Its numbers were found by trial on five meshes (docs/compact.md). Vertices are
//! numbered as the faces use them.

use crate::gltf::meshopt::indices::{EDGES, State, THIRD};

/// What a face loses for every edge that is more recent than its own.
const AGE: f32 = 0.2;
/// What it loses for a new vertex.
const NEW: f32 = 0.5;
/// What it loses for a vertex that takes bytes of its own.
const FAR: f32 = 0.15;
/// What it gains for a vertex with so many faces left, its own included: a vertex is finished rather than left behind.
const GAINS: [f32; 13] = [0.0, 1.0, 0.785, 0.681, 0.616, 0.569, 0.534, 0.506, 0.483, 0.463, 0.447, 0.432, 0.419];

/// Which face is written first, second, and so on, and from which corner on: a quad whose second triangle is behind a recent edge begins with that
/// one; its diagonal stays.
pub fn of_faces(faces: &[Vec<u32>], vertices: usize) -> Vec<(usize, usize)> {
    Walk::new(faces, &Around::new(faces, vertices), vertices).run()
}

/// Faces of each vertex.
struct Around {
    starts: Vec<u32>,
    faces: Vec<u32>,
}

impl Around {
    fn new(faces: &[Vec<u32>], vertices: usize) -> Self {
        let mut starts = vec![0u32; vertices + 1];
        faces.iter().flatten().for_each(|&v| starts[v as usize + 1] += 1);
        for v in 0..vertices {
            starts[v + 1] += starts[v];
        }
        let mut next = starts.clone();
        let mut own = vec![0; faces.iter().map(Vec::len).sum()];
        for (f, face) in faces.iter().enumerate() {
            for &v in face {
                own[next[v as usize] as usize] = f as u32;
                next[v as usize] += 1;
            }
        }
        Self { starts, faces: own }
    }

    fn of(&self, v: u32) -> &[u32] {
        &self.faces[self.starts[v as usize] as usize..self.starts[v as usize + 1] as usize]
    }
}

const UNUSED: u32 = u32::MAX;

struct Walk<'a> {
    faces: &'a [Vec<u32>],
    around: &'a Around,
    done: Vec<bool>,
    /// [N] faces that are not written yet.
    left: Vec<u32>,
    /// [N] number of a vertex that was used.
    number: Vec<u32>,
    /// Vertices by number.
    used: Vec<u32>,
    state: State,
}

impl<'a> Walk<'a> {
    fn new(faces: &'a [Vec<u32>], around: &'a Around, vertices: usize) -> Self {
        Self {
            faces,
            around,
            done: vec![false; faces.len()],
            left: (0..vertices as u32).map(|v| around.of(v).len() as u32).collect(),
            number: vec![UNUSED; vertices],
            used: Vec::with_capacity(vertices),
            state: State::new(),
        }
    }

    fn run(mut self) -> Vec<(usize, usize)> {
        let mut order = Vec::with_capacity(self.faces.len());
        let (mut first, mut open) = (0, 0);
        while order.len() < self.faces.len() {
            let near = self.behind_edge().or_else(|| self.at_recent_vertex().map(|f| (f, 0)));
            let next = near.or_else(|| self.at_used_vertex(&mut open).map(|f| (f, 0))).unwrap_or_else(|| {
                first += self.done[first..].iter().position(|done| !done).unwrap_or(0);
                (first, 0)
            });
            self.write(next);
            order.push(next);
        }
        order
    }

    fn write(&mut self, (f, start): (usize, usize)) {
        self.done[f] = true;
        let face = &self.faces[f];
        for &v in face {
            self.left[v as usize] -= 1;
        }
        for c in 1..face.len().saturating_sub(1) {
            let triangle = [0, c, c + 1].map(|c| face[(start + c) % face.len()]);
            for v in triangle {
                if self.number[v as usize] == UNUSED {
                    self.number[v as usize] = self.used.len() as u32;
                    self.used.push(v);
                }
            }
            self.state.push(triangle.map(|v| self.number[v as usize]));
        }
    }

    /// Faces that are left at a vertex.
    fn free(&self, v: u32) -> impl Iterator<Item = usize> + '_ {
        self.around.of(v).iter().map(|&f| f as usize).filter(|&f| !self.done[f])
    }

    /// The best face behind a recent edge, and its first corner.
    fn behind_edge(&self) -> Option<(usize, usize)> {
        let mut best: Option<(f32, usize, usize)> = None;
        for age in 0..EDGES {
            let (a, b) = self.state.recent.edge(age);
            let (Some(&a), Some(&b)) = (self.used.get(a as usize), self.used.get(b as usize)) else { continue };
            if self.left[a as usize] == 0 || self.left[b as usize] == 0 {
                continue;
            }
            for (f, side) in self.free(a).filter_map(|f| Some((f, side(&self.faces[f], a, b)?))) {
                let score = self.score(f, a, b) - AGE * age as f32;
                if best.is_none_or(|(most, ..)| score > most) {
                    best = Some((score, f, if self.faces[f].len() == 4 { side / 2 * 2 } else { 0 }));
                }
            }
        }
        best.map(|(_, f, start)| (f, start))
    }

    /// How good it is to write a face now, behind the edge (a, b): before its vertices are no longer recent.
    fn score(&self, f: usize, a: u32, b: u32) -> f32 {
        let of = |&v: &u32| {
            let gain = GAINS[(self.left[v as usize] as usize).min(GAINS.len() - 1)];
            if self.number[v as usize] == UNUSED {
                gain - NEW
            } else if v != a && v != b && !self.is_short(v) {
                gain - FAR
            } else {
                gain
            }
        };
        self.faces[f].iter().map(of).sum()
    }

    /// Whether a vertex takes no bytes of its own behind an edge.
    fn is_short(&self, v: u32) -> bool {
        let number = self.number[v as usize];
        number == UNUSED
            || THIRD.clone().any(|age| self.state.recent.vertex(age) == number)
            || number.abs_diff(self.state.last) == 1
    }

    /// A face with many recent vertices.
    fn at_recent_vertex(&self) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        for age in THIRD {
            let Some(&v) = self.used.get(self.state.recent.vertex(age) as usize) else { continue };
            for f in self.free(v) {
                let far = self.faces[f].iter().filter(|&&v| !self.is_short(v)).count();
                if best.is_none_or(|(least, _)| far < least) {
                    best = Some((far, f));
                }
            }
        }
        best.map(|(_, f)| f)
    }

    /// A face at the first vertex that has one.
    fn at_used_vertex(&self, open: &mut usize) -> Option<usize> {
        while *open < self.used.len() && self.left[self.used[*open] as usize] == 0 {
            *open += 1;
        }
        self.used.get(*open).and_then(|&v| self.free(v).next())
    }
}

/// Which side of a face goes from one vertex to another.
fn side(face: &[u32], a: u32, b: u32) -> Option<usize> {
    (0..face.len()).find(|&c| face[c] == a && face[(c + 1) % face.len()] == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gltf::meshopt::indices;

    /// A grid whose vertices and faces are in no order.
    fn shuffled_grid(side: u32) -> (Vec<Vec<u32>>, usize) {
        let count = (side + 1) * (side + 1);
        let scattered = |v: u32| (v * 7919) % count;
        let mut faces = Vec::new();
        for y in 0..side {
            for x in 0..side {
                let a = y * (side + 1) + x;
                faces.push([a, a + 1, a + side + 2].map(scattered).to_vec());
                faces.push([a, a + side + 2, a + side + 1].map(scattered).to_vec());
            }
        }
        faces.sort();
        (faces, count as usize)
    }

    #[test]
    fn every_face_is_there_once() {
        let (mut faces, vertices) = shuffled_grid(20);
        faces.push(vec![5, 5, 5]);
        faces.push(vec![0, 7, 2, 9]);
        let mut order: Vec<usize> = of_faces(&faces, vertices).into_iter().map(|(f, _)| f).collect();
        order.sort_unstable();
        assert_eq!(order, (0..faces.len()).collect::<Vec<_>>());
        assert!(of_faces(&[], 0).is_empty());
    }

    #[test]
    fn neighbours_follow_each_other() {
        let (faces, vertices) = shuffled_grid(40);
        let bytes = |order: &[usize]| {
            let mut number = vec![UNUSED; vertices];
            let mut next = 0;
            let mut of = |v: u32| {
                let own = &mut number[v as usize];
                if *own == UNUSED {
                    *own = next;
                    next += 1;
                }
                *own
            };
            let triangles: Vec<[u32; 3]> = order.iter().map(|&f| [0, 1, 2].map(|c| of(faces[f][c]))).collect();
            indices::encode_triangles(&triangles).len() as f64 / triangles.len() as f64
        };
        let (before, after) = (
            bytes(&(0..faces.len()).collect::<Vec<_>>()),
            bytes(&of_faces(&faces, vertices).into_iter().map(|(f, _)| f).collect::<Vec<_>>()),
        );
        assert!(after < 1.15 && before > 2.0, "{before} {after}");
    }
}

//! A rig as several skins of few joints each: engines have a limit, and a file may have as many skins as it needs.
//!
//! Faces that need the same joints stay together. A skin starts with the first of them that are left, and takes those that need the
//! fewest further joints, until none fits any more.

use std::collections::{BTreeSet, HashMap};

use bonesmith_core::Rig;

/// One skin.
pub(crate) struct Group {
    /// Ascending; those on the border of two groups are in both.
    pub vertices: Vec<u32>,
    /// Ascending.
    pub faces: Vec<u32>,
    /// Ascending.
    pub bones: Vec<usize>,
}

/// What needs the same joints.
#[derive(Default)]
struct Patch {
    bones: Vec<usize>,
    faces: Vec<u32>,
    /// Vertices without faces.
    loose: Vec<u32>,
}

/// Groups of faces that need at most `max_joints` joints each; every face and every vertex is in one. An error names a face that needs
/// more.
pub(crate) fn groups(rig: &Rig, max_joints: usize) -> Result<Vec<Group>, String> {
    let patches = patches(rig);
    if let Some(patch) = patches.iter().find(|patch| patch.bones.len() > max_joints) {
        let what = match (patch.faces.first(), patch.loose.first()) {
            (Some(face), _) => format!("face {face}"),
            (None, vertex) => format!("vertex {}", vertex.copied().unwrap_or_default()),
        };
        return Err(format!(
            "{what} needs {} joints, and a skin may have {max_joints}: allow more of them, or use fewer influences",
            patch.bones.len()
        ));
    }
    let mut of_bone: Vec<Vec<usize>> = vec![Vec::new(); rig.bone_count()];
    for (p, patch) in patches.iter().enumerate() {
        patch.bones.iter().for_each(|&j| of_bone[j].push(p));
    }
    let mut growth = Growth {
        missing: patches.iter().map(|patch| patch.bones.len()).collect(),
        done: vec![false; patches.len()],
        near: BTreeSet::new(),
    };
    let mut groups = Vec::new();
    let mut first = 0;
    while let Some(seed) = (first..patches.len()).find(|&p| !growth.done[p]) {
        first = seed;
        let (mut members, mut bones, mut cursor) = (Vec::new(), BTreeSet::new(), seed);
        while let Some(p) = growth.next(max_joints - bones.len(), &mut cursor) {
            growth.take(p);
            members.push(p);
            for &j in &patches[p].bones {
                if bones.insert(j) {
                    growth.reach(&of_bone[j]);
                }
            }
        }
        growth.reset(&patches);
        groups.push(group(rig, members.into_iter().map(|p| &patches[p]), bones));
    }
    Ok(groups)
}

/// Faces, and vertices without any, by the joints that they need; in the order of their first.
fn patches(rig: &Rig) -> Vec<Patch> {
    let topology = &rig.surface.topology;
    let mut has_face = vec![false; rig.vertex_count()];
    let mut patches: Vec<Patch> = Vec::new();
    let mut of_bones: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut patch_of = |vertices: &[u32], patches: &mut Vec<Patch>| {
        let mut bones: Vec<usize> = vertices.iter().flat_map(|&i| rig.weights.of(i as usize).map(|(j, _)| j)).collect();
        bones.sort_unstable();
        bones.dedup();
        *of_bones.entry(bones).or_insert_with_key(|bones| {
            patches.push(Patch { bones: bones.clone(), ..Patch::default() });
            patches.len() - 1
        })
    };
    for (f, face) in topology.faces().enumerate() {
        let p = patch_of(face, &mut patches);
        patches[p].faces.push(f as u32);
        face.iter().for_each(|&i| has_face[i as usize] = true);
    }
    for i in (0..rig.vertex_count() as u32).filter(|&i| !has_face[i as usize]) {
        let p = patch_of(&[i], &mut patches);
        patches[p].loose.push(i);
    }
    patches
}

/// Which patches are left while a group grows.
struct Growth {
    /// Joints of each patch that the group does not have.
    missing: Vec<usize>,
    done: Vec<bool>,
    /// (missing, patch) of those that share a joint with the group.
    near: BTreeSet<(usize, usize)>,
}

impl Growth {
    /// The patch that needs the fewest further joints, at most `room`; of those that share none with the group, the first.
    fn next(&self, room: usize, cursor: &mut usize) -> Option<usize> {
        if let Some(&(_, p)) = self.near.first().filter(|(missing, _)| *missing <= room) {
            return Some(p);
        }
        if room == 0 {
            return None;
        }
        // What did not fit before does not fit now, unless it is near.
        while *cursor < self.done.len() && (self.done[*cursor] || self.missing[*cursor] > room) {
            *cursor += 1;
        }
        (*cursor < self.done.len()).then_some(*cursor)
    }

    fn take(&mut self, p: usize) {
        self.near.remove(&(self.missing[p], p));
        self.done[p] = true;
    }

    /// The group has a joint of these patches now.
    fn reach(&mut self, patches: &[usize]) {
        for &p in patches.iter().filter(|&&p| !self.done[p]) {
            self.near.remove(&(self.missing[p], p));
            self.missing[p] -= 1;
            self.near.insert((self.missing[p], p));
        }
    }

    fn reset(&mut self, patches: &[Patch]) {
        for (_, p) in std::mem::take(&mut self.near) {
            self.missing[p] = patches[p].bones.len();
        }
    }
}

fn group<'a>(rig: &Rig, patches: impl Iterator<Item = &'a Patch>, bones: BTreeSet<usize>) -> Group {
    let (mut vertices, mut faces) = (Vec::new(), Vec::new());
    for patch in patches {
        faces.extend(&patch.faces);
        vertices.extend(&patch.loose);
        vertices.extend(patch.faces.iter().flat_map(|&f| rig.surface.topology.face(f as usize)));
    }
    vertices.sort_unstable();
    vertices.dedup();
    faces.sort_unstable();
    Group { vertices, faces, bones: bones.into_iter().collect() }
}

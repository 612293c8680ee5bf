//! What all readers of skinned meshes have in common: where the rest pose stands, weights as a table, names, kinds.

use std::collections::HashMap;
use std::path::Path;

use bonesmith_core::transform::Trs;
use bonesmith_core::{Bone, BoneKind, Clip, SparseWeights};
use glam::{DAffine3, DMat3, DVec3, Vec3};

use crate::warning;

/// Joints agree on `world_from_mesh` within this, relative to the size of the model.
const AGREEMENT: f64 = 1e-3;
/// Closer than this to no turn and no scale is none.
const NO_TURN: f64 = 1e-5;

/// `world_from_mesh` in the unanimated file, if the joints in use agree on it; else only their mean scale, so that
/// rest pose and motion have one unit.
///
/// `places`: world_from_joint * joint_from_mesh of each joint in use, in the pose that the file rests in.
pub fn place_at_rest(places: &[DAffine3], positions: &[Vec3]) -> DAffine3 {
    let low = positions.iter().copied().fold(Vec3::INFINITY, Vec3::min).as_dvec3();
    let high = positions.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).as_dvec3();
    let corners = [low, high, DVec3::new(low.x, high.y, high.z), DVec3::new(high.x, low.y, high.z)];
    let Some(&first) = places.first() else { return DAffine3::IDENTITY };
    let inverse = first.inverse();
    if !first.is_finite() || !inverse.is_finite() || !low.is_finite() || !high.is_finite() {
        return DAffine3::IDENTITY;
    }
    let size = first.transform_vector3(high - low).length();
    let off = |m: &DAffine3, c: &DVec3| m.transform_point3(*c).distance(first.transform_point3(*c));
    if places.iter().all(|m| corners.iter().all(|c| off(m, c) <= AGREEMENT * size)) {
        return tidy(first, size);
    }
    let log_scale = places.iter().map(|m| m.matrix3.determinant().abs().ln()).sum::<f64>() / (3 * places.len()) as f64;
    let scale = log_scale.exp();
    if !scale.is_normal() || (scale - 1.0).abs() < 0.01 {
        return DAffine3::IDENTITY;
    }
    DAffine3::from_scale(DVec3::splat(scale))
}

/// Without a turn or scale that is rounding only, so that rest poses come back bit for bit.
fn tidy(m: DAffine3, size: f64) -> DAffine3 {
    if !m.matrix3.abs_diff_eq(DMat3::IDENTITY, NO_TURN) {
        return m;
    }
    let still = m.translation.length() <= NO_TURN * size;
    if still { DAffine3::IDENTITY } else { DAffine3::from_translation(m.translation) }
}

/// [N] influences of each vertex as a table: weights as stored where they are sound, else made so: sorted, scaled to sum to 1.
///
/// Those that are negative or no numbers become 0, with a warning about the file at `path`.
pub fn pack_weights(path: &Path, influences: &[Vec<(usize, f64)>]) -> SparseWeights {
    let unsound = |row: &&Vec<(usize, f64)>| row.iter().any(|(_, w)| !(*w >= 0.0 && w.is_finite()));
    let count = influences.iter().filter(unsound).count();
    if count > 0 {
        let vertices = if count == 1 { "1 vertex".to_owned() } else { format!("{count} vertices") };
        warning::left_out(path, format!("weights of {vertices} that are negative or no numbers"));
    }
    let slots = influences.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut tables = (vec![0u16; influences.len() * slots], vec![0.0f32; influences.len() * slots]);
    let mut unsound = Vec::new();
    for (i, row) in influences.iter().enumerate() {
        let mut row = row.clone();
        row.sort_by(|a, b| b.1.total_cmp(&a.1));
        let sum: f64 = row.iter().map(|(_, w)| w).sum();
        let repeated = (1..row.len()).any(|k| row[..k].iter().any(|(j, _)| *j == row[k].0));
        let normal = (sum - 1.0).abs() < 1e-6; // not so for a NaN either
        if repeated || !normal || row.iter().any(|(_, w)| *w <= 0.0) {
            unsound.push(i);
            continue;
        }
        for (k, &(j, w)) in row.iter().enumerate() {
            (tables.0[i * slots + k], tables.1[i * slots + k]) = (j as u16, w as f32);
        }
    }
    let mut weights = SparseWeights::from_tables(slots, tables.0, tables.1)
        .unwrap_or_else(|| SparseWeights::new(influences.len(), slots));
    unsound.into_iter().for_each(|i| weights.set(i, &influences[i]));
    weights
}

/// The narrowest kind that holds all transforms, to the precision of a float32 file.
pub fn kind_of(bones: &[Bone], clips: &[Clip]) -> BoneKind {
    const TOLERANCE: f64 = 1e-4;
    let mut kind = BoneKind::Rigid;
    for (at, m) in clips.iter().flat_map(|clip| clip.posed_from_rest.iter().enumerate()) {
        let product = m.matrix3.transpose() * m.matrix3;
        if product.abs_diff_eq(DMat3::IDENTITY, TOLERANCE) && m.matrix3.determinant() > 0.0 {
            continue;
        }
        let local: DAffine3 = *m * bones[at % bones.len()].world_from_bind;
        if Trs::from_affine(local, TOLERANCE).is_none() {
            return BoneKind::Affine;
        }
        kind = BoneKind::Trs;
    }
    kind
}

/// Whether two skins mean the same by a joint: their matrices differ by the rounding of float32 only.
pub fn same_bind(a: &DAffine3, b: &DAffine3) -> bool {
    const ROUNDING: f64 = 1e-6;
    let linear = a.matrix3.to_cols_array().into_iter().map(f64::abs).fold(0.0, f64::max);
    let far = a.translation.abs().max_element().max(b.translation.abs().max_element());
    a.matrix3.abs_diff_eq(b.matrix3, ROUNDING * linear.max(1.0))
        && a.translation.abs_diff_eq(b.translation, ROUNDING * far.max(1.0))
}

/// Parents as our own files store them, -1 for roots; `None` where they are not those of `count` bones.
pub fn forest(reported: &[i32], count: usize) -> Option<Vec<Option<usize>>> {
    let parent = |&p: &i32| if p == -1 { Some(None) } else { usize::try_from(p).ok().filter(|p| *p < count).map(Some) };
    let parents: Option<Vec<Option<usize>>> = reported.iter().map(parent).collect();
    parents.filter(|parents| parents.len() == count && is_forest(parents))
}

/// [B] bones above each one, for parents that form a forest.
pub fn depths(parents: &[Option<usize>]) -> Vec<usize> {
    let mut depths: Vec<Option<usize>> = vec![None; parents.len()];
    let mut path = Vec::new();
    for start in 0..parents.len() {
        let mut at = Some(start);
        while let Some(j) = at.filter(|&j| depths[j].is_none()) {
            path.push(j);
            at = parents[j];
        }
        let mut depth = at.and_then(|j| depths[j]).map_or(0, |depth| depth + 1);
        while let Some(j) = path.pop() {
            depths[j] = Some(depth);
            depth += 1;
        }
    }
    depths.into_iter().map(Option::unwrap_or_default).collect()
}

/// No bone is its own ancestor.
fn is_forest(parents: &[Option<usize>]) -> bool {
    // 0 unknown, 1 on the way up, 2 sound.
    let mut state = vec![0u8; parents.len()];
    for start in 0..parents.len() {
        let mut path = Vec::new();
        let mut at = Some(start);
        while let Some(j) = at.filter(|&j| state[j] != 2) {
            if state[j] == 1 {
                return false;
            }
            state[j] = 1;
            path.push(j);
            at = parents[j];
        }
        path.into_iter().for_each(|j| state[j] = 2);
    }
    true
}

/// Hands out names that no other bone has: a repeated one gets a number.
pub struct UniqueNames {
    uses: HashMap<String, usize>,
}

impl UniqueNames {
    /// `all` are the names that will be asked for: numbers avoid them.
    pub fn new<'a>(all: impl Iterator<Item = &'a str>) -> Self {
        Self { uses: all.map(|name| (name.to_owned(), 0)).collect() }
    }

    /// `name`, or `name.001` and so on where it was handed out before.
    pub fn name(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        while let Some(count) = self.uses.get_mut(&candidate).filter(|count| **count > 0) {
            candidate = format!("{name}.{count:03}");
            *count += 1;
        }
        self.uses.insert(candidate.clone(), 1);
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_of_a_forest() {
        assert_eq!(depths(&[Some(2), None, Some(1), Some(2), None]), [2, 0, 1, 2, 0]);
        // A chain from its end: as long as there may be, and quick.
        let chain: Vec<Option<usize>> = (0..1 << 16).map(|j| Some(j + 1).filter(|p| *p < 1 << 16)).collect();
        assert_eq!(depths(&chain)[0], (1 << 16) - 1);
    }
}

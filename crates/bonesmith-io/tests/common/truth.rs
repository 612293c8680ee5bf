//! Characters whose true weights and bones are known.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::{Bone, BoneKind, Clip, MeshSequence, Rig, SparseWeights};
use bonesmith_io::{LoadOptions, load_sequence};
use glam::{DAffine3, DMat3, DVec3};

/// Shape and float32 values of one array of an archive.
pub fn array(path: &Path, key: &str) -> (Vec<usize>, Vec<f32>) {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(&format!("{key}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
    let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = String::from_utf8_lossy(&bytes[10..header]).into_owned();
    assert!(text.contains("<f4") && text.contains("'fortran_order': False"), "{text}");
    let shape = text.split('(').nth(1).unwrap().split(')').next().unwrap();
    let shape = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    (shape, bytes[header..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

/// The true rig of a `gt_*` sequence, bones loose, and the sequence.
pub fn known(data: &Path, name: &str) -> (Rig, MeshSequence) {
    let path = data.join(format!("sequences/{name}.npz"));
    let raw = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap();
    let sequence = MeshSequence::try_from(raw).unwrap();
    let (shape, dense) = array(&path, "gt_weights");
    let [n, b] = shape[..] else { panic!("{shape:?}") };
    let most = dense.chunks(b).map(|row| row.iter().filter(|w| **w > 0.0).count()).max().unwrap();
    let mut weights = SparseWeights::new(n, most);
    for (i, row) in dense.chunks(b).enumerate() {
        weights.set(i, &row.iter().map(|w| f64::from(*w)).enumerate().collect::<Vec<_>>());
    }
    let (_, matrices) = array(&path, "gt_bones");
    let posed_from_rest = matrices.as_chunks::<12>().0.iter().map(affine).collect();
    let bone =
        |j: usize| Bone { name: format!("joint_{j:02}"), parent: None, world_from_bind: DAffine3::IDENTITY, tip: None };
    let rig = Rig {
        name: name.into(),
        rest: sequence.rest().to_vec(),
        surface: Arc::clone(sequence.surface()),
        weights,
        bones: (0..b).map(bone).collect(),
        kind: BoneKind::Rigid,
        clips: vec![Clip { name: name.into(), times_secs: sequence.times_secs().to_vec(), posed_from_rest }],
        params_json: String::new(),
    };
    rig.check().unwrap();
    (rig, sequence)
}

fn affine(m: &[f32; 12]) -> DAffine3 {
    let column = |c: usize| DVec3::new(m[c].into(), m[4 + c].into(), m[8 + c].into());
    DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) }
}

/// Weights that say nothing: every vertex on bone 0.
pub fn on_one_bone(rig: &Rig) -> Rig {
    let mut weights = SparseWeights::new(rig.vertex_count(), 1);
    (0..rig.vertex_count()).for_each(|i| weights.set(i, &[(0, 1.0)]));
    Rig { weights, ..rig.clone() }
}

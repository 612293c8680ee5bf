//! Bones that are known are found again, and nothing is found where there are none.

use glam::DAffine3;

use crate::cluster::exact::unmix::{Patch, unmix_rigid};
use crate::cluster::exact::{Exact, Path, Points, find};
use crate::mesh::sequence::{MeshSequence, RawSequence};
use crate::mesh::topology::Adjacency;
use crate::skinning::unit::UnitSpace;
use crate::synthetic::pieces::{soft_body, with_noise};
use crate::synthetic::{PosedRig, jointed_body};

/// All vertices and frames of a sequence.
fn points(raw: RawSequence) -> (Points, UnitSpace) {
    let sequence = MeshSequence::try_from(raw).unwrap();
    let space = UnitSpace::new(&sequence);
    let near = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
    let every = |count: usize| (0..count as u32).collect::<Vec<u32>>();
    let (vertices, frames) = (every(sequence.vertex_count()), every(sequence.frame_count()));
    (Points::new(&sequence, &space, &vertices, &frames, near), space)
}

/// [B] the true bones in the unit space.
fn truth(known: &PosedRig, space: &UnitSpace) -> Vec<Path> {
    let clip = &known.rig.clips[0];
    let unit = |t: usize, m: &DAffine3| {
        let rows = space.matrix(t, m);
        let matrix = glam::DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|a| rows[a][c])));
        DAffine3 { matrix3: matrix, translation: glam::DVec3::from_array(std::array::from_fn(|a| rows[a][3])) }
    };
    (0..known.rig.bones.len()).map(|j| (0..clip.frame_count()).map(|t| unit(t, &clip.frame(t)[j])).collect()).collect()
}

fn found(raw: RawSequence) -> (Points, UnitSpace, Option<Exact>) {
    let (points, space) = points(raw);
    let found = find(&points, 64, 0, &mut || Ok(())).unwrap();
    (points, space, found)
}

#[test]
fn the_bones_of_a_known_rig_are_found_again() {
    let known = jointed_body(3, 24, 2);
    let (points, space, found) = found(known.sequence.clone());
    let found = found.expect("the body has bones");
    assert!(found.share > 0.9, "{}", found.share);
    let truth = truth(&known, &space);
    for (j, path) in found.bones.iter().enumerate() {
        let own = |row: &Vec<(usize, f64)>| row.iter().any(|(k, w)| *k == j && *w > 0.5);
        let members: Vec<usize> = (0..points.len()).filter(|&i| own(&found.weights[i])).collect();
        let nearest = truth.iter().map(|bone| points.distance(path, bone, &members)).fold(f64::INFINITY, f64::min);
        assert!(nearest < 1e-5, "bone {j} with {} vertices: {nearest}", members.len());
    }
    assert_eq!(found.bones.len(), truth.len());
}

/// Weights and bones together move explained vertices to where they are.
#[test]
fn what_is_explained_is_where_it_should_be() {
    let (points, _, found) = found(jointed_body(5, 24, 2).sequence);
    let found = found.expect("the body has bones");
    for (i, row) in found.weights.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        assert!((row.iter().map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-3);
        for (t, p) in points.posed(i).iter().enumerate() {
            let posed =
                row.iter().map(|(j, w)| found.bones[*j][t].transform_point3(points.rest[i]) * *w).sum::<glam::DVec3>();
            assert!(posed.distance(*p) < 1e-4, "vertex {i}, frame {t}: {}", posed.distance(*p));
        }
    }
}

/// A patch on two bones of which one is known gives the other one.
#[test]
fn a_blend_gives_the_other_bone() {
    let known = jointed_body(7, 24, 3);
    let (points, space) = points(known.sequence.clone());
    let truth = truth(&known, &space);
    let weights = &known.rig.weights;
    let is_between = |i: usize| {
        let row: Vec<(usize, f32)> = weights.of(i).filter(|(_, w)| *w > 0.0).collect();
        row.len() == 2 && row.iter().all(|(j, w)| (*j == 3 || *j == 4) && *w > 0.05)
    };
    let members: Vec<usize> = (0..points.len()).filter(|&i| is_between(i)).take(16).collect();
    assert!(members.len() >= 6, "{}", members.len());
    let every: Vec<usize> = (0..points.frames()).collect();
    let patch = Patch::new(&points, &members, &[&truth[3]], &every);
    let guess = unmix_rigid(&patch, &points.rigid(&members), &truth[3], 1e-6).expect("one bone is unknown");
    let off = points.distance(&guess.path, &truth[4], &members);
    assert!(off < 1e-4, "{off}");
}

#[test]
fn nothing_is_found_in_noise_and_soft_bodies() {
    let noisy = with_noise(jointed_body(3, 24, 2).sequence, 1e-3, 1);
    assert!(found(noisy).2.is_none());
    assert!(found(soft_body(24)).2.is_none_or(|found| found.share < 0.5));
}

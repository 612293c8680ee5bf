//! The first bones: always as many as asked for, each with vertices.

use crate::cluster::split::split;
use crate::mesh::sequence::{MeshSequence, RawSequence};
use crate::skinning::tests::*;
use crate::synthetic::awkward;

fn problem(raw: RawSequence) -> Problem {
    Problem::new(&MeshSequence::try_from(raw).unwrap())
}

#[track_caller]
fn assert_all_used(name: &str, problem: &Problem, count: usize) {
    let (motion, labels) = split(problem, count, &mut || Ok(())).unwrap();
    assert_eq!(motion.bones, count, "{name}");
    assert_eq!((motion.frames(), labels.len()), (problem.frames(), problem.vertices()), "{name}");
    let mut used = vec![0; count];
    labels.iter().for_each(|&j| used[j as usize] += 1);
    assert!(used.iter().all(|&n| n > 0), "{name}, {count} bones: vertices {used:?}");
    assert!(motion.rows().iter().all(|x| x.is_finite()), "{name}");
}

#[test]
fn awkward_meshes_give_every_count() {
    for (name, raw) in awkward::all() {
        let problem = problem(raw);
        let n = problem.vertices();
        for count in [1, 2, 3, 5, 7, 16, n - 1, n].into_iter().filter(|&count| count <= n) {
            assert_all_used(name, &problem, count);
        }
    }
}

#[test]
fn vertices_in_one_point_give_every_count() {
    let mut raw = awkward::bending_tube();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        frame.positions.fill(glam::Vec3::splat(t as f32));
    }
    let problem = problem(raw);
    for count in [1, 2, 5, problem.vertices()] {
        assert_all_used("one point", &problem, count);
    }
}

/// More bones than asked for are never given; more than vertices cannot be.
#[test]
fn as_many_bones_as_vertices_at_most() {
    let problem = problem(awkward::smallest());
    assert_eq!(split(&problem, 100, &mut || Ok(())).unwrap().0.bones, 4);
}

/// Pieces that move rigidly and apart are found as they are: nothing is left to explain.
#[test]
fn rigid_pieces_are_distinguished() {
    let mut raw = awkward::several_components();
    let n = raw.frames[0].positions.len() / 3;
    let rest = raw.frames[0].positions.clone();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (i, p) in frame.positions.iter_mut().enumerate() {
            let turn = glam::Quat::from_rotation_y(0.2 * t as f32 * (i / n) as f32);
            *p = turn * rest[i] + glam::Vec3::Z * (0.1 * (t * (i / n)) as f32);
        }
    }
    let problem = problem(raw);
    let (motion, labels) = split(&problem, 3, &mut || Ok(())).unwrap();
    for (i, label) in labels.iter().enumerate() {
        assert_eq!(label, &labels[i / n * n], "vertex {i}");
    }
    let skin = Skin::rigid(1, &labels, problem.rest.clone());
    let error = naive::squared_error(&problem, &motion, &skin);
    assert!(problem.e_rms(error) < 1e-3, "E_RMS {}", problem.e_rms(error));
}

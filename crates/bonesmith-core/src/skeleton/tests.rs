//! Parts of the skeleton fit against brute force and finite differences.

use glam::{DMat3, DQuat, DVec3};

use crate::mesh::sequence::MeshSequence;
use crate::observer::Silent;
use crate::skeleton::graph::{Gap, JointGraph};
use crate::skeleton::joint_step::Quadratic;
use crate::skeleton::pose::{Pose, joint_map};
use crate::skeleton::tree::{Edge, Tree};
use crate::skinning::motion::Motion;
use crate::skinning::params::FitParams;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::solve::random::Random;
use crate::synthetic::jointed_body;

/// A known body, its true tree, and its skin in the unit of the problem.
fn known() -> (Problem, Pose, Skin) {
    let known = jointed_body(3, 9, 1);
    let sequence = MeshSequence::try_from(known.sequence).unwrap();
    let problem = Problem::new(&sequence);
    let space = &problem.space;
    let bones = &known.rig.bones;
    let joint = |j: usize| (bones[j].world_from_bind.translation - space.sphere.center) / space.sphere.radius;
    let edge = |j: usize| bones[j].parent.map(|p| Edge { bones: (p, j), joint: joint(j) });
    let edges: Vec<Edge> = (0..bones.len()).filter_map(edge).collect();
    let tree = Tree::new(bones.len(), &edges, 0, joint(0));
    let clip = &known.rig.clips[0];
    let rotations = clip.posed_from_rest.iter().map(|m| m.matrix3).collect();
    let mut root = Motion::identity(1, clip.frame_count());
    (0..clip.frame_count()).for_each(|t| root.set(0, t, &space.matrix(t, &clip.frame(t)[0])));
    let places = (0..clip.frame_count()).map(|t| root.transform(0, t).transform_point3(joint(0))).collect();
    let mut skin = Skin::rigid(4, &vec![0; problem.vertices()], problem.rest.clone());
    for i in 0..problem.vertices() {
        for (k, (j, w)) in known.rig.weights.of(i).enumerate() {
            (skin.bones[4 * i + k], skin.weights[4 * i + k]) = (j as u16, f64::from(w));
        }
    }
    (problem, Pose { tree, rotations, places }, skin)
}

/// A pose with everything a little off.
fn disturbed(pose: &Pose, size: f64, seed: u64) -> Pose {
    let mut random = Random::new(seed);
    let mut pose = pose.clone();
    for r in &mut pose.rotations {
        *r = DMat3::from_quat(DQuat::from_scaled_axis(random.vector() * size)) * *r;
    }
    pose.places.iter_mut().for_each(|p| *p += random.vector() * size * 0.3);
    let below: Vec<usize> = pose.tree.order[1..].to_vec();
    for j in below {
        pose.tree.joints[j] += random.vector() * size * 0.2;
    }
    pose
}

/// The error by definition, vertex by vertex.
fn squared_error(problem: &Problem, motion: &Motion, skin: &Skin) -> f64 {
    let f = problem.frames();
    let mut sum = 0.0;
    for i in 0..problem.vertices() {
        let v = problem.trajectory(i);
        for t in 0..f {
            let mut p = DVec3::ZERO;
            for (j, w) in skin.of(i) {
                p += w * motion.transform(j, t).transform_point3(skin.rest[i]);
            }
            let truth = DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]));
            sum += p.distance_squared(truth);
        }
    }
    sum
}

#[test]
fn the_true_pose_has_no_error() {
    let (problem, pose, skin) = known();
    assert!(problem.e_rms(squared_error(&problem, &pose.to_motion(), &skin)) < 1e-3);
}

#[test]
fn posed_vertices_are_linear_in_world_rotations() {
    let (_, pose, skin) = known();
    let pose = disturbed(&pose, 0.4, 1);
    let (b, map, motion) = (pose.bones(), joint_map(&pose.tree), pose.to_motion());
    for i in (0..skin.rest.len()).step_by(7) {
        let mut x = vec![0.0; 4 * b];
        for (j, w) in skin.of(i) {
            (0..3).for_each(|a| x[a * b + j] = w * skin.rest[i][a]);
            x[3 * b + j] = w;
        }
        let z: Vec<f64> = map.chunks_exact(4 * b).map(|row| row.iter().zip(&x).map(|(m, x)| m * x).sum()).collect();
        assert!((z[3 * b] - 1.0).abs() < 1e-6);
        for t in 0..pose.frames() {
            let turned = (0..b).map(|j| pose.frame(t)[j] * DVec3::from_slice(&z[3 * j..])).sum::<DVec3>();
            let mut direct = DVec3::ZERO;
            for (j, w) in skin.of(i) {
                direct += w * motion.transform(j, t).transform_point3(skin.rest[i]);
            }
            assert!((pose.places[t] * z[3 * b] + turned).abs_diff_eq(direct, 1e-6));
        }
    }
}

#[test]
fn errors_from_moments_are_the_errors() {
    let (problem, pose, skin) = known();
    let start = disturbed(&pose, 0.1, 2);
    let motion = start.to_motion();
    let moments = pass::gather(&problem, &motion, &skin);
    let mut quadratic = Quadratic::new(&moments, &motion);
    let other = disturbed(&pose, 0.2, 3).to_motion();
    quadratic.move_to(other.clone());
    let direct = squared_error(&problem, &other, &skin);
    assert!((quadratic.squared_error - direct).abs() < 1e-4 * direct, "{} {direct}", quadratic.squared_error);
}

/// At the minimum over rotations and places no small turn lowers the error: finite differences are zero.
#[test]
fn rotating_ends_where_the_gradient_vanishes() {
    let (problem, pose, skin) = known();
    let mut start = disturbed(&pose, 0.15, 4);
    let motion = start.to_motion();
    let moments = pass::gather(&problem, &motion, &skin);
    let mut quadratic = Quadratic::new(&moments, &motion);
    let before = quadratic.squared_error;
    let after = quadratic.rotate(&mut start, 60);
    assert!(after < 0.5 * before);
    let direct = squared_error(&problem, &start.to_motion(), &skin);
    assert!((after - direct).abs() < 1e-4 * before);
    let step = 1e-4;
    let slope = |change: &dyn Fn(&mut Pose, f64)| {
        let at = |x: f64| {
            let mut pose = start.clone();
            change(&mut pose, x);
            squared_error(&problem, &pose.to_motion(), &skin)
        };
        // Relative to the curvature: how far from the minimum along this direction.
        let (low, mid, high) = (at(-step), at(0.0), at(step));
        ((high - low) / 2.0) / ((high - 2.0 * mid + low) / step).max(1e-12)
    };
    for j in 0..start.bones() {
        for axis in DVec3::AXES {
            let turn = |pose: &mut Pose, x: f64| {
                let at = 2 * pose.bones() + j;
                pose.rotations[at] = DMat3::from_quat(DQuat::from_scaled_axis(axis * x)) * pose.rotations[at];
            };
            assert!(slope(&turn).abs() < 2e-3, "bone {j}: {}", slope(&turn));
        }
    }
    let shift = |pose: &mut Pose, x: f64| pose.places[2].x += x;
    assert!(slope(&shift).abs() < 2e-3);
}

/// Placing joints finds the least error over all joints: random other places are worse, and from the true rotations
/// the true joints come back.
#[test]
fn joints_go_where_the_motion_says() {
    let (problem, pose, skin) = known();
    let mut moved = pose.clone();
    for &j in &pose.tree.order[1..] {
        moved.tree.joints[j] += DVec3::new(0.05, -0.03, 0.04);
    }
    let motion = moved.to_motion();
    let moments = pass::gather(&problem, &motion, &skin);
    let mut quadratic = Quadratic::new(&moments, &motion);
    let placed = quadratic.place(&mut moved, &[]);
    for &j in &pose.tree.order[1..] {
        // A joint that turns mostly about one axis is drawn along it by its anchor.
        let off = moved.tree.joints[j].distance(pose.tree.joints[j]);
        assert!(off < 1e-2, "joint {j} is off by {off}");
    }
    let mut random = Random::new(9);
    for _ in 0..20 {
        let mut other = moved.clone();
        other.tree.joints[1 + (random.next() % 6) as usize] += random.vector() * 0.02;
        assert!(squared_error(&problem, &other.to_motion(), &skin) > placed);
    }
}

#[test]
fn the_spanning_tree_of_true_motions_is_the_true_tree() {
    let (problem, pose, skin) = known();
    let motion = pose.to_motion();
    let moments = pass::gather(&problem, &motion, &skin);
    let mut silent = Silent;
    let mut run = Run::new(&FitParams::default(), &mut silent);
    let edges = JointGraph::new(&motion, &moments.second, Gap::Stiffness).spanning_tree(&mut run).unwrap();
    let mut found: Vec<(usize, usize)> =
        edges.iter().map(|e| (e.bones.0.min(e.bones.1), e.bones.0.max(e.bones.1))).collect();
    found.sort_unstable();
    assert_eq!(found, [(0, 1), (1, 2), (1, 3), (1, 5), (3, 4), (5, 6)]);
    for edge in edges {
        let child = edge.bones.0.max(edge.bones.1);
        assert!(edge.joint.distance(pose.tree.joints[child]) < 0.05, "joint {child}");
    }
}

/// Taking bones out and rerooting leave the other bones where they were.
#[test]
fn other_trees_of_the_same_bones_move_the_same() {
    let (_, pose, _) = known();
    let motion = pose.to_motion();
    let rerooted = pose.with_tree(pose.tree.rooted_at(4, DVec3::new(0.1, 0.2, 0.3)));
    let again = rerooted.to_motion();
    let largest = motion.rows().iter().zip(again.rows()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-9, "{largest}");
    let fewer = pose.without(&[2, 6]).to_motion();
    let kept = motion.select(&[0, 1, 3, 4, 5]);
    let largest = fewer.rows().iter().zip(kept.rows()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(largest < 1e-9, "{largest}");
}

/// A joint added to the moments is what it says: the error with it, before and after a change of the bones.
#[test]
fn soft_joints_are_part_of_the_error() {
    let (problem, pose, skin) = known();
    let start = disturbed(&pose, 0.1, 5).to_motion();
    let mut free = start.clone();
    let mut random = Random::new(6);
    free.rows_mut().iter_mut().for_each(|x| *x += 0.05 * random.signed());
    let edges = pose.tree.edges();
    let mut moments = pass::gather(&problem, &start, &skin);
    crate::skeleton::soft_joints::add_joints(&mut moments, &start, &edges, 3.0);
    let with_joints = |motion: &Motion| {
        let mut sum = squared_error(&problem, motion, &skin);
        for t in 0..pose.frames() {
            for edge in &edges {
                let posed = |j: usize| motion.transform(j, t).transform_point3(edge.joint);
                sum += 3.0 * posed(edge.bones.0).distance_squared(posed(edge.bones.1));
            }
        }
        sum
    };
    let mut quadratic = Quadratic::new(&moments, &start);
    assert!((quadratic.squared_error - with_joints(&start)).abs() < 1e-4 * with_joints(&start));
    quadratic.move_to(free.clone());
    assert!((quadratic.squared_error - with_joints(&free)).abs() < 1e-4 * with_joints(&free));
}

/// Triangles that do not touch are never merged: each would be a bone.
#[test]
fn schaefer_refuses_thousands_of_parts() {
    let mut topology = crate::mesh::Topology::empty();
    (0..5000).for_each(|t| topology.push_face(&[3 * t, 3 * t + 1, 3 * t + 2]));
    let parts = crate::mesh::Adjacency::new(&topology, 15_000);
    let error = crate::skeleton::single_pass::check_parts(&parts).unwrap_err().to_string();
    assert!(error.contains("5000 parts"), "{error}");
}

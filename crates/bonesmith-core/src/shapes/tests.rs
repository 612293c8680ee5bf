use glam::Vec3;

use super::*;
use crate::model::shape_bones::{COMPONENTS, ShapeKind, ShapeNumber};
use crate::observer::Silent;
use crate::shapes::select::{grow, removals};
use crate::shapes::system::System;
use crate::solve::random::Random;
use crate::synthetic::{PosedRigParams, posed_rig};

/// A face of known bones: each shape moves two of them by a few numbers.
fn known(shapes: usize) -> (ShapeBones, MeshSequence, Vec<String>) {
    let made = posed_rig(5, &PosedRigParams { bones: 6, frames: 1, detail: 3, ..PosedRigParams::default() });
    let mut random = Random::new(9);
    let names: Vec<String> = (0..shapes).map(|s| format!("shape_{s}")).collect();
    let shape = |name: &String| {
        let first = (random.unit() * 5.0) as u16;
        let mut numbers = Vec::new();
        for bone in [first, first + 1] {
            for component in [0, 1, 2, 4] {
                numbers.push(ShapeNumber { bone, component, value: 0.2 * random.signed() as f32 });
            }
        }
        BoneShape { name: name.clone(), driver: Driver::Own, numbers }
    };
    let shapes = names.iter().map(shape).collect();
    let mut face = ShapeBones { rig: made.rig, kind: ShapeKind::Affine, shapes };
    for bone in &mut face.rig.bones {
        bone.world_from_bind.matrix3 = glam::DMat3::IDENTITY;
    }
    face.set_first_clip();
    let mut raw = crate::model::ModelRef::from(&face.rig).baked(Some(0)).unwrap();
    raw.rest = Some(face.rig.rest.clone().into());
    (face, MeshSequence::try_from(raw).unwrap(), names)
}

fn e_rms(model: &ShapeBones, shapes: &MeshSequence) -> f64 {
    crate::metrics::evaluate_clips(&model.rig, &[0], shapes).unwrap().e_rms
}

#[test]
fn few_numbers_fit_a_face_that_few_numbers_made() {
    let (truth, shapes, names) = known(8);
    let still = {
        let none = ShapesParams { bones: 1, numbers: Numbers::Count(1), ..ShapesParams::default() };
        e_rms(&fit(&shapes, &names, &none, &mut Silent).unwrap().model, &shapes)
    };
    let of = |numbers| {
        let params = ShapesParams { bones: 8, influences: 4, numbers, ..ShapesParams::default() };
        let fitted = fit(&shapes, &names, &params, &mut Silent).unwrap().model;
        fitted.check().unwrap();
        (fitted.number_count(), e_rms(&fitted, &shapes))
    };
    let (all, dense) = of(Numbers::All);
    let (count, sparse) = of(Numbers::Count(2 * truth.number_count()));
    assert!(all > 3 * count && count <= 2 * truth.number_count(), "{all} {count}");
    assert!(dense < 0.03 * still && sparse < 0.15 * still, "{dense} {sparse} of {still}");
    let target = 0.2 * still;
    let (fewest, reached) = of(Numbers::TargetError(target));
    assert!(reached <= 1.001 * target && fewest < all / 3, "{fewest} numbers, {reached} for {target}");
}

#[test]
fn the_neutral_is_exact_and_shapes_add_up() {
    let (_, shapes, names) = known(4);
    let params = ShapesParams { bones: 5, influences: 3, numbers: Numbers::Count(60), ..ShapesParams::default() };
    let model = fit(&shapes, &names, &params, &mut Silent).unwrap().model;
    assert_eq!(model.rig.rest, shapes.rest());
    let at = |weights: [f32; 4]| model.posed(&weights);
    let off = |a: &[Vec3], b: &[Vec3]| a.iter().zip(b).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max);
    assert!(off(&at([0.0; 4]), shapes.rest()) < 1e-6);
    let (a, b, both) = (at([1.0, 0.0, 0.0, 0.0]), at([0.0, 0.0, 0.5, 0.0]), at([1.0, 0.0, 0.5, 0.0]));
    let sum: Vec<Vec3> = a.iter().zip(&b).zip(shapes.rest()).map(|((a, b), rest)| *a + *b - *rest).collect();
    assert!(off(&sum, &both) < 1e-5);
    let frame = crate::deform::posed((&model.rig).into(), 0, 0);
    assert!(off(&frame, &a) < 1e-6, "the first clip has each shape alone");
}

#[test]
fn awkward_shapes_have_a_sound_result() {
    let (_, shapes, _) = known(1);
    let (rest, moved) = (shapes.rest().to_vec(), shapes.frame(0).to_vec());
    let of = |frames: Vec<Vec<Vec3>>, numbers: Numbers| {
        let names: Vec<String> = (0..frames.len()).map(|s| s.to_string()).collect();
        let raw = crate::mesh::RawSequence {
            rest: Some(rest.clone().into()),
            frames: frames.into_iter().map(Into::into).collect(),
            fps: 24.0,
            ..crate::mesh::RawSequence::default()
        };
        let shapes = MeshSequence::try_from(raw).unwrap();
        let params = ShapesParams { bones: 4, influences: 2, numbers, ..ShapesParams::default() };
        let fitted = fit(&shapes, &names, &params, &mut Silent).unwrap();
        fitted.model.check().unwrap();
        fitted
    };
    for numbers in [Numbers::All, Numbers::Count(7), Numbers::TargetError(5.0)] {
        // One shape; a shape that is the neutral; the same shape twice; nothing but the neutral.
        of(vec![moved.clone()], numbers);
        let still = of(vec![moved.clone(), rest.clone(), moved.clone()], numbers);
        assert!(still.model.shapes[1].numbers.is_empty(), "{:?}", still.model.shapes[1].numbers);
        let none = of(vec![rest.clone(); 2], numbers);
        assert_eq!(none.info.warnings, [Warning::NoMotion]);
        assert_eq!(none.model.number_count(), 0);
    }
    let twice = ["a".to_owned(), "a".to_owned()];
    let (_, two, _) = known(2);
    let error = fit(&two, &twice, &ShapesParams::default(), &mut Silent).unwrap_err();
    assert_eq!(error.to_string(), "two shapes are called \"a\"");
}

/// Shapes with the same numbers share a factor: the same bits as one by one.
#[test]
fn shapes_that_share_a_matrix_are_solved_as_one_by_one() {
    let mut system = random_system(9);
    (system.shapes, system.right) =
        (3, system.right.repeat(3).iter().zip(1..).map(|(x, k)| x * f64::from(k)).collect());
    let all: Vec<u32> = (0..9).collect();
    let together = system.solve(&vec![all.clone(); 3]);
    let alone: Vec<Vec<f64>> = (0..3).map(|s| system.solve_shape(s, &all)).collect();
    assert_eq!(together, alone);
}

/// A system of random numbers.
fn random_system(side: usize) -> System {
    let mut random = Random::new(3);
    let rows: Vec<f64> = (0..2 * side * side).map(|_| random.signed()).collect();
    let entry = |r: usize, c: usize| (0..2 * side).map(|k| rows[k * side + r] * rows[k * side + c]).sum::<f64>();
    System {
        kind: ShapeKind::Translation,
        side,
        shapes: 1,
        components: vec![[[0.0; 4]; 3]; side],
        gram: (0..side * side).map(|at| entry(at / side, at % side)).collect(),
        right: (0..side).map(|_| random.signed()).collect(),
    }
}

/// What a support takes off the squared error.
fn explained(system: &System, support: &[u32]) -> f64 {
    let numbers = system.solve(&vec![support.to_vec()]);
    support.iter().zip(&numbers[0]).map(|(u, x)| x * system.right[*u as usize]).sum()
}

#[test]
fn gains_and_costs_are_those_of_a_new_solution() {
    let system = random_system(9);
    let best = (0..9u32).max_by(|a, b| explained(&system, &[*a]).total_cmp(&explained(&system, &[*b]))).unwrap();
    assert_eq!(grow(&system, 0, &[], 1), [best]);
    let with = |u: u32| explained(&system, &[best, 8 - best, u]);
    let third =
        (0..9u32).filter(|u| *u != best && *u != 8 - best).max_by(|a, b| with(*a).total_cmp(&with(*b))).unwrap();
    assert_eq!(grow(&system, 0, &[best, 8 - best], 1).last(), Some(&third));
    let path = removals(&system, 0, (0..9).collect());
    let mut support: Vec<u32> = (0..9).collect();
    for (cost, gone) in path {
        let before = explained(&system, &support);
        let without = |u: u32| explained(&system, &support.iter().copied().filter(|v| *v != u).collect::<Vec<_>>());
        let least = support.iter().map(|u| before - without(*u)).fold(f64::INFINITY, f64::min);
        assert!((cost - least).abs() < 1e-9 && (before - without(gone) - cost).abs() < 1e-9, "{cost} {least}");
        support.retain(|u| *u != gone);
    }
}

/// Errors and gains of positions and normals together are those of plain sums over vertices and shapes; rest normals stay.
#[test]
fn normals_count_as_engines_deform_them() {
    let (_, shapes, _) = known(3);
    let poses = Problem::new(&shapes);
    let normals = Normals::from_rest(&shapes).unwrap().weighing(0.3);
    let problem = offsets(&poses).with_normals(Some(normals.clone()));
    let (bones, f, mut random) = (4, shapes.frame_count(), Random::new(4));
    let mut motion = || {
        let rows = (0..4 * bones * 3 * f).map(|_| 0.1 * random.signed()).collect();
        Motion::from_rows(bones, 3 * f, rows)
    };
    let (first, second) = (motion(), motion());
    let mut skin = crate::skinning::Skin::empty(3, problem.rest.clone());
    for i in 0..problem.vertices() {
        skin.set(i, [(i % bones, 0.5), ((i + 1) % bones, 0.3), ((i + 2) % bones, 0.2)]);
    }
    skin.normals = normals.rest_normals();
    let triangles = shapes.surface().topology.vertex_triangles();
    let truth = |positions: &[Vec3]| crate::mesh::normals::vertex_normals(positions, &triangles);
    let rest = truth(shapes.rest());
    let brute = |motion: &Motion| {
        let (mut of_positions, mut of_normals) = (0.0, 0.0);
        for s in 0..f {
            let normals = truth(&shapes.frame(s));
            for i in 0..problem.vertices() {
                let (n, m) = (rest[i].normalize(), normals[i].normalize());
                let (mut position, mut normal) = (glam::DVec3::ZERO, n);
                for (j, w) in skin.of(i) {
                    for (a, row) in motion.get(j, s).iter().enumerate() {
                        let linear = |v: glam::DVec3| row[0] * v.x + row[1] * v.y + row[2] * v.z;
                        position[a] += w * (linear(problem.rest[i]) + row[3]);
                        normal[a] += w * linear(n);
                    }
                }
                of_positions += (poses.position(i, s) - problem.rest[i]).distance_squared(position);
                of_normals += 0.09 * m.distance_squared(normal);
            }
        }
        (of_positions, of_normals)
    };
    let moments = crate::skinning::pass::gather(&problem, &first, &skin);
    let (before, after) = (brute(&first), brute(&second));
    assert!((moments.normal_error - before.1).abs() < 1e-3 * before.1, "{} {}", moments.normal_error, before.1);
    let (all, gained) = (before.0 + before.1, before.0 + before.1 - after.0 - after.1);
    assert!((moments.squared_error - all).abs() < 1e-3 * all, "{} {all}", moments.squared_error);
    let gain = crate::shapes::system::gain(&first, &second, &moments);
    assert!((gain - gained).abs() < 1e-3 * all, "{gain} {gained} of {all}");
    let kept = skin.normals.clone();
    let vertices = VertexParams { slots: 3, newcomers: 1, min_gain: 0.0, move_rest: false, rounds: 2 };
    let solved = crate::skinning::pass::solve(&problem, &first, &mut skin, vertices, None);
    assert!(solved.squared_error < moments.squared_error && skin.normals == kept);
}

#[test]
fn components_are_twelve_independent_moves() {
    let all: Vec<_> = (0..COMPONENTS).map(crate::model::shape_bones::component).collect();
    for (a, left) in all.iter().enumerate() {
        for (b, right) in all.iter().enumerate() {
            let dot: f64 = left.as_flattened().iter().zip(right.as_flattened()).map(|(x, y)| x * y).sum();
            assert_eq!(dot != 0.0, a == b, "{a} {b}");
        }
    }
}

//! Pieces of animations with known parts, and moments against sums over vertices.

use glam::{DMat3, DQuat, DVec3, Vec3};

use super::body::{Body, Form, Source};
use super::*;
use crate::mesh::sequence::RawSequence;

use crate::synthetic::awkward;
use crate::synthetic::pieces::{
    Hidden, ROBOT_LINKS, WallParams, appearing, beside, cloth, mixed, robot_arm, soft_body, wall, with_noise,
};

fn found(raw: RawSequence, kind: BoneKind) -> (MeshSequence, Pieces) {
    let sequence = MeshSequence::try_from(raw).unwrap();
    let pieces = find(&sequence, &UnitSpace::new(&sequence), kind, &mut || Ok(())).unwrap();
    (sequence, pieces)
}

/// Largest distance of any vertex of a piece from the animation, in units of the radius.
fn worst(sequence: &MeshSequence, pieces: &Pieces) -> f64 {
    let space = UnitSpace::new(sequence);
    let mut worst = 0f64;
    for (j, piece) in pieces.pieces.iter().enumerate() {
        for (t, m) in piece.transforms().iter().enumerate() {
            for i in (0..sequence.vertex_count()).filter(|&i| pieces.labels[i] == j as u32) {
                let rest = pieces.rest.as_deref().unwrap_or(sequence.rest());
                let posed = m.transform_point3(space.point(rest[i]));
                worst = worst.max(posed.distance(space.point(sequence.frame(t)[i])));
            }
        }
    }
    worst
}

#[test]
fn a_wall_is_as_many_pieces_as_cubes() {
    for params in [
        WallParams { columns: 8, rows: 5, frames: 40, ..WallParams::default() },
        WallParams { columns: 8, rows: 5, frames: 40, split: true, ..WallParams::default() },
        WallParams { columns: 8, rows: 5, frames: 40, welded: true, ..WallParams::default() },
    ] {
        let (sequence, pieces) = found(wall(&params), BoneKind::Rigid);
        assert_eq!(pieces.pieces.len(), 40, "{params:?}");
        assert!(pieces.labels.iter().all(|&label| label != SOFT));
        assert!(worst(&sequence, &pieces) < 1e-6, "{}", worst(&sequence, &pieces));
    }
}

#[test]
fn what_stays_together_shares_a_bone() {
    let params = WallParams { columns: 10, rows: 6, frames: 40, standing: 0.5, ..WallParams::default() };
    let (sequence, pieces) = found(wall(&params), BoneKind::Rigid);
    let still = |i: usize| (0..40).all(|t| sequence.frame(t)[i] == sequence.rest()[i]);
    let standing = (0..60).filter(|j| still(8 * j)).count();
    assert!(standing > 10 && pieces.pieces.len() == 60 - standing + 1, "{standing} {}", pieces.pieces.len());
    // A wall that has not been hit yet.
    let (_, pieces) = found(wall(&WallParams { frames: 2, ..params }), BoneKind::Rigid);
    assert_eq!(pieces.pieces.len(), 1);
}

#[test]
fn cubes_that_appear_later_are_pieces() {
    let params = WallParams { columns: 8, rows: 5, frames: 40, split: true, ..WallParams::default() };
    for hidden in [Hidden::InPlace, Hidden::AtOrigin, Hidden::FarAway] {
        let (sequence, pieces) = found(appearing(&params, hidden), BoneKind::Rigid);
        assert_eq!(pieces.pieces.len(), 40, "{hidden:?}");
        assert!(pieces.labels.iter().all(|&label| label != SOFT), "{hidden:?}");
        assert!(worst(&sequence, &pieces) < 1e-6, "{hidden:?}: {}", worst(&sequence, &pieces));
        // Scale 0 where it is a point, and a rest pose with a shape.
        let collapsed = hidden != Hidden::FarAway;
        assert_eq!(pieces.pieces.iter().any(Piece::is_hidden), collapsed, "{hidden:?}");
        assert_eq!(pieces.rest.is_some(), collapsed, "{hidden:?}");
        for m in pieces.pieces.iter().flat_map(Piece::transforms) {
            let scale = m.matrix3.determinant();
            assert!((scale - 1.0).abs() < 1e-9 || (collapsed && m.matrix3 == DMat3::ZERO), "{hidden:?}: {scale}");
        }
    }
}

#[test]
fn noise_is_no_motion() {
    let params = WallParams { columns: 8, rows: 5, frames: 40, standing: 0.3, ..WallParams::default() };
    let count = found(wall(&params), BoneKind::Rigid).1.pieces.len();
    let radius = UnitSpace::new(&MeshSequence::try_from(wall(&params)).unwrap()).sphere.radius;
    let (_, pieces) = found(with_noise(wall(&params), 1e-4 * radius, 3), BoneKind::Rigid);
    assert_eq!(pieces.pieces.len(), count);
}

#[test]
fn links_of_a_robot_arm() {
    let (sequence, pieces) = found(robot_arm(48), BoneKind::Rigid);
    assert_eq!(pieces.pieces.len(), ROBOT_LINKS);
    assert!(worst(&sequence, &pieces) < 1e-5, "{}", worst(&sequence, &pieces));
}

#[test]
fn soft_bodies_have_none() {
    for raw in [soft_body(40), cloth(40)] {
        let name = raw.name.clone();
        assert_eq!(found(raw, BoneKind::Rigid).1.pieces.len(), 0, "{name}");
    }
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        for name in ["several-components", "isolated-vertices", "point-cloud", "flat", "smallest", "duplicate-vertices"]
        {
            let (_, raw) = awkward::all().into_iter().find(|(other, _)| *other == name).unwrap();
            assert_eq!(found(raw, kind).1.pieces.len(), 0, "{name} {kind:?}");
        }
    }
}

#[test]
fn pieces_beside_soft_bodies() {
    let (_, pieces) = found(mixed(40), BoneKind::Rigid);
    assert_eq!(pieces.pieces.len(), 200);
    assert!(pieces.labels[..1600].iter().all(|&label| label != SOFT));
    assert!(pieces.labels[1600..].iter().all(|&label| label == SOFT));
}

/// Cubes about their centres, each under a map of its own in every frame.
fn cubes(frames: usize, map: impl Fn(usize, usize) -> DMat3) -> RawSequence {
    let mut raw = wall(&WallParams { columns: 4, rows: 1, frames, ..WallParams::default() });
    let rest = raw.frames[0].positions.clone();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (i, p) in frame.positions.iter_mut().enumerate() {
            let (j, turn) = (i / 8, DMat3::from_quat(DQuat::from_rotation_y(0.1 * (t * (i / 8)) as f64)));
            let centre = rest[8 * j..8 * j + 8].iter().map(|p| p.as_dvec3()).sum::<DVec3>() / 8.0;
            let posed = turn * map(t, j) * (rest[i].as_dvec3() - centre) + centre + DVec3::Y * (0.3 * (t * j) as f64);
            *p = posed.as_vec3();
        }
    }
    raw
}

#[test]
fn pieces_that_scale_need_bones_that_do() {
    let axes = DMat3::from_quat(DQuat::from_rotation_x(0.7));
    let scaled = |t: usize, j: usize| {
        let grown = DVec3::new(1.0 + 0.05 * t as f64, 1.0, 1.0 - 0.02 * t as f64);
        if j == 2 { axes * DMat3::from_diagonal(grown) * axes.transpose() } else { DMat3::IDENTITY }
    };
    let count = |kind| found(cubes(12, scaled), kind).1;
    assert_eq!(count(BoneKind::Rigid).pieces.len(), 3);
    let trs = count(BoneKind::Trs);
    assert!(trs.pieces.len() == 4 && matches!(trs.pieces[2].form, Form::Scaled(_)));
    assert!(worst(&found(cubes(12, scaled), BoneKind::Trs).0, &trs) < 1e-5);
    assert_eq!(count(BoneKind::Affine).pieces.len(), 4);
    let sheared = |t: usize, j: usize| {
        let shear =
            DMat3::from_cols(DVec3::X, DVec3::new(0.05 * t as f64, 1.0, 0.0), DVec3::new(0.0, -0.04 * t as f64, 1.0));
        if j == 1 { shear } else { DMat3::IDENTITY }
    };
    let count = |kind| found(cubes(12, sheared), kind).1.pieces.len();
    assert_eq!((count(BoneKind::Trs), count(BoneKind::Affine)), (3, 4));
}

#[test]
fn degenerate_pieces_are_sound() {
    // Mirrored in one frame, or scaled in one: no rigid piece. Flattened to a plane or a line in all: one.
    let mirrored = |t: usize, j: usize| {
        if (t, j) == (5, 1) { DMat3::from_diagonal(DVec3::new(-1.0, 1.0, 1.2)) } else { DMat3::IDENTITY }
    };
    assert_eq!(found(cubes(10, mirrored), BoneKind::Rigid).1.pieces.len(), 3);
    let grown = |t: usize, j: usize| DMat3::IDENTITY * if (t, j) == (5, 1) { 1.5 } else { 1.0 };
    assert_eq!(found(cubes(10, grown), BoneKind::Rigid).1.pieces.len(), 3);
    for flat in [DVec3::new(1.0, 1.0, 0.0), DVec3::new(1.0, 0.0, 0.0)] {
        let mut raw = cubes(10, |_, _| DMat3::IDENTITY);
        let flattened = wall(&WallParams { columns: 4, rows: 1, frames: 1, ..WallParams::default() });
        let centre = |j: usize| flattened.frames[0].positions[8 * j..8 * j + 8].iter().sum::<Vec3>() / 8.0;
        for (t, frame) in raw.frames.iter_mut().enumerate() {
            for (i, p) in frame.positions.iter_mut().enumerate() {
                let j = i / 8;
                let local = (flattened.frames[0].positions[i] - centre(j)).as_dvec3() * flat;
                let turn = DQuat::from_rotation_z(0.2 * (t * j) as f64) * DQuat::from_rotation_y(0.1 * (t * j) as f64);
                *p = (turn * local + centre(j).as_dvec3() + DVec3::Y * (0.3 * (t * j) as f64)).as_vec3();
            }
        }
        let (sequence, pieces) = found(raw, BoneKind::Rigid);
        assert_eq!(pieces.pieces.len(), 4, "{flat}");
        assert!(worst(&sequence, &pieces) < 1e-5);
        for m in pieces.pieces.iter().flat_map(Piece::transforms) {
            assert!((m.matrix3.determinant() - 1.0).abs() < 1e-9 && m.is_finite());
        }
    }
    // All in one point, nothing moving at all.
    let mut raw = cubes(4, |_, _| DMat3::IDENTITY);
    raw.frames.iter_mut().for_each(|frame| frame.positions.fill(Vec3::ONE));
    assert_eq!(found(raw, BoneKind::Rigid).1.pieces.len(), 0);
    let (_, raw) = awkward::all().into_iter().find(|(name, _)| *name == "no-motion").unwrap();
    assert_eq!(found(raw, BoneKind::Rigid).1.pieces.len(), 1);
}

#[test]
fn loose_triangles_of_a_soft_mesh_are_not_pieces() {
    // Every face with vertices of its own: twins join them again.
    let mut raw = soft_body(20);
    let faces: Vec<Vec<u32>> = raw.surface.topology.faces().map(<[u32]>::to_vec).collect();
    let corners: Vec<u32> = faces.concat();
    raw.frames
        .iter_mut()
        .for_each(|frame| frame.positions = corners.iter().map(|&i| frame.positions[i as usize]).collect());
    let counts: Vec<u32> = faces.iter().map(|face| face.len() as u32).collect();
    raw.surface.topology = crate::mesh::topology::Topology::from_counts(&counts, (0..corners.len() as u32).collect());
    assert_eq!(found(raw, BoneKind::Rigid).1.pieces.len(), 0);
}

#[test]
fn moments_agree_with_sums_over_vertices() {
    let raw = beside(soft_body(12), cloth(12), Vec3::X);
    let sequence = MeshSequence::try_from(raw).unwrap();
    let (space, frames) = (UnitSpace::new(&sequence), sequence.frames());
    let source = Source { rest: sequence.rest(), frames: &*frames, space: &space };
    let all: Vec<u32> = (0..12).collect();
    let (a, b): (Vec<u32>, Vec<u32>) = ((3..60).collect(), (200..333).step_by(2).collect());
    let both = [a.clone(), b.clone()].concat();
    let body = Body::gather(source, &both, &all);
    let joined = Body::gather(source, &a, &all).joined(&Body::gather(source, &b, &all), 0..12);
    for form in [Form::Rigid, Form::Scaled(DMat3::from_quat(DQuat::from_rotation_x(0.4))), Form::Affine] {
        let (mut direct, mut of_moments) = (0.0, 0.0);
        body.follow(&form, |t, linear| {
            for &i in &both {
                let posed = *linear * (source.rest(i) - body.rest) + body.frames[t].mean;
                direct += posed.distance_squared(space.point(sequence.frame(t)[i as usize]));
            }
            of_moments += body.error(&body.frames[t], linear, DVec3::ZERO);
            // No turn of the linear part is better.
            let error = |linear: &DMat3| body.error(&body.frames[t], linear, DVec3::ZERO);
            for (axis, angle) in [(DVec3::X, 0.01), (DVec3::Y, 0.01), (DVec3::Z, -0.01), (DVec3::Z, 0.01)] {
                let turned = DMat3::from_quat(DQuat::from_axis_angle(axis, angle)) * *linear;
                assert!(error(&turned) > error(linear), "{form:?} {t}");
            }
            true
        });
        assert!((direct - of_moments).abs() < 1e-9 * direct, "{form:?}: {direct} {of_moments}");
        assert!((joined.total_error(&form) - of_moments).abs() < 1e-9 * direct);
    }
}

#[test]
fn merging_takes_the_cheapest_pair_first() {
    let (_, pieces) =
        found(wall(&WallParams { columns: 5, rows: 4, frames: 20, ..WallParams::default() }), BoneKind::Rigid);
    let count = pieces.pieces.len();
    let steps = merge::merge(&pieces.pieces, BoneKind::Rigid, |groups, _| groups <= 6, &mut || Ok(())).unwrap();
    assert_eq!(steps.len(), count - 6);
    // Against trying all pairs.
    let mut groups: Vec<(usize, Body)> = pieces.pieces.iter().map(|piece| piece.body.clone()).enumerate().collect();
    let (mut next, mut cost) = (count, 0.0);
    for step in &steps {
        let mut best = (f64::INFINITY, 0, 0);
        for a in 0..groups.len() {
            for b in a + 1..groups.len() {
                let both = groups[a].1.joined(&groups[b].1, 0..20).total_error(&Form::Rigid);
                let more = both - groups[a].1.total_error(&Form::Rigid) - groups[b].1.total_error(&Form::Rigid);
                if more < best.0 {
                    best = (more, a, b);
                }
            }
        }
        let (b, a) = (groups.remove(best.2), groups.remove(best.1));
        cost += best.0;
        assert_eq!((step.groups.0.min(step.groups.1), step.groups.0.max(step.groups.1)), (a.0.min(b.0), a.0.max(b.0)));
        assert!((step.cost - cost).abs() < 1e-9 + 1e-6 * cost);
        groups.push((next, a.1.joined(&b.1, 0..20)));
        next += 1;
    }
    let merged = pieces.merged(&steps, BoneKind::Rigid);
    assert_eq!(merged.pieces.len(), 6);
    let total: f64 = merged.pieces.iter().map(|piece| piece.squared_error).sum();
    assert!((total - cost).abs() < 1e-6 * cost);
    assert_eq!(merged.labels.iter().max(), Some(&5));
}

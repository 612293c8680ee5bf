//! Each mistake is found, and none is found where there is none.

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{BoneKind, Clip, Rig};
use crate::refit::align::{Correction, SignedAxes, examine};
use crate::refit::tests::{known, on_one_bone};

/// The sequence as somebody else exported it: what the correction undoes.
fn misplaced(sequence: &MeshSequence, correction: &Correction) -> MeshSequence {
    sequence.clone().placed(correction.rig_from_sequence().inverse()).unwrap()
}

fn mistakes() -> Vec<Correction> {
    let axes = |text: &str| text.parse::<SignedAxes>().unwrap();
    vec![
        Correction { scale: 0.01, ..Correction::NONE },
        Correction { scale: 100.0, ..Correction::NONE },
        Correction { axes: axes("x,z,-y"), ..Correction::NONE },
        Correction { axes: axes("x,-z,y"), scale: 100.0, ..Correction::NONE },
        Correction { axes: axes("-x,y,z"), ..Correction::NONE },
        Correction { axes: axes("x,z,y"), scale: 0.0254, ..Correction::NONE },
    ]
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let (rig, sequence) = known(1, BoneKind::Rigid);
    let clip = Some((&rig.clips[0], 0));
    for (rig, clip, own_rest) in [
        (&rig, clip, true),
        (&rig, clip, false),
        (&on_one_bone(&rig), clip, false),
        (&rig, None, true),
        (&rig, None, false),
    ] {
        let found = examine(rig, clip, &sequence, own_rest);
        assert!(!found.is_mistake() && !found.is_unrelated(), "{found:?}");
    }
}

#[test]
fn units_axes_and_handedness_are_found_by_the_motion_and_by_the_rest_pose() {
    let (rig, sequence) = known(2, BoneKind::Rigid);
    for mistake in mistakes() {
        let sequence = misplaced(&sequence, &mistake);
        // Even where the rig's own weights say nothing: then the size is a guess that the fit must bear out.
        for (rig, own_rest) in [(&rig, true), (&rig, false)] {
            let found = examine(rig, Some((&rig.clips[0], 0)), &sequence, own_rest);
            assert_eq!(found.correction, mistake, "own rest pose: {own_rest}");
            assert!(found.corrected < 0.1 && found.as_given > 10.0, "{found:?}");
        }
        let found = examine(&rig, None, &sequence, true);
        assert_eq!(found.correction, mistake, "without motion");
    }
}

#[test]
fn weights_that_say_nothing_do_not_hide_a_mistake() {
    let (rig, sequence) = known(3, BoneKind::Rigid);
    for mistake in mistakes() {
        let found = examine(&on_one_bone(&rig), Some((&rig.clips[0], 0)), &misplaced(&sequence, &mistake), false);
        assert_eq!(found.correction.axes, mistake.axes, "{found:?}");
        assert!((found.correction.scale / mistake.scale - 1.0).abs() < 0.3, "{found:?}");
        assert!(found.is_mistake());
    }
}

#[test]
fn without_motion_or_rest_pose_scale_and_handedness_are_still_found() {
    let (rig, sequence) = known(4, BoneKind::Rigid);
    for mistake in mistakes() {
        let found = examine(&rig, None, &misplaced(&sequence, &mistake), false).correction;
        assert!((found.scale / mistake.scale - 1.0).abs() < 0.05, "{found:?} {mistake:?}");
        assert_eq!(found.axes.mirrors(), mistake.axes.mirrors(), "{found:?} {mistake:?}");
        // Y up against Z up alone is detected: everything is rotated by a right angle in all frames.
        if mistake.scale == 1.0 {
            assert_eq!(found.axes, mistake.axes);
        }
    }
}

#[test]
fn a_shift_in_time_is_found_alone_and_with_others() {
    let (rig, sequence) = known(5, BoneKind::Rigid);
    for offset in [1, 4, 7] {
        let part = sequence.clone().with_frames(offset..offset + 10);
        let found = examine(&rig, Some((&rig.clips[0], 0)), &part, false);
        assert_eq!(found.correction, Correction { frame_offset: offset as i64, ..Correction::NONE });
        let mistake = Correction { scale: 0.01, axes: "x,z,-y".parse().unwrap(), ..Correction::NONE };
        let found = examine(&rig, Some((&rig.clips[0], 0)), &misplaced(&part, &mistake), true);
        assert_eq!(found.correction, Correction { frame_offset: offset as i64, ..mistake });
    }
    // Known already: nothing to find.
    let part = sequence.clone().with_frames(4..14);
    assert!(!examine(&rig, Some((&rig.clips[0], 4)), &part, false).is_mistake());
    // The sequence has frames before the clip starts.
    let clip = &rig.clips[0];
    let late = Clip {
        times_secs: clip.times_secs[5..].to_vec(),
        posed_from_rest: clip.posed_from_rest[35..].to_vec(),
        ..clip.clone()
    };
    let found = examine(&Rig { clips: vec![late.clone()], ..rig.clone() }, Some((&late, 0)), &sequence, false);
    assert_eq!(found.correction.frame_offset, -5);
}

#[test]
fn another_body_in_the_same_place_is_unrelated_not_mistaken() {
    let (rig, _) = known(6, BoneKind::Rigid);
    let (_, sequence) = known(6, BoneKind::Rigid);
    // Vertices in another order: nothing brings them together.
    let raw = crate::mesh::sequence::RawSequence {
        frames: (0..20)
            .map(|t| {
                let mut positions = sequence.frame(t).to_vec();
                positions.reverse();
                crate::mesh::sequence::RawFrame { positions, ..Default::default() }
            })
            .collect(),
        ..Default::default()
    };
    let shuffled = MeshSequence::try_from(raw).unwrap();
    let found = examine(&rig, Some((&rig.clips[0], 0)), &shuffled, false);
    assert!(found.is_unrelated(), "{found:?}");
}

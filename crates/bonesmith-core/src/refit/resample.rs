//! Clips at other times: a rig's animation and a sequence need not have the same rate or range.

use glam::DAffine3;

use crate::mesh::sequence::typical_step;
use crate::model::{Clip, Rig};
use crate::skinning::alternation::parents_first;
use crate::solve::check::ensure;
use crate::solve::transform::Trs;

/// How the frames of a sequence are found in a clip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// Frame `t` of the sequence is frame `t + offset` of the clip: nothing is interpolated.
    Frames {
        /// Frames that the sequence starts after the clip.
        offset: i64,
    },
    /// The clip is evaluated at the times of the sequence, both counted from their own start.
    Seconds {
        /// Frames of the sequence that it starts after the clip.
        offset: i64,
    },
}

/// Why a clip cannot be brought to the times of a sequence.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
// The messages say it all; `fitting_fps` are the frames per second that would make both as long.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ResampleError {
    #[error(
        "the sequence runs over {sequence_secs:.3} s ({sequence_frames} frames) from frame {offset} of the rig's clip {clip:?}, \
         which has {clip_secs:.3} s ({clip_frames} frames)"
    )]
    Range {
        clip: String,
        sequence_secs: f64,
        sequence_frames: usize,
        clip_secs: f64,
        clip_frames: usize,
        offset: i64,
        fitting_fps: Option<f64>,
    },
    #[error("the rig's clip {clip:?} has no frames")]
    Empty { clip: String },
}

/// Times that differ by less than this share of a frame are the same.
const SAME: f64 = 0.02;

/// How `frames` of a sequence at `times_secs` fall on a clip when it starts `offset` frames after it; refused where
/// the clip does not cover it.
///
/// As many frames as the clip has are its frames, whatever the times are: files without times have a default rate.
pub fn timing(clip: &Clip, times_secs: &[f64], offset: i64) -> Result<Timing, ResampleError> {
    let (own, frames) = (clip.frame_count(), times_secs.len());
    ensure(own != 0, || ResampleError::Empty { clip: clip.name.clone() })?;
    let (step, clip_step) = (typical_step(times_secs), typical_step(&clip.times_secs));
    let even = |times: &[f64], step: f64| times.windows(2).all(|p| (p[1] - p[0] - step).abs() <= SAME * step);
    let same_rate =
        (step - clip_step).abs() <= SAME * step && even(times_secs, step) && even(&clip.times_secs, clip_step);
    let covered = offset >= 0 && offset as usize + frames <= own;
    if (frames == own && offset == 0) || (same_rate && covered) {
        return Ok(Timing::Frames { offset });
    }
    let length = |times: &[f64]| times.last().zip(times.first()).map_or(0.0, |(last, first)| last - first);
    let (sequence_secs, clip_secs) = (length(times_secs), length(&clip.times_secs));
    let start = offset as f64 * step;
    let slack = 0.51 * step.max(clip_step);
    if same_rate || start < -slack || start + sequence_secs > clip_secs + slack {
        let fitting = (frames - 1) as f64 / clip_secs;
        return Err(ResampleError::Range {
            clip: clip.name.clone(),
            sequence_secs,
            sequence_frames: frames,
            clip_secs,
            clip_frames: own,
            offset,
            fitting_fps: (offset == 0 && fitting.is_finite() && fitting > 0.0).then_some(fitting),
        });
    }
    Ok(Timing::Seconds { offset })
}

/// [F, B] posed_from_rest of a clip at the frames of a sequence.
pub fn sample(rig: &Rig, clip: &Clip, times_secs: &[f64], timing: Timing) -> Vec<DAffine3> {
    match timing {
        Timing::Frames { offset } => {
            let last = clip.frame_count() as i64 - 1;
            let frame = |t: usize| clip.frame((t as i64 + offset).clamp(0, last) as usize);
            (0..times_secs.len()).flat_map(|t| frame(t).iter().copied()).collect()
        }
        Timing::Seconds { offset } => {
            let first = times_secs.first().copied().unwrap_or_default();
            let start = offset as f64 * typical_step(times_secs) - first;
            let parents: Vec<Option<usize>> = rig.bones.iter().map(|bone| bone.parent).collect();
            let order = parents_first(&parents);
            times_secs.iter().flat_map(|secs| pose_at(rig, clip, &order, secs + start)).collect()
        }
    }
}

/// [B] posed_from_rest at a time from the start of the clip. Bones turn relative to their parents, as players do it.
fn pose_at(rig: &Rig, clip: &Clip, order: &[usize], secs: f64) -> Vec<DAffine3> {
    let times = &clip.times_secs;
    let secs = secs + times.first().copied().unwrap_or_default();
    let after = times.partition_point(|t| *t <= secs).clamp(1, times.len().max(2) - 1).min(times.len() - 1);
    let before = after.saturating_sub(1);
    let gap = times[after] - times[before];
    let share = if gap > 0.0 { ((secs - times[before]) / gap).clamp(0.0, 1.0) } else { 0.0 };
    let (a, b) = (clip.frame(before), clip.frame(after));
    if share <= 1e-9 {
        return a.to_vec();
    }
    if share >= 1.0 - 1e-9 {
        return b.to_vec();
    }
    let world = |pose: &[DAffine3], j: usize| pose[j] * rig.bones[j].world_from_bind;
    let local = |pose: &[DAffine3], j: usize| match rig.bones[j].parent {
        Some(p) => world(pose, p).inverse() * world(pose, j),
        None => world(pose, j),
    };
    let mut worlds = vec![DAffine3::IDENTITY; a.len()];
    for &j in order {
        let between = between(local(a, j), local(b, j), share);
        worlds[j] = match rig.bones[j].parent {
            Some(p) => worlds[p] * between,
            None => between,
        };
        if !worlds[j].is_finite() {
            worlds[j] = mix(world(a, j), world(b, j), share);
        }
    }
    worlds.iter().zip(&rig.bones).map(|(world, bone)| *world * bone.world_from_bind.inverse()).collect()
}

/// Part of the way from one transform to another: turned the short way, moved and scaled in proportion.
fn between(a: DAffine3, b: DAffine3, share: f64) -> DAffine3 {
    match (Trs::from_affine(a, 1e-6), Trs::from_affine(b, 1e-6)) {
        (Some(a), Some(b)) => {
            let rotation = a.rotation.slerp(b.rotation, share);
            let (translation, scale) = (a.translation.lerp(b.translation, share), a.scale.lerp(b.scale, share));
            Trs { translation, rotation, scale }.to_affine()
        }
        _ => mix(a, b, share),
    }
}

fn mix(a: DAffine3, b: DAffine3, share: f64) -> DAffine3 {
    DAffine3 {
        matrix3: a.matrix3 * (1.0 - share) + b.matrix3 * share,
        translation: a.translation.lerp(b.translation, share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};

    fn rig(frames: usize) -> Rig {
        let mut rig = posed_rig(3, &PosedRigParams { frames, detail: 1, ..PosedRigParams::default() }).rig;
        (1..rig.bones.len()).for_each(|j| rig.bones[j].parent = Some(j - 1));
        rig
    }

    fn times(frames: usize, fps: f64) -> Vec<f64> {
        (0..frames).map(|t| t as f64 / fps).collect()
    }

    #[test]
    fn same_frames_are_copied_to_the_bit() {
        let rig = rig(24);
        let clip = &rig.clips[0];
        // As many frames at another rate: files without times have a rate that nobody chose.
        assert_eq!(timing(clip, &times(24, 24.0), 0), Ok(Timing::Frames { offset: 0 }));
        assert_eq!(sample(&rig, clip, &times(24, 30.0), Timing::Frames { offset: 0 }), clip.posed_from_rest);
        let part = timing(clip, &times(10, 30.0), 4).unwrap();
        assert_eq!(sample(&rig, clip, &times(10, 30.0), part)[..], clip.posed_from_rest[4 * 6..14 * 6]);
    }

    #[test]
    fn twice_the_rate_hits_every_second_frame_and_stays_rigid_between() {
        let rig = rig(24);
        let clip = &rig.clips[0];
        let fine = times(47, 60.0);
        let timing = timing(clip, &fine, 0).unwrap();
        assert_eq!(timing, Timing::Seconds { offset: 0 });
        let sampled = sample(&rig, clip, &fine, timing);
        for t in 0..47 {
            for j in 0..6 {
                let m = sampled[t * 6 + j];
                let product = m.matrix3.transpose() * m.matrix3;
                assert!(product.abs_diff_eq(glam::DMat3::IDENTITY, 1e-9), "frame {t}, bone {j}");
                if t % 2 == 0 {
                    assert!(m.abs_diff_eq(clip.frame(t / 2)[j], 1e-9), "frame {t}, bone {j}");
                }
            }
        }
    }

    #[test]
    fn a_sequence_that_outlasts_the_clip_is_refused_with_the_rate_that_would_fit() {
        let rig = rig(24);
        let clip = &rig.clips[0];
        let error = timing(clip, &times(47, 30.0), 0).unwrap_err();
        assert!(matches!(error, ResampleError::Range { fitting_fps: Some(fps), .. } if (fps - 60.0).abs() < 1e-9));
        assert!(timing(clip, &times(10, 30.0), 15).is_err());
        assert!(timing(clip, &times(10, 30.0), -1).is_err());
        let empty = Clip { name: "none".into(), times_secs: Vec::new(), posed_from_rest: Vec::new() };
        assert!(timing(&empty, &times(3, 30.0), 0).is_err());
    }
}

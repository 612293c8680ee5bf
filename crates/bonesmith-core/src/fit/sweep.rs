//! Error against the number of bones, in one run: fits that grow out of each other.
//!
//! One search on the sample adds bones from number to number. At each, its state goes through the rounds on everything that a fit with that
//! number goes through. The knee is the point farthest below the line from the first point to the last, both axes scaled to 0..1
//! [Satopaa2011]: beyond it, bones buy less.

use serde::Serialize;

use crate::mesh::sequence::MeshSequence;
use crate::observer::{Observer, Stage};
use crate::skinning::loss::Loss;
use crate::skinning::params::{BoneCount, FitError, FitParams, MAX_BONES, check_bones};
use crate::skinning::pass;
use crate::skinning::run::Run;
use crate::skinning::search::{Explorer, SearchPlan};
use crate::skinning::unit::UnitSpace;

use super::goal::Goal;
use super::{Fit, check_importance, first_bones, problem};

/// Numbers of bones that are tried, unless others are asked for.
pub const SWEEP_COUNTS: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Times that bones are planted and removed again at each number.
const CYCLES: usize = 4;

/// The error with a number of bones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Number of bones.
    pub bones: usize,
    /// E_RMS, thousandths of the sphere radius.
    pub e_rms: f64,
    /// Largest distance, thousandths of the sphere radius.
    pub max_error: f64,
}

/// Errors against numbers of bones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// In rising order of the numbers.
    pub points: Vec<SweepPoint>,
    /// The knee of the curve: after it each bone lowers the error less. None with fewer than three points.
    pub knee: Option<usize>,
}

/// Fits every number of bones in `counts`, in rising order. Numbers beyond a bone for every vertex are left out. Rigid pieces are not
/// looked for.
pub fn sweep(
    sequence: &MeshSequence,
    params: &FitParams,
    counts: &[usize],
    observer: &mut dyn Observer,
) -> Result<Sweep, FitError> {
    params.validate()?;
    check_importance(sequence, params)?;
    let mut counts: Vec<usize> = counts.iter().copied().filter(|&c| c <= sequence.vertex_count()).collect();
    counts.sort_unstable();
    counts.dedup();
    let (Some(1..), Some(&most)) = (counts.first(), counts.last()) else {
        let value = counts.first().map_or_else(|| "empty".to_owned(), usize::to_string);
        return Err(FitError::OutOfRange { name: "counts", value, range: "1 to the number of vertices" });
    };
    check_bones(sequence, &FitParams { bones: BoneCount::Exact(most), ..params.clone() }, MAX_BONES)?;
    let mut run = Run::new(params, observer);
    run.stage(Stage::Prepare, None)?;
    let problem = problem(sequence, UnitSpace::new(sequence), params)?;
    let fit = Fit::new(sequence, &problem, params, Goal::Count(most));
    let sample = fit.sample(most);
    let coarse = sample.problem(fit.problem, fit.sequence);
    let plain = problem.with_loss(Loss::default());
    let first = first_bones(&coarse, 1, &mut run)?;
    let plan = SearchPlan { cycles: CYCLES, ..fit.plan.search };
    let mut explorer = Explorer::new(&coarse, first, params.bone_kind, fit.plan.vertices(most), plan, params.seed);
    let mut points = Vec::new();
    for count in counts {
        explorer.grow_to(count, &mut run)?;
        let mut state = sample.lift(&problem, sequence, explorer.state.clone(), &mut || run.report())?;
        let slots = fit.plan.vertices(count).slots;
        state.skin = state.skin.with_slots(slots);
        let refined = fit.refine(&mut state, fit.plan.vertices(count), &mut run)?;
        let largest = pass::survey(&plain, &state.motion, &state.skin, |_, residuals| {
            let frames = plain.frames();
            let squared =
                |row: &[f32], t: usize| row[t].powi(2) + row[frames + t].powi(2) + row[2 * frames + t].powi(2);
            let of_row = |row: &[f32]| (0..frames).map(|t| squared(row, t)).fold(0f32, f32::max);
            residuals.chunks_exact(3 * frames).map(of_row).fold(0f32, f32::max)
        });
        let largest = largest.into_iter().fold(0f32, f32::max);
        points.push(SweepPoint {
            bones: count,
            e_rms: fit.e_rms(&refined, &state),
            max_error: 1000.0 * f64::from(largest).sqrt(),
        });
        if run.is_over() {
            break;
        }
    }
    let knee = knee(&points);
    Ok(Sweep { points, knee })
}

/// The point farthest below the line from the first to the last.
fn knee(points: &[SweepPoint]) -> Option<usize> {
    let (first, last) = (points.first()?, points.last()?);
    let (width, height) = ((last.bones - first.bones) as f64, first.e_rms - last.e_rms);
    if points.len() < 3 || width <= 0.0 || height <= 0.0 {
        return None;
    }
    let below = |point: &SweepPoint| {
        let (x, y) = ((point.bones - first.bones) as f64 / width, (point.e_rms - last.e_rms) / height);
        1.0 - x - y
    };
    (0..points.len()).max_by(|&a, &b| below(&points[a]).total_cmp(&below(&points[b])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn errors_fall_and_are_those_of_fits() {
        let made = posed_rig(2, &PosedRigParams { bones: 8, frames: 16, detail: 2, ..PosedRigParams::default() });
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let params = FitParams::default();
        let sweep = sweep(&sequence, &params, &[6, 2, 4, 1, 4, 1_000_000], &mut Silent).unwrap();
        let bones: Vec<usize> = sweep.points.iter().map(|point| point.bones).collect();
        assert_eq!(bones, [1, 2, 4, 6]);
        assert!(sweep.points.windows(2).all(|pair| pair[1].e_rms < pair[0].e_rms), "{sweep:?}");
        for point in &sweep.points {
            let params = FitParams { bones: BoneCount::Exact(point.bones), prune: 0.0, ..params.clone() };
            let fitted = crate::fit::fit(&sequence, &params, &mut Silent).unwrap();
            let truth = crate::metrics::evaluate(&fitted.rig, 0, &sequence).unwrap();
            // Another search, but no other size of error.
            assert!(point.e_rms < 1.6 * truth.e_rms + 0.5, "{point:?} {}", truth.e_rms);
            assert!(point.max_error >= point.e_rms);
        }
    }

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let curve = |errors: &[f64]| -> Vec<SweepPoint> {
            let point = |(at, e)| SweepPoint { bones: at + 1, e_rms: e, max_error: e };
            errors.iter().copied().enumerate().map(point).collect()
        };
        assert_eq!(knee(&curve(&[10.0, 2.0, 1.5, 1.2, 1.0])), Some(1));
        assert_eq!(knee(&curve(&[10.0, 9.5])), None);
        assert_eq!(knee(&curve(&[1.0, 1.0, 1.0])), None);
    }
}

//! Parameters and errors of levels of detail.

use serde::{Deserialize, Serialize};

use crate::model::RigError;
use crate::observer::Cancelled;
use crate::skinning::{FitError, PoseError};
use crate::solve::check::ensure;

/// Parameters of [`crate::lod::lod`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LodParams {
    /// Bones and influences of each level, finest first. Falling.
    pub levels: Vec<(usize, usize)>,
    /// Whether the motion is fitted to all levels at once. For free bones; a skeleton keeps its motion.
    pub refit_motion: bool,
    /// Maximum number of rounds over motion and weights, for each level and then for all.
    pub rounds: usize,
    /// Maximum number of cycles in which finer levels are searched for bones again and all levels are fitted again.
    pub cycles: usize,
}

impl Default for LodParams {
    fn default() -> Self {
        Self { levels: vec![(60, 4), (30, 2), (15, 1)], refit_motion: false, rounds: 16, cycles: 6 }
    }
}

impl LodParams {
    /// Levels with so many bones and influences; the last number of influences counts for the levels after it.
    pub fn new(bones: &[usize], influences: &[usize], refit_motion: bool) -> Self {
        let influences = |level: usize| influences.get(level).or(influences.last()).copied().unwrap_or(4);
        let levels = bones.iter().enumerate().map(|(level, &bones)| (bones, influences(level))).collect();
        Self { levels, refit_motion, ..Self::default() }
    }

    /// Checks ranges.
    pub fn validate(&self) -> Result<(), FitError> {
        let refused = |name: &'static str, value: usize, range: &'static str| FitError::OutOfRange {
            name,
            value: value.to_string(),
            range,
        };
        ensure(!self.levels.is_empty(), || refused("bones", 0, "a list of numbers"))?;
        for &(bones, influences) in &self.levels {
            ensure(bones >= 1, || refused("bones", bones, "1 or more"))?;
            ensure((1..=16).contains(&influences), || refused("influences", influences, "1 to 16"))?;
        }
        let rises = self.levels.windows(2).find(|pair| pair[1].0 > pair[0].0 || pair[1].1 > pair[0].1);
        match rises {
            Some(pair) if pair[1].0 > pair[0].0 => Err(refused("bones", pair[1].0, "falling from level to level")),
            Some(pair) => Err(refused("influences", pair[1].1, "falling from level to level")),
            None => Ok(()),
        }
    }
}

/// Why levels were refused or not finished.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum LodError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Params(#[from] FitError),
    #[error(transparent)]
    Poses(#[from] PoseError),
    #[error(
        "refit_motion is for free bones: bone {bone:?} only rotates at its joint to {parent:?}, and would leave it"
    )]
    Skeleton { bone: String, parent: String },
    #[error("cancelled")]
    Cancelled(#[from] Cancelled),
}

//! Parameters, results and errors of `compress`.

use serde::{Deserialize, Serialize};

use crate::model::{RigError, TwoLayerRig};
use crate::observer::Round;
use crate::skinning::PoseError;

/// When to stop adding virtual bones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TwoLayerSize {
    /// As many virtual bones as cost no more than this many influences per vertex: `(K - k) N / c` [Le2014 s.4.4].
    Equivalent(f64),
    /// This many, at most 65536.
    VirtualBones(usize),
    /// The fewest found that reach this error: E_RMS on the examples, without any on the rig's own poses; where only weights
    /// count, their root mean square difference times 1000, the paper's Delta_W.
    TargetError(f64),
}

/// Parameters of `compress`. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TwoLayerParams {
    /// How large the model may get.
    pub size: TwoLayerSize,
    /// k: virtual bones that a vertex blends, 1 to 4. Default 2. Raised: lower error, slower at run time.
    pub influences: usize,
    /// c: master bones that a virtual bone blends, not more than there are. `None`: one more than the maximum of influences of the
    /// input, at most 16 where poses are used. Lowered: cheaper virtual bones, so more of them for the same cost.
    pub master_influences: Option<usize>,
    /// Without examples: use the weights alone, as published, and not the rig's own animation.
    pub weights_only: bool,
    /// More rounds, and virtual bones that are moved once all are there: a few percent less error for several times the
    /// work. Always on with examples.
    pub thorough: bool,
    /// Leave the motion of the bones as it is. Bones of a skeleton keep theirs anyway: its joints would come apart.
    pub keep_motion: bool,
    /// Leave the rest pose as it is.
    pub keep_rest: bool,
    /// Compress a rig too whose weights two layers do not make smaller.
    pub allow_larger: bool,
    /// Maximum of rounds over dictionary and coefficients once all virtual bones are there; `None`: 4, or 15 when thorough.
    pub max_rounds: Option<usize>,
    /// Stop when a round lowers the error by less than this share.
    pub tolerance: f64,
}

impl Default for TwoLayerParams {
    fn default() -> Self {
        Self {
            size: TwoLayerSize::Equivalent(4.0),
            influences: 2,
            master_influences: None,
            weights_only: false,
            thorough: false,
            keep_motion: false,
            keep_rest: false,
            allow_larger: false,
            max_rounds: None,
            tolerance: 2e-3,
        }
    }
}

impl TwoLayerParams {
    /// Rounds over rest pose, bones and layers at the end.
    pub(super) fn refine_rounds(&self, with_examples: bool) -> usize {
        match self.keep_motion && self.keep_rest {
            true => 0,
            false if self.thorough => 16,
            false if with_examples => 4,
            // Later rounds hardly help: what is left is the error of the dense rig.
            false => 2,
        }
    }

    /// Checks all ranges.
    pub fn validate(&self) -> Result<(), CompressError> {
        let bad = |what: String| Err(CompressError::BadParameter { what });
        if !(1..=4).contains(&self.influences) {
            return bad(format!("{} virtual bones per vertex, but 1 to 4 are possible", self.influences));
        }
        match self.size {
            TwoLayerSize::Equivalent(k) if !(k > self.influences as f64 && k <= 1e4) => {
                bad(format!("the cost of {k} influences must be above the {} of the second layer", self.influences))
            }
            TwoLayerSize::VirtualBones(m) if !(2..=1 << 16).contains(&m) => {
                bad(format!("{m} virtual bones, but 2 to 65536 are possible"))
            }
            TwoLayerSize::TargetError(e) if !(e > 0.0 && e.is_finite()) => {
                bad(format!("the target error is {e}, but it must be above 0"))
            }
            _ if self.master_influences == Some(0) => bad("virtual bones must blend at least 1 master bone".into()),
            _ => Ok(()),
        }
    }
}

/// Why a compression stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CompressStop {
    /// All virtual bones that were allowed are there.
    Full,
    /// The target error was reached.
    Reached,
    /// No vertex has an error left: more virtual bones would not help.
    Exact,
}

/// A two-layer rig and how it came about.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// The rig.
    pub rig: TwoLayerRig,
    /// How it came about.
    pub info: CompressInfo,
}

/// How a compression went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompressInfo {
    /// Rounds over dictionary and coefficients, and trades.
    pub rounds: usize,
    /// Virtual bones and error after each round, in the unit of the target error.
    pub history: Vec<Round>,
    /// Why it stopped.
    pub stop: CompressStop,
    /// Error of the best dense weights with these bones: no compression can be better. With examples only.
    pub dense_optimum: Option<f64>,
    /// The target error that was missed, if one was.
    pub missed: Option<f64>,
}

/// Why a compression was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum CompressError {
    #[error("{what}")]
    BadParameter { what: String },
    #[error(
        "nothing to gain: a vertex of the rig has at most {influences} influences, and two layers would store as much as \
         {layers:.1} per vertex"
    )]
    NothingToGain { influences: usize, layers: f64 },
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error("the rig has no vertices")]
    Empty,
    #[error(transparent)]
    Poses(#[from] PoseError),
    #[error("cancelled")]
    Cancelled(#[from] crate::observer::Cancelled),
}

//! Parameters and results of the compression.

use serde::{Deserialize, Serialize};

use crate::ddm::params::DdmError;
use crate::model::MAX_VIRTUAL_BONES;
use crate::observer::Round;

/// How far joints turn and move: the weight of an error in the motion of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RangeOfMotion {
    /// From the rig's own animations, where it has any that move; else 60 degrees everywhere.
    #[default]
    Measured,
    /// The same for all joints: Euler angles in `[-radians, radians]`, translations in `[-units, units]`.
    Uniform {
        /// r.
        radians: f64,
        /// t, in model units.
        units: f64,
    },
    /// [B] (radians, model units) of each joint.
    PerJoint(Vec<(f64, f64)>),
}

/// Which of the four maps of [Le2021 s.3] are used; for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps {
    /// Multi-weights become linear transforms [eq. 3].
    pub linearisation: bool,
    /// A joint moves its descendants [eq. 6].
    pub hierarchy: bool,
    /// Joints turn about their own position [eq. 8].
    pub coordinates: bool,
    /// Joints turn by their own range [eq. 10].
    pub sampling: bool,
}

impl Default for Maps {
    fn default() -> Self {
        Self { linearisation: true, hierarchy: true, coordinates: true, sampling: true }
    }
}

/// Parameters of the compression. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DdmCompressParams {
    /// p: virtual bones, 1 to 65536. Raised: closer, larger.
    pub virtual_bones: usize,
    /// z: maximum of virtual bones of a vertex, 1 to 8. Raised: larger, slower, a lower E, but hardly a lower error over an
    /// animation: E is that of the linearised model.
    pub influences: usize,
    /// Maximum of bones of a virtual bone, 1 to 64.
    pub master_influences: usize,
    /// How far joints move.
    pub range: RangeOfMotion,
    /// Maps in use.
    pub maps: Maps,
    /// alpha of [Le2021 s.4.2]: how similar the weights of neighbours should be, relative to the mean error; 0 to about 10.
    pub smooth: f64,
    /// Maximum of rounds over both layers.
    pub max_rounds: usize,
    /// Stop when five rounds in a row lower E by less than this share each.
    pub tolerance: f64,
    /// Keep multi-weights as the average of vertices, for comparison.
    pub keep_multi_weights: bool,
    /// At the end, solve both layers in example poses on the real virtual bones: frames of the animation and poses in the joints' ranges.
    pub real_poses: bool,
}

impl Default for DdmCompressParams {
    fn default() -> Self {
        Self {
            virtual_bones: 200,
            influences: 4,
            master_influences: 24,
            range: RangeOfMotion::Measured,
            maps: Maps::default(),
            smooth: 0.01,
            max_rounds: 12,
            tolerance: 1e-3,
            keep_multi_weights: false,
            real_poses: true,
        }
    }
}

impl DdmCompressParams {
    /// Checks all ranges.
    pub fn validate(&self) -> Result<(), DdmError> {
        let bad = |what: String| Err(DdmError::BadParameter { what });
        if !(1..=MAX_VIRTUAL_BONES).contains(&self.virtual_bones) {
            return bad(format!("{} virtual bones, but 1 to {MAX_VIRTUAL_BONES} are possible", self.virtual_bones));
        }
        if !(1..=8).contains(&self.influences) {
            return bad(format!("{} virtual bones per vertex, but 1 to 8 are possible", self.influences));
        }
        if !(1..=64).contains(&self.master_influences) {
            return bad(format!("{} bones per virtual bone, but 1 to 64 are possible", self.master_influences));
        }
        if !(self.smooth >= 0.0 && self.smooth.is_finite()) {
            return bad(format!("the smoothness of the weights is {}, but it must be at least 0", self.smooth));
        }
        let unsound = |&(r, t): &(f64, f64)| !((0.0..=7.0).contains(&r) && t >= 0.0 && t.is_finite());
        match &self.range {
            RangeOfMotion::Uniform { radians, units } if unsound(&(*radians, *units)) => bad(format!(
                "joints turn by {radians} radians and move by {units}: 0 to 7, and 0 or more, are possible"
            )),
            RangeOfMotion::PerJoint(ranges) if ranges.iter().any(unsound) => {
                let joint = ranges.iter().position(unsound).unwrap_or_default();
                bad(format!("joint {joint} has the range {:?}", ranges[joint]))
            }
            _ => Ok(()),
        }
    }

    /// Whether the ranges are those of a rig with so many bones.
    pub fn check_bones(&self, bones: usize) -> Result<(), DdmError> {
        match &self.range {
            RangeOfMotion::PerJoint(ranges) if ranges.len() != bones => Err(DdmError::BadParameter {
                what: format!("ranges of motion of {} joints, but the rig has {bones} bones", ranges.len()),
            }),
            _ => Ok(()),
        }
    }
}

/// Why the compression ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DdmStop {
    /// Rounds hardly lowered E.
    Converged,
    /// The maximum of rounds was reached.
    MaxRounds,
    /// E is 0.
    Exact,
}

/// How the compression went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DdmCompressInfo {
    /// Rounds over both layers.
    pub rounds: usize,
    /// E [Le2021 eq. 11a] after every half-step: weights, multi-weights, new places. It never rises.
    pub history: Vec<Round>,
    /// The square root of the last E, in model units: what the paper's table 1 lists.
    pub rmse_fit: f64,
    /// Root mean square error in the example poses before and after the layers were solved in them, in model units.
    pub rmse_poses: Option<(f64, f64)>,
    /// Why it ended.
    pub stop: DdmStop,
    /// Virtual bones that were placed again.
    pub replanted: usize,
    /// The tree was found from the motion: the rig has none.
    pub found_tree: bool,
}

//! Parameters and the record of a skeleton.

use serde::{Deserialize, Serialize};

use crate::skinning::FitError;
use crate::solve::check::ensure;

/// The method that finds the skeleton.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkeletonMethod {
    /// Bonesmith's own: many passes over bones, tree, weights and joints, after Le & Deng 2014.
    #[default]
    Multipass,
    /// Schaefer & Yuksel 2007: faces merged into rigid parts; one pass.
    Schaefer,
    /// de Aguiar et al. 2008: spectral clusters of seed vertices; one pass.
    Deaguiar,
    /// Hasler et al. 2010: spectral clusters, ten rounds of skinning, then the tree.
    Hasler,
}

/// Which bone is the root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Root {
    /// The bone nearest the middle of the rest pose.
    #[default]
    Centre,
    /// The bone that gets this name with the default root.
    Named(String),
    /// The bone nearest this place in the rest pose, in model units.
    At([f64; 3]),
}

/// Parameters of `skeleton`, beside those of the fit. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkeletonParams {
    /// The method.
    pub method: SkeletonMethod,
    /// How many bones are kept, 0.1 to 10: without a bone the error must rise by more than 5 % / detail, and above an E_RMS
    /// of 0.5 / detail. Raised: more bones. With a number of bones given, only bones that change next to nothing are left out.
    pub detail: f64,
    /// Rigid clusters of the over-complete start, 2 to 256; more than the bones wanted. Raised: smaller parts are
    /// found, longer.
    pub start: usize,
    /// Which bone is the root.
    pub root: Root,
    /// Names pairs of bones `_l` and `_r` where the rest pose is its own mirror image.
    pub symmetry: bool,
}

impl Default for SkeletonParams {
    fn default() -> Self {
        Self { method: SkeletonMethod::Multipass, detail: 1.0, start: 64, root: Root::Centre, symmetry: true }
    }
}

impl SkeletonParams {
    /// Checks ranges that do not depend on the input.
    pub fn validate(&self) -> Result<(), FitError> {
        let out_of_range = |name, value: String, range| FitError::OutOfRange { name, value, range };
        ensure((0.1..=10.0).contains(&self.detail), || out_of_range("detail", self.detail.to_string(), "0.1 to 10"))?;
        let start = self.start;
        ensure((2..=256).contains(&start), || out_of_range("start", start.to_string(), "2 to 256"))?;
        match self.root {
            Root::At(place) if !place.iter().all(|x| x.is_finite()) => {
                Err(out_of_range("root", format!("{place:?}"), "a bone's name, or three finite numbers X,Y,Z"))
            }
            _ => Ok(()),
        }
    }
}

/// The record of a skeleton.
#[derive(Clone, Debug, Serialize)]
pub struct SkeletonInfo {
    /// Rigid parts at the start of the search.
    pub start_bones: usize,
    /// E_RMS with as many bones and no joints, on the sample of the search: the joints cost at least the difference.
    pub loose_e_rms: Option<f64>,
    /// E_RMS right after the tree was made, before the joints were part of the descent.
    pub joined_e_rms: Option<f64>,
    /// Subtrees moved to another parent.
    pub regrafted: usize,
    /// Bones removed between the first tree and the last.
    pub pruned: usize,
    /// Pairs of bones found to be mirror images.
    pub mirrored_pairs: usize,
}

impl SkeletonInfo {
    /// Only a start.
    pub(crate) fn new(start_bones: usize) -> Self {
        Self { start_bones, loose_e_rms: None, joined_e_rms: None, regrafted: 0, pruned: 0, mirrored_pairs: 0 }
    }
}

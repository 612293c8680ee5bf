//! Parameters, results and errors of `fit`.

use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{BoneKind, Rig};
use crate::observer::Cancelled;
pub use crate::observer::Round;

/// A fitted rig and how it came about.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The rig.
    pub rig: Rig,
    /// How it came about.
    pub info: FitInfo,
}

/// Most bones of a fit, of rigid pieces and of soft parts together.
pub const MAX_BONES: usize = 16_384;

/// Most bones where sums over all pairs of bones are made, `16 B^2` numbers: skeletons and published methods.
pub(crate) const MAX_PAIRED_BONES: usize = 2048;

/// E_RMS that [`BoneCount::Auto`] aims at: two thousandths of the model's radius, hard to see at game distances.
pub const AUTO_TARGET: f64 = 2.0;

/// Maximum number of bones of [`BoneCount::Auto`].
pub const AUTO_MAX_BONES: usize = 100;

/// Sampled vertices that a bone is judged by, at least.
pub(crate) const VERTICES_PER_BONE: usize = 10;

/// How many bones to fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BoneCount {
    /// Exactly this many, at most the number of vertices. Fewer where the mesh is nothing but rigid pieces and these need no more.
    Exact(usize),
    /// The fewest found that reach an E_RMS of [`crate::skinning::params::AUTO_TARGET`], at most [`crate::skinning::params::AUTO_MAX_BONES`]
    /// and one for each rigid piece.
    Auto,
    /// The smallest number that reaches this E_RMS.
    TargetError(f64),
}

/// What is lowered over all vertices and frames: a norm of the distances.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Norm {
    /// `(mean |r|^p)^(1/p)`, p of 2 (the root mean square) to 16. Larger: smaller large errors, larger small ones.
    P(f64),
    /// The largest distance; E_RMS rises by at most a quarter.
    Max,
}

impl Default for Norm {
    fn default() -> Self {
        Self::P(2.0)
    }
}

impl Norm {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Norm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::P(p) => write!(f, "{p}"),
            Self::Max => write!(f, "max"),
        }
    }
}

impl From<Norm> for String {
    fn from(norm: Norm) -> Self {
        norm.to_string()
    }
}

impl TryFrom<String> for Norm {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for Norm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse() {
            Ok(p) if (2.0..=16.0).contains(&p) => Ok(Self::P(p)),
            _ => Err(format!("{text} is not a norm: a number of 2 to 16, or max")),
        }
    }
}

/// Which published or own method does the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Our best.
    #[default]
    Bonesmith,
    /// Kavan, Sloan & O'Sullivan 2010: affine bones in a reduced space, 15 alternating steps.
    Fsd,
    /// Le & Deng 2012: rigid bones by alternating exact steps.
    Ssdr,
    /// James & Twigg 2005: triangles that turn alike, by mean shift; weights once.
    Sma,
    /// Kavan et al. 2007: bones spread evenly, smooth weights, transformations by least squares.
    Sad,
    /// Hasler et al. 2010: spectral clusters, L1 sparse weights, soft rotations.
    Lssp,
    /// Sattler, Sarlette & Klein 2005: clustered principal components. No rig: see [`crate::model::basis`].
    Cpca,
    /// Alexa & Müller 2000: truncated singular value decomposition. No rig: see [`crate::model::basis`].
    Svd,
}

impl Method {
    /// Whether it makes rigs; [`crate::model::basis::represent`] runs the others.
    pub fn makes_rigs(self) -> bool {
        !matches!(self, Self::Cpca | Self::Svd)
    }

    /// As on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bonesmith => "bonesmith",
            Self::Fsd => "fsd",
            Self::Ssdr => "ssdr",
            Self::Sma => "sma",
            Self::Sad => "sad",
            Self::Lssp => "lssp",
            Self::Cpca => "cpca",
            Self::Svd => "svd",
        }
    }
}

/// How much work a fit may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Effort {
    /// A quick look.
    Fast,
    /// The usual.
    #[default]
    Balanced,
    /// Lowest error, several times the work.
    Best,
}

/// What `fit` is asked to do. `Default` is the recommended set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitParams {
    /// How many bones. More bones: lower error, larger output.
    pub bones: BoneCount,
    /// Most influences per vertex, 1 to 16; `None` for no limit (dense weights). Default 4, what engines expect.
    pub influences: Option<usize>,
    /// What a bone's transform may do. Affine bones fit soft motion better, rigid ones are what engines like best.
    pub bone_kind: BoneKind,
    /// Strength of the weight smoothness, 0 (off) to about 1. Raised: smoother weights, higher error.
    pub smooth: f64,
    /// Share by which the error may rise for fewer influences, 0 (off) to 1: those that cost least are removed at the end. Not with
    /// `smooth`, nor where influences have no limit.
    #[serde(default = "default_prune")]
    pub prune: f64,
    /// Leave the rest pose as it is in the input. Otherwise each rest vertex moves to where it fits best.
    pub keep_rest: bool,
    /// How much the normals count that an engine computes from the rest normals and the bones, 0 (not at all) to about 1. Raised: better
    /// shading, higher error.
    #[serde(default)]
    pub shading: f64,
    /// Which errors count most: in the mean of squares, or large ones.
    #[serde(default, skip_serializing_if = "Norm::is_default")]
    pub norm: Norm,
    /// Whether vertices count by the area of their faces: where a mesh is uneven, dense parts do not decide.
    #[serde(default, skip_serializing_if = "is_false")]
    pub area: bool,
    /// [N] how much each vertex counts, 0 or more in any unit; `None`: all alike. Vertices of less than a thousandth of the largest count
    /// like a thousandth.
    #[serde(skip)]
    pub importance: Option<Arc<Vec<f32>>>,
    /// How much work to put in. Raised: lower error, longer.
    pub effort: Effort,
    /// Most rounds over weights and bones on the whole sequence; `None`: as many as the effort stands for.
    pub max_iterations: Option<usize>,
    /// Stop when two rounds in a row lower the error by less than this fraction each. 0: never; `None`: as the effort
    /// says (never with the published methods, which count rounds).
    pub tolerance: Option<f64>,
    /// Stop after this many seconds with what is there; `None` for no limit.
    pub max_seconds: Option<f64>,
    /// Seed of all random choices; the same seed gives the same bytes.
    pub seed: u64,
    /// Which method.
    pub method: Method,
    /// Bandwidth of the mean shift of [`Method::Sma`], above 0: how far rotations in one cluster may differ (root mean
    /// square of their matrices' entries). Raised: fewer bones. `None`: 0.05, or searched where bones are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn default_prune() -> f64 {
    5e-3
}

impl Default for FitParams {
    fn default() -> Self {
        Self {
            bones: BoneCount::Auto,
            influences: Some(4),
            bone_kind: BoneKind::Rigid,
            smooth: 0.0,
            prune: default_prune(),
            keep_rest: false,
            shading: 0.4,
            norm: Norm::default(),
            area: false,
            importance: None,
            effort: Effort::Balanced,
            max_iterations: None,
            tolerance: None,
            max_seconds: None,
            seed: 0,
            method: Method::Bonesmith,
            bandwidth: None,
        }
    }
}

/// Why a fit stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// The last rounds lowered the error by less than the tolerance.
    Converged,
    /// All rounds were used.
    MaxIterations,
    /// Time was up.
    MaxSeconds,
    /// The error is zero to rounding.
    Exact,
}

/// Something the user should know about the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// Nothing moves in the input.
    NoMotion,
    /// The target error was not reached.
    TargetMissed {
        /// E_RMS asked for.
        target: f64,
        /// E_RMS reached.
        reached: f64,
        /// Bones used.
        bones: usize,
    },
    /// [`BoneCount::Auto`] ended above the E_RMS it aims at.
    AutoMissed {
        /// E_RMS aimed at.
        target: f64,
        /// E_RMS reached.
        reached: f64,
        /// Bones used.
        bones: usize,
    },
    /// Affine bones turn inside out or flatten in some frames: the motion is far from it otherwise.
    Mirrored {
        /// Bones that do so in some frame.
        bones: usize,
        /// Frames of all bones together.
        frames: usize,
    },
    /// Automatic bones reached the error in the mean, but not in one region.
    LocalMissed {
        /// Distance that 99.9 % should stay below in every region, thousandths of the radius.
        goal: f64,
        /// What they stay below in the worst one.
        reached: f64,
        /// The vertex of that region that is farthest off.
        vertex: usize,
        /// Bones used.
        bones: usize,
    },
    /// The mesh is nothing but rigid pieces, which need fewer bones than requested.
    FewerBones {
        /// Bones requested.
        requested: usize,
        /// Rigid pieces found.
        pieces: usize,
        /// Bones used.
        used: usize,
    },
    /// Parts of a face have no mirror image, or several.
    NotSymmetric {
        /// Vertices without one.
        vertices: usize,
        /// Shapes without one.
        shapes: Vec<String>,
    },
    /// Rigid pieces of a face take too many of the bones or numbers that were requested to have bones of their own.
    PiecesNotLocked {
        /// Pieces found.
        pieces: usize,
        /// Numbers that they take.
        numbers: usize,
    },
    /// The joints of a rig without animation do not only rotate: bone lengths were not kept.
    FreeJoints {
        /// E_RMS with joints that only rotate.
        with_joints: f64,
        /// E_RMS with bones that move freely.
        without_joints: f64,
    },
    /// A skeleton does not describe this motion well.
    PoorSkeleton {
        /// E_RMS reached.
        e_rms: f64,
        /// Bones of the skeleton.
        bones: usize,
        /// E_RMS with as many bones and no joints.
        without_joints: Option<f64>,
    },
    /// A joint of a skeleton is far from the surface that it splits, because the motion demands it.
    FarJoint {
        /// The bone that turns about it.
        bone: String,
        /// Distance over the largest extent of the rest pose.
        away: f64,
    },
    /// A part slides along an axis; the joints of a skeleton only rotate, so its joint is far away.
    SlidingPart {
        /// The bone of the part.
        bone: String,
        /// The bone that it slides along.
        parent: String,
        /// Direction in the rest pose, of unit length.
        axis: [f64; 3],
        /// Length of the way, in model units.
        travel: f64,
        /// Distance of the joint over the largest extent of the rest pose.
        away: f64,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::NoMotion => write!(f, "nothing moves in this sequence; the result is a still rig"),
            Warning::TargetMissed { target, reached, bones } => {
                let target = if *target < 1e-3 { format!("{target:.2e}") } else { format!("{target:.4}") };
                let target = target.trim_end_matches('0').trim_end_matches('.');
                write!(
                    f,
                    "target missed: an E_RMS of {target} was asked for, {reached:.3} was reached with {bones} bones"
                )
            }
            Warning::AutoMissed { target, reached, bones } => write!(
                f,
                "auto aims at an E_RMS of {target}; {reached:.3} was reached with {bones} bones: more bones than auto uses \
                 (a number), more influences or another kind of bone lower it"
            ),
            Warning::Mirrored { bones, frames } => write!(
                f,
                "{bones} affine bones turn inside out or flatten, in {frames} frames together: the error would rise by more than a tenth \
                 without; engines show their normals wrong, rigid bones or bones with scale do not have this"
            ),
            Warning::LocalMissed { goal, reached, vertex, bones } => write!(
                f,
                "the region around vertex {vertex} is less exact than the rest: 99.9 % of its distances are below {reached:.1}, the goal is \
                 {goal:.1} (thousandths of the radius, {bones} bones); more bones or more importance there lower it"
            ),
            Warning::FewerBones { requested, pieces, used } => {
                write!(f, "{requested} bones were asked for; the mesh is {pieces} rigid pieces, which need {used}")
            }
            Warning::NotSymmetric { vertices, shapes } => {
                write!(f, "{vertices} vertices and {} shapes have no mirror image", shapes.len())?;
                if !shapes.is_empty() {
                    write!(f, " ({})", shapes.join(", "))?;
                }
                write!(f, "; the shapes count on both sides, the vertices are fitted as they are")
            }
            Warning::PiecesNotLocked { pieces, numbers } => write!(
                f,
                "{pieces} rigid pieces take {numbers} numbers, too many of the bones or numbers requested: they have no bones of their own"
            ),
            Warning::FreeJoints { with_joints, without_joints } => write!(
                f,
                "bones move away from their parents in this animation: E_RMS {with_joints:.2} with bone lengths kept, {without_joints:.2} without; \
                 they are not kept"
            ),
            Warning::PoorSkeleton { e_rms, bones, without_joints } => {
                write!(f, "a skeleton is a poor model for this motion: E_RMS {e_rms:.2} with {bones} joined bones")?;
                if let Some(free) = without_joints {
                    write!(f, ", {free:.2} without joints")?;
                }
                write!(f, "; cloth and soft bodies fit better without a skeleton")
            }
            Warning::FarJoint { bone, away } => write!(
                f,
                "the joint of {bone} is {away:.2} of the model's extent away from the surface that it splits: with a nearer joint \
                 the error rises by more than a tenth; the part may slide or stretch"
            ),
            Warning::SlidingPart { bone, parent, axis: [x, y, z], travel, away } => write!(
                f,
                "{bone} slides by {travel:.3} model units along ({x:.2}, {y:.2}, {z:.2}) of {parent}: joints of a skeleton only rotate, so its \
                 joint is {away:.2} of the model's extent away; a fit without joints keeps the translation"
            ),
        }
    }
}

/// What happened during a fit.
#[derive(Clone, Debug, Serialize)]
pub struct FitInfo {
    /// Rounds over weights and bones.
    pub iterations: usize,
    /// All rounds in order.
    pub history: Vec<Round>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What the user should know.
    pub warnings: Vec<Warning>,
    /// Seconds spent preparing (normalising, reducing, sampling).
    pub prepare_secs: f64,
    /// Seconds spent on the fit itself.
    pub fit_secs: f64,
    /// Mean second difference of the reconstruction over that of the input: 1 is as smooth in time as the input.
    pub jitter_ratio: Option<f64>,
    /// Rigid pieces, each with a bone of its own; the last bones of the rig.
    pub pieces: usize,
    /// Share of time by part, for profiles: (name, seconds).
    pub profile: Vec<(&'static str, f64)>,
}

/// Why a fit was refused or did not finish.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
// The messages say what the fields are.
#[allow(missing_docs)]
#[non_exhaustive]
pub enum FitError {
    #[error("{bones} bones asked for; 1 to {limit} are possible for this mesh of {vertices} vertices")]
    BoneCount { bones: usize, limit: usize, vertices: usize },
    #[error("{numbers} numbers for the importance of {vertices} vertices")]
    Importance { numbers: usize, vertices: usize },
    /// `name` is the parameter, as its field is called.
    #[error("{name} is {value}; it must be {range}")]
    OutOfRange { name: &'static str, value: String, range: &'static str },
    /// A combination of parameters that has no meaning.
    #[error("{0}")]
    Unsupported(String),
    /// A method whose feature is off.
    #[error("this build has no method {}", method.name())]
    NotBuilt { method: Method },
    /// The method has no answer for this input.
    #[error("{0}")]
    Unsuited(String),
    #[error("cancelled")]
    Cancelled(#[from] Cancelled),
}

/// Rounds of the published method [Kavan2010 s.5].
const FSD_ITERATIONS: usize = 15;

impl FitParams {
    /// The recommended set of a method: the published ones have bones, rounds and influences of their own.
    pub fn of_method(method: Method) -> Self {
        let defaults = Self { method, ..Self::default() };
        let affine = matches!(method, Method::Fsd | Method::Sma | Method::Sad);
        Self {
            // Nothing in the paper limits them.
            influences: if method == Method::Lssp { None } else { defaults.influences },
            bone_kind: if affine { BoneKind::Affine } else { defaults.bone_kind },
            shading: if method == Method::Bonesmith { defaults.shading } else { 0.0 },
            max_iterations: (method == Method::Fsd).then_some(FSD_ITERATIONS),
            ..defaults
        }
    }

    /// Checks ranges and combinations that do not depend on the input.
    pub fn validate(&self) -> Result<(), FitError> {
        let out_of_range = |name, value: String, range| Err(FitError::OutOfRange { name, value, range });
        match self.bones {
            BoneCount::TargetError(e) if !(e > 0.0 && e.is_finite()) => {
                return out_of_range("target_error", e.to_string(), "a number above 0");
            }
            _ => {}
        }
        if let Some(k) = self.influences
            && !(1..=16).contains(&k)
        {
            return out_of_range("influences", k.to_string(), "1 to 16, or all");
        }
        if !(self.shading >= 0.0 && self.shading.is_finite()) {
            return out_of_range("shading", self.shading.to_string(), "0 or more");
        }
        match self.norm {
            Norm::P(p) if !(2.0..=16.0).contains(&p) => {
                return out_of_range("norm", p.to_string(), "2 to 16, or max");
            }
            _ => {}
        }
        if let Some((i, value)) =
            self.importance.iter().flat_map(|all| all.iter().enumerate()).find(|(_, x)| !(**x >= 0.0 && x.is_finite()))
        {
            return Err(FitError::Unsupported(format!(
                "the importance of vertex {i} is {value}; it must be 0 or more"
            )));
        }
        if self.importance.as_ref().is_some_and(|all| all.iter().all(|x| *x == 0.0)) {
            return Err(FitError::Unsupported("the importance of all vertices is 0: nothing would count".into()));
        }
        let weighted = self.area || self.importance.is_some() || self.norm != Norm::default();
        if weighted && self.method != Method::Bonesmith {
            let method = self.method.name();
            return Err(FitError::Unsupported(format!(
                "the method {method} lowers the plain squared error: norm, importance and area are for the method bonesmith"
            )));
        }
        if !(self.smooth >= 0.0 && self.smooth.is_finite()) {
            return out_of_range("smooth", self.smooth.to_string(), "0 or more");
        }
        if !(0.0..=1.0).contains(&self.prune) {
            return out_of_range("prune", self.prune.to_string(), "0 to 1");
        }
        if let Some(bandwidth) = self.bandwidth {
            if !(bandwidth > 0.0 && bandwidth.is_finite()) {
                return out_of_range("bandwidth", bandwidth.to_string(), "a number above 0");
            }
            if self.method != Method::Sma {
                return Err(FitError::Unsupported("only the method sma has a bandwidth".into()));
            }
        }
        if self.max_iterations == Some(0) {
            return out_of_range("max_iterations", "0".into(), "1 or more");
        }
        if let Some(tolerance) = self.tolerance.filter(|t| !(0.0..1.0).contains(t)) {
            return out_of_range("tolerance", tolerance.to_string(), "0 or more and below 1");
        }
        match self.max_seconds {
            Some(s) if s.is_nan() || s <= 0.0 => out_of_range("max_seconds", s.to_string(), "above 0"),
            _ => self.validate_method(),
        }
    }

    /// Refuses what a published method cannot do.
    fn validate_method(&self) -> Result<(), FitError> {
        let name = self.method.name();
        let refused = |what: String| Err(FitError::Unsupported(what));
        match self.method {
            Method::Fsd if self.bone_kind != BoneKind::Affine => {
                refused(format!("the method {name} makes affine bones only, not rigid or trs"))
            }
            Method::Ssdr | Method::Lssp if self.bone_kind != BoneKind::Rigid => {
                refused(format!("the method {name} makes rigid bones only, not trs or affine"))
            }
            method if method != Method::Bonesmith && self.smooth > 0.0 => {
                refused(format!("the method {name} has no smoothing of weights"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a number of bones above `limit`, or above that of the vertices.
pub(crate) fn check_bones(sequence: &MeshSequence, params: &FitParams, limit: usize) -> Result<(), FitError> {
    let vertices = sequence.vertex_count();
    let limit = vertices.min(limit);
    match params.bones {
        BoneCount::Exact(bones) if !(1..=limit).contains(&bones) => Err(FitError::BoneCount { bones, limit, vertices }),
        _ => Ok(()),
    }
}

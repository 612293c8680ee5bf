//! Values of options: numbers with words of their own, ranges, choices.

use std::path::PathBuf;
use std::str::FromStr;

use bonesmith_core::BoneKind;
use bonesmith_core::fit::{Effort, Method};
use clap::ValueEnum;

/// How rigid pieces are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PiecesArg {
    /// Bones of one skin
    #[default]
    Skin,
    /// A mesh node for each piece; a skin for soft parts only
    Nodes,
}

/// Meshes that are not picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OthersArg {
    /// They are not written
    #[default]
    Drop,
    /// They are written as they are in the file, with their bones and motion
    Keep,
}

/// Animations of `demo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SceneArg {
    /// A swimming fish with soft parts
    #[default]
    Fish,
    /// A wall of 300 loose cubes that breaks
    Wall,
    /// A robot arm of rigid links
    Robot,
    /// 200 cubes, a soft body and a cloth in one mesh
    Mixed,
    /// 10,000 cubes of 24 vertices, 250 frames: 720 MB
    Rubble,
}

/// `--bones N|auto`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BonesArg {
    Auto,
    Exact(usize),
}

impl FromStr for BonesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Exact).map_err(|_| "neither a whole number nor auto".to_owned()),
        }
    }
}

/// `--target-error E|LENGTH`
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetArg {
    /// E_RMS.
    Error(f64),
    /// Root mean square distance.
    Distance(bonesmith::Distance),
}

impl FromStr for TargetArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(e_rms) => Ok(Self::Error(e_rms)),
            Err(_) => text.parse().map(Self::Distance),
        }
    }
}

/// `--influences K|all`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfluencesArg {
    All,
    AtMost(usize),
}

impl FromStr for InfluencesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::AtMost).map_err(|_| "neither a whole number nor all".to_owned()),
        }
    }
}

/// `--rest first|symmetric|FRAME|FILE`. A file whose name is a number can be given as ./12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestArg {
    First,
    Symmetric,
    Frame(usize),
    File(PathBuf),
}

impl FromStr for RestArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match (text, text.parse()) {
            ("first", _) => Self::First,
            ("symmetric", _) => Self::Symmetric,
            (_, Ok(frame)) => Self::Frame(frame),
            _ => Self::File(text.into()),
        })
    }
}

/// `--frames A..B`: `end` is left out, as in Rust; `None` is "to the end".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesArg {
    pub start: usize,
    pub end: Option<usize>,
}

impl FromStr for FramesArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give a range such as 0..24, 10.., ..=48".to_owned();
        let number = |part: &str| part.parse::<usize>().map_err(|_| wrong());
        let (start, end) = text.split_once("..").ok_or_else(wrong)?;
        let start = if start.is_empty() { 0 } else { number(start)? };
        let end = match (end, end.strip_prefix('=')) {
            ("", _) => None,
            (_, Some(last)) => Some(number(last)?.checked_add(1).ok_or_else(wrong)?),
            (end, None) => Some(number(end)?),
        };
        Ok(Self { start, end })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BoneKindArg {
    /// Rotation and translation: plays in every engine
    Rigid,
    /// Rotation, translation and scale
    Trs,
    /// Any 3x4 matrix: fits soft motion best
    Affine,
}

impl From<BoneKindArg> for BoneKind {
    fn from(kind: BoneKindArg) -> Self {
        match kind {
            BoneKindArg::Rigid => Self::Rigid,
            BoneKindArg::Trs => Self::Trs,
            BoneKindArg::Affine => Self::Affine,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MethodArg {
    /// Bonesmith's own
    #[default]
    Bonesmith,
    /// Kavan, Sloan & O'Sullivan 2010: affine bones, 15 rounds
    Fsd,
    /// Le & Deng 2012: rigid bones, rounds until they gain less than 1 %
    Ssdr,
    /// James & Twigg 2005: triangles that turn alike, by mean shift
    Sma,
    /// Kavan et al. 2007: bones spread evenly, smooth weights
    Sad,
    /// Hasler et al. 2010: spectral clusters, sparse weights; any number of influences
    Lssp,
    /// Sattler et al. 2005: clustered principal components; no rig, .npz only
    Cpca,
    /// Alexa & Müller 2000: truncated SVD at 4 columns a bone; no rig, .npz only
    Svd,
}

impl From<MethodArg> for Method {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Bonesmith => Self::Bonesmith,
            MethodArg::Fsd => Self::Fsd,
            MethodArg::Ssdr => Self::Ssdr,
            MethodArg::Sma => Self::Sma,
            MethodArg::Sad => Self::Sad,
            MethodArg::Lssp => Self::Lssp,
            MethodArg::Cpca => Self::Cpca,
            MethodArg::Svd => Self::Svd,
        }
    }
}

/// `--effort`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EffortArg {
    /// Least work
    Fast,
    /// The usual
    #[default]
    Balanced,
    /// Lowest error, several times the work
    Best,
}

impl From<EffortArg> for Effort {
    fn from(effort: EffortArg) -> Self {
        match effort {
            EffortArg::Fast => Self::Fast,
            EffortArg::Balanced => Self::Balanced,
            EffortArg::Best => Self::Best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_frames() {
        let range = |text: &str| text.parse::<FramesArg>().map(|r| (r.start, r.end));
        assert_eq!(range("3..9"), Ok((3, Some(9))));
        assert_eq!(range("3..=9"), Ok((3, Some(10))));
        assert_eq!(range("3.."), Ok((3, None)));
        assert_eq!(range("..9"), Ok((0, Some(9))));
        for wrong in ["3", "a..b", "3..b", "-1..4", "..=", "0..=18446744073709551615"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rest_is_a_word_a_number_or_a_file() {
        assert_eq!("first".parse(), Ok(RestArg::First));
        assert_eq!("symmetric".parse(), Ok(RestArg::Symmetric));
        assert_eq!("12".parse(), Ok(RestArg::Frame(12)));
        assert_eq!("./12".parse(), Ok(RestArg::File("./12".into())));
        assert_eq!("tpose.obj".parse(), Ok(RestArg::File("tpose.obj".into())));
    }
}

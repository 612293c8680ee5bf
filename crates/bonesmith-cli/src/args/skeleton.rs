//! Options of `fit --skeleton` and `bench skeleton2`.

use std::path::PathBuf;
use std::str::FromStr;

use bonesmith_core::skeleton::SkeletonMethod;
use clap::{Args, ValueEnum};

use super::{EffortArg, TableArgs};

/// What a skeleton should be like.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Skeleton")]
pub struct SkeletonArgs {
    #[arg(long)]
    pub skeleton: bool,
    #[arg(long, value_name = "D", requires = "skeleton", allow_negative_numbers = true)]
    pub detail: Option<f64>,
    #[arg(long, value_name = "NAME|X,Y,Z", requires = "skeleton", allow_hyphen_values = true)]
    pub root: Option<RootArg>,
    #[arg(long, value_enum, value_name = "METHOD", requires = "skeleton")]
    pub skeleton_method: Option<SkeletonMethodArg>,
    #[arg(long, value_name = "N", requires = "skeleton")]
    pub skeleton_start: Option<usize>,
    #[arg(long, requires = "skeleton")]
    pub no_symmetry: bool,
    /// Draw the rest pose and the skeleton, front and side, as SVG
    #[arg(long, value_name = "FILE.svg", requires = "skeleton", help_heading = "Output")]
    pub picture: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Each figure is a run of `bonesmith fit --skeleton` in a process of its own, with the paper's number of bones as upper limit, and
once without a number.

Examples:
  bonesmith bench skeleton2 --only horse
  bonesmith bench skeleton2 --starts")]
pub struct BenchSkeletonArgs {
    #[command(flatten)]
    pub table: TableArgs,
    /// Also from starts of 24, 32, 48 and 64 rigid parts, and by how much they differ
    #[arg(long)]
    pub starts: bool,
    /// How much work to put in: more of it finds lower errors
    #[arg(long, value_enum, default_value_t)]
    pub effort: EffortArg,
}

/// `--root NAME|X,Y,Z`
#[derive(Clone, Debug, PartialEq)]
pub enum RootArg {
    Named(String),
    At([f64; 3]),
}

impl FromStr for RootArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<Result<f64, _>> = text.split(',').map(|part| part.trim().parse()).collect();
        match numbers.as_slice() {
            [Ok(x), Ok(y), Ok(z)] => Ok(Self::At([*x, *y, *z])),
            _ if text.is_empty() || text.contains(',') => Err("neither a bone's name nor three numbers X,Y,Z".into()),
            _ => Ok(Self::Named(text.to_owned())),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SkeletonMethodArg {
    /// Ours: many passes over bones, tree, weights and joints, after Le & Deng 2014
    #[default]
    Multipass,
    /// Schaefer & Yuksel 2007: faces merged into rigid parts
    Schaefer,
    /// de Aguiar et al. 2008: spectral clusters of seed vertices
    Deaguiar,
    /// Hasler et al. 2010: spectral clusters, ten rounds of skinning
    Hasler,
}

impl From<SkeletonMethodArg> for SkeletonMethod {
    fn from(method: SkeletonMethodArg) -> Self {
        match method {
            SkeletonMethodArg::Multipass => Self::Multipass,
            SkeletonMethodArg::Schaefer => Self::Schaefer,
            SkeletonMethodArg::Deaguiar => Self::Deaguiar,
            SkeletonMethodArg::Hasler => Self::Hasler,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_a_name_or_a_place() {
        assert_eq!("bone_03_l".parse(), Ok(RootArg::Named("bone_03_l".into())));
        assert_eq!("-1, 2.5,3e-2".parse(), Ok(RootArg::At([-1.0, 2.5, 0.03])));
        for wrong in ["", "1,2", "1,2,x", "1,2,3,4"] {
            assert!(wrong.parse::<RootArg>().is_err(), "{wrong}");
        }
    }
}

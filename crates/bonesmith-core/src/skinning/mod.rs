//! The layer that all stages stand on: the unknowns of a skinning model, and the steps that improve them.

pub(crate) mod alternation;
pub(crate) mod axes;
pub(crate) mod basins;
pub(crate) mod bone_newton;
pub(crate) mod bone_step;
pub(crate) mod choice;
pub(crate) mod descent;
pub(crate) mod device;
pub(crate) mod finish;
pub(crate) mod guess;
mod joint_newton;
pub(crate) mod limits;
pub(crate) mod loss;
pub(crate) mod moments;
pub(crate) mod momentum;
pub(crate) mod motion;
pub(crate) mod near;
pub(crate) mod norm;
pub(crate) mod normals;
pub(crate) mod params;
pub(crate) mod pass;
pub(crate) mod plant;
pub(crate) mod poses;
pub(crate) mod problem;
pub(crate) mod products;
pub(crate) mod prune;
pub(crate) mod quadratic;
pub(crate) mod rates;
pub(crate) mod run;
pub(crate) mod sample;
pub(crate) mod search;
pub(crate) mod skin;
pub(crate) mod smooth;
pub(crate) mod stop;
#[cfg(test)]
mod tests;
pub(crate) mod together;
pub(crate) mod unit;
pub(crate) mod vertex_step;
pub(crate) mod weights;

pub(crate) use bone_step::BoneModel;
pub(crate) use choice::{DenseForm, Form, InfluenceSolver};
pub(crate) use descent::{Descent, State};
pub(crate) use moments::{Moments, SecondMoments};
pub(crate) use momentum::Momentum;
pub(crate) use motion::Motion;
pub(crate) use params::{
    AUTO_MAX_BONES, AUTO_TARGET, BoneCount, Effort, FitError, FitInfo, FitParams, Fitted, MAX_PAIRED_BONES, Method,
    StopReason, Warning, check_bones,
};
pub(crate) use poses::{PoseError, Poses, check_size};
pub(crate) use problem::Problem;
pub(crate) use quadratic::Metric;
pub(crate) use run::{Ending, Run};
pub(crate) use sample::Sample;
pub(crate) use skin::Skin;
pub(crate) use smooth::Smoothness;
pub(crate) use stop::StopRule;
pub(crate) use unit::UnitSpace;
pub(crate) use vertex_step::VertexParams;

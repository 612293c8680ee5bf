//! Types and algorithms of Bonesmith: a mesh animation goes in, a skinned rig comes out.
//!
//! The path of the data is one way, each arrow a type:
//!
//! ```text
//! RawSequence --validate--> MeshSequence --fit--> Rig + FitInfo --metrics--> Metrics
//! ```
//!
//! This crate never sees a path or a file format; `bonesmith-io` does. Bad input is rejected in one
//! place, `MeshSequence::try_from(RawSequence)`; nothing after it can fail but a cancel.
//!
//! Index letters, the same everywhere: `i` vertex, `j` bone, `t` frame, `k` influence slot;
//! sizes `N B F K`.

// Parts of `skinning` and `cluster` that only the published methods use.
#![cfg_attr(not(feature = "baselines"), allow(dead_code, unused_imports))]

#[cfg(feature = "baselines")]
mod baselines;
pub mod clips;
mod cluster;
pub mod compress;
pub mod corrective;
pub mod ddm;
pub mod deform;
pub mod fit;
pub mod lod;
pub mod mesh;
pub mod methods;
pub mod metrics;
pub mod model;
pub mod observer;
pub mod reduce;
pub mod refit;
pub mod shapes;
pub mod skeleton;
mod skinning;
mod solve;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;

pub use mesh::parts::{Part, PartNode, Parts};
pub use mesh::sequence::{MeshSequence, RawFrame, RawSequence, SequenceError};
pub use mesh::space::{Space, UpAxis};
pub use mesh::surface::Surface;
pub use mesh::topology::{Adjacency, Topology};
pub use model::basis::Basis;
pub use model::corrective::{BlendShape, CorrectiveRig};
pub use model::ddm::DdmRig;
pub use model::rig::{Bone, BoneKind, Clip, Rig, RigError};
pub use model::shape_bones::ShapeBones;
pub use model::two_layer::TwoLayerRig;
pub use model::weights::SparseWeights;
pub use model::{Model, ModelKind, ModelRef};
pub use observer::{Measure, Observer, Progress, Round, Silent, Stage};
pub use skinning::poses::{PoseError, example_clips};
pub use solve::transform;

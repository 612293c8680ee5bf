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

mod baselines;
pub mod basis;
mod cluster;
pub mod compress;
pub mod correct;
pub mod ddm;
pub mod deform;
pub mod fit;
pub mod given;
mod linear;
pub mod metrics;
pub mod observer;
mod prepare;
pub mod reduce;
pub mod rig;
pub mod sequence;
pub mod skeleton;
mod solve;
pub mod space;
pub mod sphere;
pub mod surface;
pub mod synthetic;
pub mod topology;
pub mod transform;
pub mod two_layer;
pub mod weights;

pub use basis::Basis;
pub use correct::{BlendShape, ShapedRig};
pub use ddm::DdmRig;
pub use linear::PoseError;
pub use observer::{Observer, Progress, Silent};
pub use rig::{Bone, BoneKind, Clip, Rig, RigError};
pub use sequence::{MeshSequence, RawFrame, RawSequence, SequenceError};
pub use space::{Space, UpAxis};
pub use surface::Surface;
pub use topology::{Adjacency, Topology};
pub use two_layer::TwoLayerRig;
pub use weights::SparseWeights;

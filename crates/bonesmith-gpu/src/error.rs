//! What can go wrong between here and a GPU.

/// Why something could not be done on a GPU.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// No driver, or none that was asked for.
    #[error("no GPU to compute on: {detail}")]
    NoAdapter {
        /// What was looked for.
        detail: String,
    },
    /// The adapter is there but gives no device.
    #[error("{adapter} gives no device: {detail}")]
    NoDevice {
        /// Its name.
        adapter: String,
        /// What the driver said.
        detail: String,
    },
    /// The driver took the device away: reset, unplugged, a kernel that ran for too long. Everything on it is gone; make
    /// a new [`crate::Gpu`] and upload again.
    #[error("the GPU was lost: {detail}")]
    Lost {
        /// What the driver said.
        detail: String,
    },
    /// More than the device can address in one piece, even with several dispatches.
    #[error("{what} would take {needs}, but the device allows {limit}")]
    Limit {
        /// Of what.
        what: String,
        /// Bytes, or pieces.
        needs: u64,
        /// How many there may be.
        limit: u64,
    },
    /// No memory left.
    #[error("the GPU has no room for {what}: {bytes} bytes")]
    OutOfMemory {
        /// For what.
        what: String,
        /// How many bytes.
        bytes: u64,
    },
    /// A pose of another rig.
    #[error("{given} bone transforms, but the model has {bones} bones")]
    BoneCount {
        /// Transforms given.
        given: usize,
        /// Bones of the model.
        bones: usize,
    },
    /// Weights of other shapes, or of a model without any.
    #[error("{given} shape weights, but the model has {shapes} shapes")]
    ShapeCount {
        /// Weights given.
        given: usize,
        /// Shapes of the model.
        shapes: usize,
    },
    /// A weight that is NaN, infinite or beyond float32.
    #[error("instance {instance}, shape {shape}: the weight is no finite float32")]
    WeightNotFinite {
        /// Instance index.
        instance: usize,
        /// Shape index.
        shape: usize,
    },
    /// Transforms for a model whose bones follow the weights of shapes.
    #[error("the bones of this model follow the weights of shapes: write these instead of transforms")]
    Driven,
    /// NaN or infinity, or a number beyond float32.
    #[error("instance {instance}, bone {bone}: the transform is no finite float32 about the model's origin")]
    NotFinite {
        /// Instance index.
        instance: usize,
        /// Bone index.
        bone: usize,
    },
    /// A bone that shears, mirrors or scales unevenly, for a model that was built for bones that do not.
    #[error(
        "instance {instance}, bone {bone}: not a rotation with one scale (off by {off:.1e} of it), which this model was \
         built for; set `GpuOptions::bones` to `Bones::Affine` for poses of any kind"
    )]
    NotSimilar {
        /// Instance index.
        instance: usize,
        /// Bone index.
        bone: usize,
        /// How far, relative to the scale.
        off: f64,
    },
    /// An instance that the batch does not have.
    #[error("instance {instance}, but the batch has {instances}")]
    NoSuchInstance {
        /// Instance index.
        instance: usize,
        /// Instances there are.
        instances: usize,
    },
    /// A rig that breaks its own invariants.
    #[error("the rig cannot be uploaded: {what}")]
    BadRig {
        /// Which.
        what: String,
    },
    /// The device refused something: a bug here or in the driver.
    #[error("the GPU refused: {detail}")]
    Refused {
        /// What it said.
        detail: String,
    },
}

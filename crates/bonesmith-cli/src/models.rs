//! Files of any kind as models, and their clips by name.

use std::path::Path;

use anyhow::Context;
use bonesmith_core::metrics::{self, Metrics, MetricsError};
use bonesmith_core::{MeshSequence, Model, ModelRef};
use bonesmith_io::LoadOptions;

use crate::errors::Usage;
use crate::load;
use crate::settings::Input;

/// Reads a model as `input` says: `--fps`, `--mesh`; of an animation also `--frames` and `--rest`.
pub fn read(path: &Path, input: &Input) -> anyhow::Result<Model> {
    bonesmith_io::load_model_with(&[path.to_owned()], &input.load, |raw| load::picked(raw, input, path))
}

/// The number of the clip of this name, else of the first. A model without bones has one clip, whatever its name.
pub fn find_clip(model: ModelRef<'_>, name: Option<&str>) -> anyhow::Result<usize> {
    let clips = model.clips();
    match name.filter(|_| model.rig().is_some()) {
        None if clips.is_empty() => Err(MetricsError::NoClip.into()),
        None => Ok(0),
        Some(name) => clips.iter().position(|clip| clip.name == name).ok_or_else(|| {
            let names = clips.iter().map(|clip| clip.name).collect::<Vec<_>>().join(", ");
            let message = format!("--clip {name}: the rig has no animation of this name");
            Usage::new(message).hint(format!("it has: {names}")).into()
        }),
    }
}

/// Figures of a file that was written, whatever it holds, by its first clip.
pub fn measure_written(path: &Path, sequence: &MeshSequence) -> anyhow::Result<Metrics> {
    let model = bonesmith_io::load_model(&[path.to_owned()], &LoadOptions::default())?;
    metrics::evaluate(&model, 0, sequence).context("measuring what was written")
}

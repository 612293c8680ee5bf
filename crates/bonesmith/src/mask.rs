//! A number for every vertex: painted, or from a file.

use std::path::PathBuf;

use bonesmith_core::mesh::surface::Surface;

use crate::error::{Error, PickError};

/// Where the numbers of vertices are from.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum VertexMask {
    /// There are none.
    #[default]
    None,
    /// The red of the vertex colours, 0 to 1.
    Colours,
    /// An npz with `mask`, a text file with a number for every vertex, or a mesh with vertex colours.
    File(PathBuf),
    /// [N] values.
    Values(Vec<f32>),
}

impl VertexMask {
    /// The file that is read.
    pub fn file(&self) -> Option<PathBuf> {
        if let Self::File(path) = self { Some(path.clone()) } else { None }
    }

    /// [N] the numbers, for the option that is named.
    pub(crate) fn values(
        &self,
        option: &'static str,
        surface: &Surface,
        expected: usize,
    ) -> Result<Option<Vec<f32>>, Error> {
        let values = match self {
            Self::None => return Ok(None),
            Self::Colours => bonesmith_io::surface_mask(surface, expected).ok_or(PickError::NoColours { option })?,
            Self::File(path) => bonesmith_io::load_mask(path)?,
            Self::Values(values) => values.clone(),
        };
        match values.len() == expected {
            true => Ok(Some(values)),
            false => Err(PickError::MaskLength { option, found: values.len(), expected }.into()),
        }
    }
}

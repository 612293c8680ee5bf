//! What goes in: a mesh animation, its surface and its neighbourhoods.

pub mod frames;
pub mod laplacian;
pub(crate) mod normal_rows;
pub mod normals;
pub mod parts;
pub mod sequence;
pub mod shading;
pub mod space;
pub mod sphere;
pub mod stored;
pub mod surface;
pub mod symmetry;
pub mod tangents;
pub(crate) mod times;
pub mod topology;

pub(crate) use frames::Frames;
pub(crate) use laplacian::{Laplacian, LaplacianRows};
pub(crate) use normals::vertex_normals;
pub(crate) use parts::Parts;
pub(crate) use sequence::{MeshSequence, RawSequence};
pub(crate) use sphere::{Sphere, smallest_enclosing_sphere, unit_radius};
pub(crate) use surface::{Surface, SurfaceError};
pub(crate) use topology::{Adjacency, Topology};

//! What goes in: a mesh animation, its surface and its neighbourhoods.

pub mod frames;
pub mod laplacian;
pub mod normals;
pub mod sequence;
pub mod shading;
pub mod space;
pub mod sphere;
pub mod surface;
pub mod topology;

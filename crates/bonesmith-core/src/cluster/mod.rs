//! First guesses of which vertices move together.

pub(crate) mod edge_collapse;
pub(crate) mod exact;
pub(crate) mod labels;
pub(crate) mod mean_shift;
pub(crate) mod pieces;
pub(crate) mod region_growing;
pub(crate) mod spectral;
pub(crate) mod split;
pub(crate) mod spread;
pub(crate) mod triangles;

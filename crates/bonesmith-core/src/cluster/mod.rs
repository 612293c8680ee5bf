//! First guesses of which vertices move together.

pub(crate) mod region_growing;

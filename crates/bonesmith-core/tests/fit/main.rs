//! The fit as a caller of the library meets it.

mod control;
mod errors;
mod gaps;
mod harness;
mod invariance;
mod params;
mod pieces;
mod recovery;
mod soundness;
mod stored;
mod targets;
mod weights;

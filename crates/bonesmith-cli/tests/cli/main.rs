//! The binary as a user meets it: every test starts `bonesmith` and looks at files, streams and exit codes.

mod bad_input;
mod batch;
mod cancel;
mod commands;
mod compact;
mod convert;
mod ddm;
mod engines;
mod files;
mod fitting;
mod golden;
#[cfg(feature = "gpu")]
mod gpu;
mod harness;
mod memory;
mod methods;
mod outputs;
mod pieces;
mod refusals;
mod report;
mod report_judge;
mod rigs;
mod same_bytes;
mod scenes;
mod schema;
mod shapes;
mod skeleton;
mod small_files;
mod sound_results;
mod usd;
mod weights;

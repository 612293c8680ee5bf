//! Engines: what they accept ([`TARGETS`]), what of a file they object to ([`check()`]), and a model that they accept ([`suited`]).

mod check;
mod suit;
mod table;

pub use check::{Finding, Remedy, Subject, check, check_file};
pub use suit::{Suited, suited};
pub use table::{Limit, Rule, Severity, Source, TARGETS, Target, markdown_table};

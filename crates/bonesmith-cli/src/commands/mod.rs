//! One file per command: takes parsed arguments, resolves them, does the work.

mod basis;
pub mod bench;
pub mod compare;
pub mod compress;
pub mod convert;
pub mod ddm;
pub mod demo;
pub mod eval;
pub mod fit;
#[cfg(feature = "gpu")]
mod gpu;
pub mod info;
pub mod reduce;
pub mod shell;
pub mod simplify;
pub mod view;

use crate::output::{print, write_json};
use crate::session::Session;
use crate::settings::JsonTarget;
use crate::summary::Summary;

/// Warnings, then the JSON if asked for, then the table unless stdout belongs to the JSON.
pub fn report(summary: &Summary, json: Option<&JsonTarget>, table: bool, session: &Session) -> anyhow::Result<()> {
    summary.warnings.iter().for_each(|w| session.warn(&w.to_string()));
    if let Some(target) = json {
        write_json(target, &session.with_losses(summary.to_json()))?;
    }
    match table && json != Some(&JsonTarget::Stdout) {
        true => print(&summary.to_table(session.verbose)),
        false => Ok(()),
    }
}

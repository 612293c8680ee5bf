//! Reports: one html file that shows a model beside its original, with plots, figures and what they mean.
//!
//! ```text
//! Scene (models, original, what was done) --build--> Document (JSON) + Blob (buffers) --render--> html
//! ```
//!
//! The page itself is TypeScript (`viewer/`), built to `crates/bonesmith-report/page/report.html`; its data is described in
//! `docs/formats/report.md`. This crate computes no errors: all figures come from `bonesmith_core::metrics`.

mod data;
mod document;
mod figures;
mod page;
mod scene;
mod subject;

pub use document::{Column, Done, Figure, Iteration, Param, Remark, ShapeRow, StorageRow, Table, Timing};
pub use figures::{figure, params};
pub use page::{Page, ReportError, extract, render};
pub use scene::{ClipSpan, Scene};
pub use subject::{MAX_INFLUENCES, Subject};

#[cfg(test)]
mod tests;
#[cfg(test)]
mod typescript;

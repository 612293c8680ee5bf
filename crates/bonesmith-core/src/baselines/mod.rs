//! Published methods as their authors describe them, to compare with.

pub(crate) mod fsd;

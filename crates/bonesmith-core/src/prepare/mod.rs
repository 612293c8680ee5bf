//! What is done to a sequence before bones are fitted.

pub(crate) mod subspace;

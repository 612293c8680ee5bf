//! What is lost on the way in or out and is no reason to refuse a file.
//!
//! Readers and writers tell their losses to whoever listens on the thread that they run on: [`with_warnings`]. Nobody has to.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Something that a file holds, or was to hold, and that did not come along. Every message names the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// A picture: its material goes without.
    #[error("{}: material {material:?} goes without its texture {texture:?}: {why}", path.display())]
    Texture {
        /// Which file.
        path: PathBuf,
        /// Name of the material.
        material: String,
        /// Name of the picture, as the file has it.
        texture: String,
        /// What is wrong with it.
        why: String,
    },
    /// Anything else.
    #[error("{}: left out: {what}", path.display())]
    LeftOut {
        /// Which file.
        path: PathBuf,
        /// What, of which part of the file.
        what: String,
    },
}

thread_local! {
    /// What the innermost listener has heard; `None` while nobody listens.
    static HEARD: RefCell<Option<Vec<Warning>>> = const { RefCell::new(None) };
}

/// Runs `work`, and hands back what reading and writing had to leave out in it: each once, in order. A listener within
/// `work` hears in place of this one.
pub fn with_warnings<T>(work: impl FnOnce() -> T) -> (T, Vec<Warning>) {
    let outer = HEARD.replace(Some(Vec::new()));
    let done = work();
    (done, HEARD.replace(outer).unwrap_or_default())
}

fn tell(warning: Warning) {
    HEARD.with_borrow_mut(|heard| {
        if let Some(heard) = heard.as_mut().filter(|heard| !heard.contains(&warning)) {
            heard.push(warning);
        }
    });
}

/// A material of the file at `path` goes without a picture.
pub(crate) fn texture(path: &Path, material: &str, texture: &str, why: impl Into<String>) {
    let (path, material, texture) = (path.to_owned(), material.to_owned(), texture.to_owned());
    tell(Warning::Texture { path, material, texture, why: why.into() });
}

/// Something of the file at `path` does not come along.
pub(crate) fn left_out(path: &Path, what: impl Into<String>) {
    tell(Warning::LeftOut { path: path.to_owned(), what: what.into() });
}

/// As [`left_out`], of several things by name; nothing where there are none.
pub(crate) fn left_out_all(path: &Path, what: &str, mut names: Vec<String>) {
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        left_out(path, format!("{what} {}", names.join(", ")).trim_start());
    }
}

/// Shapes in a file that is read as a rig.
pub(crate) fn shapes_of_rig(path: &Path, shapes: usize, animated: bool) {
    let motion = if animated { " and their animation" } else { "" };
    let plural = if shapes == 1 { "" } else { "s" };
    if shapes > 0 {
        left_out(path, format!("{shapes} shape{plural}{motion}: a plain rig has bones alone"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_hears_its_own_and_everything_once() {
        let tell = |what: &str| left_out(Path::new("a.glb"), what);
        tell("nobody hears this");
        let (inner, outer) = with_warnings(|| {
            tell("lines");
            let ((), inner) = with_warnings(|| tell("points"));
            tell("lines");
            tell("colours");
            inner
        });
        let text = |all: &[Warning]| all.iter().map(Warning::to_string).collect::<Vec<_>>();
        assert_eq!(text(&inner), ["a.glb: left out: points"]);
        assert_eq!(text(&outer), ["a.glb: left out: lines", "a.glb: left out: colours"]);
        assert_eq!(with_warnings(|| ()).1, []);
    }
}

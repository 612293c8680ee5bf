//! What is not preserved when a file is read or written, and is no reason to refuse it.
//!
//! Readers and writers emit warnings; [`with_warnings`] collects those of its work, on the thread it runs on. Work on other threads is
//! wrapped by [`carried`], so that its warnings arrive too.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Data of a file that is not preserved. Every message names the file.
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
    /// Warnings of the innermost collection; `None` outside of one.
    static COLLECTED: RefCell<Option<Vec<Warning>>> = const { RefCell::new(None) };
}

/// Runs `work` and returns its warnings: each once, in order. A collection within `work` has its warnings alone.
pub fn with_warnings<T>(work: impl FnOnce() -> T) -> (T, Vec<Warning>) {
    let outer = COLLECTED.replace(Some(Vec::new()));
    let done = work();
    (done, COLLECTED.replace(outer).unwrap_or_default())
}

/// The value of work that ran on another thread, with its warnings added to those of this thread.
pub(crate) fn carried<T>((done, warnings): (T, Vec<Warning>)) -> T {
    warnings.into_iter().for_each(emit);
    done
}

fn emit(warning: Warning) {
    COLLECTED.with_borrow_mut(|collected| {
        if let Some(collected) = collected.as_mut().filter(|collected| !collected.contains(&warning)) {
            collected.push(warning);
        }
    });
}

/// A material of the file at `path` loses a picture.
pub(crate) fn texture(path: &Path, material: &str, texture: &str, why: impl Into<String>) {
    let (path, material, texture) = (path.to_owned(), material.to_owned(), texture.to_owned());
    emit(Warning::Texture { path, material, texture, why: why.into() });
}

/// Something of the file at `path` is not preserved.
pub(crate) fn left_out(path: &Path, what: impl Into<String>) {
    emit(Warning::LeftOut { path: path.to_owned(), what: what.into() });
}

/// As [`left_out`], of several things by name; nothing where there are none.
pub(crate) fn left_out_all(path: &Path, what: &str, mut names: Vec<String>) {
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        left_out(path, format!("{what} {}", names.join(", ")).trim_start());
    }
}

/// Meshes that were instances of others in the source.
pub(crate) fn instances(path: &Path, meshes: Vec<String>) {
    left_out_all(path, "that one mesh has several instances, each is written as a mesh of its own:", meshes);
}

/// Shapes of a file that is read as a plain rig.
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
    fn each_collection_has_its_own_warnings_once() {
        let emit = |what: &str| left_out(Path::new("a.glb"), what);
        emit("not collected");
        let (inner, outer) = with_warnings(|| {
            emit("lines");
            let ((), inner) = with_warnings(|| emit("points"));
            emit("lines");
            emit("colours");
            inner
        });
        let text = |all: &[Warning]| all.iter().map(Warning::to_string).collect::<Vec<_>>();
        assert_eq!(text(&inner), ["a.glb: left out: points"]);
        assert_eq!(text(&outer), ["a.glb: left out: lines", "a.glb: left out: colours"]);
        assert_eq!(with_warnings(|| ()).1, []);
    }

    #[test]
    fn warnings_of_other_threads_arrive() {
        let ((), warnings) = with_warnings(|| {
            let other = std::thread::spawn(|| with_warnings(|| left_out(Path::new("b.obj"), "lines")));
            carried(other.join().unwrap());
        });
        assert_eq!(warnings.len(), 1);
    }
}

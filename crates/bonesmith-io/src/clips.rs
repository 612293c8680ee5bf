//! Which of the files that the user named belong to one clip.
//!
//! OBJ and PLY files named one by one are the frames of one clip; a folder or a pattern of them is a clip of its own;
//! every other file is one. Point caches share the mesh that is named with them, or each has its own, by name.

use std::path::{Path, PathBuf};

use crate::inputs::{expand, is_mesh};
use crate::{Format, IoError, detect};

/// The files of one clip.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipSource {
    /// What [`crate::load_sequence`] takes.
    pub inputs: Vec<PathBuf>,
    /// The name of the file or folder; `None` where several loose files are one clip: the reader knows better then.
    pub name: Option<String>,
}

/// Sorts inputs into clips, in the order in which they were named.
pub fn clip_sources(inputs: &[PathBuf]) -> Result<Vec<ClipSource>, IoError> {
    let mut clips = Vec::new();
    let mut loose = Vec::new();
    let mut caches = Vec::new();
    for input in inputs {
        if input.is_dir() {
            clips.push(ClipSource { inputs: vec![input.clone()], name: file_name(input) });
            continue;
        }
        let mut files = Vec::new();
        expand(input, &mut files)?;
        let is_pattern = files.as_slice() != [input.clone()];
        let formats = files.iter().map(|file| detect(file)).collect::<Result<Vec<_>, _>>()?;
        if is_pattern && formats.iter().all(|format| is_mesh(*format)) {
            clips.push(ClipSource { inputs: vec![input.clone()], name: None });
            continue;
        }
        for (file, format) in files.into_iter().zip(formats) {
            match format {
                Format::Pc2 | Format::Mdd => caches.push(file),
                format if is_mesh(format) => loose.push(file),
                _ => clips.push(ClipSource { name: stem(&file), inputs: vec![file] }),
            }
        }
    }
    if caches.is_empty() {
        if !loose.is_empty() {
            let name = if loose.len() == 1 { stem(&loose[0]) } else { None };
            clips.push(ClipSource { inputs: loose, name });
        }
        return Ok(clips);
    }
    clips.extend(with_meshes(caches, loose)?);
    Ok(clips)
}

/// Each cache with the mesh that it was made of.
fn with_meshes(caches: Vec<PathBuf>, meshes: Vec<PathBuf>) -> Result<Vec<ClipSource>, IoError> {
    let mesh_of = |cache: &PathBuf| match meshes.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => match several.iter().find(|mesh| mesh.file_stem() == cache.file_stem()) {
            Some(mesh) => Ok(Some(mesh.clone())),
            None => {
                let what = "which of the meshes is it of? Name one mesh for all caches, or one of the same name each";
                Err(IoError::unsupported(cache, what))
            }
        },
    };
    let clip = |cache: PathBuf| {
        let mesh = mesh_of(&cache)?;
        Ok(ClipSource { name: stem(&cache), inputs: std::iter::once(cache).chain(mesh).collect() })
    };
    caches.into_iter().map(clip).collect()
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

/// Also of `.` and `clips/..`.
fn file_name(folder: &Path) -> Option<String> {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map(|name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a folder, by name; each is empty but for the bytes that its format is detected from.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes: &[u8] = match path.extension().and_then(|e| e.to_str()) {
                Some("npz") => b"PK\x03\x04",
                Some("pc2") => b"POINTCACHE2\0",
                _ => b"v 0 0 0\n",
            };
            std::fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn sorted(folder: &Path, names: &[&str]) -> Result<Vec<(Option<String>, usize)>, IoError> {
        let inputs: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        Ok(clip_sources(&inputs)?.into_iter().map(|clip| (clip.name, clip.inputs.len())).collect())
    }

    #[test]
    fn files_folders_patterns_and_caches() {
        let dir =
            folder(&["a.npz", "b.npz", "walk/1.obj", "walk/2.obj", "x1.obj", "x2.obj", "c.pc2", "d.pc2", "c.obj"]);
        let sorted = |names: &[&str]| sorted(dir.path(), names).unwrap();
        let named = |name: &str, count| (Some(name.to_owned()), count);
        assert_eq!(sorted(&["a.npz", "b.npz"]), [named("a", 1), named("b", 1)]);
        assert_eq!(sorted(&["?.npz"]), [named("a", 1), named("b", 1)]);
        assert_eq!(sorted(&["walk", "a.npz"]), [named("walk", 1), named("a", 1)]);
        assert_eq!(sorted(&["x1.obj", "x2.obj"]), [(None, 2)]);
        assert_eq!(sorted(&["x*.obj"]), [(None, 1)]);
        assert_eq!(sorted(&["c.pc2", "d.pc2", "x1.obj"]), [named("c", 2), named("d", 2)]);
        assert_eq!(sorted(&["c.pc2", "c.obj"]), [named("c", 2)]);
    }

    #[test]
    fn a_cache_among_several_meshes_needs_one_of_its_name() {
        let dir = folder(&["c.pc2", "d.pc2", "c.obj", "e.obj"]);
        assert!(sorted(dir.path(), &["c.pc2", "c.obj", "e.obj"]).is_ok());
        let message = sorted(dir.path(), &["c.pc2", "d.pc2", "c.obj", "e.obj"]).unwrap_err().to_string();
        assert!(message.contains("d.pc2") && message.contains("which of the meshes"), "{message}");
    }
}

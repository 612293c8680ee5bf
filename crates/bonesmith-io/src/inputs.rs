//! What the user named: files, folders and patterns, made into one source.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use crate::{Format, IoError, detect};

/// Where a sequence comes from.
#[derive(Debug, PartialEq)]
pub enum Source {
    /// One file that holds it all.
    Single(PathBuf, Format),
    /// One OBJ or PLY per frame, in natural order, and the rest pose among them.
    Meshes { files: Vec<PathBuf>, rest: Option<PathBuf>, format: Format, name: String },
    /// A point cache, and the mesh with its faces if it was named.
    Cache { cache: PathBuf, format: Format, mesh: Option<PathBuf> },
}

/// Finds out what `inputs` are together.
pub fn resolve(inputs: &[PathBuf]) -> Result<Source, IoError> {
    let folder = match inputs {
        [only] if only.is_dir() => only.file_name().map(|name| name.to_string_lossy().into_owned()),
        _ => None,
    };
    let mut files = Vec::new();
    for input in inputs {
        expand(input, &mut files)?;
    }
    let mut found = Vec::with_capacity(files.len());
    for path in files {
        let format = detect(&path)?;
        found.push((path, format));
    }
    let caches = found.iter().filter(|(_, format)| matches!(format, Format::Pc2 | Format::Mdd)).count();
    match found.as_slice() {
        [] => Err(IoError::unsupported("", "no input was given")),
        [(path, format)] if caches == 1 => Ok(Source::Cache { cache: path.clone(), format: *format, mesh: None }),
        [a, b] if caches == 1 => cache_and_mesh(a, b),
        [(path, format)] if !is_mesh(*format) => Ok(Source::Single(path.clone(), *format)),
        _ => meshes(found, folder),
    }
}

/// Formats that hold one frame.
pub fn is_mesh(format: Format) -> bool {
    matches!(format, Format::Obj | Format::Ply)
}

fn cache_and_mesh(a: &(PathBuf, Format), b: &(PathBuf, Format)) -> Result<Source, IoError> {
    let (cache, mesh) = if is_mesh(a.1) { (b, a) } else { (a, b) };
    if !is_mesh(mesh.1) {
        let what = format!("a point cache takes its faces from an OBJ or PLY, not from {}", mesh.1.name());
        return Err(IoError::unsupported(&mesh.0, what));
    }
    Ok(Source::Cache { cache: cache.0.clone(), format: cache.1, mesh: Some(mesh.0.clone()) })
}

fn meshes(mut found: Vec<(PathBuf, Format)>, folder: Option<String>) -> Result<Source, IoError> {
    let format = found[0].1;
    if let Some((path, other)) = found.iter().find(|(_, other)| *other != format || !is_mesh(*other)) {
        let (first, name, other) = (found[0].0.display(), format.name(), other.name());
        let beside = match path == &found[0].0 {
            true => "cannot be one of several files of an animation".to_owned(),
            false => format!("is not of the same kind as {first}, which is {name}"),
        };
        let what = format!(
            "is {other} and {beside}: an animation is one file, OBJ files, PLY files, or a point cache and its mesh"
        );
        return Err(IoError::unsupported(path, what));
    }
    found.sort_by(|(a, _), (b, _)| natural(&a.to_string_lossy(), &b.to_string_lossy()));
    let paths = found.into_iter().map(|(path, _)| path);
    let (mut rests, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| is_rest(path));
    if files.is_empty() {
        std::mem::swap(&mut rests, &mut files);
    }
    if let [first, second, ..] = rests.as_slice() {
        return Err(IoError::unsupported(second, format!("is a second rest pose beside {}", first.display())));
    }
    let name = folder.unwrap_or_else(|| common_name(&files));
    Ok(Source::Meshes { files, rest: rests.pop(), format, name })
}

/// The files that inputs stand for: those of folders and patterns too. A pattern that matches nothing stands for none.
pub fn named_files(inputs: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    // What is wrong with an input is reported when it is read.
    inputs.iter().for_each(|input| _ = expand(input, &mut files));
    files
}

/// Appends the files that one input stands for.
pub fn expand(input: &Path, files: &mut Vec<PathBuf>) -> Result<(), IoError> {
    if input.is_dir() {
        return expand_folder(input, files);
    }
    let text = input.to_string_lossy();
    if crate::opens::exists(input) || !text.contains(['*', '?', '[']) {
        files.push(input.to_owned()); // a missing file is an error when it is opened
        return Ok(());
    }
    let paths = glob::glob(&text).map_err(|e| IoError::unsupported(input, format!("not a valid pattern: {e}")))?;
    let before = files.len();
    for path in paths {
        let path = path.map_err(|e| IoError::os(e.path(), std::io::Error::from(e.error().kind())))?;
        if !path.is_dir() {
            files.push(path);
        }
    }
    if files.len() == before {
        return Err(IoError::unsupported(input, "no file matches this pattern"));
    }
    Ok(())
}

/// The OBJ and PLY files of a folder; other files (materials, textures, notes) may lie among them.
fn expand_folder(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), IoError> {
    let os = |e| IoError::os(folder, e);
    let before = files.len();
    for entry in std::fs::read_dir(folder).map_err(os)? {
        let path = entry.map_err(os)?.path();
        // A link that leads nowhere is a frame that is missing, and reported as such when it is opened.
        if !path.is_dir() && Format::from_extension(&path).is_some_and(is_mesh) {
            files.push(path);
        }
    }
    if files.len() == before {
        return Err(IoError::unsupported(folder, "there are no .obj or .ply files in this folder"));
    }
    Ok(())
}

/// Whether a file is called the rest pose: `rest.obj`, `REST_horse.obj`, but not `restaurant.obj`.
fn is_rest(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    stem.strip_prefix("rest").is_some_and(|more| !more.starts_with(char::is_alphabetic))
}

/// What the files share in their names, without the number; else the folder they are in.
fn common_name(files: &[PathBuf]) -> String {
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let first = files.first().map(stem).unwrap_or_default();
    if files.len() == 1 {
        return first;
    }
    let shared = files.iter().map(stem).fold(first, |shared, stem| {
        let same = shared.chars().zip(stem.chars()).take_while(|(a, b)| a == b);
        same.map(|(a, _)| a).collect()
    });
    let shared = shared.trim_end_matches(|c: char| c.is_ascii_digit() || "._- ".contains(c));
    if !shared.is_empty() {
        return shared.to_owned();
    }
    let folder = files.first().and_then(|path| path.parent()?.file_name());
    folder.map_or("mesh".into(), |name| name.to_string_lossy().into_owned())
}

/// Order of names in which numbers count as numbers: `walk2` before `walk10`. Equal numbers with more zeros, and
/// names that differ in nothing else, fall back to the order of their characters.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    while let (Some(&p), Some(&q)) = (x.first(), y.first()) {
        let order = if p.is_ascii_digit() && q.is_ascii_digit() {
            let (m, n) = (take_number(&mut x), take_number(&mut y));
            m.len().cmp(&n.len()).then(m.cmp(n))
        } else {
            (x, y) = (&x[1..], &y[1..]);
            p.cmp(&q)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    x.len().cmp(&y.len()).then(a.cmp(b))
}

/// Cuts the digits off the front, without leading zeros.
fn take_number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = vec!["a10", "a2", "b1", "a02", "a", "a2b", "a1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "a1", "a02", "a2", "a2b", "a10", "b1"]);
    }

    proptest! {
        #[test]
        fn natural_is_an_order(names in prop::collection::vec("[ab0-3_]{0,5}", 3)) {
            let [a, b, c] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(natural(a, b), natural(b, a).reverse());
            prop_assert_eq!(natural(a, b) == Ordering::Equal, a == b);
            if natural(a, b) != Ordering::Greater && natural(b, c) != Ordering::Greater {
                prop_assert_ne!(natural(a, c), Ordering::Greater);
            }
        }

        #[test]
        fn frame_numbers_of_any_size_are_sorted(mut numbers in prop::collection::vec(any::<u64>(), 1..20)) {
            let mut names: Vec<String> = numbers.iter().map(|n| format!("f_{n}.obj")).collect();
            names.sort_by(|a, b| natural(a, b));
            numbers.sort_unstable();
            prop_assert_eq!(names, numbers.iter().map(|n| format!("f_{n}.obj")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rest_poses_and_names() {
        let files = |names: &[&str]| names.iter().map(|n| PathBuf::from("walk").join(n)).collect::<Vec<_>>();
        let rest: Vec<bool> = files(&["rest.obj", "REST_a.obj", "rest01.obj", "restaurant.obj", "a_rest.obj"])
            .iter()
            .map(|path| is_rest(path))
            .collect();
        assert_eq!(rest, [true, true, true, false, false]);
        assert_eq!(common_name(&files(&["a_001.obj", "a_002.obj"])), "a");
        assert_eq!(common_name(&files(&["1.obj", "2.obj"])), "walk");
        assert_eq!(common_name(&files(&["only.obj"])), "only");
    }
}

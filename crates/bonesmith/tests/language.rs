//! Words: the repository's text is plain technical English, and messages of libraries name no command-line options.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository, or `None` where only this crate is there.
fn repository() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    root.join("crates/bonesmith-core").is_dir().then_some(root)
}

/// Files that people write, by ending; what is built, installed or borrowed is left out.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    const SKIPPED: [&str; 5] = ["target", "node_modules", "page", "pictures", "fixtures"];
    const ENDINGS: [&str; 12] = ["rs", "md", "toml", "py", "mjs", "ts", "css", "html", "wgsl", "txt", "sh", ""];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            files(&path, found);
        } else if ENDINGS.contains(&ending.as_str()) {
            found.push(path);
        }
    }
}

/// How often `phrase` is in a text, as words of their own, whatever the case and the line breaks.
fn occurrences(text: &str, phrase: &str) -> usize {
    // Names of code are words, too.
    let plain = text.to_lowercase().replace('_', " ").replace("//!", "   ").replace("///", "   ");
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let words: Vec<String> = plain.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
    let wanted: Vec<&str> = phrase.split(' ').collect();
    words.windows(wanted.len()).filter(|window| window.iter().zip(&wanted).all(|(a, b)| a == b)).count()
}

#[test]
fn phrases_of_the_old_language_are_gone() {
    let Some(root) = repository() else { return };
    // Backwards, so that they are not in this file.
    let backwards = [
        "told-is",
        "told-are",
        "along-come",
        "along-comes",
        "view-in",
        "of-price-the-at",
        "fit-the-does-who",
        "it-finds-who",
        "away-influences-takes",
    ];
    let phrases: Vec<String> = backwards.iter().map(|words| words.rsplit('-').collect::<Vec<_>>().join(" ")).collect();
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 300, "{} files", all.len());
    let mut found = Vec::new();
    for path in all {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for phrase in phrases.iter().filter(|phrase| occurrences(&text, phrase) > 0) {
            found.push(format!("{}: {phrase:?}", path.strip_prefix(&root).unwrap().display()));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn phrases_are_found_across_lines_and_cases() {
    assert_eq!(occurrences("a SMALL mesh", "small mesh"), 1);
    assert_eq!(occurrences("/// a small\n/// Mesh.", "small mesh"), 1);
    assert_eq!(occurrences("fn a_small_mesh() {", "small mesh"), 1);
    assert_eq!(occurrences("a small meshes/", "small mesh"), 0);
}

#[test]
fn messages_of_libraries_name_no_command_line_options() {
    let Some(root) = repository() else { return };
    // Options of other programs.
    let allowed = ["usdcat --flatten"];
    let mut found = Vec::new();
    for krate in ["bonesmith", "bonesmith-core", "bonesmith-io", "bonesmith-report", "bonesmith-gpu"] {
        let mut all = Vec::new();
        files(&root.join("crates").join(krate).join("src"), &mut all);
        for path in all.iter().filter(|path| !path.to_string_lossy().contains("tests")) {
            let text = fs::read_to_string(path).unwrap();
            let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (at, line) in production.lines().enumerate() {
                let code = line.trim_start();
                let mut flags = code.match_indices("--");
                let has_flag = flags.any(|(at, _)| code[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()));
                if has_flag && !code.starts_with("//") && !allowed.iter().any(|words| code.contains(words)) {
                    found.push(format!("{}:{}: {code}", path.strip_prefix(&root).unwrap().display(), at + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// How it works; options and when it fails; what was tried and measured.
#[test]
fn pages_of_algorithms_have_three_parts() {
    let Some(root) = repository() else { return };
    let parts = ["How it works", "Options and when it fails", "What was tried and measured"];
    let mut pages = 0;
    for entry in fs::read_dir(root.join("docs/algorithms")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "README.md") {
            let text = fs::read_to_string(&path).unwrap();
            let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(found, parts, "{}", path.display());
            pages += 1;
        }
    }
    assert!(pages >= 14, "{pages} pages");
}

//! What a registry and a packager need: metadata, licences of everything that is linked, one minimum version of Rust.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `cargo metadata` of the lock file, for this machine.
fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut arguments = vec!["metadata", "--format-version", "1", "--locked"];
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    if cfg!(target_os = "linux") {
        arguments.extend(["--filter-platform", &host]);
    }
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("packages")
}

/// The licences that `deny.toml` allows.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let list = text.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).expect("a list of licences");
    list.split(',').map(|item| item.trim().trim_matches('"').to_owned()).filter(|item| !item.is_empty()).collect()
}

/// Whether an SPDX expression can be satisfied with the allowed licences. "/" is the old way to write OR.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = either(&words, allowed);
    assert!(rest.is_empty(), "{expression}");
    value
}

fn either<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = both(words, allowed);
    while let ["OR", more @ ..] = rest {
        let (other, left) = both(more, allowed);
        (value, rest) = (value | other, left);
    }
    (value, rest)
}

fn both<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = one(words, allowed);
    while let ["AND", more @ ..] = rest {
        let (other, left) = one(more, allowed);
        (value, rest) = (value & other, left);
    }
    (value, rest)
}

fn one<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inside @ ..] => {
            let (value, rest) = either(inside, allowed);
            (value, rest.strip_prefix(&[")"]).expect("a closing bracket"))
        }
        [name, "WITH", exception, rest @ ..] => (allowed.contains(&format!("{name} WITH {exception}")), rest),
        [name, rest @ ..] => (allowed.contains(*name), rest),
        [] => (false, words),
    }
}

#[test]
fn licences_are_allowed() {
    let (metadata, allowed) = (metadata(), allowed());
    assert!(allowed.contains("MIT") && packages(&metadata).len() > 100);
    let refused: Vec<String> = packages(&metadata)
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|text| satisfied(text, &allowed)))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// As `[sources]` and `[bans]` of `deny.toml`: everything is from the registry, and says which version it needs.
#[test]
fn dependencies_come_from_the_registry_with_a_version() {
    let metadata = metadata();
    let registry = |source: &str| source.starts_with("registry+https://github.com/rust-lang/crates.io-index");
    for package in packages(&metadata) {
        let name = &package["name"];
        assert!(package["source"].is_null() || package["source"].as_str().is_some_and(registry), "{name}: {package}");
        if package["source"].is_null() {
            for dependency in package["dependencies"].as_array().unwrap() {
                let wildcard = dependency["req"] == "*" && dependency["path"].is_null();
                assert!(!wildcard, "{name}: {} has no version", dependency["name"]);
            }
        }
    }
}

#[test]
fn expressions_are_understood() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()]);
    for (text, fine) in [
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND MIT", true),
        ("Apache-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
    ] {
        assert_eq!(satisfied(text, &allowed), fine, "{text}");
    }
}

#[test]
fn every_crate_has_its_metadata_and_sources_of_its_own() {
    let metadata = metadata();
    let members = packages(&metadata).iter().filter(|package| package["source"].is_null());
    let members: Vec<&Value> = members.collect();
    assert!(members.len() >= 6);
    let mut descriptions = BTreeSet::new();
    for package in &members {
        let name = package["name"].as_str().unwrap();
        for key in ["description", "license", "readme", "documentation", "rust_version"] {
            assert!(package[key].as_str().is_some_and(|text| !text.is_empty()), "{name}: {key}");
        }
        assert!(
            !package["keywords"].as_array().unwrap().is_empty()
                && !package["categories"].as_array().unwrap().is_empty()
        );
        assert!(descriptions.insert(package["description"].as_str().unwrap()), "{name} has the description of another");
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.len() > 200), "{name}: {file}");
        }
        // A path out of the crate would not be in its package.
        let mut sources = Vec::new();
        rust_files(&folder.join("src"), &mut sources);
        for path in sources {
            let text = std::fs::read_to_string(&path).unwrap();
            let outside = text.contains("include_str!(\"../../") || text.contains("include_bytes!(\"../../");
            let depth = path.strip_prefix(folder).unwrap().components().count();
            assert!(!outside || depth > 2, "{} includes a file of another crate", path.display());
        }
        // Dependencies inside the workspace need a version to be published.
        for dependency in package["dependencies"].as_array().unwrap() {
            let inside = dependency["path"].is_string() && dependency["kind"].is_null();
            assert!(!inside || dependency["req"] != "*", "{name}: {} has no version", dependency["name"]);
        }
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => rust_files(&path, found),
            false => found.push(path),
        }
    }
}

/// The minimum version of Rust is stated once, in the workspace; the README repeats it.
#[test]
fn one_minimum_version_of_rust() {
    let metadata = metadata();
    let versions: BTreeSet<&str> = packages(&metadata)
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| package["rust_version"].as_str().unwrap())
        .collect();
    assert_eq!(versions.len(), 1, "{versions:?}");
    let version = versions.into_iter().next().unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(&format!("Rust {version} or newer")), "README: Rust {version} or newer");
}

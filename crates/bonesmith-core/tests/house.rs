//! The floor plan: which module may use which. The table is `modules.txt`; the facts are the `crate::` paths in the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms in the order of the table, each with the rooms that it may use.
fn table() -> Vec<(String, BTreeSet<String>)> {
    let text = fs::read_to_string(root().join("modules.txt")).unwrap();
    let rows = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let (room, uses) = row.split_once(':').unwrap_or_else(|| panic!("no colon in {row:?}"));
        (room.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect())
    })
    .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// The first folder or file name below `src`.
fn room_of(path: &Path) -> String {
    let below = path.strip_prefix(root().join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Rooms named by `crate::` paths in production code: tests may look everywhere, comments too.
fn used_rooms(source: &str) -> BTreeSet<String> {
    // Only a module with a body ends the production code: `mod tests;` stands at the head of a file.
    let production = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut used = BTreeSet::new();
    for line in production.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for rest in line.split("crate::").skip(1) {
            let names = rest.strip_prefix('{').map_or(rest, |group| group.split('}').next().unwrap_or_default());
            let count = if rest.starts_with('{') { usize::MAX } else { 1 };
            for name in names.split(',').take(count) {
                let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                used.insert(name);
            }
        }
    }
    used
}

/// [room] the rooms it uses, each with a file that does.
fn edges() -> BTreeMap<String, BTreeMap<String, String>> {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for path in files {
        let is_test = path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
        let room = room_of(&path);
        if is_test || room == "lib" {
            continue;
        }
        let of_room = edges.entry(room.clone()).or_default();
        for used in used_rooms(&fs::read_to_string(&path).unwrap()) {
            if used != room {
                of_room.insert(used, path.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    edges
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let table = table();
    let allowed: BTreeMap<_, _> = table.iter().cloned().collect();
    let mut wrong = Vec::new();
    for (room, uses) in edges() {
        let Some(may) = allowed.get(&room) else {
            wrong.push(format!("{room} is not in modules.txt"));
            continue;
        };
        let extra = uses.iter().filter(|(used, _)| !may.contains(*used));
        wrong.extend(extra.map(|(used, file)| format!("{room} -> {used} in {file}")));
    }
    assert!(wrong.is_empty(), "edges that modules.txt does not allow:\n{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_cycle_and_no_unused_edge() {
    let (table, edges) = (table(), edges());
    for (at, (room, uses)) in table.iter().enumerate() {
        assert!(edges.contains_key(room), "modules.txt names {room}, which is not in src");
        for used in uses {
            let earlier = table[..at].iter().any(|(other, _)| other == used);
            assert!(earlier, "{room} uses {used}, which stands below it in modules.txt: a cycle is possible");
            assert!(edges[room].contains_key(used), "{room} does not use {used} any more: take it out of modules.txt");
        }
    }
}

#[test]
fn paths_are_found_in_source() {
    let source = "use crate::mesh::{a, b};\nlet x = crate::solve::y(crate::model::Z);\nuse crate::{fit, skinning::skin};\n\
                  // crate::comment\n#[cfg(test)]\nmod tests {\n use crate::synthetic;\n}\n";
    let found: Vec<String> = used_rooms(source).into_iter().collect();
    assert_eq!(found, ["fit", "mesh", "model", "skinning", "solve"]);
}

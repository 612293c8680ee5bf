//! `tests/golden/results.toml`: tables of `key = value` lines. Lines that are not ours to write stay as they are.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::emit;
use super::run::{self, Found, Origin};

/// From the root of the repository.
pub const PATH: &str = "tests/golden/results.toml";

/// The whole file.
pub struct Table {
    /// What is above the first table, then each table.
    blocks: Vec<Block>,
}

/// A table: its `[name]`, then its lines, comments and blank lines included.
pub struct Block {
    /// `group`, or `group.row`; empty for the head of the file.
    name: String,
    lines: Vec<String>,
}

impl Table {
    pub fn read() -> Self {
        let mut file = File::open(path()).expect(PATH);
        file.lock_shared().expect(PATH);
        Self::of(&mut file)
    }

    fn of(file: &mut File) -> Self {
        let mut text = String::new();
        file.read_to_string(&mut text).expect(PATH);
        let mut blocks = vec![Block { name: String::new(), lines: Vec::new() }];
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                blocks.push(Block { name: name.to_owned(), lines: Vec::new() });
            }
            blocks.last_mut().expect("the head").lines.push(line.to_owned());
        }
        Self { blocks }
    }

    /// Rows in the order of the file, which is the order they run in.
    pub fn rows(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.name.contains('.'))
    }

    /// What the rows of `group` were made with.
    pub fn origin(&self, group: &str) -> Origin {
        let block = self.blocks.iter().find(|block| block.name == group);
        let text = |key| block.and_then(|block| block.get(key)).unwrap_or_default();
        Origin { machine: text("machine"), version: text("version") }
    }
}

impl Block {
    pub fn group(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// The row's name within its group, which is also that of its output.
    pub fn row(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, row)| row)
    }

    pub fn full_name(&self) -> &str {
        &self.name
    }

    /// A value, without its quotes.
    pub fn get(&self, key: &str) -> Option<String> {
        let line = self.lines.iter().find_map(|line| value_of(line, key))?;
        Some(line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(line).to_owned())
    }

    /// The figures and hashes that are pinned.
    pub fn pinned(&self) -> Found {
        let hash = |key| {
            let text = self.get(key)?;
            Some(u64::from_str_radix(&text, 16).unwrap_or_else(|e| panic!("{}: {key} {text}: {e}", self.name)))
        };
        let figure = |key| {
            let text = self.get(key)?;
            Some(text.parse().unwrap_or_else(|e| panic!("{}: {key} {text}: {e}", self.name)))
        };
        Found {
            bytes: hash("bytes"),
            arrays: hash("arrays"),
            e_rms: figure("e_rms"),
            normal_degrees: figure("normal_degrees"),
        }
    }

    /// The row's command line with `$DATA` filled in.
    pub fn words(&self, data: &Path) -> Vec<String> {
        let command = self.get("command").unwrap_or_else(|| panic!("{} has no command", self.name));
        command.split_whitespace().map(|word| word.replace("$DATA", &data.to_string_lossy())).collect()
    }

    /// Third-party files that the row reads.
    pub fn data(&self, data: &Path) -> Vec<PathBuf> {
        let command = self.get("command").unwrap_or_default();
        let words = command.split_whitespace().filter_map(|word| word.strip_prefix("$DATA/"));
        words.map(|rest| data.join(rest)).collect()
    }

    /// Changes a value, or adds or removes it.
    fn set(&mut self, key: &str, value: Option<String>) {
        let at = self.lines.iter().position(|line| value_of(line, key).is_some());
        match (at, value) {
            (Some(at), Some(value)) => self.lines[at] = format!("{key} = {value}"),
            (Some(at), None) => drop(self.lines.remove(at)),
            (None, Some(value)) => {
                // Above `why`, which comes last.
                let last = self.lines.iter().rposition(|line| line.contains(" = ") && value_of(line, "why").is_none());
                self.lines.insert(last.unwrap_or(0) + 1, format!("{key} = {value}"));
            }
            (None, None) => {}
        }
    }
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    Some(line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim())
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PATH)
}

/// Pins what was found. Other groups may do the same at this moment, so the file is locked and read again.
pub fn bless(group: &str, found: &[Found]) {
    let mut file = File::options().read(true).write(true).open(path()).expect(PATH);
    file.lock().expect(PATH);
    let mut table = Table::of(&mut file);
    let Origin { machine, version } = run::origin();
    let mut found = found.iter();
    for block in &mut table.blocks {
        if block.name == group {
            block.set("machine", Some(format!("\"{machine}\"")));
            block.set("version", Some(format!("\"{version}\"")));
        } else if block.name.contains('.') && block.group() == group {
            let now = found.next().expect("as many rows as were run");
            if block.pinned() != now.rounded() {
                emit(&format!("blessed {}", block.name));
            }
            block.set("bytes", now.bytes.map(|hash| format!("\"{hash:016x}\"")));
            block.set("arrays", now.arrays.map(|hash| format!("\"{hash:016x}\"")));
            block.set("e_rms", now.e_rms.map(run::digits));
            block.set("normal_degrees", now.normal_degrees.map(run::digits));
        }
    }
    let text: String = table.blocks.iter().flat_map(|block| &block.lines).map(|line| format!("{line}\n")).collect();
    file.rewind().expect(PATH);
    file.set_len(0).expect(PATH);
    file.write_all(text.as_bytes()).expect(PATH);
}

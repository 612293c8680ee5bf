//! The page's types (`viewer/src/generated/report.ts`), generated from [`crate::document`]: a test fails when the file differs.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::path::Path;

use bonesmith_core::ModelKind;
use ts_rs::{Config, TS, TypeVisitor};

use crate::document::Document;

/// [`ModelKind`] by its names in files.
pub struct Kind;

impl TS for Kind {
    type WithoutGenerics = Self;
    type OptionInnerType = Self;

    fn name(config: &Config) -> String {
        Self::inline(config)
    }

    fn inline(_: &Config) -> String {
        ModelKind::ALL.map(|kind| format!("\"{}\"", kind.id())).join(" | ")
    }
}

/// A cell of a table.
#[derive(TS)]
#[ts(untagged)]
#[expect(dead_code, reason = "only its type is used")]
pub enum Cell {
    Text(String),
    Number(f64),
    Nothing(()),
}

/// Seconds by the name of the stage.
#[derive(TS)]
#[expect(dead_code, reason = "only its type is used")]
pub struct SecondsByStage(BTreeMap<String, f64>);

/// Declarations of a type and of all types that it uses, by name.
struct Declarations {
    config: Config,
    seen: Vec<TypeId>,
    found: BTreeMap<String, String>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if self.seen.contains(&TypeId::of::<T>()) {
            return;
        }
        self.seen.push(TypeId::of::<T>());
        // Types of the language have no declaration.
        if T::output_path().is_some() {
            let declaration = format!("{}export {}\n", T::docs().unwrap_or_default(), T::decl(&self.config));
            let before = self.found.insert(T::name(&self.config), declaration);
            assert!(before.is_none(), "two types are called {}", T::name(&self.config));
        }
        T::visit_dependencies(self);
    }
}

fn declarations() -> String {
    // JSON has one kind of number.
    let config = Config::new().with_large_int("number");
    let mut all = Declarations { config, seen: Vec::new(), found: BTreeMap::new() };
    all.visit::<Document>();
    let head = "// Generated from crates/bonesmith-report/src/document.rs: change it there, then `BONESMITH_BLESS=1 cargo test -p bonesmith-report typescript`.\n";
    let all: Vec<String> = all.found.into_values().collect();
    let lines: Vec<String> = all.join("\n").lines().map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{head}\n{}", lines.concat())
}

#[test]
fn types_of_the_page_are_generated() {
    let viewer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../viewer");
    // The page's sources are not part of the package.
    if !viewer.is_dir() {
        return;
    }
    let (path, expected) = (viewer.join("src/generated/report.ts"), declarations());
    if std::env::var_os("BONESMITH_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is not current; it should be:\n{expected}", path.display());
}

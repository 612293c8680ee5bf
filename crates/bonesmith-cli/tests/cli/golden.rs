//! Golden results: what many commands give today, pinned in `tests/golden/results.toml`.
//!
//! On the kind of machine that a group was pinned on, the files must be the same bytes; elsewhere the figures must
//! agree. The head of the file says how to read, extend and bless it.

mod compare;
mod inputs;
mod run;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::harness::folder;
use table::Table;

/// One test for each group of rows: its name in the file, and what writes its inputs.
macro_rules! groups {
    ($($name:ident: $inputs:path,)*) => {
        const GROUPS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                check(stringify!($name), $inputs);
            }
        )*
    };
}

groups! {
    walk: inputs::walk,
    methods: inputs::walk,
    fish: inputs::fish,
    body: inputs::body,
    given: inputs::given,
    lighter: inputs::walk,
    mush: inputs::bar_rig,
    far: inputs::far,
    data_fit: inputs::none,
    data_methods: inputs::none,
    data_skeleton: inputs::none,
    data_given: inputs::none,
    data_lighter: inputs::none,
    data_mush: inputs::none,
}

/// A group in the file that no test runs would be dead.
#[test]
fn every_group_has_a_test() {
    let mut groups: Vec<String> = Table::read().rows().map(|row| row.group().to_owned()).collect();
    groups.dedup();
    assert_eq!(groups, GROUPS);
}

/// Third-party data, as in the other tests.
fn data() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("BONESMITH_DATA").map_or_else(beside, PathBuf::from)
}

/// Straight to the stream: the test harness would swallow `eprintln!` of a test that passes.
fn emit(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Runs the rows of `group` in order, then compares them with what is pinned, or pins them.
fn check(group: &str, inputs: fn(&Path)) {
    let table = Table::read();
    let rows: Vec<_> = table.rows().filter(|row| row.group() == group).collect();
    let data = data();
    if let Some(missing) = rows.iter().flat_map(|row| row.data(&data)).find(|path| !path.exists()) {
        return emit(&format!("SKIPPED: {} is not there (set BONESMITH_DATA)", missing.display()));
    }
    let dir = folder();
    inputs(dir.path());
    let found: Vec<_> = rows.iter().map(|row| run::run(row, dir.path(), &data)).collect();
    if std::env::var_os("BONESMITH_BLESS").is_some_and(|value| value == "1") {
        let found: Result<Vec<_>, _> = found.into_iter().collect();
        return table::bless(group, &found.unwrap_or_else(|wrong| panic!("nothing of {group} is blessed:\n\n{wrong}")));
    }
    let pinned_on = table.origin(group);
    let here = run::origin();
    let difference = |(row, found): (&&table::Block, _)| match found {
        Ok(found) => compare::difference(row, &found, &pinned_on, &here),
        Err(wrong) => Some(wrong),
    };
    let changed: Vec<String> = rows.iter().zip(found).filter_map(difference).collect();
    if pinned_on.machine != here.machine {
        emit(&format!("golden {group}: figures only; pinned on {}, this is {}", pinned_on.machine, here.machine));
    }
    assert!(
        changed.is_empty(),
        "{} of {} golden rows of {group} changed; the first may be the cause of others:\n\n{}\n\
         If that is meant: BONESMITH_BLESS=1, and the reason in `why` or in CHANGELOG.md (head of {}).",
        changed.len(),
        rows.len(),
        changed.join("\n"),
        table::PATH
    );
}

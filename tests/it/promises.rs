//! `docs/consistency.md`, `docs/planner.md` and `docs/redis-protocol.md` name the tests that hold what they promise: each
//! of them is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every Rust source under a folder, as one text.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            text += &sources(&entry);
        } else if entry.extension().is_some_and(|kind| kind == "rs") {
            text += &fs::read_to_string(entry).unwrap();
        }
    }
    text
}

/// The cells of the rows of the table under a heading, without its head.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let after = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no heading {heading:?}")).1;
    let section = after.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_fault_has_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/consistency.md")).unwrap();
    let code = sources(&root.join("tests/it")) + &sources(&root.join("src"));
    let (mut faults, mut missing) = (BTreeSet::new(), Vec::new());
    for heading in ["Faults", "Damaged stores"] {
        for row in table(&page, heading) {
            let [fault, expected, tests] = row[..] else { panic!("{heading}: {row:?} has not three cells") };
            assert!(faults.insert(fault) && !expected.is_empty(), "{heading}: {fault}");
            let names: Vec<&str> = quoted(tests).collect();
            assert!(!names.is_empty() || tests.starts_with("not yet"), "{heading}: {fault}: no test is named");
            for name in names {
                let name = name.rsplit("::").next().unwrap();
                if !code.contains(&format!("fn {name}(")) {
                    missing.push(format!("{heading}: {fault}: {name}"));
                }
            }
        }
    }
    assert!(faults.len() >= 20, "{faults:?}");
    assert!(missing.is_empty(), "there is no such test: {missing:#?}");
}

#[test]
fn every_claim_of_the_planner_has_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/planner.md")).unwrap();
    let code = sources(&root.join("src/plan"));
    let rows = table(&page, "Which test holds what");
    assert!(rows.len() >= 14, "{rows:?}");
    for row in rows {
        let [claim, tests] = row[..] else { panic!("{row:?} has not two cells") };
        assert!(quoted(tests).next().is_some(), "{claim}: no test is named");
        let missing = quoted(tests).find(|name| !code.contains(&format!("fn {name}(")));
        assert_eq!(missing, None, "{claim}: there is no such test");
    }
}

#[test]
fn every_cell_about_moving_slots_has_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/redis-protocol.md")).unwrap();
    let code = sources(&root.join("tests/it")) + &sources(&root.join("src"));
    let is_test =
        |name: &&str| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c));
    let (mut cells, mut missing) = (0, Vec::new());
    for (heading, columns, held_in) in [
        ("Crashes", 4, 1..4),
        ("Never", 2, 1..2),
        ("Replies", 3, 2..3),
        ("Servers that move slots by themselves", 2, 1..2),
        ("Leaders that are deposed", 2, 1..2),
    ] {
        for row in table(&page, heading) {
            assert_eq!(row.len(), columns, "{heading}: {row:?}");
            for cell in &row[held_in.clone()] {
                cells += 1;
                let names: Vec<&str> = quoted(cell).filter(is_test).filter(|name| *name != "big_key_bytes").collect();
                assert!(!names.is_empty(), "{heading}: {}: no test is named", row[0]);
                missing
                    .extend(names.into_iter().filter(|name| !code.contains(&format!("fn {name}("))).map(str::to_owned));
            }
        }
    }
    assert!(cells >= 45, "{cells} cells");
    assert!(missing.is_empty(), "there is no such test: {missing:#?}");
}

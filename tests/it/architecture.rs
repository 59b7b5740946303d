//! Holds the structure that ARCHITECTURE.md tells: which room may import which, what the pure rooms must not do,
//! and that files stay small.

use std::fs;
use std::path::{Path, PathBuf};

/// Room, then the rooms it may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("nodes_text", &["domain"]),
    ("plan", &["domain"]),
    ("hashing", &["domain", "plan"]),
    ("state", &["domain"]),
    ("wire", &["domain"]),
    ("publish", &["domain", "wire"]),
    ("driver", &["domain", "nodes_text"]),
    ("raft", &["domain", "state"]),
    ("controller", &["domain", "plan", "state", "raft", "publish", "nodes_text", "driver"]),
    ("executor", &["domain", "driver", "controller"]),
    ("server", &["domain", "wire", "controller", "publish", "hashing"]),
    ("client", &["domain", "wire"]),
    ("cli", &["domain", "nodes_text", "plan", "hashing", "wire", "client"]),
    ("app", &["domain", "raft", "controller", "executor", "driver", "server", "publish", "client"]),
];

/// What a room without IO, clock and randomness does not name.
const IMPURE: &[&str] = &[
    "SystemTime",
    "time::Instant",
    "std::fs",
    "std::net::Tcp",
    "std::thread",
    "tokio",
    "reqwest",
    "rand::",
    "f32",
    "f64",
    "HashMap",
    "HashSet",
    "async fn",
];
const PURE_ROOMS: &[&str] = &["domain", "nodes_text", "plan", "hashing", "state"];

/// Pure files that may have floats, since what they implement is defined with them.
const FLOATS: &[&str] = &["hashing/rendezvous.rs", "hashing/jump.rs"];

/// What floats must not be given to: the platform's own functions, which differ in the last digit.
const INEXACT: &[&str] = &[".ln()", ".log(", ".log2()", ".log10()", ".exp()", ".powf(", ".sin()", ".cos()", ".tan()"];

const LINES_MAX: usize = 450;

fn sources() -> Vec<(String, PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inner = path.strip_prefix(&src).unwrap();
                let room = inner.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push((room, inner.to_owned(), text));
            }
        }
    }
    assert!(found.len() > 30, "the sources were found");
    found
}

/// The code of a file with its line numbers: comments left out, and what is compiled for tests only.
fn code(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // One item: up to its semicolon, or to the brace that closes it at the same depth.
            let depth = line.len() - line.trim_start().len();
            for (_, line) in lines.by_ref() {
                let closes = line.len() - line.trim_start().len() == depth && line.trim_start().starts_with('}');
                if closes || line.ends_with(';') && line.len() - line.trim_start().len() == depth {
                    break;
                }
            }
        } else if !line.trim_start().starts_with("//") {
            kept.push((number, line));
        }
    }
    kept
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
}

#[test]
fn rooms_import_only_what_they_may() {
    let mut faults = Vec::new();
    for (room, path, text) in sources() {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            assert!(["main.rs", "lib.rs"].contains(&room.as_str()), "no rule for the room {room}");
            continue;
        };
        if is_test(&path) {
            continue;
        }
        for (number, line) in code(&text) {
            for (_, rest) in line.match_indices("crate::").map(|(at, part)| (at, &line[at + part.len()..])) {
                let named: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                if named != room && MAY_IMPORT.iter().any(|(name, _)| *name == named) && !allowed.contains(&&*named) {
                    faults.push(format!("{}:{number}: {room} must not import {named}", path.display()));
                }
            }
            if line.contains("use crate::{") {
                faults.push(format!("{}:{number}: one `use crate::room` per room", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_raft_knows_openraft_and_only_server_and_client_know_status_codes() {
    let mut faults = Vec::new();
    for (room, path, text) in sources() {
        for (number, line) in code(&text) {
            if line.contains("openraft::") && room != "raft" {
                faults.push(format!("{}:{number}: openraft outside raft", path.display()));
            }
            if line.contains("StatusCode") && !["server", "client", "raft"].contains(&room.as_str()) {
                faults.push(format!("{}:{number}: status codes outside server and client", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_rooms_have_no_io_no_clock_no_randomness_and_no_floats() {
    let mut faults = Vec::new();
    for (_, path, text) in
        sources().into_iter().filter(|(room, path, _)| PURE_ROOMS.contains(&&**room) && !is_test(path))
    {
        let may_float = FLOATS.iter().any(|file| path == Path::new(file));
        for (number, line) in code(&text) {
            faults.extend(
                IMPURE
                    .iter()
                    .filter(|word| !(may_float && word.starts_with('f') && word.ends_with("64")))
                    .chain(INEXACT)
                    .filter(|word| line.contains(**word))
                    .map(|word| format!("{}:{number}: {word}", path.display())),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_is_small_and_says_what_it_is_for() {
    let mut faults = Vec::new();
    for (_, path, text) in sources() {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{} has {lines} lines, more than {LINES_MAX}", path.display()));
        }
        if !text.starts_with("//!") {
            faults.push(format!("{} does not open with //!", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

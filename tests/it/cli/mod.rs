//! The command line as a person runs it: the real binary, without any controller.

mod compare;
mod help;
mod offline;
mod placement;
mod refused;
mod settings;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slotkeeper"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SLOTKEEPER_")) {
        command.env_remove(name);
    }
    command.env("SLOTKEEPER_ENDPOINT", NOWHERE).env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
    command.env("COLUMNS", "100").args(args).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Run {
    finish(command(args).output().expect("the binary runs"))
}

fn run_with_stdin(args: &[&str], stdin: &[u8]) -> Run {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The child may refuse before it has read everything.
    let _ = child.stdin.take().expect("piped").write_all(stdin);
    finish(child.wait_with_output().expect("it ends"))
}

fn finish(output: std::process::Output) -> Run {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let run = Run {
        code: output.status.code().expect("not killed by a signal"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("stdout is one JSON document")
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/redis");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("there are fixtures").map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".nodes.txt"));
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    paths
}

/// A file with this text in a folder of its own.
fn file(text: impl AsRef<[u8]>) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// The design's example: shards at 0-3999, 4000-8256, 8257-12229 and 12230-16383.
fn example() -> String {
    let shard = |letter: char, first: u16, last: u16| {
        format!(
            r#"{{"id":"shard-{letter}","weight":1,"state":"active","primary":{{"id":"n-{letter}","host":"10.0.0.1",
            "port":{},"zone":null}},"replicas":[],"ranges":[[{first},{last}]]}}"#,
            6000 + first
        )
    };
    let shards =
        [shard('a', 0, 3999), shard('b', 4000, 8256), shard('c', 8257, 12229), shard('d', 12230, 16383)].join(",");
    format!(
        r#"{{"kind":"full","cluster_id":"c-1","generation":1772460300,"epoch":41,"slots":16384,
        "key_hash":"crc16-xmodem","hash_tag":"{{}}","shards":[{shards}],"unassigned":[],"moving":[]}}"#
    )
}

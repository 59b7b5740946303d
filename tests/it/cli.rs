//! The command line as a person runs it: the real binary, without any controller.

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

#[test]
fn the_example_of_the_design_has_its_figures() {
    let (_folder, path) = file(example());
    let plan = json(&run(&[
        "plan",
        "create",
        "--offline",
        &path,
        "--add",
        "shard-e=1",
        "--slots-per-move",
        "4",
        "-o",
        "json",
    ]));
    let summary = &plan["summary"];
    for (field, expected) in [
        ("slots", 3276),
        ("ranges_before", 4),
        ("ranges_after", 6),
        ("lower_bound", 3276),
        ("waves", 245),
        ("waves_lower_bound", 245),
    ] {
        assert_eq!(summary[field], expected, "{field}");
    }
    assert_eq!(summary["minimal"], true);
    assert_eq!(summary["worst_deviation"], serde_json::json!({"before": -3276, "after": 0}));
    let moves = serde_json::json!([
        {"from": "shard-b", "to": "shard-e", "ranges": [[4000, 4979]], "slots": 980},
        {"from": "shard-d", "to": "shard-e", "ranges": [[12230, 13106]], "slots": 877},
        {"from": "shard-a", "to": "shard-e", "ranges": [[3277, 3999]], "slots": 723},
        {"from": "shard-c", "to": "shard-e", "ranges": [[11534, 12229]], "slots": 696},
    ]);
    assert_eq!(plan["moves"], moves);
    assert_eq!(plan["base"]["epoch"], 41);
    assert_eq!(plan["id"], "p-offline");

    let screen = run(&["plan", "create", "--offline", &path, "--add", "shard-e=1", "--slots-per-move", "4"]);
    assert_eq!(screen.code, 0);
    assert!(screen.stdout.contains("3276 of 16384 slots move (20.0%), ranges 4 -> 6 | lower bound 3276: MINIMAL"));
    let broad = screen.stdout.lines().find(|line| line.chars().count() > 94);
    assert_eq!(broad, None, "the screen is 94 columns wide");
}

#[test]
fn every_fixture_is_planned_and_its_plan_checks() {
    for path in fixtures() {
        let path = path.to_str().unwrap();
        let created = run(&["plan", "create", "--offline", path, "--add", "2", "-o", "json"]);
        if path.contains("02-midmigration-source.nodes") {
            assert_eq!(created.code, 3, "an open slot is a conflict: {}", created.stderr);
            assert!(created.stderr.contains("slot 5 is open at line 5"), "{}", created.stderr);
            continue;
        }
        let plan = json(&created);
        let slots = |plan: &Value, which: fn(&Value) -> bool| -> u64 {
            let moves = plan["moves"].as_array().unwrap();
            moves.iter().filter(|entry| which(&entry["from"])).map(|entry| entry["slots"].as_u64().unwrap()).sum()
        };
        assert_eq!(plan["summary"]["slots"], slots(&plan, |from| !from.is_null()), "{path}");
        assert_eq!(plan["summary"]["assigned"], slots(&plan, Value::is_null), "{path}");
        assert_eq!(plan["summary"]["minimal"], true, "{path}");
        let after: u64 = plan["shards"].as_array().unwrap().iter().map(|shard| shard["after"].as_u64().unwrap()).sum();
        assert_eq!(after, 16384, "{path}");

        let (_folder, file) = file(&created.stdout);
        let checked = run(&["plan", "check", &file, "--nodes", path]);
        assert_eq!(checked.code, 0, "{path}: {}{}", checked.stdout, checked.stderr);
        assert!(checked.stdout.contains("MINIMAL"), "{}", checked.stdout);
    }
}

#[test]
fn draining_one_node_of_a_shard_is_a_promotion() {
    let fixtures = fixtures();
    let path = fixtures[0].to_str().unwrap();
    // A beginning of 256f8fad…, the primary of 58f6a492….
    let created = run(&["plan", "create", "--offline", path, "--drain", "256f", "-o", "json"]);
    let plan = json(&created);
    assert_eq!(plan["summary"]["slots"], 0);
    let action = &plan["actions"][0];
    assert_eq!(
        (&action["kind"], &action["to"]),
        (&Value::from("promote"), &Value::from("58f6a492148a6f0d4cd4f1d33908e7e44750ffd6"))
    );
    let (_folder, file) = file(&created.stdout);
    assert_eq!(run(&["plan", "check", &file, "--nodes", path]).code, 0);

    let whole = json(&run(&["plan", "create", "--offline", path, "--drain", "256f", "--drain", "58f6", "-o", "json"]));
    assert_eq!(whole["summary"]["slots"], 5461);
    assert_eq!(whole["intent"]["drain"], serde_json::json!(["256f8fad71da49fc9bd8d75955ece32c6c0cd817"]));
    let shard = json(&run(&["plan", "create", "--offline", path, "--drain-shard", "256f", "-o", "json"]));
    assert_eq!(shard["moves"], whole["moves"]);
}

#[test]
fn goals_bounds_and_pins_reach_the_planner() {
    let (_folder, path) = file(example());
    let slots = |args: &[&str]| {
        let all = [&["plan", "create", "--offline", &path, "-o", "json"], args].concat();
        json(&run(&all))["summary"]["slots"].as_u64().unwrap()
    };
    assert_eq!(slots(&["--add", "1", "--max-moves", "100"]), 100);
    assert_eq!(slots(&["--drain-only", "--drain-shard", "shard-a"]), 4000);
    assert_eq!(slots(&["--tolerance", "10"]), 0);
    assert_eq!(slots(&["--max-slots", "shard-a=1000", "--drain-only"]), 0);
    // Shares with shard-a at its bound: 5128 each for the others.
    assert_eq!(slots(&["--max-slots", "shard-a=1000"]), 3000);
    assert_eq!(slots(&["--min-slots", "shard-a=8000"]), 4000);
    assert_eq!(slots(&["--pin", "0-3999", "--drain-shard", "shard-a", "--drain-only"]), 0);
    // The others share 12384 slots, 4128 each: 129 + 26 are too many.
    assert_eq!(slots(&["--pin", "0-3999", "--drain-shard", "shard-a"]), 155);
    // 16384 / 8 each, shard-a five of them: 10240.
    assert_eq!(slots(&["--weight", "shard-a=5"]), 6240);
    let named = json(&run(&["plan", "create", "--offline", &path, "--add", "2", "--add", "big=3", "-o", "json"]));
    let add = serde_json::json!([
        {"shard": "big", "weight": 3}, {"shard": "new-1", "weight": 1}, {"shard": "new-2", "weight": 1}
    ]);
    assert_eq!(named["intent"]["add"], add);
}

#[test]
fn the_same_text_in_other_clothes() {
    let text = std::fs::read_to_string(&fixtures()[0]).unwrap();
    let plain =
        json(&run_with_stdin(&["plan", "create", "--offline", "-", "--add", "1", "-o", "json"], text.as_bytes()));
    for dressed in [text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
        let args = ["plan", "create", "--offline", "-", "--add", "1", "-o", "json"];
        let other = json(&run_with_stdin(&args, dressed.as_bytes()));
        assert_eq!(other["digest"], plain["digest"]);
    }
}

#[test]
fn detailed_exit_codes_tell_whether_there_is_something_to_do() {
    let (_folder, path) = file(example());
    assert_eq!(run(&["plan", "create", "--offline", &path, "--add", "1", "--detailed-exitcode"]).code, 10);
    assert_eq!(run(&["plan", "create", "--offline", &path, "--tolerance", "10", "--detailed-exitcode"]).code, 0);
}

#[test]
fn bad_inputs_end_with_2() {
    let id = |c: char| c.to_string().repeat(40);
    let master = |c: char, port: u16, slots: &str| {
        format!("{} 10.0.0.1:{port}@{} master - 0 0 1 connected {slots}\n", id(c), port + 10_000)
    };
    let replica = format!("{} 10.0.0.1:7@10007 slave {} 0 0 1 connected\n", id('b'), id('c'));
    let whole = master('a', 1, "0-16383");
    let huge = vec![b'x'; (8 << 20) + 1];
    let texts: [(&str, Vec<u8>, &str); 10] = [
        ("empty", Vec::new(), "empty"),
        ("short line", format!("{whole}abc\n").into(), "line 2"),
        ("slot 16384", master('a', 1, "16384").into(), "16384"),
        ("5-1", master('a', 1, "5-1").into(), "5-1"),
        ("one slot on two masters", (master('a', 1, "0-9") + &master('b', 2, "9")).into(), "slot 9"),
        ("replica of an unknown master", (whole.clone() + &replica).into(), "unknown master"),
        ("NUL", format!("{whole}\0\n").into(), "NUL"),
        ("more than 8 MiB", huge, "8388608"),
        ("not a topology", b"{\"kind\":\"full\"}".to_vec(), "not a topology"),
        ("cut JSON", example().into_bytes()[..500].to_vec(), "not a topology"),
    ];
    for (what, text, expected) in texts {
        let run = run_with_stdin(&["plan", "create", "--offline", "-", "--add", "1"], &text);
        assert_eq!(run.code, 2, "{what}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{what}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{what}: {}", run.stdout);
    }
    let two = run_with_stdin(
        &["plan", "create", "--offline", "-"],
        (master('a', 1, "0-9") + &master('b', 2, "9")).as_bytes(),
    );
    assert!(two.stderr.contains(&id('a')) && two.stderr.contains(&id('b')), "both are named: {}", two.stderr);
}

#[test]
fn bad_arguments_end_with_2() {
    let (_folder, path) = file(example());
    let create = |args: &[&'static str]| [&["plan", "create", "--offline", path.as_str()], args].concat();
    let cases: Vec<Vec<&str>> = vec![
        vec!["plan", "create", "--offline", "/nonexistent/nodes.txt"],
        vec!["plan", "create", "--offline", "/dev/zero"],
        vec!["plan", "check", "/dev/zero", "--nodes", "/dev/zero"],
        vec!["plan", "check", "-", "--nodes", "-"],
        create(&["--add", "0"]),
        create(&["--add", "-1"]),
        create(&["--add", "4097"]),
        create(&["--add", "x"]),
        create(&["--add", "x=-1"]),
        create(&["--add", "x=10001"]),
        create(&["--add", "x=+1"]),
        create(&["--add", "bad name=1"]),
        create(&["--add", "shard-a=1"]),
        create(&["--drain", "nobody"]),
        create(&["--drain-shard", "shard"]),
        create(&["--drain-shard", ""]),
        create(&["--weight", "shard-a"]),
        create(&["--weight", "shard-a=1.5"]),
        create(&["--tolerance", "-1"]),
        create(&["--tolerance", "101"]),
        create(&["--tolerance", "NaN"]),
        create(&["--tolerance", "1", "--drain-only"]),
        create(&["--max-moves", "16385"]),
        create(&["--pin", "5-1"]),
        create(&["--pin", "16384"]),
        create(&["--max-slots", "shard-a=16385"]),
        create(&[
            "--max-slots",
            "shard-a=1",
            "--max-slots",
            "shard-b=1",
            "--max-slots",
            "shard-c=1",
            "--max-slots",
            "shard-d=1",
        ]),
        create(&["--min-slots", "shard-a=16000", "--min-slots", "shard-b=16000"]),
        create(&["--slots-per-move", "0"]),
        create(&["--dry-run"]),
        create(&[
            "--drain-shard",
            "shard-a",
            "--drain-shard",
            "shard-b",
            "--drain-shard",
            "shard-c",
            "--drain-shard",
            "shard-d",
        ]),
        vec!["plan", "create", "--pin", "1"],
        vec!["plan", "approve", "p-1"],
        vec!["plan", "approve", "p-1", "--digest", "sha256:12"],
        vec!["plan", "show", "bad id"],
        vec!["node", "add", "10.0.0.1"],
        vec!["node", "add", "10.0.0.1:0"],
        vec!["node", "add", "10.0.0.1:6379", "--weight", "-1"],
        vec!["node", "add", "10.0.0.1:6379", "--reason", "\u{202e}"],
        vec!["slot", "show", "16384"],
        vec!["slot", "show", "-1"],
        vec!["token", "create", "x", "--role", "system"],
        vec!["shard", "set", "a"],
        vec!["cluster", "create", "../x"],
        vec!["--cluster", "a/b", "status"],
        vec!["--endpoint", "ftp://x", "status"],
        vec!["--timeout", "soon", "status"],
        vec!["--token-file", "/nonexistent", "status"],
        vec!["frobnicate"],
        vec![],
    ];
    for args in cases {
        let run = run(&args);
        assert_eq!(run.code, 2, "{args:?}: {}{}", run.stdout, run.stderr);
        assert!(!run.stderr.is_empty(), "{args:?} says why");
    }
}

/// A plan file with one value replaced.
fn tampered(plan: &Value, pointer: &str, value: Value) -> String {
    let mut plan = plan.clone();
    *plan.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    plan.to_string()
}

#[test]
fn plan_check_trusts_nothing() {
    let (_nodes_folder, nodes) = file(example());
    let plan = json(&run(&["plan", "create", "--offline", &nodes, "--add", "shard-e=1", "-o", "json"]));
    let digest = "sha256:".to_owned() + &"0".repeat(64);
    let cases = [
        ("/format_version", Value::from("2.0"), 2),
        ("/format_version", Value::from("1.1"), 2),
        ("/actions/0/to", plan["actions"][0]["from"].clone(), 2),
        ("/actions/1/ranges", plan["actions"][0]["ranges"].clone(), 2),
        ("/moves/0/from", Value::from("shard-e"), 2),
        ("/actions/0/ranges/0/0", Value::from(16384), 2),
        ("/actions", Value::from("none"), 2),
        ("/digest", Value::from(digest.clone()), 3),
        ("/intent/reason", Value::from("another"), 3),
        ("/limits/slots_per_move", Value::from(1), 3),
        ("/base/generation", Value::from(7), 3),
        ("/base/fingerprint", Value::from(digest), 3),
        ("/summary/ranges_after", Value::from(5), 1),
        ("/summary/waves_lower_bound", Value::from(1), 1),
        ("/certificate/A", Value::from(1), 1),
        ("/certificate/bands/0/hi", Value::from(4000), 1),
        ("/shards/0/quota", Value::from("4000"), 1),
        ("/moves/0/to", Value::from("shard-a"), 1),
    ];
    for (pointer, value, code) in cases {
        let (_folder, path) = file(tampered(&plan, pointer, value.clone()));
        let run = run(&["plan", "check", &path, "--nodes", &nodes]);
        assert_eq!(run.code, code, "{pointer} = {value}: {}{}", run.stdout, run.stderr);
    }
    let (_folder, path) = file(plan.to_string());
    assert_eq!(run(&["plan", "check", &path, "--nodes", &nodes]).code, 0);
    let elsewhere = fixtures()[0].to_str().unwrap().to_owned();
    assert_eq!(run(&["plan", "check", &path, "--nodes", &elsewhere]).code, 3, "another cluster");
    let (_other_folder, other) = file(example().replace("[[0,3999]]", "[[0,3990]]").replace("[[4000,", "[[3991,"));
    assert_eq!(run(&["plan", "check", &path, "--nodes", &other]).code, 3, "other owners");
    let (_next_folder, next) = file(example().replace("\"epoch\":41", "\"epoch\":42"));
    assert_eq!(run(&["plan", "check", &path, "--nodes", &next]).code, 0, "another epoch, the same fingerprint");
    let report = run(&["plan", "check", &path, "--nodes", &nodes, "-o", "json"]);
    assert_eq!(json(&report)["ok"], true);
}

#[test]
fn without_a_terminal_nothing_destructive_happens() {
    for args in [
        &["cluster", "delete", "x"][..],
        &["node", "drain", "x"],
        &["node", "remove", "x"],
        &["shard", "drain", "x"],
        &["plan", "start", "p-1"],
        &["rollout", "abort", "p-1"],
        &["rollout", "rollback", "p-1"],
        &["token", "revoke", "t-1"],
    ] {
        let run = run(args);
        assert_eq!(run.code, 8, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("--yes"), "{}", run.stderr);
    }
}

#[test]
fn without_a_controller_it_says_so_with_6() {
    for args in [
        &["status"][..],
        &["cluster", "list"],
        &["node", "list"],
        &["plan", "list"],
        &["topology", "get"],
        &["-y", "cluster", "delete", "x"],
        &["node", "add", "10.0.0.1:6379"],
        &["audit", "list"],
        &["slot", "explain", "7"],
    ] {
        let run = run(&[&["--timeout", "1s"], args].concat());
        assert_eq!(run.code, 6, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("127.0.0.1:1"), "{}", run.stderr);
        assert!(run.stdout.is_empty());
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let path = fixtures()[0].to_str().unwrap().to_owned();
    for args in [
        &["plan", "create", "--offline", &path, "--add", "900", "-o", "json"][..],
        &["plan", "create", "--offline", &path, "--add", "900", "--full"],
        &["plan", "--help"],
        &["completions", "zsh"],
    ] {
        let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        drop(child.stdout.take());
        let run = finish(child.wait_with_output().expect("it ends"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn settings_come_from_flag_then_environment_then_file() {
    let (_folder, path) = file("cluster = 'from-file'\ntimeout = '3s'\nendpoints = ['http://127.0.0.1:2']\n");
    let show = |envs: &[(&str, &str)], args: &[&str]| {
        let mut command = command(&[&["config", "show", "-o", "json", "--client-config", &path], args].concat());
        command.env_remove("SLOTKEEPER_ENDPOINT").envs(envs.iter().copied());
        json(&finish(command.output().unwrap()))
    };
    let from_file = show(&[], &[]);
    assert_eq!((&from_file["cluster"], &from_file["timeout_ms"]), (&Value::from("from-file"), &Value::from(3000)));
    assert_eq!(from_file["endpoints"], serde_json::json!(["http://127.0.0.1:2"]));
    assert_eq!(show(&[("SLOTKEEPER_CLUSTER", "from-env")], &[])["cluster"], "from-env");
    assert_eq!(show(&[("SLOTKEEPER_CLUSTER", "from-env")], &["--cluster", "from-flag"])["cluster"], "from-flag");
    let several = show(&[("SLOTKEEPER_ENDPOINT", "http://a:1,http://b:2")], &[]);
    assert_eq!(several["endpoints"], serde_json::json!(["http://a:1", "http://b:2"]));

    for (text, expected) in [
        ("clustr = 'x'", "unknown field `clustr`"),
        ("timeout = 'soon'", "timeout"),
        ("output = 'xml'", "output"),
        ("x", ""),
    ] {
        let (_folder, path) = file(text);
        let run = run(&["--client-config", &path, "config", "check"]);
        assert_eq!(run.code, 2, "{text}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{text}: {}", run.stderr);
    }
}

#[test]
fn a_token_is_never_shown() {
    let (_folder, path) = file("sk_abc_canary\n");
    for args in [&["config", "show"][..], &["-v", "status", "--timeout", "1s"], &["config", "show", "-o", "json"]] {
        let run = run(&[&["--token-file", &path], args].concat());
        assert!(!format!("{}{}", run.stdout, run.stderr).contains("canary"), "{args:?}");
    }
}

#[test]
fn keys_are_hashed_as_redis_does() {
    // From redis-server: CLUSTER KEYSLOT.
    for (key, slot) in [("foo", "12182"), ("{user1000}.following", "3443"), ("foo{}{bar}", "8363"), ("", "0")] {
        let run = run(&["slot", "of-key", key]);
        assert_eq!((run.code, run.stdout.trim()), (0, slot), "{key}");
    }
    let shown = json(&run(&["slot", "of-key", "{user1000}.following", "-o", "json"]));
    assert_eq!(shown, serde_json::json!({"key": "{user1000}.following", "hash_tag": "user1000", "slot": 3443}));
}

/// Every command that has its own help, beside `serve` and `dev`.
const COMMANDS: &[&str] = &[
    "status",
    "cluster",
    "cluster create",
    "cluster list",
    "cluster show",
    "cluster configure",
    "cluster import",
    "cluster check",
    "cluster export",
    "cluster delete",
    "node",
    "node add",
    "node drain",
    "node undrain",
    "node list",
    "node show",
    "node set",
    "node remove",
    "shard",
    "shard list",
    "shard show",
    "shard set",
    "shard drain",
    "shard undrain",
    "plan",
    "plan create",
    "plan list",
    "plan show",
    "plan diff",
    "plan check",
    "plan approve",
    "plan reject",
    "plan withdraw",
    "plan refresh",
    "plan start",
    "rollout",
    "rollout show",
    "rollout watch",
    "rollout pause",
    "rollout resume",
    "rollout abort",
    "rollout rollback",
    "rollout throttle",
    "topology",
    "topology get",
    "topology watch",
    "slot",
    "slot show",
    "slot explain",
    "slot of-key",
    "member",
    "member list",
    "token",
    "token create",
    "token list",
    "token revoke",
    "audit",
    "audit list",
    "audit tail",
    "config",
    "config check",
    "config show",
    "completions",
    "man",
    "version",
];

#[test]
fn help_of_every_command() {
    let mut whole = String::new();
    for name in COMMANDS {
        let mut args: Vec<&str> = name.split(' ').collect();
        args.push("-h");
        let run = run(&args);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        // The same everywhere: shown once, with the first command.
        let own = run.stdout.split("\nGlobal options:").next().unwrap();
        let shown = if whole.is_empty() { run.stdout.as_str() } else { own };
        whole.extend(["$ slotkeeper ", name, " -h\n", shown.trim_end(), "\n\n"]);
    }
    insta::assert_snapshot!(whole);
}

#[test]
fn a_manual_page_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    assert_eq!(run(&["man", pages.to_str().unwrap()]).code, 0);
    for name in COMMANDS {
        let page = pages.join(format!("slotkeeper-{}.1", name.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH OPTIONS"), "{name}");
    }
    assert!(pages.join("slotkeeper.1").is_file());
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = run(&["man", file.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(file.to_str().unwrap()), "{}", refused.stderr);
}

#[test]
fn the_version_and_completions() {
    assert_eq!(run(&["version"]).stdout, format!("slotkeeper {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let run = run(&["completions", shell]);
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("rollout"), "{shell}");
    }
}

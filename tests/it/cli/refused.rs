//! What is refused, with which code and which words.

use super::*;

#[test]
fn bad_inputs_end_with_2() {
    let id = |c: char| c.to_string().repeat(40);
    let master = |c: char, port: u16, slots: &str| {
        format!("{} 10.0.0.1:{port}@{} master - 0 0 1 connected {slots}\n", id(c), port + 10_000)
    };
    let replica = format!("{} 10.0.0.1:7@10007 slave {} 0 0 1 connected\n", id('b'), id('c'));
    let whole = master('a', 1, "0-16383");
    let huge = vec![b'x'; (8 << 20) + 1];
    let texts: [(&str, Vec<u8>, &str); 12] = [
        ("gzip", b"\x1f\x8b\x08\0\0".to_vec(), "compressed with gzip"),
        ("UTF-16", b"\xff\xfea\0".to_vec(), "UTF-16"),
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

//! Settings, secrets, prompts, pipes and keys.

use super::*;

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
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
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

#[test]
fn many_keys_are_hashed_at_once_from_arguments_or_stdin() {
    let several = run(&["slot", "of-key", "foo", "{user1000}.following", ""]);
    assert_eq!((several.code, several.stdout.as_str()), (0, "12182  foo\n 3443  {user1000}.following\n    0  \n"));
    let listed = json(&run(&["slot", "of-key", "foo", "bar", "-o", "json"]));
    // From redis-server: CLUSTER KEYSLOT.
    assert_eq!((&listed[0]["slot"], &listed[1]["slot"]), (&Value::from(12182), &Value::from(5061)));
    let lines = run_with_stdin(&["slot", "of-key", "-"], b"foo\nbar\n");
    assert_eq!(lines.stdout, "12182  foo\n 5061  bar\n");
    assert_eq!(run_with_stdin(&["slot", "of-key", "-"], b"foo").stdout, "12182  foo\n");
    assert_eq!(run_with_stdin(&["slot", "of-key", "-"], b"").stdout.trim(), "");
    // A key may hold any byte, a line end too.
    let bytes = run_with_stdin(&["slot", "of-key", "-0", "-"], b"\xff\x00a\nb\x00");
    assert_eq!(bytes.stdout.lines().count(), 2, "{}", bytes.stdout);
    let raw = json(&run_with_stdin(&["slot", "of-key", "--null", "-", "-o", "json"], b"\xff{\xfe}\x00"));
    assert_eq!((&raw[0]["key_hex"], raw[0].as_object().unwrap().len()), (&Value::from("ff7bfe7d"), 4));
    assert_eq!(run(&["slot", "of-key"]).code, 2);
}

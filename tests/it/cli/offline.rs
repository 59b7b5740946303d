//! Plans from a file.

use super::*;

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

//! Placing copies and explaining plans, from a file.

use super::*;

/// Two shards with both copies in one zone each.
fn crowded(zones: bool) -> String {
    let node = |name: &str, host: u8, zone: &str| {
        let zone = if zones { format!("\"{zone}\"") } else { "null".to_owned() };
        format!(r#"{{"id":"{name}","host":"10.0.0.{host}","port":7000,"zone":{zone}}}"#)
    };
    let shard = |letter: char, host: u8, zone: &str, ranges: &str| {
        let (primary, replica) =
            (node(&format!("n-{letter}"), host, zone), node(&format!("r-{letter}"), host + 1, zone));
        format!(
            r#"{{"id":"shard-{letter}","weight":1,"state":"active","primary":{primary},"replicas":[{replica}],
            "ranges":[[{ranges}]]}}"#
        )
    };
    let shards = [shard('a', 1, "east", "0,8191"), shard('b', 3, "west", "8192,16383")].join(",");
    format!(
        r#"{{"kind":"full","cluster_id":"c-1","generation":1772460300,"epoch":41,"slots":16384,
        "key_hash":"crc16-xmodem","hash_tag":"{{}}","shards":[{shards}],"unassigned":[],"moving":[]}}"#
    )
}

#[test]
fn a_placement_is_planned_shown_and_checked() {
    let (folder, path) = file(crowded(true));
    let create = ["plan", "create", "--offline", &path, "--replicas", "1", "--spread", "zone"];
    let screen = run(&create);
    assert_eq!(screen.code, 0, "{}", screen.stderr);
    let figures = "  2 nodes change shard (bound 2), 0 failovers (bound 0): 1 replica a shard, apart by zone\n";
    assert!(screen.stdout.contains(figures), "{}", screen.stdout);
    assert!(screen.stdout.contains("make r-b a replica of shard-a"), "{}", screen.stdout);
    assert_eq!(None, screen.stdout.lines().find(|line| line.chars().count() > 94));

    let plan = run(&[&create[..], &["-o", "json"]].concat());
    let placed = &json(&plan)["placement"];
    assert_eq!(placed["changes"], 2);
    assert_eq!(placed["shards"][0], serde_json::json!({"shard": "shard-a", "primary": "n-a", "replicas": ["r-b"]}));
    let file = folder.path().join("plan.json");
    std::fs::write(&file, &plan.stdout).unwrap();
    let checked = run(&["plan", "check", file.to_str().unwrap(), "--nodes", &path]);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("placement: 2 copies of each shard, apart as asked"), "{}", checked.stdout);

    let damaged = plan.stdout.replace(r#""lower_bound":2"#, r#""lower_bound":1"#);
    let damaged = damaged.replace(r#""lower_bound": 2"#, r#""lower_bound": 1"#);
    assert_ne!(damaged, plan.stdout);
    std::fs::write(&file, damaged).unwrap();
    let checked = run(&["plan", "check", file.to_str().unwrap(), "--nodes", &path]);
    assert_eq!(checked.code, 1, "{}", checked.stdout);
    assert!(checked.stdout.contains("placement: lower_bound: the plan says 1, but it is 2"), "{}", checked.stdout);
}

#[test]
fn a_placement_that_cannot_be_is_refused_by_name() {
    let (_folder, path) = file(crowded(false));
    let refused = run(&["plan", "create", "--offline", &path, "--replicas", "1"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("the zone of 4 nodes is not known (n-a, n-b, r-a, r-b)"), "{}", refused.stderr);
    assert_eq!(run(&["plan", "create", "--offline", &path, "--replicas", "0"]).code, 2);
    let hosts = run(&["plan", "create", "--offline", &path, "--replicas", "1", "--spread", "host"]);
    assert_eq!(hosts.code, 0, "{}", hosts.stderr);
    assert!(hosts.stdout.contains("every copy is where it is asked for"), "{}", hosts.stdout);
    let few = run(&["plan", "create", "--offline", &path, "--replicas", "4", "--spread", "host"]);
    assert!(few.stderr.contains("5 copies of a shard need as many hosts"), "{}", few.stderr);
}

#[test]
fn a_plan_from_a_file_is_explained_within_the_screen() {
    let (folder, path) = file(example());
    let create = ["plan", "create", "--offline", &path, "--add", "shard-e=1", "--slots-per-move", "4"];
    let said = run(&[&create[..], &["--explain-slot", "4000"]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("slot 4000 moves from shard-b to shard-e in action a-"), "{lines:#?}");
    assert_eq!("  shard-b owns 4257 slots, 980 above its band 3276..=3277, and gives 980", lines[1]);
    assert_eq!("  shard-e owns 0 slots, 3276 below its band 3276..=3277, and takes 3276", lines[2]);
    assert!(lines.iter().all(|line| line.chars().count() <= 94), "{lines:#?}");

    let shard = run(&[&create[..], &["--explain-shard", "shard-e", "-o", "json"]].concat());
    let because = json(&shard)["because"].clone();
    assert_eq!(because[0], "shard-e has weight 1: its share is 16384/5 of 16384 slots, its band 3276..=3277");
    assert_eq!(2, run(&[&create[..], &["--explain-shard", "nobody"]].concat()).code);

    let file = folder.path().join("plan.json");
    std::fs::write(&file, run(&[&create[..], &["-o", "json"]].concat()).stdout).unwrap();
    let checked = run(&["plan", "check", file.to_str().unwrap(), "--nodes", &path, "--explain-slot", "0"]);
    assert!(checked.stdout.contains("slot 0 stays with shard-a\n"), "{}", checked.stdout);
}

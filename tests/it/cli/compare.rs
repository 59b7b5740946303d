//! `slotkeeper compare`, without any controller.

use super::*;

#[test]
fn the_screen_is_94_columns_wide_and_ends_with_the_choice() {
    let screen = run(&["compare", "--nodes", "10", "--to", "11", "--sample", "5000"]);
    assert_eq!(screen.code, 0, "{}", screen.stderr);
    let broad = screen.stdout.lines().find(|line| line.chars().count() > 94);
    assert_eq!(broad, None, "the screen is 94 columns wide");
    assert!(
        screen
            .stdout
            .starts_with("Event: 10 -> 11 nodes; add node-11\nKeys: 5000, 5000 requests at 10000/s; at least 455 keys")
    );
    assert!(screen.stdout.contains("\nWhich to choose: slots, because it moves"), "{}", screen.stdout);
    assert!(screen.stdout.contains("chi2/df"));
}

#[test]
fn figures_as_json_and_a_chart() {
    let folder = tempfile::tempdir().expect("a folder");
    let chart = folder.path().join("costs.svg");
    let nodes = "a=1@x,b=1@y,c=2@z";
    let args = [
        "compare",
        "--nodes",
        nodes,
        "--add",
        "d=4@x",
        "--sample",
        "4000",
        "-o",
        "json",
        "--svg",
        chart.to_str().unwrap(),
    ];
    let comparison = json(&run(&args));
    assert_eq!((&comparison["keys"], &comparison["least_keys"]), (&4000.into(), &2000.into()), "d takes half");
    let families = comparison["families"].as_array().unwrap();
    assert_eq!(families.len(), 11);
    for family in families {
        let has_weights = ["vnodes", "ketama", "rendezvous", "maglev", "bounded-load", "slots"]
            .contains(&family["family"].as_str().unwrap());
        assert_eq!(has_weights, family.get("figures").is_some(), "{family}");
        assert_eq!(has_weights, family.get("refused").is_none(), "{family}");
    }
    let svg = std::fs::read_to_string(&chart).expect("the chart");
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    assert_eq!(document.root_element().tag_name().name(), "svg");
}

#[test]
fn keys_come_from_a_file_and_repeated_ones_are_requests() {
    let keys = b"a\nb\0c\n\xff\xfe\na\na\n";
    let run = run_with_stdin(
        &["compare", "--nodes", "2", "--to", "3", "--keys", "-", "--family", "slots,ring", "-o", "json"],
        keys,
    );
    let comparison = json(&run);
    assert_eq!((&comparison["keys"], &comparison["requests"]), (&3.into(), &5.into()));
    assert_eq!(comparison["hot"]["hottest"], 0.6);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (args, expected) in [
        (&["--nodes", "0", "--to", "2"][..], "--nodes \"0\" is not in 1..=1024"),
        (&["--nodes", "3", "--to", "0"], "nodes after the event: 0 is not in 1..=1024"),
        (&["--nodes", "3", "--to", "3"], "event: changes nothing"),
        (&["--nodes", "3"], "event: changes nothing"),
        (&["--nodes", "3", "--to", "2000"], "2000 are more than 1024"),
        (&["--nodes", "a,b,a", "--to", "2"], "nodes: a is given twice"),
        (&["--nodes", "a,b", "--add", "b"], "add: b is there already"),
        (&["--nodes", "a,b", "--drain", "x"], "drain: x is not one of the nodes"),
        (&["--nodes", "a,b", "--weight", "x=2"], "weights: x is not one of the nodes"),
        (&["--nodes", "a,b", "--weight", "a"], "--weight \"a\" is not NAME=W"),
        (&["--nodes", "a=x", "--to", "2"], "the weight is not a number in 0..=10000"),
        (&["--nodes", "3", "--to", "4", "--family", "crc"], "family: \"crc\" is unknown; there are modulo, ring"),
        (&["--nodes", "3", "--to", "4", "--sample", "0"], "--sample 0 is not in 1..="),
        (&["--nodes", "3", "--to", "4", "--keys", "/dev/null"], "/dev/null: keys: there is none"),
        (&["--nodes", "3", "--to", "4", "--keys", "/dev/zero"], "/dev/zero: key 1 is longer than 65536 bytes"),
        (&["--nodes", "3", "--to", "4", "--keys", "/nowhere"], "/nowhere: No such file"),
        (&["--nodes", "3", "--to", "4", "--epsilon", "x"], "--epsilon \"x\": "),
        (&["--nodes", "3", "--to", "4", "--view-part", "0"], "view_part: 0 is not in 1..=100"),
    ] {
        let refused = run(&[&["compare"], args].concat());
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{args:?}: {}", refused.stderr);
    }
}

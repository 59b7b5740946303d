//! What is read back, what is tolerated, and what is refused.

use serde_json::{Value, json};

use super::*;

fn body() -> Value {
    json!({
        "kind": "full", "cluster_id": "c-1", "generation": 7, "epoch": 41, "slots": 16384,
        "key_hash": "crc16-xmodem", "hash_tag": "{}",
        "shards": [
            {"id": "a", "weight": 1, "state": "active",
             "primary": {"id": "n1", "host": "10.0.0.1", "port": 6379, "zone": "z1"},
             "replicas": [{"id": "n2", "host": "::1", "port": 6380, "zone": null}],
             "ranges": [[0, 99], [200, 200]]},
            {"id": "b", "weight": 3, "state": "draining",
             "primary": {"id": "n3", "host": "cache.example.test", "port": 1, "zone": null},
             "replicas": [], "ranges": [[100, 199], [201, 16000]]},
        ],
        "unassigned": [[16001, 16383]],
        "moving": [{"range": [0, 9], "from": "a", "to": "b", "serving": "from"},
                   {"range": [100, 109], "from": "a", "to": "b", "serving": "to"}],
        "hot": [],
    })
}

fn read(value: Value) -> Result<Topology, String> {
    let body: TopologyBody = serde_json::from_value(value).map_err(|error| error.to_string())?;
    Topology::try_from(body).map_err(|error| error.to_string())
}

/// The error after one change of the sound body, addressed by JSON pointer.
fn refusal(pointer: &str, value: Value) -> String {
    let mut changed = body();
    *changed.pointer_mut(pointer).expect("the pointer is of the body") = value;
    read(changed).expect_err("the body is not sound")
}

#[test]
fn a_body_is_read_and_written_unchanged() {
    let topology = read(body()).unwrap();
    assert_eq!(topology.version.to_string(), "7.41");
    assert_eq!(topology.table.counts(), [101, 15900]);
    assert_eq!(topology.table.owner(Slot::at(200)).unwrap().as_str(), "a");
    assert_eq!(topology.table.owner(Slot::at(16001)), None);
    assert_eq!(serde_json::to_value(TopologyBody::from(&topology)).unwrap(), body());
}

#[test]
fn fields_of_a_newer_controller_are_ignored() {
    let mut newer = body();
    newer["colour"] = json!("blue");
    newer["shards"][0]["primary"]["rack"] = json!(4);
    newer.as_object_mut().unwrap().remove("hot");
    assert_eq!(read(newer), read(body()));
}

#[test]
fn shards_in_another_order_are_the_same_topology() {
    let mut other = body();
    other["shards"].as_array_mut().unwrap().reverse();
    assert_eq!(read(other), read(body()));
}

#[test]
fn what_is_not_one_complete_table_is_refused() {
    for (pointer, value, words) in [
        ("/slots", json!(4096), "slots: 4096 is not supported, only 16384"),
        ("/key_hash", json!("md5"), "key_hash: \"md5\""),
        ("/hash_tag", json!("<>"), "hash_tag: \"<>\""),
        ("/kind", json!("delta"), "unknown variant `delta`"),
        ("/shards/0/ranges", json!([[0, 100], [200, 200]]), "slot 100 is listed twice (again in 100-199)"),
        ("/shards/0/ranges", json!([[0, 99]]), "slot 200 (and 0 others) is listed neither"),
        ("/unassigned", json!([[16001, 16384]]), "slot: 16384 is not in 0..=16383"),
        ("/unassigned", json!([[16383, 16001]]), "16383-16001 starts after it ends"),
        ("/unassigned", json!([]), "slot 16001 (and 382 others) is listed neither"),
        ("/unassigned", json!([[16001, 16383], [0, 0]]), "slot 0 is listed twice"),
        ("/shards/1/id", json!("a"), "shard: a is listed twice"),
        ("/shards/1/id", json!("a b"), "shard id: \"a b\""),
        ("/shards/1/weight", json!(10001), "weight: 10001"),
        ("/shards/1/state", json!("gone"), "unknown variant `gone`"),
        ("/shards/1/primary/id", json!("n2"), "node: n2 is listed twice"),
        ("/shards/1/primary/port", json!(0), "port: node \"n3\" has port 0"),
        ("/shards/1/primary/host", json!("no/host"), "host: \"no/host\""),
        ("/shards/1/primary/zone", json!(""), "zone: \"\" is empty"),
        ("/cluster_id", json!(""), "cluster id: \"\" is empty"),
        ("/moving/0/to", json!("c"), "moving: 0-9: there is no shard c"),
        ("/moving/0/to", json!("a"), "moving: 0-9 is not owned by"),
        ("/moving/0/serving", json!("to"), "moving: 0-9 is not owned by"),
        ("/moving/0/range", json!([5, 105]), "moving: 5-105 is not owned by"),
        (
            "/moving/1",
            json!({"range": [9, 9], "from": "a", "to": "b", "serving": "from"}),
            "not ascending and disjoint",
        ),
        ("/epoch", json!(-1), "invalid value"),
    ] {
        let refusal = refusal(pointer, value);
        assert!(refusal.contains(words), "{pointer}: {refusal}");
    }
}

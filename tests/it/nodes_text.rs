//! Real outputs of `CLUSTER NODES`, from Redis 7.0.15. The expected values were read off the files by hand.

use slotkeeper::domain::{Host, NodeState};
use slotkeeper::nodes_text::{Adopted, NodesTextError, adopt};

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../fixtures/redis/", $name, ".nodes.txt")).as_slice()
    };
}

/// Each shard as `first 4 digits of the primary @ its address | its replicas | its ranges`.
fn picture(adopted: &Adopted) -> Vec<String> {
    let short = |id: &str| id[..4].to_owned();
    adopted
        .shards
        .iter()
        .map(|shard| {
            assert_eq!(shard.id.as_str(), shard.primary.as_str());
            let primary = adopted.nodes.iter().find(|node| node.id == shard.primary).expect("every primary is a node");
            let replicas: Vec<String> = shard.replicas.iter().map(|id| short(id.as_str())).collect();
            let ranges: Vec<String> = adopted.table.ranges_of(&shard.id).iter().map(ToString::to_string).collect();
            format!("{}@{primary} | {} | {}", short(shard.id.as_str()), replicas.join(" "), ranges.join(" "))
        })
        .collect()
}

fn adopted(text: &[u8]) -> Adopted {
    adopt(text, None).expect("the fixture is sound")
}

const HEALTHY: [&str; 3] = [
    "256f@127.0.0.1:21000 | 58f6 | 0-5460",
    "3ff9@127.0.0.1:21002 | 80ad | 10923-16383",
    "d4a4@127.0.0.1:21001 | ef0e | 5461-10922",
];

#[test]
fn three_masters_and_three_replicas() {
    let cluster = adopted(fixture!("01-3m3r"));
    assert_eq!(picture(&cluster), HEALTHY);
    assert_eq!(cluster.notes, [""; 0]);
    let nodes: Vec<String> = cluster.nodes.iter().map(|node| format!("{:.4} {node}", node.id.as_str())).collect();
    assert_eq!(
        nodes,
        [
            "256f 127.0.0.1:21000",
            "3ff9 127.0.0.1:21002",
            "58f6 127.0.0.1:21010",
            "80ad 127.0.0.1:21012",
            "d4a4 127.0.0.1:21001",
            "ef0e 127.0.0.1:21011",
        ]
    );
    assert!(cluster.nodes.iter().all(|node| node.state == NodeState::Active && node.zone.is_none()));
    assert!(cluster.shards.iter().all(|shard| shard.weight.get() == 1 && shard.max_slots.is_none()));
    assert_eq!(cluster.table.counts(), [5461, 5461, 5462]);
}

#[test]
fn an_open_slot_shows_only_at_its_source() {
    assert_eq!(
        adopt(fixture!("02-midmigration-source"), None),
        Err(NodesTextError::OpenSlot {
            line: 5,
            slot: 5,
            why: "migrating to d4a413bf29e5bc388a6be4178f7bdc23d3cf0836".to_owned()
        })
    );
    assert_eq!(picture(&adopted(fixture!("02-midmigration-bystander"))), HEALTHY);
    assert_eq!(picture(&adopted(fixture!("02-midmigration-source-replica"))), HEALTHY);
}

#[test]
fn a_suspected_master_keeps_its_slots_and_gets_no_more() {
    let cluster = adopted(fixture!("03a-pfail"));
    assert_eq!(
        picture(&cluster),
        [
            "256f@127.0.0.1:21000 | 58f6 | 0-4 6 8 11-5460",
            "3ff9@127.0.0.1:21002 | 80ad | 10923-15999 16001-16383",
            "ef0e@127.0.0.1:21011 | d4a4 | 5 7 9-10 5461-10922 16000",
        ]
    );
    let bounds: Vec<_> = cluster.shards.iter().map(|shard| shard.max_slots).collect();
    assert_eq!(bounds, [None, None, Some(5467)]);
    let lost: Vec<_> = cluster.nodes.iter().filter(|node| node.state == NodeState::Lost).map(|n| n.port).collect();
    assert_eq!(lost, [21012], "the replica that is marked fail");
    assert_eq!(cluster.notes.len(), 2);
    assert!(cluster.notes[0].starts_with("replica 80ad6197a3463699a3e5cf35e01b589d759c2136"), "{:?}", cluster.notes);
    assert!(cluster.notes[1].contains("ef0e60029fbfd6d7a27351c62bbed89acad2267e is marked fail? and owns 5467 slots"));
}

#[test]
fn a_master_that_was_failed_over_is_left_out() {
    let cluster = adopted(fixture!("03b-failed-master-replica-promoted"));
    assert_eq!(
        picture(&cluster),
        [
            "256f@127.0.0.1:21000 | 58f6 | 0-4 6 8 11-5460",
            "3ff9@127.0.0.1:21002 | 80ad | 10923-15999 16001-16383",
            "d4a4@127.0.0.1:21001 |  | 5 7 9-10 5461-10922 16000",
        ]
    );
    assert!(cluster.nodes.iter().all(|node| node.port != 21011));
    assert!(cluster.notes[1].contains("ef0e60029fbfd6d7a27351c62bbed89acad2267e is marked fail and owns no slots"));
    assert_eq!(cluster.notes.len(), 2);
}

#[test]
fn the_address_is_the_ip_where_a_hostname_follows_it() {
    let expected = [
        "2edd@127.0.0.1:21032 |  | 10923-16383",
        "5829@127.0.0.1:21031 |  | 5461-10922",
        "d4e2@127.0.0.1:21030 |  | 0-5460",
    ];
    assert_eq!(picture(&adopted(fixture!("04a-hostname-set-pref-ip"))), expected);
    assert_eq!(picture(&adopted(fixture!("04b-hostname-preferred-one-missing"))), expected);
}

#[test]
fn a_node_that_does_not_know_its_host_is_where_it_was_dialled() {
    let dialled = Host::new("10.9.8.7").unwrap();
    for (text, notes) in [(fixture!("05-fresh-single-node-empty-ip"), 1), (fixture!("06-handshake"), 2)] {
        let cluster = adopt(text, Some(&dialled)).unwrap();
        assert_eq!(picture(&cluster), ["d51b@10.9.8.7:21020 |  | 100"]);
        assert_eq!(cluster.notes.len(), notes);
        assert_eq!(
            cluster.notes.last().unwrap(),
            "16383 slots are owned by no master: 0-99,101-16383",
            "everything but slot 100"
        );
    }
    let handshake = adopt(fixture!("06-handshake"), Some(&dialled)).unwrap();
    assert!(handshake.notes[0].contains("e2017880d403a891f83353187ff85488e03f42d1 is in handshake"));
    let error = adopt(fixture!("06-handshake"), None).unwrap_err().to_string();
    assert!(error.starts_with("line 2: ") && error.contains("the address that was dialled"), "{error}");
}

#[test]
fn tls_and_ipv6() {
    assert_eq!(
        picture(&adopted(fixture!("09a-tls-cluster-asked-plaintext"))),
        [
            "0e25@127.0.0.1:21042 |  | 10923-16383",
            "990e@127.0.0.1:21041 |  | 5461-10922",
            "bce5@127.0.0.1:21040 |  | 0-5460",
        ]
    );
    assert_eq!(
        picture(&adopted(fixture!("10-ipv6"))),
        ["4414@[::1]:21061 |  | 5461-10922", "74f5@[::1]:21060 |  | 0-5460", "7fb1@[::1]:21062 |  | 10923-16383",]
    );
}

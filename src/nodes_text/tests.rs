//! Malformed texts one by one, and properties over printed, random and mutated ones.

use proptest::prelude::*;

use super::*;
use crate::domain::{
    ClusterId, NodeId, NodeState, ShardId, ShardState, Slot, SlotRange, Topology, TopologyShard, Version, Weight,
};

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const C: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// A line whose uninteresting fields are filled in; `X` stands for id `xxxx…`.
fn line(id: &str, address: &str, flags: &str, master: &str, slots: &str) -> String {
    format!("{id} {address} {flags} {master} 0 1796028923091 3 connected {slots}\n")
}

fn master(id: &str, port: u16, slots: &str) -> String {
    line(id, &format!("10.0.0.1:{port}@1{port}"), "master", "-", slots)
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    adopt(text.as_ref(), None).expect_err("the text is not sound").to_string()
}

fn sound(text: impl AsRef<[u8]>) -> Adopted {
    adopt(text.as_ref(), None).expect("the text is sound")
}

#[test]
fn malformed_texts_are_refused_with_the_line() {
    let two = |second: &str| master(A, 7000, "0-16383") + second;
    for (text, words) in [
        (String::new(), "the text is empty"),
        ("\n\r\n".to_owned(), "the text is empty"),
        ("\u{feff}".to_owned(), "the text is empty"),
        (two("short line"), "line 2: 2 fields where at least 8 belong: \"short line\""),
        (two(&format!("{B} 10.0.0.1:1@2 master - 0 0 3")), "line 2: 7 fields"),
        (two("\n\nvars currentEpoch 3 lastVoteEpoch 0"), "line 4: this is a nodes.conf file"),
        (two("(error) NOAUTH"), "line 2: 2 fields"),
        (two(&master(B, 7001, "16384")), "line 2: slot: 16384 is not in 0..=16383"),
        (two(&master(B, 7001, "99999999999")), "line 2: slot range: \"99999999999\""),
        (two(&master(B, 7001, "5-1")), "line 2: slot range: 5-1 starts after it ends"),
        (two(&master(B, 7001, "1-2-3")), "line 2: slot range: \"1-2-3\""),
        (two(&master(B, 7001, "-1")), "line 2: slot range: \"-1\""),
        (two(&master(B, 7001, "+1")), "line 2: slot range: \"+1\""),
        (two(&master(B, 7001, "1  2")), "line 2: slot range: \"\""),
        (two(&master(B, 7001, "[7]")), "line 2: \"[7]\" is not an open slot"),
        (two(&master(B, 7001, "[7->-b")), "line 2: \"[7->-b\" is not an open slot"),
        (two(&master(B, 7001, "[16384->-b]")), "line 2: slot: 16384"),
        (two(&master(B, 7001, "[1-2->-b]")), "line 2: \"[1-2->-b]\" is not an open slot"),
        (
            two(&master(&B[1..], 7001, "")),
            "line 2: the node id bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb has 39 digits, not 40",
        ),
        (two(&master("b/b", 7001, "")), "line 2: node id: \"b/b\" has the character '/'"),
        (two(&master(A, 7001, "")), "line 2: node aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa is listed twice; line 1"),
        (two(&line(B, "10.0.0.1", "master", "-", "")), "line 2: \"10.0.0.1\" is not host:port"),
        (two(&line(B, "10.0.0.1:x@1", "master", "-", "")), "line 2: \"x\" is not a port"),
        (two(&line(B, "10.0.0.1:65536@1", "master", "-", "")), "line 2: \"65536\" is not a port"),
        (two(&line(B, "10.0.0.1:1@+1", "master", "-", "")), "line 2: \"+1\" is not a port"),
        (two(&line(B, "10.0.0.1:0@1", "master", "-", "")), "line 2: port 0"),
        (two(&line(B, "h\tt:1@1", "master", "-", "")), "line 2: host: \"h\\tt\""),
        (two(&line(B, "h\u{202e}t:1@1", "master", "-", "")), "line 2: host: \"h\\u{202e}t\""),
        (two(&line(B, "h:1@1,no/name", "master", "-", "")), "line 2: host: \"no/name\""),
        (two(&line(B, ":1@1", "master", "-", "")), "line 2: the node's host is printed empty (\":1@1\")"),
        (two(&line(B, "h:1@1", "master,odd", "-", "")), "line 2: the flag \"odd\" is not known"),
        (two(&line(B, "h:1@1", "master,slave", "-", "")), "line 2: the flags \"master,slave\" name two roles"),
        (two(&line(B, "h:1@1", "", "-", "")), "line 2: the flag \"\" is not known"),
        (two(&line(B, "h:1@1", "master", A, "")), "line 2: a master has the master \"aaaa"),
        (two(&line(B, "h:1@1", "slave", "-", "")), "line 2: a replica does not say whose"),
        (
            two(&line(B, "h:1@1", "slave", A, "5")),
            "line 2: node bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb is no master but lists",
        ),
        (two(&line(B, "h:1@1", "handshake", "-", "5")), "line 2: node bbbb"),
        (two(&line(B, "10.0.0.1:7000@1", "master", "-", "")), "line 2: nodes aaaa"),
        (two(&format!("{B} h:1@1 master - x 0 3 connected")), "line 2: the ping field \"x\" is not a number"),
        (two(&format!("{B} h:1@1 master - 0 -1 3 connected")), "line 2: the pong field \"-1\" is not a number"),
        (two(&format!("{B} h:1@1 master - 0 0 99999999999999999999 connected")), "line 2: the epoch field"),
        (two(&format!("{B} h:1@1 master - 0 0 3 up")), "line 2: the link state \"up\" is not known"),
        (two("a\0b"), "line 2: a NUL byte in \"a\\x00b\""),
        (line(A, "h:1@1", "handshake", "-", ""), "there is no master"),
        (
            line(A, "h:1@1", "myself,master", "-", "") + &line(B, "h:2@1", "myself,master", "-", ""),
            "line 2: a second node is myself; line 1 is the first",
        ),
    ] {
        let refusal = refusal(&text);
        assert!(refusal.starts_with(words), "{text:?}: {refusal}");
    }
    assert!(refusal(b"\xff\xfe").starts_with("line 1: \"\\xff\\xfe\" is not UTF-8"));
}

#[test]
fn a_slot_of_two_masters_names_both() {
    let why = refusal(master(B, 7001, "0-100") + &master(C, 7002, "200") + &master(A, 7000, "50-60"));
    assert_eq!(why, format!("line 3: slot 50 is owned by two masters: {B} (line 1) and {A}"));
    let why = refusal(master(A, 7000, "0-9 9"));
    assert_eq!(why, format!("line 1: slot 9 is listed twice by {A}"));
}

#[test]
fn replicas_follow_masters_of_the_text() {
    let why = refusal(master(A, 7000, "") + &line(B, "h:1@1", "slave", C, ""));
    assert_eq!(why, format!("line 2: replica {B} of an unknown master {C}"));
    let chain = master(A, 7000, "") + &line(B, "h:1@1", "slave", A, "") + &line(C, "h:2@1", "slave", B, "");
    assert_eq!(refusal(chain), format!("line 3: replica {C} follows {B}, which is no master (line 2)"));
}

#[test]
fn an_open_slot_is_a_conflict_of_its_own() {
    let open = |slots: &str| adopt((master(A, 7000, "") + &master(B, 7001, slots)).as_bytes(), None);
    for (slots, slot, why) in [
        (format!("5-9 [5->-{A}]"), 5, format!("migrating to {A}")),
        (format!("[77-<-{A}] [78-<-{A}]"), 77, format!("importing from {A}")),
    ] {
        assert_eq!(open(&slots), Err(NodesTextError::OpenSlot { line: 2, slot, why }));
    }
    let malformed = master(A, 7000, &format!("1 [1->-{B}]")) + "short";
    assert!(refusal(malformed).starts_with("line 2: 1 fields"), "a fault elsewhere comes first");
}

#[test]
fn the_length_is_bounded() {
    let mut text = master(A, 7000, "0-16383").into_bytes();
    text.resize(TEXT_MAX_BYTES, b'\n');
    assert_eq!(sound(&text).table.count_of(&ShardId::new(A).unwrap()), 16384);
    text.push(b'\n');
    assert_eq!(refusal(&text), "the text is longer than 8388608 bytes");
}

#[test]
fn line_ends_and_byte_order_mark_do_not_matter() {
    let text = master(A, 7000, "0-5") + &line(B, "h.example.test:7001@17001", "slave,nofailover", A, "");
    let plain = sound(&text);
    assert_eq!(sound(format!("\u{feff}{}\r\n", text.replace('\n', "\r\n"))), plain);
    assert_eq!(sound(text.trim_end()), plain);
    let second_mark = format!("{text}\u{feff}{}", master(C, 7002, ""));
    assert!(refusal(second_mark).starts_with("line 3: node id"), "a mark belongs at the start only");
}

#[test]
fn addresses_in_all_their_forms() {
    let hosts = |address: &str, dialled: Option<&str>| {
        let dialled = dialled.map(|host| Host::new(host).unwrap());
        let text = line(A, address, "myself,master", "-", "");
        let node = adopt(text.as_bytes(), dialled.as_ref()).unwrap().nodes.remove(0);
        (node.host.to_string(), node.port)
    };
    let expect = |host: &str, port| (host.to_owned(), port);
    assert_eq!(hosts("10.0.0.1:6379@16379", Some("dialled")), expect("10.0.0.1", 6379));
    assert_eq!(hosts("10.0.0.1:6379", None), expect("10.0.0.1", 6379));
    assert_eq!(hosts("2001:db8::7:6379@16379", None), expect("2001:db8::7", 6379));
    assert_eq!(hosts("10.0.0.1:6379@16379,,shard-id=abc,colour=blue", None), expect("10.0.0.1", 6379));
    assert_eq!(hosts("10.0.0.1:6379@16379,shard-id=abc", None), expect("10.0.0.1", 6379));
    assert_eq!(hosts(":6379@16379,name.example.test,shard-id=abc", None), expect("name.example.test", 6379));
    assert_eq!(hosts(":6379@16379,name.example.test", Some("::1")), expect("::1", 6379));
    assert_eq!(hosts(":6379@16379", Some("dialled")), expect("dialled", 6379));
    let other = line(A, ":6379@16379", "master", "-", "");
    let dialled = Host::new("dialled").unwrap();
    assert!(adopt(other.as_bytes(), Some(&dialled)).is_err(), "only the node that printed the text was dialled");
}

#[test]
fn nodes_that_cannot_serve_are_never_a_target() {
    let flagged = |flags: &str, slots: &str| line(B, "10.0.0.2:1@1", flags, "-", slots);
    for flags in ["master,fail", "master,fail?", "fail?,master,fail"] {
        let empty = sound(master(A, 7000, "") + &flagged(flags, "") + &line(C, "h:1@1", "slave", B, ""));
        assert_eq!(empty.shards.len(), 1, "{flags}");
        assert_eq!(empty.nodes.len(), 1, "neither the master nor its replica");
        assert_eq!(empty.notes.len(), 3, "{:?}", empty.notes);

        let owning = sound(master(A, 7000, "") + &flagged(flags, "0-99 200"));
        assert_eq!(owning.shards[1].max_slots, Some(101), "{flags}");
        assert_eq!(owning.nodes[1].state, NodeState::Active);

        let replica = flags.replace("master", "slave");
        let replica = sound(master(A, 7000, "") + &line(B, "10.0.0.2:1@1", &replica, A, ""));
        assert_eq!(replica.nodes[1].state, NodeState::Lost, "{flags}");
        assert_eq!(replica.shards[0].replicas, [NodeId::new(B).unwrap()]);
    }
    let addressless = line(B, ":0@0", "master,noaddr", "-", "") + &line(C, ":0@0", "slave,fail,noaddr", A, "");
    let rest = sound(master(A, 7000, "0-16383") + &addressless);
    assert_eq!((rest.nodes.len(), rest.shards[0].replicas.len(), rest.notes.len()), (1, 0, 2));
    let why = refusal(master(A, 7000, "") + &line(B, ":0@0", "master,fail,noaddr", "-", "1-2"));
    assert_eq!(why, format!("line 2: master {B} has no address (noaddr) but owns 2 slots"));
}

#[test]
fn an_old_entry_of_a_node_that_came_back_is_left_out() {
    let text = master(A, 7000, "") + &master(B, 7001, "") + &line(C, "10.0.0.1:7001@17001", "slave,fail", A, "");
    let cluster = sound(text);
    assert_eq!(cluster.nodes.len(), 2);
    assert_eq!(
        cluster.notes[0],
        format!("replica {C} is marked fail and its address belongs to another node: left out")
    );
}

#[test]
fn what_is_not_covered_is_said() {
    let text = master(A, 7000, "0-99 200-16383") + &line(B, "h:1@1", "noflags", "-", "");
    assert_eq!(
        sound(text).notes,
        [format!("node {B} has no role yet: left out"), "100 slots are owned by no master: 100-199".to_owned()]
    );
}

/// A topology whose shards are named by their primary, as text can tell it.
fn topologies() -> impl Strategy<Value = Topology> {
    let runs = proptest::collection::vec((0..16384_usize, 0..7_usize), 0..40);
    (1..6_usize, 0..3_usize, runs).prop_map(|(shard_count, replica_count, runs)| {
        let node = |n: usize, state| Node {
            id: NodeId::new(&format!("{n:040x}")).unwrap(),
            host: Host::new(["10.0.0.1", "::1", "n.example.test"][n % 3]).unwrap(),
            port: 60_000 + u16::try_from(n).unwrap(),
            zone: None,
            state,
        };
        let shards: Vec<TopologyShard> = (0..shard_count)
            .map(|n| TopologyShard {
                id: ShardId::new(&format!("{:040x}", n * 10)).unwrap(),
                weight: Weight::ONE,
                state: ShardState::Active,
                primary: node(n * 10, NodeState::Active),
                replicas: (1..=replica_count)
                    .map(|r| node(n * 10 + r, if r == 2 { NodeState::Lost } else { NodeState::Active }))
                    .collect(),
            })
            .collect();
        let mut table = SlotTable::with_shards(shards.iter().map(|shard| shard.id.clone()).collect()).unwrap();
        for (start, owner) in runs {
            let range = SlotRange::new(Slot::at(start), Slot::at((start + 700).min(16383))).unwrap();
            table.assign(range, shards.get(owner).map(|shard| &shard.id)).unwrap();
        }
        let (cluster_id, moving) = (ClusterId::new("c").unwrap(), Vec::new());
        Topology { cluster_id, version: "7.41".parse::<Version>().unwrap(), shards, table, moving }
    })
}

/// Fixtures to mutate.
const FIXTURES: [&[u8]; 4] = [
    include_bytes!("../../tests/fixtures/redis/02-midmigration-source.nodes.txt"),
    include_bytes!("../../tests/fixtures/redis/03b-failed-master-replica-promoted.nodes.txt"),
    include_bytes!("../../tests/fixtures/redis/04a-hostname-set-pref-ip.nodes.txt"),
    include_bytes!("../../tests/fixtures/redis/10-ipv6.nodes.txt"),
];

/// Whatever is adopted keeps the promises of [`Adopted`].
fn check(adopted: &Adopted) {
    assert!(adopted.nodes.is_sorted_by(|a, b| a.id < b.id));
    assert!(adopted.shards.iter().map(|shard| &shard.id).eq(adopted.table.shards()));
    let mut placed: Vec<&NodeId> = adopted.shards.iter().flat_map(Shard::nodes).collect();
    placed.sort();
    assert!(placed.into_iter().eq(adopted.nodes.iter().map(|node| &node.id)), "every node is in one shard");
}

proptest! {
    #[test]
    fn printed_topologies_are_read_back(topology in topologies()) {
        let adopted = sound(print(&topology));
        check(&adopted);
        let nodes: Vec<&Node> =
            topology.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas)).collect();
        prop_assert_eq!(adopted.nodes.iter().collect::<Vec<_>>(), nodes);
        prop_assert_eq!(adopted.table, topology.table);
        prop_assert!(adopted.shards.iter().all(|shard| shard.max_slots.is_none()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(adopt(&text, None).is_err(), "no random text is a cluster");
    }

    #[test]
    fn mutated_texts_never_panic(
        fixture in 0..FIXTURES.len(),
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8, "[ -~\n\r\\x00]|[0-9]"), 1..12),
    ) {
        let mut text = FIXTURES[fixture].to_vec();
        for (place, kind, bytes) in edits {
            let at = place.index(text.len());
            let bytes = bytes.into_bytes();
            match kind {
                0 => { text.splice(at..at, bytes); }
                1 => { text.splice(at..=at, bytes); }
                2 => { text.remove(at); }
                _ => text.truncate(at.max(1)),
            }
            if text.is_empty() { break; }
        }
        if let Ok(adopted) = adopt(&text, None) {
            check(&adopted);
        }
    }
}

//! What the nodes say against a plan, and plans that repair.

use std::collections::{BTreeMap, BTreeSet};

use super::{BALANCE, Cluster, id, limits};
use crate::domain::{ActionKind, CheckLevel, DriverKind, NodeId, PlanBody, Slot};
use crate::plan::{DriftFact, Facts, Looked, NodeFacts, check_repair, checks, obstacles, repair};

/// Three equal shards, a fourth that is empty, and nothing against any of their nodes.
fn stage() -> (Cluster, Facts) {
    let mut cluster = Cluster::equal(3);
    cluster.add(1);
    let replica = NodeId::new("r-0").unwrap();
    cluster.shards[0].replicas.push(replica.clone());
    let mut facts = Facts { big_key_bytes: 64 << 20, ..Facts::default() };
    let primaries = cluster.shards.iter().map(|shard| (shard.primary.clone(), None));
    for (node, link_up) in primaries.chain([(replica, Some(true))]) {
        let healthy = NodeFacts {
            address: node.to_string(),
            version: "7.0.15".to_owned(),
            offset: 1 << 30,
            link_up,
            replica_migration: Some(false),
            node_timeout_ms: Some(15_000),
            user: Some("default".to_owned()),
            ..NodeFacts::default()
        };
        facts.nodes.insert(node, healthy);
    }
    facts.sample.keys = Slot::all().map(|slot| (slot, 2)).collect();
    facts.sample.measured = (100, 100 << 10);
    (cluster, facts)
}

fn found(cluster: &Cluster, body: &PlanBody, facts: &Facts) -> Vec<(CheckLevel, String, String, bool)> {
    let nodes = BTreeMap::new();
    let looked = Looked {
        input: cluster.input(),
        nodes: &nodes,
        moving: 0,
        notes: &[],
        driver: DriverKind::Redis,
        body,
        goal: BALANCE,
        limits: &limits(),
        reverts: false,
        facts: Some(facts),
    };
    checks(&looked).into_iter().map(|check| (check.level, check.name, check.text, check.needs_ack)).collect()
}

fn node(facts: &mut Facts, shard: usize) -> &mut NodeFacts {
    facts.nodes.get_mut(&NodeId::new(id(shard).as_str()).unwrap()).unwrap()
}

/// The finding with this name after a change of the facts; and whether it stands against the start.
fn after(name: &str, change: impl FnOnce(&mut Facts)) -> (CheckLevel, String, bool) {
    let (cluster, mut facts) = stage();
    let body = cluster.plan(BALANCE);
    change(&mut facts);
    let found = found(&cluster, &body, &facts);
    let of_name: Vec<_> = found.iter().filter(|(_, found, ..)| found == name).collect();
    assert_eq!(of_name.len(), 1, "{name}: {found:#?}");
    let (level, _, text, ack) = of_name[0].clone();
    let stands = obstacles(&body, &cluster.shards, &facts);
    assert_eq!(stands.iter().any(|why| why.starts_with(name)), level == CheckLevel::Fail, "{stands:?}");
    assert_eq!(stands.is_empty(), level != CheckLevel::Fail, "{stands:?}");
    (level, text, ack)
}

#[test]
fn nothing_stands_against_a_plan_on_healthy_nodes() {
    let (cluster, facts) = stage();
    let body = cluster.plan(BALANCE);
    assert_eq!(obstacles(&body, &cluster.shards, &facts), Vec::<String>::new());
    let levels: BTreeMap<String, CheckLevel> =
        found(&cluster, &body, &facts).into_iter().map(|(level, name, ..)| (name, level)).collect();
    for name in ["reachable", "nodes-agree", "durability", "acl-permissions", "versions", "big-key"] {
        assert_eq!(levels.get(name), Some(&CheckLevel::Ok), "{name}: {levels:?}");
    }
    for name in ["replica-lag", "memory", "replica-migration", "node-timeout", "unsampled"] {
        assert_eq!(levels.get(name), None, "{name}: {levels:?}");
    }
}

#[expect(clippy::too_many_lines, clippy::items_after_statements, reason = "a table")]
#[test]
fn each_fact_is_told_at_its_level() {
    use CheckLevel::{Fail, Ok, Warn};
    let silent = |facts: &mut Facts, shard| node(facts, shard).silent = Some("connection refused".to_owned());
    let drift = |facts: &mut Facts, kind: &str, slot: usize| {
        let slots = BTreeSet::from([Slot::at(slot)]);
        facts.drift.push(DriftFact { kind: kind.to_owned(), what: format!("slot {slot} is {kind}"), slots });
    };
    let replica = |facts: &mut Facts| facts.nodes.get_mut(&NodeId::new("r-0").unwrap()).unwrap().clone();
    let set = |facts: &mut Facts, to: NodeFacts| drop(facts.nodes.insert(NodeId::new("r-0").unwrap(), to));
    type Change<'a> = Box<dyn FnOnce(&mut Facts) + 'a>;
    let cases: Vec<(&str, CheckLevel, &str, bool, Change<'_>)> = vec![
        ("reachable", Fail, "s-0002 (connection refused)", false, Box::new(|f| silent(f, 2))),
        (
            "reachable",
            Warn,
            "r-0 (loading)",
            false,
            Box::new(|f| {
                let to = NodeFacts { silent: Some("loading".to_owned()), ..replica(f) };
                set(f, to);
            }),
        ),
        (
            "reachable",
            Ok,
            "every node",
            false,
            Box::new(|f| {
                let to = NodeFacts { silent: Some("gone".to_owned()), lost: true, ..replica(f) };
                set(f, to);
            }),
        ),
        ("open-slots", Fail, "slot 7 is open-slot", false, Box::new(|f| drift(f, "open-slot", 7))),
        (
            "nodes-disagree",
            Fail,
            "slot 7 is two-owners; slot 9 is open-slot",
            false,
            Box::new(|f| {
                drift(f, "two-owners", 7);
                drift(f, "open-slot", 9);
            }),
        ),
        ("nodes-agree", Ok, "agree", false, Box::new(|f| drift(f, "unknown-node", 7))),
        (
            "durability",
            Warn,
            "lossy on crash: s-0003 (appendfsync everysec)",
            false,
            Box::new(|f| {
                node(f, 3).lossy = Some("appendfsync everysec".to_owned());
            }),
        ),
        (
            "acl-permissions",
            Fail,
            "s-0001: default may not DUMP, MIGRATE",
            false,
            Box::new(|f| {
                node(f, 1).denied = vec!["DUMP".to_owned(), "MIGRATE".to_owned()];
            }),
        ),
        ("versions", Fail, "s-0001 (3.2.1)", false, Box::new(|f| node(f, 1).version = "3.2.1".to_owned())),
        (
            "versions",
            Warn,
            "an older server may not read",
            false,
            Box::new(|f| node(f, 3).version = "6.2.7".to_owned()),
        ),
        ("versions", Ok, "as new as 7.0.15", false, Box::new(|f| node(f, 3).version = "8.0.0".to_owned())),
        (
            "replica-lag",
            Warn,
            "r-0 is 32 MiB behind",
            false,
            Box::new(|f| {
                let to = NodeFacts { offset: (1 << 30) - (32 << 20), ..replica(f) };
                set(f, to);
            }),
        ),
        (
            "replica-lag",
            Warn,
            "r-0 has no link",
            false,
            Box::new(|f| {
                let to = NodeFacts { link_up: Some(false), ..replica(f) };
                set(f, to);
            }),
        ),
        (
            "big-key",
            Warn,
            "slot 5: \"cart\" 65 MiB",
            true,
            Box::new(|f| {
                f.sample.largest.push((Slot::at(5), "cart".to_owned(), 65 << 20));
            }),
        ),
        // 4096 slots of two keys of one KiB each are 8 MiB.
        (
            "memory",
            Fail,
            "s-0003 would use 10 MiB of 9216 KiB",
            false,
            Box::new(|f| {
                (node(f, 3).used_bytes, node(f, 3).max_bytes) = (2 << 20, 9 << 20);
            }),
        ),
        (
            "memory",
            Warn,
            "s-0003 would use 10 MiB of 10 MiB",
            false,
            Box::new(|f| {
                (node(f, 3).used_bytes, node(f, 3).max_bytes) = (2 << 20, 10 << 20);
            }),
        ),
        ("memory", Ok, "has room", false, Box::new(|f| node(f, 3).max_bytes = 1 << 30)),
        ("node-timeout", Warn, "s-0000 (500 ms)", false, Box::new(|f| node(f, 0).node_timeout_ms = Some(500))),
        ("unsampled", Warn, "s-0000 was slow", false, Box::new(|f| f.sample.faults.push("s-0000 was slow".to_owned()))),
    ];
    for (name, level, words, ack, change) in cases {
        let (found, text, needs_ack) = after(name, change);
        assert_eq!((found, needs_ack), (level, ack), "{name}: {text}");
        assert!(text.contains(words), "{name}: {text}");
    }
}

#[test]
fn a_source_that_is_emptied_must_not_migrate() {
    let (mut cluster, mut facts) = stage();
    cluster.drain(0);
    let body = cluster.plan(BALANCE);
    node(&mut facts, 1).replica_migration = Some(true);
    let names = |facts: &Facts| found(&cluster, &body, facts).into_iter().map(|(_, name, ..)| name).collect::<Vec<_>>();
    assert!(!names(&facts).contains(&"replica-migration".to_owned()), "it keeps slots");
    node(&mut facts, 0).replica_migration = Some(true);
    assert!(names(&facts).contains(&"replica-migration".to_owned()));
}

#[test]
fn a_repair_closes_each_slot_at_its_owner_and_stands_on_no_other_drift() {
    let (cluster, mut facts) = stage();
    let slots: BTreeMap<Slot, _> =
        (0..100).map(|n| Slot::at(n * 150)).map(|slot| (slot, cluster.table.owner(slot).unwrap().clone())).collect();
    let body = repair(&cluster.input(), &slots, &limits()).unwrap();
    assert_eq!(check_repair(&cluster.input(), &limits(), &body), Ok(()));
    assert_eq!((body.summary.slots, body.waves.len(), body.actions.len()), (0, 2, 100));
    let what = |slots: &[usize]| DriftFact {
        kind: "open-slot".to_owned(),
        what: "open".to_owned(),
        slots: slots.iter().map(|slot| Slot::at(*slot)).collect(),
    };
    facts.drift.push(what(&[150, 300]));
    assert_eq!(obstacles(&body, &cluster.shards, &facts), Vec::<String>::new());
    facts.drift.push(what(&[150, 301]));
    assert_eq!(obstacles(&body, &cluster.shards, &facts), ["open-slots: open"]);

    let damage = |change: fn(&mut PlanBody)| {
        let mut body = body.clone();
        change(&mut body);
        check_repair(&cluster.input(), &limits(), &body).unwrap_err().join("; ")
    };
    assert!(
        damage(|body| if let ActionKind::RepairSlot { owner, .. } = &mut body.actions[0].kind {
            *owner = id(3);
        })
        .contains("slot 0 is not owned by s-0003")
    );
    assert!(damage(|body| body.actions[1].kind = body.actions[0].kind.clone()).contains("slot 0 is repaired twice"));
    assert!(damage(|body| body.waves[0].truncate(3)).contains("exactly once"));
    let nothing = repair(&cluster.input(), &BTreeMap::new(), &limits()).unwrap();
    assert!(nothing.actions.is_empty() && nothing.empty_because.is_some());
}

//! Drift of a real cluster's views, changed by hand.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::domain::{
    Address, ClusterId, Node, NodeState, SLOT_COUNT, ShardState, SlotRange, SlotTable, TopologyShard, Version, Weight,
};
use crate::driver::nodes::{Answer, Facts, Surveyed};
use crate::nodes_text::{adopt, view};

const HEALTHY: &str = include_str!("../../../tests/fixtures/redis/01-3m3r.nodes.txt");
const SOURCE: &str = include_str!("../../../tests/fixtures/redis/02-midmigration-source.nodes.txt");
/// Primaries of slots 0-5460, 5461-10922 and 10923-16383, then their replicas.
const P1: &str = "256f8fad71da49fc9bd8d75955ece32c6c0cd817";
const P2: &str = "d4a413bf29e5bc388a6be4178f7bdc23d3cf0836";
const P3: &str = "3ff99ba2b5e26e3974d67804ec06fc2106c86fea";
const R1: &str = "58f6a492148a6f0d4cd4f1d33908e7e44750ffd6";
const R2: &str = "ef0e60029fbfd6d7a27351c62bbed89acad2267e";
const R3: &str = "80ad6197a3463699a3e5cf35e01b589d759c2136";
const ALL: [&str; 6] = [P1, P2, P3, R1, R2, R3];

fn id(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

fn topology() -> Topology {
    let adopted = adopt(HEALTHY.as_bytes(), None).unwrap();
    let nodes: BTreeMap<NodeId, Node> = adopted.nodes.into_iter().map(|node| (node.id.clone(), node)).collect();
    let shards = adopted.shards.iter().map(|shard| TopologyShard {
        id: shard.id.clone(),
        weight: Weight::ONE,
        state: ShardState::Active,
        primary: nodes[&shard.primary].clone(),
        replicas: shard.replicas.iter().map(|node| nodes[node].clone()).collect(),
    });
    Topology {
        cluster_id: ClusterId::new("c").unwrap(),
        version: "7.41".parse::<Version>().unwrap(),
        shards: shards.collect(),
        table: adopted.table,
        moving: Vec::new(),
    }
}

/// What each node prints, when nothing is said against anybody: the same lines, each with another `myself`.
struct Texts(BTreeMap<&'static str, String>);

impl Texts {
    fn of(text: &str) -> Self {
        let plain = text.replace("myself,", "");
        let mine = |node: &str| {
            let lines = plain.lines().map(|line| {
                if line.starts_with(node) {
                    line.replacen(" master ", " myself,master ", 1).replacen(" slave ", " myself,slave ", 1)
                } else {
                    // Only a node itself tells its open slots.
                    line.split(" [").next().unwrap().to_owned()
                }
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        Self(ALL.into_iter().map(|node| (node, mine(node))).collect())
    }

    fn edit(&mut self, nodes: &[&'static str], from: &str, to: &str) {
        for node in nodes {
            let text = self.0.get_mut(node).unwrap();
            assert!(text.contains(from), "{from:?} is not in {text}");
            *text = text.replace(from, to);
        }
    }

    fn survey(&self, topology: &Topology, silent: &[&str]) -> Survey {
        let nodes = topology.shards.iter().flat_map(|shard| std::iter::once(&shard.primary).chain(&shard.replicas));
        let survey = nodes.map(|node| {
            let text = &self.0[node.id.as_str()];
            let answer = if silent.contains(&node.id.as_str()) {
                Err("connection refused".to_owned())
            } else {
                Ok(Answer { view: view(text.as_bytes(), None).unwrap(), facts: Facts::default() })
            };
            (node.id.clone(), Surveyed { address: Address::from(node), answer })
        });
        Survey { nodes: survey.collect() }
    }
}

/// Kind, slots and text of each difference.
fn found(texts: &Texts, silent: &[&str]) -> Vec<(DriftKind, usize, String)> {
    let topology = topology();
    let found = drift(&topology, &texts.survey(&topology, silent), &Settled::default());
    found.into_iter().map(|drift| (drift.kind, drift.slots.len(), drift.what)).collect()
}

fn followed(texts: &Texts, silent: &[&str]) -> Vec<(String, String)> {
    let topology = topology();
    let found = failovers(&topology, &texts.survey(&topology, silent));
    found.into_iter().map(|failover| (failover.from.to_string(), failover.to.to_string())).collect()
}

/// R2 has taken over from P2 in the eyes of these nodes.
fn promote(texts: &mut Texts, eyes: &[&'static str], old: &str) {
    for eye in eyes {
        let text = texts.0.get_mut(eye).unwrap();
        let (old_one, new_one) = (if *eye == P2 { "myself," } else { "" }, if *eye == R2 { "myself," } else { "" });
        let lines = text.lines().map(|line| {
            if line.starts_with(P2) {
                format!("{P2} 127.0.0.1:21001@31001 {old_one}{old} 0 0 2 connected")
            } else if line.starts_with(R2) {
                format!("{R2} 127.0.0.1:21011@31011 {new_one}master - 0 0 7 connected 5461-10922")
            } else {
                line.to_owned()
            }
        });
        *text = lines.collect::<Vec<_>>().join("\n");
    }
}

#[test]
fn a_healthy_cluster_has_no_drift() {
    assert_eq!(found(&Texts::of(HEALTHY), &[]), []);
    assert_eq!(followed(&Texts::of(HEALTHY), &[]), []);
}

#[test]
fn an_open_slot_nobody_ordered_is_told_and_repaired_by_the_table() {
    let (topology, texts) = (topology(), Texts::of(SOURCE));
    let what = "slot 5: 127.0.0.1:21000 has them migrating to 127.0.0.1:21001";
    assert_eq!(found(&texts, &[]), [(DriftKind::OpenSlot, 1, what.to_owned())]);
    let survey = texts.survey(&topology, &[]);
    let wanted = BTreeMap::from([(Slot::at(5), ShardId::new(P1).unwrap())]);
    assert_eq!(repairs(&topology, &survey, &Settled::default()), wanted);
    let ends = [P1, P2].map(|shard| ShardId::new(shard).unwrap());
    let settled = Settled { busy: BTreeMap::from([(Slot::at(5), BTreeSet::from(ends))]), removed: BTreeSet::new() };
    assert_eq!(drift(&topology, &survey, &settled), [], "an action in flight has opened it");
    assert_eq!(repairs(&topology, &survey, &settled), BTreeMap::new());
}

#[test]
fn a_slot_on_its_way_that_a_third_node_has_is_told_with_how_to_give_it_back() {
    let topology = topology();
    let between = |ends: [&str; 2]| {
        let ends: BTreeSet<ShardId> = ends.into_iter().map(|shard| ShardId::new(shard).unwrap()).collect();
        let busy = [5459, 5460].into_iter().map(|slot| (Slot::at(slot), ends.clone()));
        Settled { busy: busy.collect(), removed: BTreeSet::new() }
    };
    // From P1 to P2 by order; P3 has them.
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&ALL, " 0-5460", " 0-5458");
    texts.edit(&ALL, "10923-16383", "5459-5460 10923-16383");
    let survey = texts.survey(&topology, &[]);
    let found = drift(&topology, &survey, &between([P1, P2]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].slots.len()), (DriftKind::ForeignClaim, 2));
    let what = "2 slots (5459-5460): on their way, and 127.0.0.1:21002 owns them, which takes no part; the table has them at 127.0.0.1:21000";
    assert_eq!(found[0].what, what);
    let back =
        format!("redis-cli --cluster call 127.0.0.1:21000 CLUSTER SETSLOT 5459 NODE {P1} --cluster-only-masters");
    assert!(found[0].advice.starts_with(&back), "{}", found[0].advice);
    assert!(found[0].advice.ends_with("rollout abort, then plan create --repair"), "{}", found[0].advice);
    assert_eq!(repairs(&topology, &survey, &between([P1, P2])).len(), 2);
    // Either end may have them.
    assert_eq!(drift(&topology, &survey, &between([P1, P3])), []);
}

#[test]
fn slots_of_nobody_of_two_and_of_another_are_told_apart() {
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&ALL, "0-5460", "3-5460");
    assert_eq!(
        found(&texts, &[]),
        [(DriftKind::Uncovered, 3, format!("3 slots (0-2): no node owns them; the table gives them to shard {P1}"))]
    );
    // P2 claims one of P1's, and nobody but P2 itself has heard of it.
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&[P2], " 0-5460", " 0-5459");
    texts.edit(&[P2], "5461-10922", "5460-10922");
    let two = format!(
        "slot 5460: 127.0.0.1:21000 and 127.0.0.1:21001 all say that they own them; the table gives them to shard {P1}"
    );
    assert_eq!(found(&texts, &[]), [(DriftKind::TwoOwners, 1, two)]);
    // Everybody agrees that it is P2's: the table still says otherwise.
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&ALL, " 0-5460", " 0-5459");
    texts.edit(&ALL, "5461-10922", "5460-10922");
    let foreign = format!("slot 5460: 127.0.0.1:21001 owns them; the table gives them to shard {P1}");
    assert_eq!(found(&texts, &[]), [(DriftKind::ForeignClaim, 1, foreign)]);
    let topology = topology();
    let repairs = repairs(&topology, &texts.survey(&topology, &[]), &Settled::default());
    assert_eq!(repairs, BTreeMap::from([(Slot::at(5460), ShardId::new(P1).unwrap())]), "the table's owner wins");
}

#[test]
fn one_master_that_lags_behind_is_told_as_disagreement() {
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&[P3], " 0-5460", " 0-5459");
    texts.edit(&[P3], "5461-10922", "5460-10922");
    let what = "slot 5460: 127.0.0.1:21002 takes another node for their owner than that node does";
    assert_eq!(found(&texts, &[]), [(DriftKind::Disagreement, 1, what.to_owned())]);
}

#[test]
fn of_a_silent_node_most_masters_tell_what_it_owns() {
    let texts = Texts::of(HEALTHY);
    let silent = "127.0.0.1:21000: connection refused";
    assert_eq!(found(&texts, &[P1]), [(DriftKind::Unreachable, 0, silent.to_owned())]);
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&[P2, P3], " 0-5460", "");
    let kinds: Vec<_> = found(&texts, &[P1]).into_iter().map(|(kind, slots, _)| (kind, slots)).collect();
    assert_eq!(kinds, [(DriftKind::Uncovered, 5461), (DriftKind::Unreachable, 0)]);
}

#[test]
fn a_failover_is_followed_when_most_masters_have_it() {
    let (demoted, failed) = (format!("slave {R2}"), "master,fail -".to_owned());
    for (eyes, old, silent, follows) in [
        (ALL.to_vec(), &demoted, vec![], true),
        (ALL.to_vec(), &failed, vec![P2], true),
        // The old primary has not heard of it.
        (vec![P1, P3, R1, R2, R3], &failed, vec![], true),
        // Only the new one says so; then one more of three masters; then another is silent.
        (vec![R2], &failed, vec![], false),
        (vec![R2, P1], &failed, vec![P2], true),
        (vec![R2, P1], &failed, vec![P2, P1], false),
        // Everybody says so but the new one itself.
        (vec![P1, P2, P3, R1, R3], &demoted, vec![R2], false),
    ] {
        let mut texts = Texts::of(HEALTHY);
        promote(&mut texts, &eyes, old);
        let expected = if follows { vec![(P2.to_owned(), R2.to_owned())] } else { vec![] };
        assert_eq!(followed(&texts, &silent), expected, "{eyes:?} {old} {silent:?}");
        let found = found(&texts, &silent);
        assert_eq!(found.iter().any(|(kind, ..)| *kind == DriftKind::Failover), follows, "{found:?}");
        let foreign = [DriftKind::Uncovered, DriftKind::ForeignClaim, DriftKind::TwoOwners];
        assert!(!found.iter().any(|(kind, ..)| foreign.contains(kind)), "no slot left its shard: {found:?}");
    }
}

#[test]
fn a_node_of_another_shard_that_took_over_is_not_followed() {
    // R3 has taken P2's slots: no failover inside a shard.
    let mut texts = Texts::of(HEALTHY);
    for node in ALL {
        let me = |other: &str| if node == other { "myself," } else { "" };
        let text = texts.0.get_mut(node).unwrap();
        let lines = text.lines().map(|line| match line {
            _ if line.starts_with(P2) => format!("{P2} 127.0.0.1:21001@31001 {}slave {R3} 0 0 9 connected", me(P2)),
            _ if line.starts_with(R2) => format!("{R2} 127.0.0.1:21011@31011 {}slave {R3} 0 0 9 connected", me(R2)),
            _ if line.starts_with(R3) => {
                format!("{R3} 127.0.0.1:21012@31012 {}master - 0 0 9 connected 5461-10922", me(R3))
            }
            _ => line.to_owned(),
        });
        *text = lines.collect::<Vec<_>>().join("\n");
    }
    assert_eq!(followed(&texts, &[]), []);
    let found = found(&texts, &[]);
    let kinds: Vec<_> = found.iter().map(|(kind, slots, _)| (*kind, *slots)).collect();
    let elsewhere = (DriftKind::ReplicaElsewhere, 0);
    assert_eq!(kinds, [(DriftKind::ForeignClaim, 5462), elsewhere, elsewhere, elsewhere], "{found:#?}");
}

#[test]
fn a_replica_that_was_reset_has_not_taken_over() {
    let mut texts = Texts::of(HEALTHY);
    texts.edit(&ALL, &format!("slave {P2} "), "master - ");
    assert_eq!(followed(&texts, &[]), []);
    let found = found(&texts, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, DriftKind::ReplicaElsewhere);
    assert!(found[0].2.contains("127.0.0.1:21011") && found[0].2.contains("says that it is a master"), "{found:?}");
}

#[test]
fn members_that_are_not_in_the_table_and_the_other_way_round() {
    const NEW: &str = "00000000000000000000000000000000000000aa";
    let mut texts = Texts::of(HEALTHY);
    for node in [P1, P2] {
        let text = texts.0.get_mut(node).unwrap();
        text.push('\n');
        text.push_str(NEW);
        text.push_str(" 127.0.0.1:21099@31099 master - 0 0 0 connected");
    }
    let told =
        format!("node {NEW} at 127.0.0.1:21099 is not in the table, and known to 127.0.0.1:21000, 127.0.0.1:21001");
    assert_eq!(found(&texts, &[]), [(DriftKind::UnknownNode, 0, told)]);
    let topology = topology();
    let settled = Settled { busy: BTreeMap::new(), removed: BTreeSet::from([id(NEW)]) };
    let found_again = drift(&topology, &texts.survey(&topology, &[]), &settled);
    assert!(found_again[0].what.contains("was removed and is known to"), "{found_again:?}");
    texts.edit(&[P1, P2], " master - 0 0 0", " handshake - 0 0 0");
    assert!(found(&texts, &[])[0].2.contains("is in handshake"));

    let mut texts = Texts::of(HEALTHY);
    let text = texts.0.get_mut(P3).unwrap();
    *text = text.lines().filter(|line| !line.starts_with(R1)).collect::<Vec<_>>().join("\n");
    let told = "127.0.0.1:21002 does not know 127.0.0.1:21010";
    assert_eq!(found(&texts, &[]), [(DriftKind::MissingNode, 0, told.to_owned())]);
}

#[test]
fn another_node_at_the_address_is_told_and_counts_for_nothing() {
    let topology = topology();
    let texts = Texts::of(HEALTHY);
    let mut survey = texts.survey(&topology, &[]);
    let other = survey.nodes[&id(P2)].answer.clone();
    survey.nodes.get_mut(&id(R2)).unwrap().answer = other;
    let found = drift(&topology, &survey, &Settled::default());
    let kinds: Vec<_> = found.iter().map(|drift| drift.kind).collect();
    assert_eq!(kinds, [DriftKind::OtherNode]);
    assert!(found[0].what.contains(P2) && found[0].what.contains(R2), "{}", found[0].what);
}

#[test]
fn who_was_given_up_is_not_missed() {
    let (mut topology, texts) = (topology(), Texts::of(HEALTHY));
    for shard in &mut topology.shards {
        shard.replicas.iter_mut().filter(|node| node.id == id(R1)).for_each(|node| node.state = NodeState::Lost);
    }
    let survey = texts.survey(&topology, &[R1]);
    assert_eq!(drift(&topology, &survey, &Settled::default()), []);
}

proptest! {
    /// Whatever the nodes own: each slot is in exactly one of the findings about owners, or as the table has it.
    #[test]
    fn every_slot_is_told_once(runs in proptest::collection::vec((0..SLOT_COUNT, 0..5_usize), 1..12)) {
        let mut topology = topology();
        let texts = Texts::of(HEALTHY);
        let shards: Vec<ShardId> = topology.table.shards().to_vec();
        let mut table = SlotTable::with_shards(shards.clone()).unwrap();
        for (start, owner) in &runs {
            let range = SlotRange::new(Slot::at(*start), Slot::at((start + 3000).min(SLOT_COUNT - 1))).unwrap();
            table.assign(range, shards.get(*owner)).unwrap();
        }
        let before = topology.table.clone();
        topology.table = table;
        let survey = texts.survey(&topology, &[]);
        let mut told = SlotSet::new();
        for drift in drift(&topology, &survey, &Settled::default()) {
            prop_assert_eq!(drift.kind, DriftKind::ForeignClaim);
            for slot in drift.slots.iter() {
                prop_assert!(told.insert(slot), "slot {} is told twice", slot);
            }
        }
        let differing: SlotSet = before.differing_slots(&topology.table).collect();
        prop_assert_eq!(&told, &differing);
        let repaired: SlotSet = repairs(&topology, &survey, &Settled::default()).into_keys().collect();
        let owned: SlotSet = differing.iter().filter(|slot| topology.table.owner(*slot).is_some()).collect();
        prop_assert_eq!(repaired, owned, "a slot without an owner by the table is nobody's to repair");
    }
}

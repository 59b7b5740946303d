//! Whether the views of all masters are one: pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{NodeId, SLOT_COUNT, Slot, SlotSet};
use crate::nodes_text::{Flag, Role, View};

/// Most sentences about what does not agree.
const SENTENCES_MAX: usize = 8;

/// Why the views do not make a cluster that can be adopted, a sentence each, none when they do: `seen` are the views by the
/// address they come from, the first of them the seed's.
pub(super) fn faults(seen: &[(String, View)]) -> Vec<String> {
    let Some(((first_at, first), others)) = seen.split_first() else { return Vec::new() };
    let mut faults = Vec::new();
    // The seed is asked once more among the masters.
    let mut told = BTreeSet::new();
    for (at, view) in seen.iter().filter(|(at, _)| told.insert(at)) {
        for open in view.myself().into_iter().flat_map(|me| &me.open).take(SENTENCES_MAX) {
            let (way, other) = match &open.flag {
                Flag::Migrating(to) => ("migrating to", to),
                Flag::Importing(from) => ("importing from", from),
            };
            let other = named(view, other);
            faults.push(format!("slot {} is open at {at}: {way} {other}", open.slot));
        }
        for node in view.nodes.iter().filter(|node| node.role == Role::Handshake) {
            faults.push(format!("{at} has node {} in handshake", node.id));
        }
    }
    let (members, owners) = (members(first), owners(first));
    for (at, view) in others {
        let theirs = self::members(view);
        let (mine, other): (BTreeSet<&NodeId>, BTreeSet<&NodeId>) =
            (members.keys().copied().collect(), theirs.keys().copied().collect());
        for node in mine.difference(&other) {
            faults.push(format!("{first_at} knows node {node}, and {at} does not"));
        }
        for node in other.difference(&mine) {
            faults.push(format!("{at} knows node {node}, and {first_at} does not"));
        }
        for (node, role) in members.iter().filter(|(node, role)| theirs.get(*node).is_some_and(|their| their != *role))
        {
            let shown = |master: Option<&NodeId>| master.map_or("a master".to_owned(), |m| format!("a replica of {m}"));
            let (mine, their) = (shown(*role), shown(theirs[node]));
            faults.push(format!("node {node} is {mine} for {first_at}, and {their} for {at}"));
        }
        let their_owners = self::owners(view);
        let differing: SlotSet =
            Slot::all().filter(|slot| owners[slot.index()] != their_owners[slot.index()]).collect();
        if !differing.is_empty() {
            faults.push(format!("slots {differing} have other owners for {at} than for {first_at}"));
        }
    }
    let uncovered: SlotSet = Slot::all().filter(|slot| owners[slot.index()].is_none()).collect();
    if !uncovered.is_empty() {
        faults.push(format!("slots {uncovered} are owned by no master"));
    }
    let more = faults.len().saturating_sub(SENTENCES_MAX);
    faults.truncate(SENTENCES_MAX);
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    faults
}

/// A node by the address that a view has for it; else by its id.
fn named(view: &View, id: &NodeId) -> String {
    let host = view.node(id).and_then(|node| Some((node.host.as_ref()?, node.port)));
    host.map_or_else(|| id.to_string(), |(host, port)| super::super::link::printed(host, port))
}

/// Who is a member, and whose replica.
fn members(view: &View) -> BTreeMap<&NodeId, Option<&NodeId>> {
    let members = view.nodes.iter().filter_map(|node| match &node.role {
        Role::Master => Some((&node.id, None)),
        Role::ReplicaOf(master) => Some((&node.id, Some(master))),
        Role::Handshake | Role::Unknown => None,
    });
    members.collect()
}

fn owners(view: &View) -> Vec<Option<&NodeId>> {
    let mut owners = vec![None; SLOT_COUNT];
    for node in &view.nodes {
        for slot in node.ranges.iter().flat_map(|range| range.slots()) {
            owners[slot.index()] = Some(&node.id);
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes_text::view;

    const HEALTHY: &str = include_str!("../../../../tests/fixtures/redis/01-3m3r.nodes.txt");

    fn seen(texts: &[&str]) -> Vec<(String, View)> {
        (1..).zip(texts).map(|(n, text)| (format!("node-{n}"), view(text.as_bytes(), None).unwrap())).collect()
    }

    #[test]
    fn views_that_agree_have_no_fault() {
        assert_eq!(faults(&seen(&[HEALTHY, HEALTHY, HEALTHY])), Vec::<String>::new());
    }

    #[test]
    fn each_disagreement_names_who_and_what() {
        let without = HEALTHY.lines().filter(|line| !line.starts_with("58f6a")).collect::<Vec<_>>().join("\n");
        let shake = format!("{HEALTHY}{} 127.0.0.1:1@2 handshake - 0 0 0 connected\n", "a".repeat(40));
        let replica = HEALTHY.replace("slave 256f8fad71da49fc9bd8d75955ece32c6c0cd817", "master -");
        for (second, words) in [
            (without.clone(), "node-1 knows node 58f6a492148a6f0d4cd4f1d33908e7e44750ffd6, and node-2 does not"),
            (shake, "node-2 has node aaaa"),
            (
                replica,
                "node 58f6a492148a6f0d4cd4f1d33908e7e44750ffd6 is a replica of 256f8fad71da49fc9bd8d75955ece32c6c0cd817 for node-1, and a master for node-2",
            ),
            (HEALTHY.replace("0-5460", "1-5460"), "slots 0 have other owners for node-2 than for node-1"),
            (
                include_str!("../../../../tests/fixtures/redis/02-midmigration-source.nodes.txt").to_owned(),
                "slot 5 is open at node-2: migrating to 127.0.0.1:21001",
            ),
        ] {
            let faults = faults(&seen(&[HEALTHY, &second]));
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].starts_with(words), "{faults:?}");
        }
        let swapped = faults(&seen(&[&without, HEALTHY]));
        assert_eq!(swapped, ["node-2 knows node 58f6a492148a6f0d4cd4f1d33908e7e44750ffd6, and node-1 does not"]);
        let holes = HEALTHY.replace("10923-16383", "10923-16000");
        assert_eq!(faults(&seen(&[&holes, &holes])), ["slots 16001-16383 are owned by no master"]);
    }

    #[test]
    fn an_open_slot_is_told_once_though_the_seed_is_asked_twice() {
        let open = include_str!("../../../../tests/fixtures/redis/02-midmigration-source.nodes.txt");
        let twice = view(open.as_bytes(), None).unwrap();
        let faults = faults(&[("seed".to_owned(), twice.clone()), ("seed".to_owned(), twice)]);
        assert_eq!(faults, ["slot 5 is open at seed: migrating to 127.0.0.1:21001"]);
    }

    #[test]
    fn many_faults_are_cut() {
        let text = HEALTHY.lines().filter(|line| line.contains("myself")).collect::<Vec<_>>().join("\n");
        let all = faults(&seen(&[HEALTHY, &text, &text]));
        assert_eq!((all.len(), all[8].as_str()), (9, "and 4 more"), "{all:#?}");
    }
}

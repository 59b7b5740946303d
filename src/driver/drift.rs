//! Where the nodes are not as the table has them, from one survey: pure. The table is never changed by it, but for a
//! primary that changed inside its shard, which [`failovers`] tells apart.
//!
//! What a node owns is what it says of itself; of a node that does not answer, what most of the masters say of it.

mod seen;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use self::seen::Seen;
use super::nodes::Survey;
use crate::domain::{NodeId, ShardId, Slot, SlotSet, Topology};
use crate::nodes_text::{Flag, Role};

/// One difference between nodes and table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// What kind.
    pub kind: DriftKind,
    /// The node it is about, where it is about one.
    pub node: Option<NodeId>,
    /// Its shard, or the shard that should own the slots.
    pub shard: Option<ShardId>,
    /// The slots it is about.
    pub slots: SlotSet,
    /// What is so, a sentence that names nodes by their addresses.
    pub what: String,
    /// What to do.
    pub advice: Cow<'static, str>,
}

/// The kinds of differences, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriftKind {
    /// Nobody owns slots that the table gives to somebody.
    Uncovered,
    /// Nodes of different shards say that they own a slot.
    TwoOwners,
    /// A node owns what the table gives to another shard, or to nobody.
    ForeignClaim,
    /// A slot is open and no action in flight is about it.
    OpenSlot,
    /// A node does not answer.
    Unreachable,
    /// Another node answers at the address.
    OtherNode,
    /// Another node of the shard is its primary.
    Failover,
    /// A node copies another shard than the table says, or none.
    ReplicaElsewhere,
    /// Nodes know one that is not in the table.
    UnknownNode,
    /// Nodes do not know one that is in the table.
    MissingNode,
    /// A master takes another node for the owner of slots than that node does.
    Disagreement,
}

impl DriftKind {
    /// Its stable name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uncovered => "uncovered",
            Self::TwoOwners => "two-owners",
            Self::ForeignClaim => "foreign-claim",
            Self::OpenSlot => "open-slot",
            Self::Unreachable => "unreachable",
            Self::OtherNode => "other-node",
            Self::Failover => "failover",
            Self::ReplicaElsewhere => "replica-elsewhere",
            Self::UnknownNode => "unknown-node",
            Self::MissingNode => "missing-node",
            Self::Disagreement => "disagreement",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Uncovered | Self::TwoOwners | Self::OpenSlot => "plan create --repair",
            Self::ForeignClaim => {
                "plan create --repair takes the slots to the table's owner; slots without one get it from plan create"
            }
            Self::Unreachable => "start it, or node drain --lost",
            Self::OtherNode => "node set its address, or remove the node and add the new one",
            Self::Failover => "nothing: it is followed when most masters agree",
            Self::ReplicaElsewhere => "CLUSTER REPLICATE it back, or remove it and add it where it is",
            Self::UnknownNode => "node add it, or CLUSTER FORGET it on every node",
            Self::MissingNode => "node remove it and add it again, or CLUSTER MEET it",
            Self::Disagreement => "wait for gossip; when it stays, plan create --repair",
        }
    }
}

/// What is known to be under way, or was settled before.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Slots of actions in flight, open by order, each with the shards between which it moves.
    pub busy: BTreeMap<Slot, BTreeSet<ShardId>>,
    /// Nodes that were removed.
    pub removed: BTreeSet<NodeId>,
}

/// A primary that changed inside its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The shard.
    pub shard: ShardId,
    /// The primary by the table.
    pub from: NodeId,
    /// The primary by the nodes.
    pub to: NodeId,
}

/// Every difference, the most urgent first.
#[must_use]
pub fn drift(topology: &Topology, survey: &Survey, settled: &Settled) -> Vec<Drift> {
    let seen = Seen::new(topology, survey);
    let mut found = claims(&seen, settled);
    found.extend(strangers(&seen, settled));
    found.extend(open(&seen, settled));
    found.extend(silence(&seen));
    found.extend(roles(&seen));
    found.extend(membership(&seen, settled));
    found.extend(disagreement(&seen, settled));
    found.sort_by(|a, b| (a.kind, &a.shard, &a.node).cmp(&(b.kind, &b.shard, &b.node)));
    found
}

/// The primaries that changed inside their shards: the new one says so, and so do most of the masters.
#[must_use]
pub fn failovers(topology: &Topology, survey: &Survey) -> Vec<Failover> {
    let seen = Seen::new(topology, survey);
    topology.shards.iter().filter_map(|shard| seen.failover(shard)).collect()
}

/// The slots that a repair would bring to their owners by the table, with the primaries' shards: open ones, those that
/// nobody or more than one owns, and those that a node of another shard claims.
#[must_use]
pub fn repairs(topology: &Topology, survey: &Survey, settled: &Settled) -> BTreeMap<Slot, ShardId> {
    let kinds = [DriftKind::Uncovered, DriftKind::TwoOwners, DriftKind::ForeignClaim, DriftKind::OpenSlot];
    let found = drift(topology, survey, settled);
    let slots = found.iter().filter(|drift| kinds.contains(&drift.kind)).flat_map(|drift| drift.slots.iter());
    slots.filter_map(|slot| Some((slot, topology.table.owner(slot)?.clone()))).collect()
}

fn finding(kind: DriftKind, what: String) -> Drift {
    Drift { kind, node: None, shard: None, slots: SlotSet::new(), what, advice: kind.advice().into() }
}

/// How slots that somebody gave away are given back, where no keys went with them: to be run by hand.
#[must_use]
pub fn give_back(slot: Slot, more: bool, at: &impl Display, owner: &NodeId) -> String {
    let each = if more { " (the same for each of them)" } else { "" };
    format!("redis-cli --cluster call {at} CLUSTER SETSLOT {slot} NODE {owner} --cluster-only-masters{each}")
}

/// Who owns what, against the table: one finding of each set of owners and each shard that should own.
fn claims(seen: &Seen<'_>, settled: &Settled) -> Vec<Drift> {
    let mut found: BTreeMap<(DriftKind, Vec<&NodeId>, Option<&ShardId>), SlotSet> = BTreeMap::new();
    for slot in Slot::all().filter(|slot| !settled.busy.contains_key(slot)) {
        let owner = seen.topology.table.owner(slot);
        let claimants = &seen.claims[slot.index()];
        let shards: BTreeSet<Option<&ShardId>> = claimants.iter().map(|node| seen.shard_of(node)).collect();
        let kind = match (claimants.as_slice(), owner) {
            ([], None) => continue,
            ([], Some(_)) => DriftKind::Uncovered,
            _ if shards.len() > 1 || shards.first() == Some(&None) && claimants.len() > 1 => DriftKind::TwoOwners,
            _ if shards.first() == Some(&owner) && owner.is_some() => continue,
            _ => DriftKind::ForeignClaim,
        };
        found.entry((kind, claimants.clone(), owner)).or_default().insert(slot);
    }
    let tell = |((kind, claimants, owner), slots): ((DriftKind, Vec<&NodeId>, Option<&ShardId>), SlotSet)| {
        let names: Vec<String> = claimants.iter().map(|node| seen.name(node)).collect();
        let table = owner.map_or_else(|| "nobody".to_owned(), |shard| format!("shard {shard}"));
        let which = named(&slots);
        let what = match kind {
            DriftKind::Uncovered => format!("{which}: no node owns them; the table gives them to {table}"),
            DriftKind::TwoOwners => {
                format!("{which}: {} all say that they own them; the table gives them to {table}", names.join(" and "))
            }
            _ => format!("{which}: {} owns them; the table gives them to {table}", names.join(" and ")),
        };
        let node = claimants.first().map(|node| (*node).clone());
        Drift { node, shard: owner.cloned(), slots, ..finding(kind, what) }
    };
    found.into_iter().map(tell).collect()
}

/// Slots in flight that belong to a node of neither end: nobody ordered that.
fn strangers(seen: &Seen<'_>, settled: &Settled) -> Vec<Drift> {
    let mut found: BTreeMap<(&NodeId, Option<&ShardId>), SlotSet> = BTreeMap::new();
    for (slot, ends) in &settled.busy {
        for node in &seen.claims[slot.index()] {
            if seen.shard_of(node).is_none_or(|shard| !ends.contains(shard)) {
                found.entry((*node, seen.topology.table.owner(*slot))).or_default().insert(*slot);
            }
        }
    }
    let tell = |((node, owner), slots): ((&NodeId, Option<&ShardId>), SlotSet)| {
        let home = owner.and_then(|id| seen.topology.shards.iter().find(|shard| shard.id == *id));
        let table = home.map_or_else(|| "nobody".to_owned(), |shard| shard.primary.to_string());
        let (which, who) = (named(&slots), seen.name(node));
        let what =
            format!("{which}: on their way, and {who} owns them, which takes no part; the table has them at {table}");
        let shard = owner.cloned();
        let first = slots.iter().next().expect("a slot that was found");
        let back = home.map(|shard| give_back(first, slots.len() > 1, &shard.primary, &shard.primary.id));
        let back = back.map_or_else(String::new, |back| format!("{back}, then rollout resume; or "));
        let advice = format!("{back}rollout abort, then plan create --repair").into();
        Drift { node: Some(node.clone()), shard, slots, advice, ..finding(DriftKind::ForeignClaim, what) }
    };
    found.into_iter().map(tell).collect()
}

/// Flags that no action in flight has set.
fn open(seen: &Seen<'_>, settled: &Settled) -> Vec<Drift> {
    let mut found: BTreeMap<(&NodeId, &Flag), SlotSet> = BTreeMap::new();
    for (node, view) in &seen.views {
        let flags = view.myself().into_iter().flat_map(|me| &me.open);
        for open in flags.filter(|open| !settled.busy.contains_key(&open.slot)) {
            found.entry((*node, &open.flag)).or_default().insert(open.slot);
        }
    }
    let tell = |((node, flag), slots): ((&NodeId, &Flag), SlotSet)| {
        let (way, other) = match flag {
            Flag::Migrating(other) => ("migrating to", other),
            Flag::Importing(other) => ("importing from", other),
        };
        let what = format!("{}: {} has them {way} {}", named(&slots), seen.name(node), seen.name(other));
        let shard = seen.shard_of(node).cloned();
        Drift { node: Some(node.clone()), shard, slots, ..finding(DriftKind::OpenSlot, what) }
    };
    found.into_iter().map(tell).collect()
}

/// Nodes that do not answer, or that others answer for.
fn silence(seen: &Seen<'_>) -> Vec<Drift> {
    let about = |node: &NodeId, kind, what| Drift {
        node: Some(node.clone()),
        shard: seen.shard_of(node).cloned(),
        ..finding(kind, what)
    };
    let mut found = Vec::new();
    for (id, node) in &seen.survey.nodes {
        match &node.answer {
            Err(_) if seen.is_lost(id) => {}
            Err(why) => found.push(about(id, DriftKind::Unreachable, format!("{}: {why}", node.address))),
            Ok(answer) => match answer.view.myself() {
                Some(me) if me.id == *id => {}
                Some(me) => {
                    let what = format!("{} answers as {}, not as {id}", node.address, me.id);
                    found.push(about(id, DriftKind::OtherNode, what));
                }
                None => {
                    let what = format!("{} does not say which node it is", node.address);
                    found.push(about(id, DriftKind::OtherNode, what));
                }
            },
        }
    }
    found
}

/// Primaries and replicas against the table.
fn roles(seen: &Seen<'_>) -> Vec<Drift> {
    let mut found = Vec::new();
    for shard in &seen.topology.shards {
        let failover = seen.failover(shard);
        if let Some(Failover { from, to, .. }) = &failover {
            let what = format!("{} is primary of shard {}, not {}", seen.name(to), shard.id, seen.name(from));
            let (node, shard) = (Some(to.clone()), Some(shard.id.clone()));
            found.push(Drift { node, shard, ..finding(DriftKind::Failover, what) });
        }
        for node in std::iter::once(&shard.primary).chain(&shard.replicas) {
            let Some(role) = seen.role(&node.id) else { continue };
            let is_primary = failover.as_ref().map_or(node.id == shard.primary.id, |failover| failover.to == node.id);
            let name = seen.name(&node.id);
            let what = match role {
                Role::ReplicaOf(master) if seen.shard_of(master) != Some(&shard.id) => {
                    format!("{name} of shard {} copies {}", shard.id, seen.name(master))
                }
                Role::ReplicaOf(_) if is_primary && failover.is_none() => {
                    format!("{name} is primary of shard {} by the table, and copies another node of it", shard.id)
                }
                Role::Master if !is_primary => {
                    format!("{name} copies shard {} by the table, and says that it is a master", shard.id)
                }
                _ => continue,
            };
            let (node, shard) = (Some(node.id.clone()), Some(shard.id.clone()));
            found.push(Drift { node, shard, ..finding(DriftKind::ReplicaElsewhere, what) });
        }
    }
    found
}

/// Who is a member for the nodes, against the table.
fn membership(seen: &Seen<'_>, settled: &Settled) -> Vec<Drift> {
    let mut unknown: BTreeMap<&NodeId, (String, bool, Vec<&NodeId>)> = BTreeMap::new();
    let mut missing: BTreeMap<&NodeId, Vec<&NodeId>> = BTreeMap::new();
    for (at, view) in &seen.views {
        for node in view.nodes.iter().filter(|node| seen.shard_of(&node.id).is_none()) {
            let address =
                node.host.as_ref().map_or_else(|| "no address".to_owned(), |host| format!("{host}:{}", node.port));
            let handshake = node.role == Role::Handshake;
            unknown.entry(&node.id).or_insert((address, handshake, Vec::new())).2.push(at);
        }
        let known: BTreeSet<&NodeId> = view.nodes.iter().map(|node| &node.id).collect();
        for node in seen.members.keys().filter(|node| !known.contains(**node) && !seen.is_lost(node)) {
            missing.entry(node).or_default().push(at);
        }
    }
    let tell = |(node, (address, handshake, by)): (&NodeId, (String, bool, Vec<&NodeId>))| {
        let by = seen.names(&by);
        let what = match (handshake, settled.removed.contains(node)) {
            (true, _) => format!("a node at {address} is in handshake, known to {by}"),
            (false, true) => format!("node {node} at {address} was removed and is known to {by} again"),
            (false, false) => format!("node {node} at {address} is not in the table, and known to {by}"),
        };
        Drift { node: Some(node.clone()), ..finding(DriftKind::UnknownNode, what) }
    };
    let mut found: Vec<Drift> = unknown.into_iter().map(tell).collect();
    found.extend(missing.into_iter().map(|(node, by)| {
        let what = format!("{} does not know {}", seen.names(&by), seen.name(node));
        let shard = seen.shard_of(node).cloned();
        Drift { node: Some(node.clone()), shard, ..finding(DriftKind::MissingNode, what) }
    }));
    found
}

/// Masters whose idea of who owns a slot is not that of its one owner.
fn disagreement(seen: &Seen<'_>, settled: &Settled) -> Vec<Drift> {
    let mut found = Vec::new();
    for (at, view) in seen.masters() {
        let mut slots = SlotSet::new();
        let owners = seen::owners(view);
        for slot in Slot::all().filter(|slot| !settled.busy.contains_key(slot)) {
            if let [owner] = seen.claims[slot.index()].as_slice()
                && owners[slot.index()].map(|seen| &seen.id) != Some(*owner)
            {
                slots.insert(slot);
            }
        }
        if !slots.is_empty() {
            let what =
                format!("{}: {} takes another node for their owner than that node does", named(&slots), seen.name(at));
            let shard = seen.shard_of(at).cloned();
            found.push(Drift { node: Some(at.clone()), shard, slots, ..finding(DriftKind::Disagreement, what) });
        }
    }
    found
}

/// `slot 5`, `7 slots (5-9,11,13)`.
fn named(slots: &SlotSet) -> String {
    const RANGES_MAX: usize = 4;
    let ranges = slots.ranges();
    let shown: Vec<String> = ranges.iter().take(RANGES_MAX).map(ToString::to_string).collect();
    let more = if ranges.len() > RANGES_MAX { ",…" } else { "" };
    match slots.len() {
        1 => format!("slot {}", shown.join("")),
        count => format!("{count} slots ({}{more})", shown.join(",")),
    }
}

#[cfg(test)]
mod tests;

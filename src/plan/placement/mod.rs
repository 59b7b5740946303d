//! Which node copies which shard: every active shard gets its copies on different hosts and, as far as there are enough of
//! them, in different zones, with the fewest nodes changed; then every host gets its share of primaries, with the
//! fewest failovers. Both are flows of least cost.
//!
//! A node that serves a shard stays in it: its data is there. A node that is draining or lost counts for nothing and stays
//! where it is. Nodes beyond the copies asked for stay, as further replicas of the shard they are in.

use std::collections::BTreeMap;

use super::PlanError;
use crate::domain::{
    ActionKind, Host, Node, NodeId, NodeState, Placement, PlacementGoal, Shard, ShardState, Spread, Zone,
};

mod copies;
mod deal;
mod error;
mod primaries;
#[cfg(test)]
mod tests;

pub use error::PlacementError;

/// What the placement looks at.
#[derive(Clone, Copy, Debug)]
pub struct PlacementInput<'a> {
    /// Every shard of the cluster, ascending by id, with its desired state.
    pub shards: &'a [Shard],
    /// The nodes of the shards.
    pub nodes: &'a BTreeMap<&'a NodeId, &'a Node>,
}

/// A placement and the actions that reach it, in waves: each waits for the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where every copy is then, and the proof.
    pub placement: Placement,
    /// Members take over; then nodes change their shard; then primaries go to nodes that came.
    pub waves: Vec<Vec<ActionKind>>,
}

/// Places the copies of every active shard.
///
/// # Errors
/// [`PlacementError`] naming what is missing.
pub fn place(input: &PlacementInput<'_>, goal: PlacementGoal) -> Result<Placed, PlanError> {
    let grounds = Grounds::new(input, goal)?;
    let chosen = copies::choose(&grounds)?;
    Ok(primaries::finish(&grounds, &chosen))
}

/// The input by index.
struct Grounds<'a> {
    goal: PlacementGoal,
    /// Primary and replicas that each shard is to have.
    copies: u32,
    /// Most copies of a shard in one zone.
    per_zone: u32,
    zones: usize,
    /// The active shards, ascending.
    shards: Vec<&'a Shard>,
    /// The node that serves each shard; where its primary is not active, the replica that takes over.
    serving: Vec<usize>,
    hosts: Vec<HostOf<'a>>,
    /// The active nodes, ascending.
    nodes: Vec<NodeOf<'a>>,
    /// The other nodes of active shards, ascending.
    left_out: Vec<&'a NodeId>,
}

/// The nodes of one address in one zone.
struct HostOf<'a> {
    name: &'a Host,
    zone_name: Option<&'a Zone>,
    zone: usize,
    /// Its nodes, ascending.
    nodes: Vec<usize>,
}

struct NodeOf<'a> {
    id: &'a NodeId,
    host: usize,
    shard: usize,
}

impl<'a> Grounds<'a> {
    fn new(input: &PlacementInput<'a>, goal: PlacementGoal) -> Result<Self, PlacementError> {
        if goal.replicas == 0 {
            return Err(PlacementError::NoReplicas);
        }
        let shards: Vec<&Shard> = input.shards.iter().filter(|shard| shard.state == ShardState::Active).collect();
        let (mut members, mut left_out): (Vec<(&Node, usize)>, Vec<&NodeId>) = (Vec::new(), Vec::new());
        for (index, shard) in shards.iter().enumerate() {
            let known = shard.nodes().map(|id| input.nodes.get(id).copied().ok_or_else(|| id.clone()));
            for node in known {
                let node = node.map_err(|node| PlacementError::UnknownNode { node })?;
                if node.state == NodeState::Active {
                    members.push((node, index));
                } else {
                    left_out.push(&node.id);
                }
            }
        }
        left_out.sort();
        members.sort_by(|a, b| a.0.id.cmp(&b.0.id));
        if goal.spread == Spread::Zone {
            let without: Vec<NodeId> =
                members.iter().filter(|(node, _)| node.zone.is_none()).map(|(node, _)| node.id.clone()).collect();
            if !without.is_empty() {
                return Err(PlacementError::ZonesUnknown { nodes: without });
            }
        }
        let (hosts, nodes, zones) = hosts(&members, goal.spread);
        let copies = u32::from(goal.replicas) + 1;
        if hosts.len() < copies as usize && !shards.is_empty() {
            return Err(PlacementError::FewHosts { copies, hosts: hosts.len() });
        }
        let per_zone = copies.div_ceil(u32::try_from(zones.max(1)).expect("at most one zone a node"));
        let serving = Vec::new();
        let mut grounds = Self { goal, copies, per_zone, zones, shards, serving, hosts, nodes, left_out };
        grounds.serving = (0..grounds.shards.len()).map(|shard| grounds.serving(shard)).collect();
        Ok(grounds)
    }

    /// The primary, or the first active replica.
    fn serving(&self, shard: usize) -> usize {
        let index = |id: &NodeId| self.nodes.binary_search_by(|node| node.id.cmp(id)).ok();
        self.shards[shard].nodes().find_map(index).expect("an active shard has an active node")
    }

    /// Whether the primary that a shard has now goes on serving it, unless another is chosen.
    fn keeps_primary(&self, shard: usize) -> bool {
        *self.nodes[self.serving[shard]].id == self.shards[shard].primary
    }
}

/// The hosts, ascending by zone and name; the nodes with their host; the number of zones to spread over.
fn hosts<'a>(members: &[(&'a Node, usize)], spread: Spread) -> (Vec<HostOf<'a>>, Vec<NodeOf<'a>>, usize) {
    let mut zones: BTreeMap<Option<&Zone>, usize> = BTreeMap::new();
    let mut found: BTreeMap<(Option<&Zone>, &Host), Vec<usize>> = BTreeMap::new();
    for (index, (node, _)) in members.iter().enumerate() {
        let zone = node.zone.as_ref();
        zones.insert(zone, 0);
        found.entry((zone, &node.host)).or_default().push(index);
    }
    zones.values_mut().enumerate().for_each(|(index, zone)| *zone = index);
    // Where hosts alone matter, all of them are one zone that takes every copy.
    let one = spread == Spread::Host;
    let mut nodes: Vec<NodeOf<'a>> =
        members.iter().map(|(node, shard)| NodeOf { id: &node.id, host: 0, shard: *shard }).collect();
    let mut hosts = Vec::with_capacity(found.len());
    for (index, ((zone, name), of_host)) in found.into_iter().enumerate() {
        for &node in &of_host {
            nodes[node].host = index;
        }
        hosts.push(HostOf { name, zone_name: zone, zone: if one { 0 } else { zones[&zone] }, nodes: of_host });
    }
    let count = if one { usize::from(!hosts.is_empty()) } else { zones.len() };
    (hosts, nodes, count)
}

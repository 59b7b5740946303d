//! A survey by what is looked up in it: who is in which shard, who says what, who owns what.

use std::collections::BTreeMap;

use super::Failover;
use crate::domain::{Address, NodeId, NodeState, SLOT_COUNT, ShardId, Topology, TopologyShard};
use crate::driver::nodes::Survey;
use crate::nodes_text::{Role, Seen as Line, View};

/// Most names of nodes in one sentence.
const NAMES_MAX: usize = 3;

pub(super) struct Seen<'a> {
    pub topology: &'a Topology,
    pub survey: &'a Survey,
    /// The shard of each node, its address by the table, and whether it is given up.
    pub members: BTreeMap<&'a NodeId, (&'a ShardId, Address, bool)>,
    /// What each node sees that answers as itself.
    pub views: Vec<(&'a NodeId, &'a View)>,
    /// Who says of each slot that it owns it, ascending.
    pub claims: Vec<Vec<&'a NodeId>>,
}

impl<'a> Seen<'a> {
    pub fn new(topology: &'a Topology, survey: &'a Survey) -> Self {
        let mut members = BTreeMap::new();
        for shard in &topology.shards {
            for node in std::iter::once(&shard.primary).chain(&shard.replicas) {
                members.insert(&node.id, (&shard.id, Address::from(node), node.state == NodeState::Lost));
            }
        }
        let is_itself = |id: &NodeId, view: &View| view.myself().is_some_and(|me| me.id == *id);
        let views = survey.answers().map(|(id, answer)| (id, &answer.view));
        let views = views.filter(|(id, view)| members.contains_key(*id) && is_itself(id, view)).collect();
        let mut seen = Self { topology, survey, members, views, claims: Vec::new() };
        seen.claims = seen.all_claims();
        seen
    }

    pub fn shard_of(&self, node: &NodeId) -> Option<&'a ShardId> {
        self.members.get(node).map(|(shard, ..)| *shard)
    }

    pub fn is_lost(&self, node: &NodeId) -> bool {
        self.members.get(node).is_some_and(|(.., lost)| *lost)
    }

    /// A node by its address; by its id when it is not in the table.
    pub fn name(&self, node: &NodeId) -> String {
        self.members.get(node).map_or_else(|| node.to_string(), |(_, address, _)| address.to_string())
    }

    pub fn names(&self, nodes: &[&NodeId]) -> String {
        let shown: Vec<String> = nodes.iter().take(NAMES_MAX).map(|node| self.name(node)).collect();
        let more = nodes.len().saturating_sub(NAMES_MAX);
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    }

    /// What a node says of its own role.
    pub fn role(&self, node: &NodeId) -> Option<&'a Role> {
        self.view(node)?.myself().map(|me| &me.role)
    }

    /// The nodes that say of themselves that they are masters.
    pub fn masters(&self) -> impl Iterator<Item = (&'a NodeId, &'a View)> {
        let is_master = |view: &View| view.myself().is_some_and(|me| me.role == Role::Master);
        self.views.iter().copied().filter(move |(_, view)| is_master(view))
    }

    /// The node of the shard that took over from the primary: it says so, and most of the masters do.
    pub fn failover(&self, shard: &TopologyShard) -> Option<Failover> {
        let old = &shard.primary.id;
        let by_itself = |node: &NodeId| self.role(node) == Some(&Role::Master);
        let voters = self.masters().count().max(self.topology.shards.len());
        let took_over = |node: &&NodeId| {
            let agreeing = self.masters().filter(|(_, view)| self.says_primary(view, &shard.id, node, old)).count();
            by_itself(node) && agreeing * 2 > voters
        };
        let to = shard.replicas.iter().map(|node| &node.id).find(took_over)?;
        Some(Failover { shard: shard.id.clone(), from: old.clone(), to: to.clone() })
    }

    /// Whether a view has a node for the primary of its shard in the place of another one: what the shard owns is the
    /// new one's, or the old one copies it. An empty master beside an empty master has not taken over: it was reset.
    fn says_primary(&self, view: &View, shard: &ShardId, new: &NodeId, old: &NodeId) -> bool {
        let Some(now) = view.node(new).filter(|node| node.role == Role::Master) else { return false };
        let mut slots = now.ranges.iter().flat_map(|range| range.slots());
        let serves = slots.any(|slot| self.topology.table.owner(slot) == Some(shard));
        match view.node(old) {
            None => serves,
            Some(old) => old.role == Role::ReplicaOf(new.clone()) || serves && old.ranges.is_empty(),
        }
    }

    fn view(&self, node: &NodeId) -> Option<&'a View> {
        self.views.binary_search_by(|(id, _)| (*id).cmp(node)).ok().map(|at| self.views[at].1)
    }

    fn all_claims(&self) -> Vec<Vec<&'a NodeId>> {
        let mut claims: Vec<Vec<&'a NodeId>> = vec![Vec::new(); SLOT_COUNT];
        let own = self.views.iter().filter_map(|(id, view)| Some((*id, view.myself()?)));
        for (id, me) in own {
            for slot in me.ranges.iter().flat_map(|range| range.slots()) {
                claims[slot.index()].push(id);
            }
        }
        // Of who does not answer, or is not in the table, most of the masters tell.
        let masters: Vec<_> = self.masters().collect();
        let mut told: BTreeMap<(usize, &'a NodeId), usize> = BTreeMap::new();
        for (_, view) in &masters {
            for (index, owner) in owners(view).into_iter().enumerate() {
                if let Some(owner) = owner.filter(|owner| self.view(&owner.id).is_none()) {
                    *told.entry((index, &owner.id)).or_default() += 1;
                }
            }
        }
        for ((index, owner), votes) in told {
            if votes * 2 > masters.len() {
                claims[index].push(owner);
            }
        }
        for claimants in &mut claims {
            claimants.sort();
        }
        claims
    }
}

/// The owner of each slot by a view.
pub(super) fn owners(view: &View) -> Vec<Option<&Line>> {
    let mut owners = vec![None; SLOT_COUNT];
    for line in &view.nodes {
        for slot in line.ranges.iter().flat_map(|range| range.slots()) {
            owners[slot.index()] = Some(line);
        }
    }
    owners
}

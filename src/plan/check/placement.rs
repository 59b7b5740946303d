//! The placement of copies: that the actions lead where the plan says, that no two copies meet where they must not, and
//! that nothing better exists. For that it draws what could still be exchanged, without the hubs of the planner's network,
//! and looks for a cycle of negative cost: a flow costs the least exactly when there is none.

use std::collections::{BTreeMap, BTreeSet};

use super::super::PlacementInput;
use super::Faults;
use crate::domain::{
    ActionKind, Host, Node, NodeId, NodeState, PlacedHost, PlacedShard, Placement, PlacementGoal, PlanBody, Shard,
    ShardId, ShardState, Spread, Zone,
};

mod residual;

use residual::Residual;

type Place<'a> = (Option<&'a Zone>, &'a Host);

/// Checks the placement of a body and the actions that lead to it: members, zones, hosts, primaries, and that no placement
/// of the goal changes fewer nodes, nor fails over fewer shards.
///
/// # Errors
/// Every fault found, a sentence each.
pub fn check_placement(input: &PlacementInput<'_>, goal: PlacementGoal, body: &PlanBody) -> Result<(), Vec<String>> {
    let mut faults = Faults::default();
    match &body.placement {
        None => faults.add("the plan tells of no placement"),
        Some(placement) => {
            if placement.goal != goal {
                faults.add("the placement is for another goal");
            }
            look(input, goal, placement, body, &mut faults);
        }
    }
    faults.verdict()
}

fn look(input: &PlacementInput<'_>, goal: PlacementGoal, placement: &Placement, body: &PlanBody, faults: &mut Faults) {
    let shards: Vec<&Shard> = input.shards.iter().filter(|shard| shard.state == ShardState::Active).collect();
    if !placement.shards.iter().map(|placed| &placed.shard).eq(shards.iter().map(|shard| &shard.id)) {
        return faults.add("the placement does not list every active shard once, ascending by id");
    }
    let roles = Roles::after(input, body, faults);
    faults.differ("placement: changes", placement.changes, roles.moved);
    faults.differ("placement: failovers", placement.failovers, roles.promoted);
    faults.differ("placement: lower_bound", placement.lower_bound, placement.changes);
    faults.differ("placement: failovers_lower_bound", placement.failovers_lower_bound, placement.failovers);
    let is_out = |id: &&NodeId| input.nodes.get(*id).is_none_or(|node| node.state != NodeState::Active);
    let out: BTreeSet<&NodeId> = shards.iter().flat_map(|shard| shard.nodes()).filter(is_out).collect();
    if !placement.left_out.iter().eq(out) {
        faults.add("placement: the nodes left out are not those that are draining or lost");
    }
    let Some(ground) = Ground::new(input, goal, &shards, &placement.shards, faults) else { return };
    faults.differ("placement: per_zone", placement.per_zone, ground.per_zone);
    for (index, placed) in placement.shards.iter().enumerate() {
        roles.agree(placed, faults);
        ground.apart(index, placed, faults);
    }
    ground.hosts(placement, faults);
    if faults.0.is_empty() {
        ground.fewest_changes(placement, faults);
        ground.fewest_failovers(&shards, placement, faults);
    }
}

/// Who is in which shard when the actions without slots are done, in their order.
struct Roles<'a> {
    primary: BTreeMap<&'a ShardId, &'a NodeId>,
    shard_of: BTreeMap<&'a NodeId, &'a ShardId>,
    moved: u32,
    promoted: u32,
}

impl<'a> Roles<'a> {
    fn after(input: &PlacementInput<'a>, body: &'a PlanBody, faults: &mut Faults) -> Self {
        let mut roles = Self { primary: BTreeMap::new(), shard_of: BTreeMap::new(), moved: 0, promoted: 0 };
        let active = input.shards.iter().filter(|shard| shard.state == ShardState::Active);
        let active: BTreeSet<&ShardId> = active.map(|shard| &shard.id).collect();
        for shard in input.shards {
            roles.primary.insert(&shard.id, &shard.primary);
            roles.shard_of.extend(shard.nodes().map(|node| (node, &shard.id)));
        }
        for action in &body.actions {
            let id = action.id;
            match &action.kind {
                ActionKind::Promote { shard, from, to } => {
                    // Those of a shard that is to be emptied have nothing to do with the placement.
                    roles.promoted += u32::from(active.contains(&shard));
                    if roles.shard_of.get(to) != Some(&shard) || roles.primary.get(shard) != Some(&from) {
                        faults.add(format_args!("{id}: {to} does not copy {from} in {shard} then"));
                    }
                    roles.primary.insert(shard, to);
                }
                ActionKind::SetReplicaOf { node, shard } => {
                    roles.moved += 1;
                    let serves = roles.shard_of.get(node).is_some_and(|of| roles.primary.get(of) == Some(&node));
                    if serves || roles.shard_of.get(node).is_none_or(|of| *of == shard) {
                        faults.add(format_args!("{id}: {node} is a primary, or in {shard} already, or unknown"));
                    }
                    roles.shard_of.insert(node, shard);
                }
                _ => {}
            }
        }
        roles
    }

    fn agree(&self, placed: &PlacedShard, faults: &mut Faults) {
        let shard = &placed.shard;
        if self.primary.get(shard) != Some(&&placed.primary) {
            faults.add(format_args!("{shard}: the actions do not make {} its primary", placed.primary));
        }
        for node in placed.nodes().filter(|node| self.shard_of.get(node) != Some(&shard)) {
            faults.add(format_args!("{shard}: the actions do not bring {node} into it"));
        }
    }
}

/// What may be exchanged: copies beside the serving node of each shard.
struct Ground<'a> {
    copies: u32,
    per_zone: u32,
    /// Hosts with their zone (by number) and their active nodes.
    hosts: Vec<(Place<'a>, usize, u32)>,
    zones: usize,
    host_of: BTreeMap<&'a NodeId, usize>,
    /// The node of each shard that serves it, or takes over from a primary that is not active.
    serving: Vec<&'a NodeId>,
    /// Hosts where each shard has a copy already, and its nodes.
    there: Vec<BTreeSet<usize>>,
    members: Vec<BTreeSet<&'a NodeId>>,
}

impl<'a> Ground<'a> {
    fn new(
        input: &PlacementInput<'a>,
        goal: PlacementGoal,
        shards: &[&'a Shard],
        placed: &[PlacedShard],
        faults: &mut Faults,
    ) -> Option<Self> {
        let is_active = |id: &NodeId| input.nodes.get(id).is_some_and(|node| node.state == NodeState::Active);
        let place = |id: &NodeId| -> Place<'a> {
            let node: &'a Node = input.nodes[id];
            (node.zone.as_ref(), &node.host)
        };
        let active = || shards.iter().flat_map(|shard| shard.nodes()).filter(|id| is_active(id));
        let mut counts: BTreeMap<Place<'a>, u32> = BTreeMap::new();
        active().for_each(|id| *counts.entry(place(id)).or_default() += 1);
        let names: BTreeSet<_> = counts.keys().map(|(zone, _)| *zone).collect();
        let by_zone = goal.spread == Spread::Zone;
        if by_zone && names.contains(&None) {
            faults.add("copies are spread over zones, and the zone of a node is not known");
            return None;
        }
        let zones = if by_zone { names.len() } else { 1 };
        let number = |zone: Option<&Zone>| if by_zone { names.iter().position(|name| *name == zone) } else { Some(0) };
        let hosts: Vec<_> =
            counts.into_iter().map(|(place, count)| (place, number(place.0).unwrap_or(0), count)).collect();
        let index: BTreeMap<Place<'a>, usize> = hosts.iter().enumerate().map(|(i, host)| (host.0, i)).collect();
        let host_of: BTreeMap<&NodeId, usize> = active().map(|id| (id, index[&place(id)])).collect();
        for node in placed.iter().flat_map(PlacedShard::nodes).filter(|node| !host_of.contains_key(node)) {
            faults.add(format_args!("node {node} is not an active node of an active shard"));
        }
        let serving: Vec<&NodeId> =
            shards.iter().filter_map(|shard| shard.nodes().find(|id| host_of.contains_key(id))).collect();
        let known = placed.iter().flat_map(PlacedShard::nodes).all(|node| host_of.contains_key(node));
        if !known || serving.len() != shards.len() {
            return None;
        }
        let members: Vec<BTreeSet<&NodeId>> =
            shards.iter().map(|shard| shard.nodes().filter(|id| host_of.contains_key(id)).collect()).collect();
        let there = members.iter().zip(&serving).map(|(members, serving)| {
            members.iter().filter(|node| *node != serving).map(|node| host_of[*node]).collect()
        });
        let there = there.collect();
        let copies = u32::from(goal.replicas) + 1;
        let per_zone = copies.div_ceil(u32::try_from(zones).expect("at most one a node").max(1));
        Some(Self { copies, per_zone, hosts, zones, host_of, serving, there, members })
    }

    /// The right number of copies, none of them on one host, few enough in each zone.
    fn apart(&self, index: usize, placed: &PlacedShard, faults: &mut Faults) {
        let shard = &placed.shard;
        faults.differ(format_args!("{shard}: copies"), placed.nodes().count(), self.copies as usize);
        if !placed.nodes().any(|node| node == self.serving[index]) {
            faults.add(format_args!("{shard}: {}, which has its data, does not stay", self.serving[index]));
        }
        let hosts: BTreeSet<usize> = placed.nodes().map(|node| self.host_of[node]).collect();
        if hosts.len() < placed.nodes().count() {
            faults.add(format_args!("{shard}: two of its copies are on one host"));
        }
        let mut zones = vec![0; self.zones];
        for &host in &hosts {
            zones[self.hosts[host].1] += 1;
        }
        if let Some(most) = zones.into_iter().max().filter(|most| *most > self.per_zone) {
            faults.add(format_args!("{shard}: {most} copies are in one zone, and {} may be", self.per_zone));
        }
    }

    fn hosts(&self, placement: &Placement, faults: &mut Faults) {
        let mut hosts: Vec<PlacedHost> = Vec::new();
        let (mut copies, mut primaries) = (vec![0_u32; self.hosts.len()], vec![0; self.hosts.len()]);
        for placed in &placement.shards {
            placed.nodes().for_each(|node| copies[self.host_of[node]] += 1);
            primaries[self.host_of[&placed.primary]] += 1;
        }
        for (i, ((zone, host), _, _)) in self.hosts.iter().enumerate().filter(|(i, _)| copies[*i] > 0) {
            let (lo, hi) = (copies[i] / self.copies, copies[i].div_ceil(self.copies));
            let (zone, host) = (zone.cloned(), Host::clone(host));
            hosts.push(PlacedHost { zone, host, copies: copies[i], primaries: primaries[i], lo, hi });
        }
        if hosts != placement.hosts {
            faults.add("placement: the hosts are not those of its copies, or their figures are others");
        }
    }

    /// No exchange of copies between hosts leaves more of them where they are.
    fn fewest_changes(&self, placement: &Placement, faults: &mut Faults) {
        let (shards, zones) = (placement.shards.len(), self.zones);
        let (of_zone, of_host) =
            (|shard: usize, zone| shards + shard * zones + zone, |host| shards * (1 + zones) + host);
        let sink = of_host(self.hosts.len());
        let mut residual = Residual::new(sink + 1);
        let mut room: Vec<u32> = self.hosts.iter().map(|host| host.2).collect();
        let (mut used, mut new) = (vec![0_u32; self.hosts.len()], 0);
        self.serving.iter().for_each(|node| room[self.host_of[*node]] -= 1);
        for (shard, placed) in placement.shards.iter().enumerate() {
            let home = self.host_of[self.serving[shard]];
            let held: BTreeSet<usize> =
                placed.nodes().map(|node| self.host_of[node]).filter(|host| *host != home).collect();
            let mut in_zone = vec![0_u32; zones];
            for &host in &held {
                in_zone[self.hosts[host].1] += 1;
            }
            for (zone, &count) in in_zone.iter().enumerate() {
                let most = self.per_zone - u32::from(self.hosts[home].1 == zone);
                residual.arc(shard, of_zone(shard, zone), count, most, 0);
            }
            for host in (0..self.hosts.len()).filter(|host| *host != home) {
                let (there, has) = (self.there[shard].contains(&host), held.contains(&host));
                new += u32::from(has && !there);
                used[host] += u32::from(has);
                let zone = of_zone(shard, self.hosts[host].1);
                residual.arc(zone, of_host(host), u32::from(has), 1, i64::from(!there));
            }
        }
        faults.differ("placement: nodes that get another shard", placement.changes, new);
        for (host, (&used, &room)) in used.iter().zip(&room).enumerate() {
            if used > room {
                faults.add(format_args!("host {} has {room} nodes for {used} copies", self.hosts[host].0.1));
            }
            residual.arc(of_host(host), sink, used, room.max(used), 0);
        }
        if residual.can_be_improved() {
            faults.add("placement: fewer nodes could change");
        }
    }

    /// No exchange of primaries brings a host nearer to its share, or avoids a failover, or a copy that is new.
    fn fewest_failovers(&self, before: &[&Shard], placement: &Placement, faults: &mut Faults) {
        let shards = placement.shards.len();
        let (failover, of_host) = (i64::try_from(shards).expect("at most 4096") + 1, |host| shards + host);
        let off = failover * (failover + 1);
        let sink = of_host(self.hosts.len());
        let mut residual = Residual::new(sink + 1);
        for (shard, placed) in placement.shards.iter().enumerate() {
            let keeps = *self.serving[shard] == before[shard].primary;
            for node in placed.nodes() {
                let was_there = self.members[shard].contains(node);
                if !keeps && !was_there {
                    if *node == placed.primary {
                        faults.add(format_args!("{}: its new primary {node} has no data yet", placed.shard));
                    }
                    continue;
                }
                let stays = keeps && *node == before[shard].primary;
                let cost = if stays || !keeps { 0 } else { failover + i64::from(!was_there) };
                residual.arc(shard, of_host(self.host_of[node]), u32::from(*node == placed.primary), 1, cost);
            }
        }
        for host in &placement.hosts {
            let index = self.hosts.iter().position(|of| of.0 == (host.zone.as_ref(), &host.host)).expect("compared");
            let all = u32::try_from(shards).expect("at most 4096");
            let (lo, hi) = (host.lo, host.hi);
            for (from, to, cost) in [(0, lo, 0), (lo, hi, off), (hi, hi + all, 2 * off)] {
                residual.arc(of_host(index), sink, host.primaries.clamp(from, to) - from, to - from, cost);
            }
        }
        if residual.can_be_improved() {
            faults.add("placement: primaries could be spread more evenly, or with fewer failovers");
        }
    }
}

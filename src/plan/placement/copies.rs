//! Which hosts hold a copy of which shard: source → shard → (shard, zone) → host it is on already for nothing, or any host
//! of the zone for 1 → sink. Primaries stay, so they are taken out of the network beforehand.
//!
//! Any host of the zone is one arc to the hub of the zone. Where a zone takes several copies of a shard, two of them could
//! come to one host behind it. The hubs then ask for less than is wanted, so what they cost is a lower bound: if the copies
//! can be dealt to different hosts all the same (`deal`), nothing is cheaper. Only else every host gets an arc of its own.

use std::collections::BTreeMap;

use super::super::flow::{Arc, Network};
use super::deal::{Need, deal};
use super::{Grounds, PlacementError};

/// The copies of each shard.
pub(super) struct Chosen {
    /// The nodes of each shard, the serving one first, then ascending.
    pub members: Vec<Vec<usize>>,
    /// Nodes that get another shard: ascending by shard and node.
    pub changes: Vec<(usize, usize)>,
}

/// An arc that may bring a copy of a shard to a host.
struct Offer {
    shard: usize,
    to: To,
    arc: Arc,
}

#[derive(Clone, Copy)]
enum To {
    Host(usize),
    /// Any host of a zone.
    Zone(usize),
}

/// The placement that changes the fewest nodes.
pub(super) fn choose(grounds: &Grounds<'_>) -> Result<Chosen, PlacementError> {
    let wanted = u32::try_from(grounds.shards.len()).expect("at most 4096") * (grounds.copies - 1);
    let enough = grounds.nodes.len() >= grounds.shards.len() * grounds.copies as usize;
    if !enough {
        let (shards, nodes) = (grounds.shards.len(), grounds.nodes.len());
        return Err(PlacementError::FewNodes { shards, copies: grounds.copies, nodes });
    }
    let hosts = match by_hubs(grounds, wanted) {
        Some(hosts) => hosts,
        None => by_hosts(grounds, wanted)?,
    };
    Ok(realise(grounds, &hosts))
}

/// The hosts of the copies of each shard beside its primary, by hubs; none where they cannot be dealt to different hosts.
pub(super) fn by_hubs(grounds: &Grounds<'_>, wanted: u32) -> Option<Vec<Vec<usize>>> {
    let mut drawn = Drawn::new(grounds, true);
    let sent = drawn.network.send(SOURCE, SINK, wanted);
    if sent < wanted {
        return None;
    }
    if grounds.per_zone == 1 {
        return Some(drawn.hosts());
    }
    let (kept, needs) = drawn.through_hubs();
    deal(grounds, kept, &needs)
}

/// The same by an arc to every host.
pub(super) fn by_hosts(grounds: &Grounds<'_>, wanted: u32) -> Result<Vec<Vec<usize>>, PlacementError> {
    let mut drawn = Drawn::new(grounds, false);
    let sent = drawn.network.send(SOURCE, SINK, wanted);
    if sent < wanted {
        return Err(uneven(grounds, wanted, sent));
    }
    Ok(drawn.hosts())
}

const SOURCE: usize = 0;
const SINK: usize = 1;

/// The network of the input.
struct Drawn {
    network: Network,
    offers: Vec<Offer>,
    /// From the hub of a zone to each of its hosts.
    hubs: Vec<(usize, usize, Arc)>,
    shards: usize,
}

impl Drawn {
    fn new(grounds: &Grounds<'_>, by_hubs: bool) -> Self {
        let (shards, zones, hosts) = (grounds.shards.len(), grounds.zones, grounds.hosts.len());
        let (of_shard, of_zone) = (|shard: usize| 2 + shard, |shard, zone| 2 + shards + shard * zones + zone);
        let hub = |zone: usize| 2 + shards + shards * zones + zone;
        let of_host = |host: usize| 2 + shards + (shards + 1) * zones + host;
        let mut network = Network::new(2 + shards + (shards + 1) * zones + hosts);
        let mut offers = Vec::new();
        let current = current_hosts(grounds);
        let mut in_zone: Vec<Vec<usize>> = vec![Vec::new(); zones];
        grounds.hosts.iter().enumerate().for_each(|(host, of)| in_zone[of.zone].push(host));
        for (shard, current) in current.iter().enumerate() {
            network.arc(SOURCE, of_shard(shard), grounds.copies - 1, 0);
            let home = grounds.nodes[grounds.serving[shard]].host;
            for (zone, hosts) in in_zone.iter().enumerate() {
                let room = grounds.per_zone - u32::from(grounds.hosts[home].zone == zone);
                if room == 0 {
                    continue;
                }
                network.arc(of_shard(shard), of_zone(shard, zone), room, 0);
                let of_zone = of_zone(shard, zone);
                let mut offer = |to, head, capacity, cost| {
                    offers.push(Offer { shard, to, arc: network.arc(of_zone, head, capacity, cost) });
                };
                let here = current.iter().filter(|&&host| grounds.hosts[host].zone == zone);
                here.for_each(|&host| offer(To::Host(host), of_host(host), 1, 0));
                if by_hubs {
                    offer(To::Zone(zone), hub(zone), room, 1);
                } else {
                    let others = hosts.iter().filter(|host| **host != home && !current.contains(host));
                    others.for_each(|&host| offer(To::Host(host), of_host(host), 1, 1));
                }
            }
        }
        let mut hubs = Vec::new();
        let room = rooms(grounds);
        for (host, &room) in room.iter().enumerate() {
            let zone = grounds.hosts[host].zone;
            if by_hubs {
                hubs.push((zone, host, network.arc(hub(zone), of_host(host), room, 0)));
            }
            network.arc(of_host(host), SINK, room, 0);
        }
        Self { network, offers, hubs, shards }
    }

    /// The hosts where the copies of each shard stay, and how many more it gets in which zone.
    fn through_hubs(&self) -> (Vec<Vec<usize>>, Vec<Need>) {
        let (mut kept, mut needs) = (vec![Vec::new(); self.shards], Vec::new());
        for offer in &self.offers {
            match (offer.to, self.network.flow(offer.arc)) {
                (_, 0) => {}
                (To::Host(host), _) => kept[offer.shard].push(host),
                (To::Zone(zone), copies) => needs.push(Need { shard: offer.shard, zone, copies }),
            }
        }
        (kept, needs)
    }

    /// The hosts of the copies of each shard, without its primary. A shard has at most one copy behind a hub.
    fn hosts(&self) -> Vec<Vec<usize>> {
        let mut hosts = vec![Vec::new(); self.shards];
        // Whoever came through a hub may have any place behind it: they cost the same.
        let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &(zone, host, arc) in self.hubs.iter().rev() {
            let units = self.network.flow(arc) as usize;
            places.entry(zone).or_default().extend(std::iter::repeat_n(host, units));
        }
        for offer in self.offers.iter().filter(|offer| self.network.flow(offer.arc) > 0) {
            let host = match offer.to {
                To::Host(host) => host,
                To::Zone(zone) => places.get_mut(&zone).and_then(Vec::pop).expect("what enters a hub leaves it"),
            };
            hosts[offer.shard].push(host);
        }
        hosts
    }
}

/// The hosts where each shard has a copy beside its primary, ascending; its primary's host is not among them.
fn current_hosts(grounds: &Grounds<'_>) -> Vec<Vec<usize>> {
    let mut current = vec![Vec::new(); grounds.shards.len()];
    for node in &grounds.nodes {
        if node.host != grounds.nodes[grounds.serving[node.shard]].host {
            current[node.shard].push(node.host);
        }
    }
    for hosts in &mut current {
        hosts.sort_unstable();
        hosts.dedup();
    }
    current
}

/// How many copies each host can hold beside its primaries.
pub(super) fn rooms(grounds: &Grounds<'_>) -> Vec<u32> {
    let mut rooms: Vec<u32> =
        grounds.hosts.iter().map(|host| u32::try_from(host.nodes.len()).expect("at most 8192")).collect();
    for &node in &grounds.serving {
        rooms[grounds.nodes[node].host] -= 1;
    }
    rooms
}

/// From hosts to nodes: a copy that is there stays on the first of its nodes, a new one gets the first node that is free.
pub(super) fn realise(grounds: &Grounds<'_>, hosts: &[Vec<usize>]) -> Chosen {
    let mut members: Vec<Vec<usize>> = grounds.serving.iter().map(|&node| vec![node]).collect();
    let mut free: Vec<bool> = vec![true; grounds.nodes.len()];
    grounds.serving.iter().for_each(|&node| free[node] = false);
    let mut arriving = Vec::new();
    for (shard, hosts) in hosts.iter().enumerate() {
        for &host in hosts {
            let mut nodes = grounds.hosts[host].nodes.iter().copied();
            if let Some(node) = nodes.find(|&node| free[node] && grounds.nodes[node].shard == shard) {
                free[node] = false;
                members[shard].push(node);
            } else {
                arriving.push((shard, host));
            }
        }
    }
    let mut changes = Vec::with_capacity(arriving.len());
    let mut next = vec![0; grounds.hosts.len()];
    for (shard, host) in arriving {
        let nodes = &grounds.hosts[host].nodes;
        while !free[nodes[next[host]]] {
            next[host] += 1;
        }
        let node = nodes[next[host]];
        free[node] = false;
        members[shard].push(node);
        changes.push((shard, node));
    }
    for nodes in &mut members {
        nodes[1..].sort_unstable();
    }
    changes.sort_unstable();
    Chosen { members, changes }
}

fn uneven(grounds: &Grounds<'_>, wanted: u32, sent: u32) -> PlacementError {
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for host in &grounds.hosts {
        let zone = host.zone_name.map_or_else(|| host.name.to_string(), ToString::to_string);
        *zones.entry(zone).or_default() += host.nodes.len();
    }
    let mut zones: Vec<_> = zones.into_iter().collect();
    zones.sort_by_key(|(_, nodes)| *nodes);
    PlacementError::Uneven { missing: wanted - sent, wanted, per_zone: grounds.per_zone, zones }
}

//! Which copy of each shard is its primary: every host gets its share, whole numbers `⌊copies/k⌋..=⌈copies/k⌉`, with the
//! fewest failovers, and among those with the fewest to nodes that are new in the shard. Giving every copy `1/k` of its
//! shard's primary meets every share exactly, so whole numbers do too, but where dead primaries leave too little choice.

use super::super::flow::{Arc, Network};
use super::copies::Chosen;
use super::{Grounds, Placed};
use crate::domain::{ActionKind, NodeId, PlacedHost, PlacedShard, Placement};

const SOURCE: usize = 0;
const SINK: usize = 1;

/// Chooses the primaries and puts the actions together.
pub(super) fn finish(grounds: &Grounds<'_>, chosen: &Chosen) -> Placed {
    let primaries = choose(grounds, chosen);
    let id = |node: usize| grounds.nodes[node].id;
    let (mut first, mut last, mut shards) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (&primary, members)) in primaries.iter().zip(&chosen.members).enumerate() {
        let shard = grounds.shards[index];
        if *id(primary) != shard.primary {
            let (from, to) = (shard.primary.clone(), id(primary).clone());
            let wave = if grounds.nodes[primary].shard == index { &mut first } else { &mut last };
            wave.push(ActionKind::Promote { shard: shard.id.clone(), from, to });
        }
        let replicas = members.iter().filter(|&&node| node != primary).map(|&node| id(node).clone());
        let mut replicas: Vec<NodeId> = replicas.collect();
        replicas.sort();
        shards.push(PlacedShard { shard: shard.id.clone(), primary: id(primary).clone(), replicas });
    }
    let failovers = u32::try_from(first.len() + last.len()).expect("at most one a shard");
    let changes = u32::try_from(chosen.changes.len()).expect("at most one a node");
    let moved = chosen.changes.iter().map(|&(shard, node)| ActionKind::SetReplicaOf {
        node: id(node).clone(),
        shard: grounds.shards[shard].id.clone(),
    });
    let waves = [first, moved.collect(), last].into_iter().filter(|wave: &Vec<_>| !wave.is_empty()).collect();
    let placement = Placement {
        goal: grounds.goal,
        changes,
        lower_bound: changes,
        failovers,
        failovers_lower_bound: failovers,
        per_zone: grounds.per_zone,
        left_out: grounds.left_out.iter().map(|id| (*id).clone()).collect(),
        shards,
        hosts: hosts(grounds, chosen, &primaries),
    };
    Placed { placement, waves }
}

fn copies_on(grounds: &Grounds<'_>, chosen: &Chosen) -> Vec<u32> {
    let mut copies = vec![0; grounds.hosts.len()];
    chosen.members.iter().flatten().for_each(|&node| copies[grounds.nodes[node].host] += 1);
    copies
}

fn hosts(grounds: &Grounds<'_>, chosen: &Chosen, primaries: &[usize]) -> Vec<PlacedHost> {
    let copies = copies_on(grounds, chosen);
    let mut served = vec![0; grounds.hosts.len()];
    for &node in primaries {
        served[grounds.nodes[node].host] += 1;
    }
    let of = |(index, host): (usize, &super::HostOf<'_>)| PlacedHost {
        zone: host.zone_name.cloned(),
        host: host.name.clone(),
        copies: copies[index],
        primaries: served[index],
        lo: copies[index] / grounds.copies,
        hi: copies[index].div_ceil(grounds.copies),
    };
    grounds.hosts.iter().enumerate().map(of).filter(|host| host.copies > 0).collect()
}

/// The primary of each shard.
fn choose(grounds: &Grounds<'_>, chosen: &Chosen) -> Vec<usize> {
    let (shards, hosts) = (grounds.shards.len(), grounds.hosts.len());
    // A failover outweighs any number of copies that are new; a host off its share outweighs any number of failovers.
    let failover = i64::try_from(shards).expect("at most 4096") + 1;
    let off = failover * (failover + 1);
    let of_host = |host: usize| 2 + shards + host;
    let mut network = Network::new(2 + shards + hosts);
    let mut offers: Vec<Vec<(usize, Arc)>> = Vec::with_capacity(shards);
    for (shard, members) in chosen.members.iter().enumerate() {
        network.arc(SOURCE, 2 + shard, 1, 0);
        let mut offer = Vec::new();
        for &node in members {
            let cost = match (grounds.keeps_primary(shard), grounds.nodes[node].shard == shard) {
                (true, _) if node == grounds.serving[shard] => 0,
                (true, true) => failover,
                (true, false) => failover + 1,
                // Its primary is going or gone: it fails over in any case, to one that has its data.
                (false, true) => 0,
                (false, false) => continue,
            };
            offer.push((node, network.arc(2 + shard, of_host(grounds.nodes[node].host), 1, cost)));
        }
        offers.push(offer);
    }
    let all = u32::try_from(shards).expect("at most 4096");
    for (host, copies) in copies_on(grounds, chosen).into_iter().enumerate() {
        let (lo, hi) = (copies / grounds.copies, copies.div_ceil(grounds.copies));
        network.arc(of_host(host), SINK, lo, 0);
        network.arc(of_host(host), SINK, hi - lo, off);
        network.arc(of_host(host), SINK, all, 2 * off);
    }
    let sent = network.send(SOURCE, SINK, all);
    assert_eq!(sent, all, "every shard has a copy that can be its primary");
    let picked =
        |offer: &Vec<(usize, Arc)>| offer.iter().find(|(_, arc)| network.flow(*arc) > 0).map(|(node, _)| *node);
    offers.iter().map(|offer| picked(offer).expect("one unit leaves every shard")).collect()
}

//! Where a zone takes several copies, hubs bring them to hosts: as cheap as an arc to every host, and copies apart.

use super::*;

/// Shards of `copies` nodes at random over hosts of so many nodes each.
fn spread(random: &mut Random, shards: usize, copies: usize, hosts: usize, zones: usize, spare: usize) -> Cluster {
    let places: Vec<String> = (0..shards * copies + spare)
        .map(|node| {
            let host = if node < hosts { node } else { random.below(hosts) };
            format!("{} h{host:03}", ["a", "b", "c"][host % zones])
        })
        .collect();
    let mut order: Vec<usize> = (0..places.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); shards];
    order.into_iter().enumerate().for_each(|(place, node)| members[place % shards].push(node));
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let members: Vec<&[usize]> = members.iter().map(Vec::as_slice).collect();
    let mut cluster = Cluster::zoned(&places, &members);
    // Names in the order of numbers.
    for (number, shard) in cluster.shards.iter_mut().enumerate() {
        shard.id = ShardId::new(&format!("s{number:03}")).unwrap();
    }
    cluster
}

/// How many copies come to a host where their shard has none now.
fn new_ones(grounds: &Grounds<'_>, hosts: &[Vec<usize>]) -> usize {
    let there = |shard: usize, host: usize| grounds.nodes.iter().any(|node| (node.shard, node.host) == (shard, host));
    let new = |(shard, hosts): (usize, &Vec<usize>)| hosts.iter().filter(|&&host| !there(shard, host)).count();
    hosts.iter().enumerate().map(new).sum()
}

#[test]
fn hubs_cost_no_more_than_an_arc_to_every_host() {
    let mut random = Random(3);
    let (mut dealt, mut not_dealt, mut infeasible) = (0, 0, 0);
    for case in 0..400 {
        let (shards, replicas) = (2 + random.below(20), 2 + random.below(2));
        let hosts = replicas + 1 + random.below(12);
        let by_zone = random.below(2) == 0;
        let zones = if by_zone { 1 + random.below(2) } else { 3 };
        let spare = random.below(4);
        let cluster = spread(&mut random, shards, replicas + 1, hosts, zones, spare);
        let by = if by_zone { Spread::Zone } else { Spread::Host };
        let goal = PlacementGoal { replicas: u16::try_from(replicas).unwrap(), spread: by };
        let known = cluster.known();
        let input = PlacementInput { shards: &cluster.shards, nodes: &known };
        let grounds = Grounds::new(&input, goal).unwrap();
        assert!(grounds.per_zone > 1, "{case}");
        let wanted = u32::try_from(shards * replicas).unwrap();
        let Ok(exact) = copies::by_hosts(&grounds, wanted) else {
            assert_eq!(copies::by_hubs(&grounds, wanted), None, "{case}: copies that find no place were dealt");
            infeasible += 1;
            continue;
        };
        match copies::by_hubs(&grounds, wanted) {
            Some(hosts) => {
                assert_eq!(new_ones(&grounds, &hosts), new_ones(&grounds, &exact), "{case}: {cluster:#?}");
                dealt += 1;
            }
            None => not_dealt += 1,
        }
        let placed = cluster.placed(goal);
        assert_eq!(placed.placement.changes as usize, new_ones(&grounds, &exact), "{case}");
    }
    assert!(dealt > 150 && not_dealt > 5 && infeasible > 5, "{dealt} {not_dealt} {infeasible}");
}

/// As many nodes as copies, so that every place is taken in the end and copies have to make room for each other.
#[test]
fn a_large_cluster_without_a_free_node_needs_no_arcs_to_every_host() {
    let mut random = Random(5);
    for (shards, hosts) in [(100, 30), (200, 24), (60, 60)] {
        let cluster = spread(&mut random, shards, 3, hosts, 3, 0);
        let goal = PlacementGoal { replicas: 2, spread: Spread::Host };
        let known = cluster.known();
        let input = PlacementInput { shards: &cluster.shards, nodes: &known };
        let grounds = Grounds::new(&input, goal).unwrap();
        let hosts = copies::by_hubs(&grounds, u32::try_from(2 * shards).unwrap()).expect("they can be dealt");
        assert!(new_ones(&grounds, &hosts) > 0);
        cluster.placed(goal);
    }
}

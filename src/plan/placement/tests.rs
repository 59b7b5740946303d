//! Placements compared with brute force on small clusters, refusals by name, and what the checker makes of worse ones.

use std::collections::BTreeMap;

use super::{Grounds, Placed, PlacementError, PlacementInput, copies, place, primaries};
use crate::domain::{
    ActionKind, DriverKind, Goal, Host, Node, NodeId, NodeState, PlacementGoal, PlanBody, Shard, ShardId, ShardState,
    SlotRange, SlotTable, Spread, Weight, Zone,
};
use crate::plan::{Input, PlanError, check_placement, plan, with_leading_waves};

mod hubs;

/// A cluster by hand: nodes with zone and host, shards as lists of node numbers, the primary first.
#[derive(Clone, Debug)]
struct Cluster {
    nodes: Vec<Node>,
    shards: Vec<Shard>,
}

impl Cluster {
    fn new(nodes: &[(Option<&str>, &str)], shards: &[&[usize]]) -> Self {
        let node = |(number, (zone, host)): (usize, &(Option<&str>, &str))| Node {
            id: id(number),
            host: Host::new(host).unwrap(),
            port: u16::try_from(7000 + number).unwrap(),
            zone: zone.map(|zone| Zone::new(zone).unwrap()),
            state: NodeState::Active,
        };
        let shard = |(number, members): (usize, &&[usize])| {
            let name = ShardId::new(&format!("s{number}")).unwrap();
            let mut shard = Shard::new(name, id(members[0]), Weight::ONE);
            shard.replicas = members[1..].iter().map(|&member| id(member)).collect();
            shard.replicas.sort();
            shard
        };
        let nodes = nodes.iter().enumerate().map(node).collect();
        Self { nodes, shards: shards.iter().enumerate().map(shard).collect() }
    }

    /// Nodes `zone host`, such as `a h1`.
    fn zoned(nodes: &[&str], shards: &[&[usize]]) -> Self {
        let nodes: Vec<_> = nodes.iter().map(|text| text.split_once(' ').unwrap()).collect();
        let nodes: Vec<_> = nodes.into_iter().map(|(zone, host)| (Some(zone), host)).collect();
        Self::new(&nodes, shards)
    }

    fn known(&self) -> BTreeMap<&NodeId, &Node> {
        self.nodes.iter().map(|node| (&node.id, node)).collect()
    }

    fn place(&self, goal: PlacementGoal) -> Result<Placed, PlacementError> {
        let placed = place(&PlacementInput { shards: &self.shards, nodes: &self.known() }, goal);
        placed.map_err(|error| match error {
            PlanError::Placement(error) => error,
            other => panic!("{other}"),
        })
    }

    /// The placement, after the checker agreed.
    fn placed(&self, goal: PlacementGoal) -> Placed {
        let placed = self.place(goal).unwrap();
        self.check(goal, &placed).unwrap();
        placed
    }

    fn check(&self, goal: PlacementGoal, placed: &Placed) -> Result<(), Vec<String>> {
        check_placement(&PlacementInput { shards: &self.shards, nodes: &self.known() }, goal, &self.body(placed))
    }

    fn body(&self, placed: &Placed) -> PlanBody {
        let mut table = SlotTable::with_shards(self.shards.iter().map(|shard| shard.id.clone()).collect()).unwrap();
        table.assign("0-16383".parse::<SlotRange>().unwrap(), Some(&self.shards[0].id)).unwrap();
        let lost = std::collections::BTreeSet::new();
        let input = Input { table: &table, shards: &self.shards, lost: &lost, statistics: None };
        let limits = DriverKind::Manual.default_limits();
        let body = plan(&input, Goal::DrainOnly, &limits).unwrap();
        PlanBody { placement: Some(placed.placement.clone()), ..with_leading_waves(body, placed.waves.clone()) }
    }
}

fn id(number: usize) -> NodeId {
    NodeId::new(&format!("n{number:02}")).unwrap()
}

const fn zones(replicas: u16) -> PlacementGoal {
    PlacementGoal { replicas, spread: Spread::Zone }
}

/// `n03->s1` and `s0:n00=>n02`, in order.
fn said(placed: &Placed) -> Vec<String> {
    let say = |kind: &ActionKind| match kind {
        ActionKind::Promote { shard, from, to } => format!("{shard}:{from}=>{to}"),
        ActionKind::SetReplicaOf { node, shard } => format!("{node}->{shard}"),
        other => panic!("{other:?}"),
    };
    placed.waves.iter().flatten().map(say).collect()
}

#[test]
fn what_is_well_placed_stays() {
    let cluster = Cluster::zoned(&["a h1", "b h2", "a h1", "b h2"], &[&[0, 1], &[3, 2]]);
    let placed = cluster.placed(zones(1));
    assert_eq!(Vec::<String>::new(), said(&placed));
    assert_eq!((0, 0), (placed.placement.changes, placed.placement.failovers));
}

#[test]
fn a_replica_beside_its_primary_changes_places_with_another() {
    // Both shards have both copies in one zone: one exchange of two replicas is the least.
    let cluster = Cluster::zoned(&["a h1", "a h2", "b h3", "b h4"], &[&[0, 1], &[2, 3]]);
    let placed = cluster.placed(zones(1));
    assert_eq!(["n03->s0", "n01->s1"].map(str::to_owned).to_vec(), said(&placed));
}

#[test]
fn primaries_on_one_host_are_spread_over_both() {
    let cluster = Cluster::zoned(&["a h1", "b h2", "a h1", "b h2"], &[&[0, 1], &[2, 3]]);
    let placed = cluster.placed(zones(1));
    assert_eq!(1, placed.placement.failovers);
    assert_eq!(0, placed.placement.changes);
    assert!(placed.placement.hosts.iter().all(|host| (host.primaries, host.lo, host.hi) == (1, 1, 1)), "{placed:?}");
}

#[test]
fn a_primary_may_go_to_a_node_that_comes_after_it_came() {
    // Four nodes of one shard on h2, and three more primaries on h1: h2 gets copies first, then primaries.
    let cluster = Cluster::zoned(&["a h1", "a h1", "b h2", "b h2", "b h2", "a h1"], &[&[0, 2, 3, 4], &[1], &[5]]);
    let placed = cluster.placed(zones(1));
    assert_eq!((2, 1), (placed.placement.changes, placed.placement.failovers));
    let said = said(&placed);
    assert_eq!("s0:n00=>n02", said[0], "the failover goes to a node that has the data: {said:?}");
}

#[test]
fn with_two_zones_three_copies_share_one_of_them_but_no_host() {
    // n01 is on its primary's host, and so is n05: each of the two shards gets a copy on another host.
    let cluster = Cluster::zoned(&["a h1", "a h1", "a h2", "b h3", "b h4", "a h2"], &[&[0, 1, 3], &[2, 4, 5]]);
    let placed = cluster.placed(zones(2));
    assert_eq!((2, 2), (placed.placement.per_zone, placed.placement.changes));
    assert_eq!(["n05->s0", "n01->s1"].map(str::to_owned).to_vec(), said(&placed));
}

#[test]
fn nodes_that_are_going_count_for_nothing_and_a_dead_primary_is_replaced_first() {
    let mut cluster = Cluster::zoned(&["a h1", "b h2", "a h1", "b h2", "a h3"], &[&[0, 1], &[2, 3, 4]]);
    cluster.nodes[0].state = NodeState::Lost;
    let placed = cluster.placed(zones(1));
    assert_eq!(["s0:n00=>n01", "n04->s0"].map(str::to_owned).to_vec(), said(&placed));
}

#[test]
fn refusals_name_what_is_missing() {
    let text = |cluster: &Cluster, goal| cluster.place(goal).unwrap_err().to_string();
    let two = Cluster::zoned(&["a h1", "b h2"], &[&[0, 1]]);
    assert_eq!(
        "replicas is 0: a placement is about the copies beside the primary; ask for 1 or more",
        text(&two, zones(0))
    );
    assert_eq!(
        "3 copies of a shard need as many hosts, and the active nodes are on 2; add 1 host or ask for 1 replica",
        text(&two, zones(2))
    );
    let unknown = Cluster::new(&[(Some("a"), "h1"), (None, "h2")], &[&[0, 1]]);
    assert_eq!(
        "the zone of 1 node is not known (n01); set it with `node set --zone`, or spread over hosts",
        text(&unknown, zones(1))
    );
    unknown.placed(PlacementGoal { replicas: 1, spread: Spread::Host });
    let few = Cluster::zoned(&["a h1", "b h2", "c h3"], &[&[0, 1], &[2]]);
    assert_eq!(
        "2 shards of 2 copies need 4 active nodes, and there are 3; add 1 node or ask for fewer replicas",
        text(&few, zones(1))
    );
    let uneven = Cluster::zoned(&["a h1", "a h2", "a h3", "b h4"], &[&[0, 1], &[2, 3]]);
    assert_eq!(
        "1 of 2 copies find no place where at most 1 of a shard are in one zone and none share a host (b has 1, a has \
         3); at least 1 node more in the smaller zones would be needed",
        text(&uneven, zones(1))
    );
}

/// A linear congruential generator: tests are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }
}

fn random_cluster(random: &mut Random) -> Cluster {
    let (zones, hosts, shards) = (1 + random.below(3), 2 + random.below(5), 1 + random.below(4));
    let mut places = Vec::new();
    for host in 0..hosts {
        let zone = ["a", "b", "c"][random.below(zones)];
        (0..=random.below(3)).for_each(|_| places.push(format!("{zone} h{host}")));
    }
    while places.len() < shards {
        places.push(places[0].clone());
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); shards];
    let mut order: Vec<usize> = (0..places.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    for (place, node) in order.into_iter().enumerate() {
        let shard = if place < shards { place } else { random.below(shards) };
        members[shard].push(node);
    }
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let members: Vec<&[usize]> = members.iter().map(Vec::as_slice).collect();
    let mut cluster = Cluster::zoned(&places, &members);
    for node in &mut cluster.nodes {
        if random.below(10) == 0 {
            node.state = [NodeState::Draining, NodeState::Lost][random.below(2)];
        }
    }
    for shard in &mut cluster.shards {
        let active = |id: &NodeId| cluster.nodes.iter().any(|n| n.id == *id && n.state == NodeState::Active);
        if !shard.nodes().any(active) {
            shard.state = ShardState::Draining;
        }
    }
    cluster
}

/// Every way to put the copies of the shards from this one on; the hosts of each shard and the nodes that change.
fn all_ways(grounds: &Grounds<'_>, see: &mut dyn FnMut(u32, &[Vec<usize>])) {
    fn from(
        grounds: &Grounds<'_>,
        room: &mut [u32],
        hosts: &mut Vec<Vec<usize>>,
        see: &mut dyn FnMut(u32, &[Vec<usize>]),
        changes: u32,
    ) {
        let shard = hosts.len();
        if shard == grounds.shards.len() {
            return see(changes, hosts);
        }
        let home = grounds.nodes[grounds.serving[shard]].host;
        for set in 0_u32..1 << room.len() {
            let chosen: Vec<usize> = (0..room.len()).filter(|host| set >> host & 1 == 1).collect();
            let mut zones: BTreeMap<Option<&Zone>, u32> = BTreeMap::new();
            let all = chosen.iter().chain([&home]);
            all.for_each(|&host| *zones.entry(grounds.hosts[host].zone_name).or_default() += 1);
            let by_zone = grounds.goal.spread == Spread::Zone;
            let fits = chosen.len() + 1 == grounds.copies as usize
                && !chosen.contains(&home)
                && chosen.iter().all(|&host| room[host] > 0)
                && (!by_zone || zones.values().all(|&count| count <= grounds.per_zone));
            if !fits {
                continue;
            }
            let was = |host: usize| grounds.nodes.iter().any(|node| (node.host, node.shard) == (host, shard));
            let new = chosen.iter().filter(|&&host| !was(host)).count();
            for &host in &chosen {
                room[host] -= 1;
            }
            hosts.push(chosen.clone());
            from(grounds, room, hosts, see, changes + u32::try_from(new).unwrap());
            hosts.pop();
            for &host in &chosen {
                room[host] += 1;
            }
        }
    }
    let mut room: Vec<u32> = grounds.hosts.iter().map(|host| u32::try_from(host.nodes.len()).unwrap()).collect();
    grounds.serving.iter().for_each(|&node| room[grounds.nodes[node].host] -= 1);
    from(grounds, &mut room, &mut Vec::new(), see, 0);
}

/// `(away from the shares, failovers, to nodes that are new)` of the best choice of primaries for these members.
fn best_primaries(grounds: &Grounds<'_>, members: &[Vec<usize>]) -> (u32, u32, u32) {
    let mut copies = vec![0_u32; grounds.hosts.len()];
    members.iter().flatten().for_each(|&node| copies[grounds.nodes[node].host] += 1);
    let ways = (grounds.copies as usize).pow(u32::try_from(members.len()).unwrap());
    let mut best = (u32::MAX, 0, 0);
    'way: for mut way in 0..ways {
        let mut served = vec![0_u32; grounds.hosts.len()];
        let (mut failovers, mut new) = (0, 0);
        for (shard, members) in members.iter().enumerate() {
            let node = &grounds.nodes[members[way % members.len()]];
            way /= members.len();
            served[node.host] += 1;
            failovers += u32::from(*node.id != grounds.shards[shard].primary);
            new += u32::from(node.shard != shard);
            let dead = !grounds.nodes.iter().any(|node| *node.id == grounds.shards[shard].primary);
            if dead && node.shard != shard {
                continue 'way;
            }
        }
        let away = |(host, served): (usize, &u32)| {
            let (lo, hi) = (copies[host] / grounds.copies, copies[host].div_ceil(grounds.copies));
            lo.saturating_sub(*served) + served.saturating_sub(hi)
        };
        best = best.min((served.iter().enumerate().map(away).sum(), failovers, new));
    }
    best
}

fn away(placed: &Placed) -> u32 {
    let of = |host: &crate::domain::PlacedHost| {
        host.lo.saturating_sub(host.primaries) + host.primaries.saturating_sub(host.hi)
    };
    placed.placement.hosts.iter().map(of).sum()
}

#[test]
fn no_placement_changes_fewer_nodes_or_fails_over_fewer_shards_than_brute_force_finds() {
    let mut random = Random(7);
    let (mut placed_count, mut refused, mut worse) = (0, 0, 0);
    for case in 0..1500 {
        let cluster = random_cluster(&mut random);
        let spread = [Spread::Zone, Spread::Zone, Spread::Host][random.below(3)];
        let goal = PlacementGoal { replicas: u16::try_from(1 + random.below(2)).unwrap(), spread };
        let known = cluster.known();
        let input = PlacementInput { shards: &cluster.shards, nodes: &known };
        let placed = cluster.place(goal);
        let Ok(grounds) = Grounds::new(&input, goal) else {
            assert!(matches!(placed, Err(PlacementError::FewHosts { .. })), "{case}: {placed:?}");
            continue;
        };
        let (mut least, mut dearer) = (None::<u32>, None::<Vec<Vec<usize>>>);
        all_ways(&grounds, &mut |changes, hosts| {
            if least.is_some_and(|least| changes > least) {
                dearer = Some(hosts.to_vec());
            }
            least = Some(least.map_or(changes, |least| least.min(changes)));
        });
        let Some(least) = least else {
            assert!(
                matches!(placed, Err(PlacementError::FewNodes { .. } | PlacementError::Uneven { .. })),
                "{case}: {placed:?}"
            );
            refused += 1;
            continue;
        };
        let placed = placed.unwrap_or_else(|error| panic!("{case}: {error}\n{cluster:#?}"));
        cluster.check(goal, &placed).unwrap_or_else(|faults| panic!("{case}: {faults:#?}\n{cluster:#?}\n{placed:#?}"));
        assert_eq!(least, placed.placement.changes, "{case}: {cluster:#?}");
        let chosen = copies::choose(&grounds).unwrap();
        let (off, failovers, _) = best_primaries(&grounds, &chosen.members);
        assert_eq!((off, failovers), (away(&placed), placed.placement.failovers), "{case}: {cluster:#?}");
        placed_count += 1;
        if let Some(hosts) = dearer {
            let placed = primaries::finish(&grounds, &copies::realise(&grounds, &hosts));
            if placed.placement.changes > least {
                let faults = cluster.check(goal, &placed).expect_err("a placement that changes more nodes");
                assert_eq!(vec!["placement: fewer nodes could change".to_owned()], faults, "{case}");
                worse += 1;
            }
        }
    }
    assert!(placed_count > 300 && refused > 100 && worse > 100, "{placed_count} {refused} {worse}");
}

#[test]
fn the_checker_finds_every_damage() {
    type Damage = (fn(&mut Placed), &'static str);
    let cluster = Cluster::zoned(&["a h1", "a h2", "b h3", "b h4", "c h5", "c h6"], &[&[0, 1], &[2, 3], &[4, 5]]);
    let whole = cluster.placed(zones(1));
    let damages: [Damage; 10] = [
        (|p| p.placement.left_out.push(id(3)), "left out"),
        (|p| p.placement.changes -= 1, "placement: changes"),
        (|p| p.placement.lower_bound -= 1, "placement: lower_bound"),
        (|p| p.placement.failovers += 1, "placement: failovers"),
        (|p| p.placement.per_zone = 2, "per_zone"),
        (|p| p.placement.shards.truncate(2), "every active shard"),
        (|p| p.placement.shards[0].replicas.clear(), "copies"),
        (|p| p.placement.hosts[0].copies += 1, "the hosts are not those"),
        (|p| p.placement.goal.replicas = 2, "another goal"),
        (
            |p| {
                p.waves[0].pop();
            },
            "the actions do not bring",
        ),
    ];
    for (damage, expected) in damages {
        let mut placed = whole.clone();
        damage(&mut placed);
        let faults = cluster.check(zones(1), &placed).expect_err(expected).join("; ");
        assert!(faults.contains(expected), "{faults} does not say {expected}");
    }
}

#[test]
fn the_checker_finds_a_failover_that_nothing_asks_for() {
    let cluster = Cluster::zoned(&["a h1", "b h2"], &[&[0, 1]]);
    let mut placed = cluster.placed(zones(1));
    let shard = cluster.shards[0].id.clone();
    placed.waves = vec![vec![ActionKind::Promote { shard, from: id(0), to: id(1) }]];
    (placed.placement.failovers, placed.placement.failovers_lower_bound) = (1, 1);
    (placed.placement.shards[0].primary, placed.placement.shards[0].replicas) = (id(1), vec![id(0)]);
    placed.placement.hosts.iter_mut().for_each(|host| host.primaries = 1 - host.primaries);
    let faults = cluster.check(zones(1), &placed).unwrap_err();
    assert_eq!(vec!["placement: primaries could be spread more evenly, or with fewer failovers".to_owned()], faults);
}

//! A whole plan (targets, slots, actions, waves) of 16384 slots. Targets: 1 ms for a typical change of 1000 shards, 10 ms for
//! the worst case, where every slot has a random owner and every shard a new weight; 50 ms for balancing load.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use slotkeeper::domain::{
    DriverKind, Goal, Host, LoadMetric, Node, NodeId, NodeState, Objective, PlacementGoal, Shard, ShardId, ShardState,
    Slot, SlotRange, SlotTable, Spread, Statistics, Tolerance, Weight, Zone,
};
use slotkeeper::plan::{Input, PlacementInput, check, place, plan, plan_for};

const SLOTS: usize = 16384;

struct Cluster {
    table: SlotTable,
    shards: Vec<Shard>,
    lost: BTreeSet<ShardId>,
}

impl Cluster {
    fn new(shards: usize) -> Self {
        let ids: Vec<ShardId> = (0..shards).map(|n| ShardId::new(&format!("shard-{n:04}")).expect("valid")).collect();
        let shard = |id: &ShardId| Shard::new(id.clone(), NodeId::new(id.as_str()).expect("valid"), Weight::ONE);
        let shards = ids.iter().map(shard).collect();
        Self { table: SlotTable::with_shards(ids).expect("distinct"), shards, lost: BTreeSet::new() }
    }

    fn give(&mut self, first: usize, count: usize, shard: usize) {
        let range = SlotRange::new(Slot::at(first), Slot::at(first + count - 1)).expect("ascending");
        self.table.assign(range, Some(&self.shards[shard].id)).expect("listed");
    }

    /// Equal contiguous shards, one more that is empty, one draining.
    fn typical(shards: usize) -> Self {
        let mut cluster = Self::new(shards + 1);
        let mut first = 0;
        for shard in 0..shards {
            let count = SLOTS / shards + usize::from(shard < SLOTS % shards);
            cluster.give(first, count, shard);
            first += count;
        }
        cluster.shards[4].state = ShardState::Draining;
        cluster
    }

    fn worst() -> Self {
        let mut cluster = Self::new(1000);
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for slot in 0..SLOTS {
            cluster.give(slot, 1, usize::try_from(random(1000)).expect("small"));
        }
        for shard in &mut cluster.shards {
            shard.weight = Weight::new(1 + u32::try_from(random(10)).expect("small")).expect("valid");
        }
        cluster
    }

    fn input(&self) -> Input<'_> {
        Input { table: &self.table, shards: &self.shards, lost: &self.lost, statistics: None }
    }
}

fn planner(criterion: &mut Criterion) {
    let goal = Goal::Balance { tolerance: Tolerance(0) };
    let limits = DriverKind::Redis.default_limits();
    let mut group = criterion.benchmark_group("planner");
    for shards in [10, 100, 1000] {
        let cluster = Cluster::typical(shards);
        group.bench_function(format!("typical/{shards}"), |bencher| {
            bencher.iter(|| plan(black_box(&cluster.input()), goal, &limits));
        });
    }
    let cluster = Cluster::worst();
    group.bench_function("worst/1000", |bencher| {
        bencher.iter(|| plan(black_box(&cluster.input()), goal, &limits));
    });
    let body = plan(&cluster.input(), goal, &limits).expect("feasible");
    group.bench_function("check/worst/1000", |bencher| {
        bencher.iter(|| check(black_box(&cluster.input()), goal, &limits, &body));
    });
    with_statistics(&mut group);
    group.finish();
}

/// Lognormal loads of σ = 0.6; one shard more, one draining.
fn with_statistics(group: &mut BenchmarkGroup<'_, WallTime>) {
    let limits = DriverKind::Redis.default_limits();
    let mut statistics = Statistics::new(&[LoadMetric::Bytes], None).expect("a column");
    let mut state = 7_u64;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) + 1) as f64 / (1_u64 << 31) as f64
    };
    for slot in 0..SLOTS {
        let normal = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a load between 0 and 10^8")]
        let load = (1e6 * (0.6 * normal).exp()) as u64;
        statistics.add(Slot::at(slot), &[load]).expect("once");
    }
    for shards in [10, 100, 1000] {
        let cluster = Cluster::typical(shards);
        let input = Input { statistics: Some(&statistics), ..cluster.input() };
        let goal = Goal::BalanceLoad { metric: LoadMetric::Bytes, tolerance: Tolerance(50_000) };
        group.bench_function(format!("load/{shards}"), |bencher| {
            bencher.iter(|| plan(black_box(&input), goal, &limits));
        });
        let body = plan(&input, goal, &limits).expect("feasible");
        group.bench_function(format!("check/load/{shards}"), |bencher| {
            bencher.iter(|| check(black_box(&input), goal, &limits, &body));
        });
        let goal = Goal::Balance { tolerance: Tolerance(0) };
        group.bench_function(format!("bytes/{shards}"), |bencher| {
            bencher.iter(|| plan_for(black_box(&input), goal, Objective::Bytes, &limits));
        });
    }
}

/// 1000 shards of three nodes over 300 hosts in six zones: every node at random, so that two thirds of the copies are
/// where they must not be; and the same once placed, with one host drained.
fn placement(criterion: &mut Criterion) {
    let goal = PlacementGoal { replicas: 2, spread: Spread::Zone };
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let id = |number: usize| NodeId::new(&format!("node-{number:04}")).expect("valid");
    let node = |number: usize| Node {
        id: id(number),
        host: Host::new(&format!("host-{:03}", number % 300)).expect("valid"),
        port: u16::try_from(7000 + number / 300).expect("ten a host"),
        zone: Some(Zone::new(&format!("zone-{}", number % 300 % 6)).expect("valid")),
        state: NodeState::Active,
    };
    let mut nodes: Vec<Node> = (0..3000).map(node).collect();
    let mut order: Vec<usize> = (0..3000).collect();
    for i in (1..3000).rev() {
        order.swap(i, random(i + 1));
    }
    let mut shards = Cluster::new(1000).shards;
    for (shard, members) in shards.iter_mut().zip(order.chunks(3)) {
        shard.primary = id(members[0]);
        shard.replicas = members[1..].iter().map(|&member| id(member)).collect();
        shard.replicas.sort();
    }
    let mut group = criterion.benchmark_group("planner");
    let known: BTreeMap<&NodeId, &Node> = nodes.iter().map(|node| (&node.id, node)).collect();
    let input = PlacementInput { shards: &shards, nodes: &known };
    group.bench_function("placement/1000x3/300", |bencher| bencher.iter(|| place(black_box(&input), goal)));
    let apart = PlacementGoal { replicas: 2, spread: Spread::Host };
    group.bench_function("placement/hosts/1000x3/300", |bencher| bencher.iter(|| place(black_box(&input), apart)));
    let placed = place(&input, goal).expect("feasible");
    let (changes, failovers) = (placed.placement.changes, placed.placement.failovers);
    eprintln!("{changes} nodes change shard, {failovers} shards fail over");
    for (shard, placed) in shards.iter_mut().zip(placed.placement.shards) {
        (shard.primary, shard.replicas) = (placed.primary, placed.replicas);
    }
    // Ten more nodes on ten hosts, of the first ten shards, and then one host is drained.
    nodes.iter_mut().filter(|node| node.host.as_str() == "host-007").for_each(|node| node.state = NodeState::Draining);
    for number in 3000..3010 {
        nodes.push(node(number));
        shards[number - 3000].replicas.push(id(number));
    }
    let known: BTreeMap<&NodeId, &Node> = nodes.iter().map(|node| (&node.id, node)).collect();
    let input = PlacementInput { shards: &shards, nodes: &known };
    group.bench_function("placement/drain-a-host", |bencher| bencher.iter(|| place(black_box(&input), goal)));
    group.finish();
}

criterion_group!(benches, planner, placement);
criterion_main!(benches);

//! A whole plan (targets, slots, actions, waves) of 16384 slots. Targets: 1 ms for a typical change of 1000 shards, 10 ms for
//! the worst case, where every slot has a random owner and every shard a new weight.

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use slotkeeper::domain::{
    DriverKind, Goal, NodeId, Shard, ShardId, ShardState, Slot, SlotRange, SlotTable, Tolerance, Weight,
};
use slotkeeper::plan::{Input, check, plan};

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
    group.finish();
}

criterion_group!(benches, planner);
criterion_main!(benches);

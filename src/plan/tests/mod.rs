//! Tests of the planner as a whole. Expected figures are the design's; small tables are compared with brute force.

use std::collections::BTreeSet;

use super::{Input, check, plan};
use crate::domain::{
    DriverKind, Goal, Limits, NodeId, PlanBody, Shard, ShardId, ShardState, Slot, SlotRange, SlotTable, Statistics,
    Tolerance, Weight,
};

mod choice;
mod damaged;
mod explained;
mod figures;
mod goals;
mod load;
mod prefixes;
mod preflight;
mod ranges;
mod remedies;
mod remembering;
mod small;

pub(super) const BALANCE: Goal = Goal::Balance { tolerance: Tolerance(0) };

/// A cluster that a test builds up and changes.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub table: SlotTable,
    pub shards: Vec<Shard>,
    pub lost: BTreeSet<ShardId>,
    pub statistics: Option<Statistics>,
}

/// `s-0007`: in the order of numbers.
pub(super) fn id(number: usize) -> ShardId {
    ShardId::new(&format!("s-{number:04}")).unwrap()
}

pub(super) fn weight(weight: u32) -> Weight {
    Weight::new(weight).unwrap()
}

pub(super) fn range(first: usize, last: usize) -> SlotRange {
    SlotRange::new(Slot::at(first), Slot::at(last)).unwrap()
}

pub(super) fn limits() -> Limits {
    DriverKind::Redis.default_limits()
}

impl Cluster {
    pub fn new() -> Self {
        Self { table: SlotTable::new(), shards: Vec::new(), lost: BTreeSet::new(), statistics: None }
    }

    /// Contiguous shards of these weights, extra slots to the lowest ids (or by largest remainder).
    pub fn contiguous(weights: &[u32]) -> Self {
        let mut cluster = Self::new();
        for w in weights {
            cluster.add(*w);
        }
        let sum: u32 = weights.iter().sum();
        let mut counts: Vec<u32> = weights.iter().map(|w| 16384 * w / sum).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(16384 * weights[i] % sum));
        let left = 16384 - counts.iter().sum::<u32>();
        order.iter().take(left as usize).for_each(|&i| counts[i] += 1);
        let mut first = 0;
        for (i, count) in counts.iter().map(|c| *c as usize).enumerate().filter(|(_, c)| *c > 0) {
            cluster.table.assign(range(first, first + count - 1), Some(&id(i))).unwrap();
            first += count;
        }
        cluster
    }

    pub fn equal(shards: usize) -> Self {
        Self::contiguous(&vec![1; shards])
    }

    /// Adds a shard without slots under the next id.
    pub fn add(&mut self, w: u32) {
        let id = id(self.shards.len());
        self.table.insert_shard(id.clone());
        self.shards.push(Shard::new(id.clone(), NodeId::new(id.as_str()).unwrap(), weight(w)));
    }

    pub fn drain(&mut self, shard: usize) {
        self.shards[shard].state = ShardState::Draining;
    }

    pub fn input(&self) -> Input<'_> {
        Input { table: &self.table, shards: &self.shards, lost: &self.lost, statistics: self.statistics.as_ref() }
    }

    /// The plan, after the checker agreed.
    pub fn plan(&self, goal: Goal) -> PlanBody {
        self.plan_within(goal, &limits())
    }

    pub fn plan_within(&self, goal: Goal, limits: &Limits) -> PlanBody {
        let body = plan(&self.input(), goal, limits).unwrap();
        if let Err(faults) = check(&self.input(), goal, limits, &body) {
            panic!("the checker refuses the plan: {faults:#?}\n{:#?}", body.summary);
        }
        body
    }

    /// Carries a plan out.
    pub fn apply(&mut self, body: &PlanBody) {
        for action in &body.actions {
            for range in action.kind.ranges() {
                self.table.assign(*range, action.kind.target()).unwrap();
            }
        }
        assert_eq!(self.table.range_count(), body.summary.ranges_after as usize);
        assert_eq!(self.table.counts(), body.shards.iter().map(|s| s.after).collect::<Vec<_>>());
    }
}

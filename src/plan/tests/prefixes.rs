//! What a plan that stops early leaves: with one slot an action, each prefix of the actions against every state that as
//! many moves reach.

use super::{BALANCE, Cluster, id, limits, range};
use crate::domain::{Goal, Limits, PlanBody};

/// Shards with these counts, contiguous.
fn cluster(counts: &[u32], weights: &[u32]) -> Cluster {
    let mut cluster = Cluster::new();
    let mut first = 0;
    for (i, (&count, &weight)) in counts.iter().zip(weights).enumerate() {
        cluster.add(weight);
        let count = count as usize;
        cluster.table.assign(range(first, first + count - 1), Some(&id(i))).unwrap();
        first += count;
    }
    cluster
}

/// Σ(t−q)²/w after each slot, in the order of the actions, times the weights' product and the squared unit.
fn distances(body: &PlanBody, weights: &[u32]) -> Vec<i128> {
    let sum: u32 = weights.iter().sum();
    let mut counts: Vec<i128> = body.shards.iter().map(|shard| i128::from(shard.before)).collect();
    let distance = |counts: &[i128]| {
        let away = |i: usize| counts[i] * i128::from(sum) - 16384 * i128::from(weights[i]);
        (0..counts.len()).map(|i| away(i).pow(2) * 2520 / i128::from(weights[i])).sum::<i128>()
    };
    let index = |shard: &crate::domain::ShardId| body.shards.iter().position(|change| change.id == *shard).unwrap();
    let mut all = Vec::new();
    for action in &body.actions {
        assert_eq!(action.kind.slots(), 1);
        counts[index(action.kind.source().unwrap())] -= 1;
        counts[index(action.kind.target().unwrap())] += 1;
        all.push(distance(&counts));
    }
    all
}

/// With one donor, or one receiver, every prefix is the best that its moves can reach: the state of the budget of as many
/// moves, which is compared with every state elsewhere.
#[test]
fn with_one_donor_or_one_receiver_every_prefix_is_the_best_there_is() {
    let limits = Limits { slots_per_move: 1, moves_per_source: 1, moves_per_target: 1, ..limits() };
    for (counts, weights) in [
        (vec![4240, 4060, 4044, 4040], vec![1, 1, 1, 1]),
        (vec![3900, 4161, 4161, 4162], vec![1, 1, 1, 1]),
        (vec![3400, 3220, 3230, 6534], vec![1, 1, 1, 2]),
    ] {
        let cluster = cluster(&counts, &weights);
        let body = cluster.plan_within(BALANCE, &limits);
        let reached = distances(&body, &weights);
        for (index, &distance) in reached.iter().enumerate() {
            let max_moves = u32::try_from(index + 1).unwrap();
            let best = cluster.plan_within(Goal::Budget { max_moves }, &limits);
            let best = distances(&best, &weights);
            assert_eq!(best.last(), Some(&distance), "{counts:?} after {max_moves}");
        }
    }
}

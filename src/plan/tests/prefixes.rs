//! What a plan that stops early leaves: with one slot an action, each prefix of the actions against every state that as
//! many moves reach.

use std::collections::BTreeMap;

use super::{BALANCE, Cluster, id, limits, range};
use crate::domain::{Goal, Limits, PlanBody};
use crate::plan::aim::Aim;
use crate::plan::plan;
use crate::plan::survey::Survey;

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

/// Σ(t−q)²/w, times the weights' product and the squared unit.
fn distance(counts: &[i128], weights: &[u32]) -> i128 {
    let sum: u32 = weights.iter().sum();
    let away = |i: usize| counts[i] * i128::from(sum) - 16384 * i128::from(weights[i]);
    (0..counts.len()).map(|i| away(i).pow(2) * 2520 / i128::from(weights[i])).sum()
}

/// The distance after each slot, in the order of the actions.
fn distances(body: &PlanBody, weights: &[u32]) -> Vec<i128> {
    let mut counts: Vec<i128> = body.shards.iter().map(|shard| i128::from(shard.before)).collect();
    let index = |shard: &crate::domain::ShardId| body.shards.iter().position(|change| change.id == *shard).unwrap();
    let mut all = Vec::new();
    for action in &body.actions {
        assert_eq!(action.kind.slots(), 1);
        counts[index(action.kind.source().unwrap())] -= 1;
        counts[index(action.kind.target().unwrap())] += 1;
        all.push(distance(&counts, weights));
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

/// A linear congruential generator: tests are the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(below)).unwrap()
    }
}

/// Four to six shards, a few slots away from their shares.
fn drifted(dice: &mut Dice) -> (Vec<u32>, Vec<u32>) {
    let shards = 4 + dice.below(3) as usize;
    let weights: Vec<u32> = (0..shards).map(|_| [1, 1, 1, 2, 3][dice.below(5) as usize]).collect();
    let sum: u32 = weights.iter().sum();
    let mut counts: Vec<u32> = weights.iter().map(|weight| 16384 * weight / sum).collect();
    counts[0] += 16384 - counts.iter().sum::<u32>();
    for _ in 0..2 + dice.below(5) {
        let (from, to, slots) = (dice.below(6) as usize % shards, dice.below(6) as usize % shards, 1 + dice.below(3));
        counts[from] -= slots;
        counts[to] += slots;
    }
    (counts, weights)
}

/// The moves of each pair of shards.
fn pairs(body: &PlanBody) -> Vec<(usize, usize, i128)> {
    let index = |shard: &crate::domain::ShardId| body.shards.iter().position(|change| change.id == *shard).unwrap();
    let mut pairs: BTreeMap<(usize, usize), i128> = BTreeMap::new();
    for kind in body.actions.iter().map(|action| &action.kind) {
        *pairs.entry((index(kind.source().unwrap()), index(kind.target().unwrap()))).or_default() += 1;
    }
    pairs.into_iter().map(|((from, to), moves)| (from, to, moves)).collect()
}

/// The least distance after each number of moves of these pairs, in whatever order they go: every subset is tried.
fn best_of(pairs: &[(usize, usize, i128)], counts: &mut [i128], weights: &[u32], moves: usize, best: &mut [i128]) {
    let Some(&(from, to, most)) = pairs.first() else {
        best[moves] = best[moves].min(distance(counts, weights));
        return;
    };
    for some in 0..=most {
        (counts[from], counts[to]) = (counts[from] - some, counts[to] + some);
        best_of(&pairs[1..], counts, weights, moves + usize::try_from(some).unwrap(), best);
        (counts[from], counts[to]) = (counts[from] + some, counts[to] - some);
    }
}

/// How many prefixes of plans with several donors and several receivers are the best, of all states and of those that some
/// subset of the plan's own moves reaches, and by how much of the gain the others miss it, in thousandths.
#[derive(Debug, Default)]
struct Seen {
    prefixes: u32,
    best: u32,
    best_of_own: u32,
    worst: i128,
    worst_of_own: i128,
}

fn look(at_once: u32) -> Seen {
    let (moves_per_source, moves_per_target) = (at_once, at_once);
    let limits = Limits { slots_per_move: 1, moves_per_source, moves_per_target, ..limits() };
    let (mut dice, mut seen) = (Dice(5), Seen::default());
    for _ in 0..400 {
        let (counts, weights) = drifted(&mut dice);
        let cluster = cluster(&counts, &weights);
        let body = plan(&cluster.input(), BALANCE, &limits).unwrap();
        let pairs = pairs(&body);
        let several = |side: fn(&(usize, usize, i128)) -> usize| pairs.iter().any(|pair| side(pair) != side(&pairs[0]));
        if pairs.is_empty() || !several(|pair| pair.0) || !several(|pair| pair.1) {
            continue;
        }
        let mut before: Vec<i128> = counts.iter().map(|&count| i128::from(count)).collect();
        let reached = distances(&body, &weights);
        let gained = distance(&before, &weights) - reached.last().unwrap();
        let mut own = vec![i128::MAX; reached.len() + 1];
        best_of(&pairs, &mut before, &weights, 0, &mut own);
        let input = cluster.input();
        let survey = Survey::new(&input).unwrap();
        for (index, &now) in reached.iter().enumerate() {
            let max_moves = u32::try_from(index + 1).unwrap();
            let aim = Aim::of(Goal::Budget { max_moves }, &survey).unwrap();
            let targets: Vec<i128> = aim.targets.iter().map(|&target| i128::from(target)).collect();
            let (best, own) = (distance(&targets, &weights), own[index + 1]);
            assert!(best <= own && own <= now, "{counts:?} {weights:?} after {max_moves}");
            seen.prefixes += 1;
            seen.best += u32::from(now == best);
            seen.best_of_own += u32::from(now == own);
            seen.worst = seen.worst.max((now - best) * 1000 / gained);
            seen.worst_of_own = seen.worst_of_own.max((now - own) * 1000 / gained);
        }
    }
    seen
}

/// With several donors and receivers the few ranges of a plan say which shard gives to which, so that its prefixes cannot
/// always be the best of all states. Of what the plan's own moves reach they nearly always are, in the order of the
/// actions; waves of one action a shard take the next move of several pairs at once, and are farther off.
#[test]
fn with_several_donors_and_receivers_prefixes_are_near_the_best() {
    let (order, waves) = (look(64), look(1));
    // 996 prefixes of 172 plans: 871 and 985, and the farthest 176 and 31 thousandths off.
    assert!(order.prefixes > 900 && order.best * 100 > order.prefixes * 86, "{order:?}");
    assert!(order.best_of_own * 100 > order.prefixes * 98, "{order:?}");
    assert!(order.worst <= 180 && order.worst_of_own <= 40, "{order:?}");
    // 570 and 648, and the farthest 278 thousandths off.
    assert!(waves.best * 100 > waves.prefixes * 55 && waves.worst <= 280, "{waves:?}");
    assert!(waves.worst_of_own <= waves.worst, "{waves:?}");
}

//! What each goal aims at: bands to prove minimality with, and the count of each shard afterwards.

use std::cmp::Ordering;

use super::PlanError;
use super::actions::Urgency;
use super::quota::{Bounds, Shares, water_fill};
use super::remedy::Remedy;
use super::survey::Survey;
use super::targets::{Bands, choose};
use crate::domain::{Goal, Tolerance};

/// Where a plan goes.
#[derive(Clone)]
pub(super) struct Aim {
    pub bands: Bands,
    /// The count of each shard afterwards.
    pub targets: Vec<u32>,
    /// Slots that stay without an owner.
    pub left_unassigned: u32,
}

impl Aim {
    pub fn of(goal: Goal, survey: &Survey<'_>) -> Result<Self, PlanError> {
        match goal {
            Goal::Balance { tolerance } => Ok(Self::balance(survey, tolerance)),
            Goal::Budget { max_moves } => Ok(Self::budget(survey, max_moves)),
            Goal::DrainOnly => Self::drain(survey),
            Goal::BalanceAbove { trigger } if is_triggered(survey, trigger) => Ok(Self::balance(survey, Tolerance(0))),
            Goal::BalanceAbove { .. } => Ok(Self::unchanged(survey)),
            Goal::BalanceLoad { .. } => unreachable!("load plans have no aim in slots"),
        }
    }

    fn balance(survey: &Survey<'_>, tolerance: Tolerance) -> Self {
        let bands = match tolerance {
            Tolerance(0) => Bands::exact(&survey.shares),
            tolerance => Bands::tolerant(&survey.shares, &survey.bounds, tolerance),
        };
        let targets = choose(&survey.counts, &bands, &survey.shares, survey.unassigned, survey.total);
        Self { bands, targets, left_unassigned: 0 }
    }

    fn unchanged(survey: &Survey<'_>) -> Self {
        let targets = survey.counts.clone();
        Self { bands: Bands::fixed(&targets), targets, left_unassigned: survey.unassigned }
    }

    /// Nobody but the draining shards gives; unassigned slots stay so. The others are levelled from below: the share of a
    /// receiver is at least what it owns.
    fn drain(survey: &Survey<'_>) -> Result<Self, PlanError> {
        let bound = |(i, b): (usize, &Bounds)| {
            let count = survey.counts[i];
            match (survey.draining(i), b.weight) {
                (true, _) => *b,
                (false, 0) => Bounds { weight: 0, lb: count, ub: count },
                (false, _) => Bounds { weight: b.weight, lb: count, ub: b.ub.max(count) },
            }
        };
        let bounds: Vec<Bounds> = survey.bounds.iter().enumerate().map(bound).collect();
        let total = survey.total - survey.unassigned;
        let slots = total - bounds.iter().map(|b| b.lb).sum::<u32>();
        let rooms = bounds.iter().map(|b| b.ub - b.lb);
        let room: u32 = rooms.clone().sum();
        if slots > room && bounds.iter().all(|b| b.weight == 0) {
            let remedy = Remedy::somebody(survey.shards, |i| survey.counts[i], slots);
            return Err(PlanError::NoActiveShard { shards: survey.shards.len(), homeless: slots, remedy });
        }
        if slots > room {
            let remedy = Remedy::more_room(survey.shards, |i| bounds[i].ub, slots - room);
            let named = survey.shards.iter().zip(rooms).zip(&bounds);
            let mut bounds: Vec<_> =
                named.filter(|(_, b)| b.weight > 0).map(|((shard, room), _)| (shard.id.clone(), room)).collect();
            bounds.sort_by_key(|(_, room)| *room);
            return Err(PlanError::NoRoomForDrain { slots, room, bounds, remedy });
        }
        let shares = water_fill(&bounds, total);
        let bands = Bands::exact(&shares);
        let targets = choose(&survey.counts, &bands, &shares, 0, total);
        Ok(Self { bands, targets, left_unassigned: survey.unassigned })
    }

    /// The first `max_moves` slots on the way to the exact balance, the most useful first.
    fn budget(survey: &Survey<'_>, max_moves: u32) -> Self {
        let exact = Self::balance(survey, Tolerance(0));
        let bound = exact.bands.lower_bound(&survey.counts, survey.unassigned);
        if max_moves >= bound.moves {
            return exact;
        }
        let targets = descend(survey, &exact, max_moves);
        Self { bands: Bands::fixed(&targets), targets, left_unassigned: 0 }
    }
}

/// Whether a shard is farther from its share than so much of what it owns, or owns nothing of a share above one slot, as
/// `redis-cli --cluster rebalance` asks. Slots without an owner, and slots of lost shards, are reason enough.
pub(super) fn is_triggered(survey: &Survey<'_>, trigger: Tolerance) -> bool {
    const WHOLE: i128 = 1_000_000;
    let far = |shard: usize| {
        let (count, shares) = (survey.counts[shard], &survey.shares);
        let away = i128::from(shares.deviation(shard, count).abs());
        match count {
            0 => away > i128::from(shares.unit),
            count => away * WHOLE > i128::from(trigger.0) * i128::from(count) * i128::from(shares.unit),
        }
    };
    let unserved = |shard: usize| survey.lost[shard] && survey.counts[shard] > 0;
    survey.unassigned > 0 || (0..survey.counts.len()).any(|shard| unserved(shard) || far(shard))
}

/// How much a slot given or taken helps: first by class, then by how much it lowers Σ(t−q)²/w (a fraction), then by id.
struct Unit {
    class: u8,
    num: i64,
    den: i64,
    shard: usize,
}

impl Unit {
    fn best_first(&self, other: &Self) -> Ordering {
        let by_descent =
            || (i128::from(other.num) * i128::from(self.den)).cmp(&(i128::from(self.num) * i128::from(other.den)));
        self.class.cmp(&other.class).then_with(by_descent)
    }
}

/// The counts after `moves` moves of the exact plan. A slot that brings a shard to its band comes before one that only
/// decides a rounding.
fn descend(survey: &Survey<'_>, exact: &Aim, moves: u32) -> Vec<u32> {
    let shares: &Shares = &survey.shares;
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    for (shard, (&count, &target)) in survey.counts.iter().zip(&exact.targets).enumerate() {
        let weight = i64::from(survey.bounds[shard].weight.max(1));
        let urgency = survey.urgency(shard);
        for level in target..count {
            let above = level + 1;
            let rounding = above <= exact.bands.hi[shard];
            let (class, den) = match urgency {
                Urgency::Unserved => (0, 1),
                Urgency::Empty => (1, 1),
                Urgency::Balance if rounding => (3, 1),
                Urgency::Balance => (2, weight),
            };
            given.push(Unit { class, num: 2 * shares.deviation(shard, above) - shares.unit, den, shard });
        }
        for level in count..target {
            let rounding = level >= exact.bands.lo[shard];
            let (class, den) = if rounding { (1, 1) } else { (0, weight) };
            taken.push(Unit { class, num: -2 * shares.deviation(shard, level) - shares.unit, den, shard });
        }
    }
    let mut counts = survey.counts.clone();
    // Ties: the lower id keeps, and the lower id takes.
    given.sort_by(|a, b| a.best_first(b).then_with(|| b.shard.cmp(&a.shard)));
    taken.sort_by(|a, b| a.best_first(b).then_with(|| a.shard.cmp(&b.shard)));
    given.iter().take(moves as usize).for_each(|unit| counts[unit.shard] -= 1);
    taken.iter().take((moves + survey.unassigned) as usize).for_each(|unit| counts[unit.shard] += 1);
    counts
}

impl Survey<'_> {
    /// How urgently slots should leave a shard.
    pub fn urgency(&self, shard: usize) -> Urgency {
        if self.lost[shard] {
            Urgency::Unserved
        } else if self.bounds[shard].weight == 0 {
            Urgency::Empty
        } else {
            Urgency::Balance
        }
    }
}

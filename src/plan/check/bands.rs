//! The bands of each goal.

use std::ops::RangeInclusive;

use super::share::{self, Share};
use super::{Faults, Input, Replay};
use crate::domain::{Goal, Shard, ShardState};

/// What a goal asks for.
pub(super) struct Expected {
    /// Fewest and most slots of each shard afterwards.
    pub bands: Vec<RangeInclusive<u32>>,
    /// Whether unassigned slots get an owner.
    pub assigns: bool,
    /// The bound is one of loads, and may be out of reach.
    pub by_load: bool,
}

impl Expected {
    pub fn of(goal: Goal, input: &Input<'_>, replay: &Replay, shares: &[Share], faults: &mut Faults) -> Self {
        match goal {
            Goal::Balance { tolerance } => {
                let bands = shares.iter().map(|share| within(share, tolerance.0)).collect();
                Self { bands, assigns: true, by_load: false }
            }
            Goal::Budget { max_moves } if max_moves < replay_bound(replay, shares) => {
                Self { assigns: true, ..Self::counts(replay) }
            }
            Goal::Budget { .. } => {
                Self { bands: shares.iter().map(|share| within(share, 0)).collect(), assigns: true, by_load: false }
            }
            Goal::DrainOnly => Self::drain(input, replay, faults),
            Goal::BalanceAbove { trigger } if is_triggered(trigger.0, input, replay, shares) => {
                Self { bands: shares.iter().map(|share| within(share, 0)).collect(), assigns: true, by_load: false }
            }
            Goal::BalanceAbove { .. } => Self::unchanged(replay),
            // What the bounds allow; `load` looks at the loads.
            Goal::BalanceLoad { .. } => {
                Self { bands: shares.iter().map(|share| share.bounds.clone()).collect(), assigns: true, by_load: true }
            }
        }
    }

    /// Exactly the counts that the plan reaches. Unassigned slots stay so.
    pub fn counts(replay: &Replay) -> Self {
        Self { bands: replay.count_after.iter().map(|&count| count..=count).collect(), assigns: false, by_load: false }
    }

    /// The counts now.
    fn unchanged(replay: &Replay) -> Self {
        Self { bands: replay.count_before.iter().map(|&count| count..=count).collect(), assigns: false, by_load: false }
    }

    /// Draining shards keep what is pinned; the others are levelled from below.
    fn drain(input: &Input<'_>, replay: &Replay, faults: &mut Faults) -> Self {
        let shard = |(i, shard): (usize, &Shard)| {
            let (count, most) = (replay.count_before[i], input.shards[i].max_slots.map_or(u32::MAX, u32::from));
            if shard.state == ShardState::Draining {
                let held = shard
                    .pinned
                    .iter()
                    .filter(|slot| input.table.owner(*slot) == Some(&shard.id) && !input.lost.contains(&shard.id));
                let held = u32::try_from(held.count()).expect("at most 16384");
                (0, held..=held)
            } else if shard.weight.get() == 0 {
                (0, count..=count)
            } else {
                (shard.weight.get(), count..=most.min(16384).max(count))
            }
        };
        let wanted: Vec<_> = input.shards.iter().enumerate().map(shard).collect();
        let owned = replay.count_before.iter().sum();
        let bands = match share::solve(wanted, owned) {
            Ok(shares) => shares.iter().map(|share| within(share, 0)).collect(),
            Err(why) => {
                faults.add(why);
                Self::counts(replay).bands
            }
        };
        Self { bands, assigns: false, by_load: false }
    }
}

/// As `redis-cli` asks: `|100 − 100·share/count| > percent`; or nothing owned of a share above 1.
fn is_triggered(ppm: u32, input: &Input<'_>, replay: &Replay, shares: &[Share]) -> bool {
    let owned: u32 = replay.count_before.iter().sum();
    let mut all = input.shards.iter().zip(shares).zip(&replay.count_before);
    owned < 16384
        || all.any(|((owner, share), &count)| {
            let (lost, count) = (input.lost.contains(&owner.id) && count > 0, i128::from(count));
            let whole = count * share.den;
            lost || if count == 0 {
                share.num > share.den
            } else {
                (whole - share.num).abs() * 1_000_000 > i128::from(ppm) * whole
            }
        })
}

/// The exact lower bound of a full balance.
pub(super) fn replay_bound(replay: &Replay, shares: &[Share]) -> u32 {
    let pairs = || shares.iter().zip(&replay.count_before);
    let above: u32 = pairs().map(|(share, count)| count.saturating_sub(share.ceil())).sum();
    let below: u32 = pairs().map(|(share, count)| share.floor().saturating_sub(*count)).sum();
    let owned: u32 = replay.count_before.iter().sum();
    above.max(below.saturating_sub(16384 - owned))
}

/// The rounded share, wider by so many parts per million, within the bounds of the shard.
pub(super) fn within(share: &Share, ppm: u32) -> RangeInclusive<u32> {
    let million = 1_000_000;
    let (ppm, whole) = (i128::from(ppm), share.den * million);
    let narrow = -(-share.num * (million - ppm)).div_euclid(whole);
    let wide = (share.num * (million + ppm)).div_euclid(whole);
    let slots = |count: i128| u32::try_from(count).expect("at most twice the total");
    let lo = slots(narrow).min(share.floor());
    let hi = slots(wide).max(share.ceil());
    lo.max(*share.bounds.start())..=hi.min(*share.bounds.end())
}

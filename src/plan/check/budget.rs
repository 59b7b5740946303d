//! A budget plan must be the best that its moves can reach: no slot given is worth less than one that was kept, and no
//! slot taken helps less than one that was not.

use std::cmp::Ordering;

use super::bands::replay_bound;
use super::share::Share;
use super::{Faults, Input, Replay};

/// The worth of one slot more or less: the class first (lower is better), then a fraction (higher is better).
#[derive(Clone, Copy)]
struct Worth {
    class: u8,
    num: i128,
    den: i128,
}

impl Worth {
    fn cmp(&self, other: &Self) -> Ordering {
        other.class.cmp(&self.class).then_with(|| (self.num * other.den).cmp(&(other.num * self.den)))
    }
}

pub(super) fn check(input: &Input<'_>, replay: &Replay, shares: &[Share], max_moves: u32, faults: &mut Faults) {
    let needed = replay_bound(replay, shares);
    if max_moves >= needed {
        return; // The plan is that of a full balance, which the bands hold.
    }
    faults.differ("moves within the budget", replay.moved, max_moves);
    let before = |i: usize| replay.count_before[i];
    let above: u32 = shares.iter().enumerate().map(|(i, share)| before(i).saturating_sub(share.ceil())).sum();
    // Otherwise receivers stop at their floor, and donors may go below their ceiling.
    let givers_stop_at_ceiling = above == needed;
    let (mut given, mut kept) = (Vec::new(), Vec::new());
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for (i, share) in shares.iter().enumerate() {
        let (from, to) = (before(i), replay.count_after[i]);
        let lowest = from.min(if givers_stop_at_ceiling { share.ceil() } else { share.floor() });
        let highest = from.max(if givers_stop_at_ceiling { share.ceil() } else { share.floor() });
        if !(lowest..=highest).contains(&to) {
            let id = &input.shards[i].id;
            faults.add(format_args!("{id} goes from {from} to {to}; a minimal plan stays in {lowest}..={highest}"));
        }
        let lost = input.lost.contains(&input.shards[i].id);
        if to < from {
            given.push(giving(share, to + 1, lost));
        }
        if to <= from && to > lowest {
            kept.push(giving(share, to, lost));
        }
        if to > from {
            taken.push(taking(share, to - 1));
        }
        if to >= from && to < highest {
            left.push(taking(share, to));
        }
    }
    compare(&given, &kept, "a shard keeps a slot that is worth more to give than one that moves", faults);
    compare(&taken, &left, "a shard gets a slot that helps less than it would elsewhere", faults);
}

fn compare(chosen: &[Worth], passed: &[Worth], fault: &str, faults: &mut Faults) {
    let worst = chosen.iter().copied().min_by(Worth::cmp);
    let best = passed.iter().copied().max_by(Worth::cmp);
    if let (Some(worst), Some(best)) = (worst, best)
        && worst.cmp(&best).is_lt()
    {
        faults.add(fault);
    }
}

/// What it is worth to give the slot that makes the count `count`.
fn giving(share: &Share, count: u32, lost: bool) -> Worth {
    let num = 2 * share.away(count) - share.den;
    let (class, weight) = match (lost, share.weight) {
        (true, _) => (0, 1),
        (false, 0) => (1, 1),
        (false, weight) if count > share.ceil() => (2, weight),
        (false, _) => (3, 1),
    };
    Worth { class, num, den: share.den * weight }
}

/// What it is worth to get one slot more than `count`.
fn taking(share: &Share, count: u32) -> Worth {
    let num = -2 * share.away(count) - share.den;
    let (class, weight) = if count < share.floor() { (0, share.weight.max(1)) } else { (1, 1) };
    Worth { class, num, den: share.den * weight }
}

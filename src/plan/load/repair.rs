//! What is left after levelling: swaps for shards that are stuck, slots that must move for `min_slots` and `max_slots`, and
//! moves that turn out not to be needed.

use super::solve::Book;
use crate::domain::Slot;

/// Swaps a larger slot of a shard that is stuck above its band for a smaller one, or the reverse below it.
pub(super) fn swaps(book: &mut Book<'_>) {
    let (over, under) = book.outside();
    for shard in over {
        while book.excess(shard) > 0
            && let Some((gives, takes, partner)) = swap(book, shard, true)
        {
            exchange(book, shard, gives, takes, partner);
        }
    }
    for shard in under {
        while book.deficit(shard) > 0 {
            if let Some(slot) = reroute(book, shard) {
                book.hand(slot, shard);
            } else if let Some((takes, gives, partner)) = swap(book, shard, false) {
                exchange(book, partner, takes, gives, shard);
            } else {
                break;
            }
        }
    }
}

fn exchange(book: &mut Book<'_>, from: usize, gives: u16, takes: u16, to: usize) {
    book.hand(gives, to);
    book.hand(takes, from);
}

/// A slot that has moved already and may go here instead: that costs nothing.
fn reroute(book: &Book<'_>, to: usize) -> Option<u16> {
    let room = book.may_take(to)?;
    let moved = book.moved.iter().map(|&slot| (slot, usize::from(book.owner[usize::from(slot)])));
    let moved = moved.filter(|(slot, now)| {
        let before = usize::from(book.survey.owners[usize::from(*slot)]);
        *now != to && before != to && !is_fixed(book, *slot)
    });
    let fits = moved.filter(|(slot, now)| {
        let load = book.loads[usize::from(*slot)];
        (1..=room).contains(&load) && book.may_give(*now).is_some_and(|most| load <= most)
    });
    fits.max_by_key(|(slot, _)| book.loads[usize::from(*slot)]).map(|(slot, _)| slot)
}

pub(super) fn is_fixed(book: &Book<'_>, slot: u16) -> bool {
    book.bands.hot.iter().any(|(hot, _)| *hot == slot)
}

/// A pair of unmoved slots, the larger of one shard and the smaller of a partner, whose difference helps the shard most
/// and takes the partner out of no band: `(larger, smaller, partner)`. The shard has the larger one when it is above its
/// band (`sheds`).
fn swap(book: &Book<'_>, shard: usize, sheds: bool) -> Option<(u16, u16, usize)> {
    let (need, ours) = if sheds {
        (book.excess(shard), book.load[shard].checked_sub(book.bands.lo[shard])?)
    } else {
        (book.deficit(shard), book.bands.hi[shard].checked_sub(book.load[shard])?)
    };
    let mut best: Option<(u64, u16, u16, usize)> = None;
    for partner in (0..book.load.len()).filter(|&partner| partner != shard && book.takes_part(partner)) {
        let theirs = if sheds {
            book.bands.hi[partner].saturating_sub(book.load[partner])
        } else {
            book.load[partner].saturating_sub(book.bands.lo[partner])
        };
        let most = ours.min(theirs);
        if most == 0 || best.is_some_and(|(helps, ..)| most.min(need) <= helps) {
            continue;
        }
        let (large, small) = if sheds { (shard, partner) } else { (partner, shard) };
        if let Some((helps, larger, smaller)) = difference(&book.own[large], &book.own[small], most)
            && best.is_none_or(|(found, ..)| helps.min(need) > found)
        {
            best = Some((helps.min(need), larger, smaller, partner));
        }
    }
    best.map(|(_, larger, smaller, partner)| (larger, smaller, partner))
}

/// The largest difference up to `most` between a slot of one list and one of the other.
fn difference(large: &[(u64, u16)], small: &[(u64, u16)], most: u64) -> Option<(u64, u16, u16)> {
    let mut best: Option<(u64, u16, u16)> = None;
    let mut at = 0;
    for &(load, slot) in large {
        // The smallest partner that is no more than `most` below.
        while at < small.len() && small[at].0 + most < load {
            at += 1;
        }
        let Some(&(other, partner)) = small.get(at) else { break };
        if other < load && best.is_none_or(|(found, ..)| load - other > found) {
            best = Some((load - other, slot, partner));
        }
    }
    best
}

/// Coldest slots first where `max_slots` or `min_slots` ask for slots that the load did not move.
pub(super) fn counts(book: &mut Book<'_>) {
    let bounds = &book.survey.bounds;
    let coldest = |book: &Book<'_>, shard: usize| book.own[shard].first().map(|(_, slot)| *slot);
    for shard in 0..bounds.len() {
        while book.takes_part(shard) && book.count[shard] > bounds[shard].ub {
            let slot = coldest(book, shard).expect("pins are within max_slots");
            let open = (0..bounds.len()).filter(|&to| book.takes_part(to) && book.count[to] < bounds[to].ub);
            // One that needs slots anyway, else the one with the most room for load.
            let wants = |to: usize| (book.count[to] < bounds[to].lb, book.bands.hi[to].saturating_sub(book.load[to]));
            let to = open.max_by_key(|&to| (wants(to), std::cmp::Reverse(to))).expect("the bounds leave room");
            book.hand(slot, to);
        }
    }
    for shard in 0..bounds.len() {
        while book.takes_part(shard) && book.count[shard] < bounds[shard].lb {
            let open = (0..bounds.len()).filter(|&from| {
                from != shard
                    && book.takes_part(from)
                    && book.count[from] > bounds[from].lb
                    && !book.own[from].is_empty()
            });
            let from = open.min_by_key(|&from| (book.own[from][0].0, from));
            let Some(from) = from else { break };
            let slot = coldest(book, from).expect("looked at above");
            book.hand(slot, shard);
        }
    }
}

/// Takes moves back that both ends can do without, the smallest first; only those that are asked for by home and place.
pub(super) fn undo(book: &mut Book<'_>, asked: impl Fn(usize, usize) -> bool) {
    let survey = book.survey;
    let may_return = |slot: &u16| {
        let now = usize::from(book.owner[usize::from(*slot)]);
        book.home(*slot).is_some_and(|home| asked(home, now)) && !is_fixed(book, *slot)
    };
    let mut moved: Vec<u16> = book.moved.iter().copied().filter(may_return).collect();
    moved.sort_by_key(|&slot| (book.loads[usize::from(slot)], slot));
    for slot in moved {
        let (load, home) = (book.loads[usize::from(slot)], usize::from(survey.owners[usize::from(slot)]));
        let now = usize::from(book.owner[usize::from(slot)]);
        debug_assert!(!survey.pinned.contains(Slot::at(usize::from(slot))), "pinned slots do not move");
        let can =
            book.may_take(home).is_some_and(|room| load <= room) && book.may_give(now).is_some_and(|most| load <= most);
        if can {
            book.hand(slot, home);
        }
    }
}

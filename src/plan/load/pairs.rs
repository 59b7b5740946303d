//! Two moves into one. A move that only its giver needs, and one that only its taker needs, become one from that giver to that
//! taker: directly, or along a chain of other moves that change their takers (an augmenting path of the matching between those
//! who must give and those who must take).

use std::collections::VecDeque;

use super::repair::is_fixed;
use super::solve::Book;

/// Pairs of moves that are looked at, at most. It bounds the time whatever the table is like.
const LOOKS_MAX: u32 = 400_000;

/// What a shard may give or take in place of a move, least and most.
#[derive(Clone, Copy)]
struct Window(u64, u64);

/// A move as it is, and what could stand in its place at either end.
struct Move {
    slot: u16,
    load: u64,
    /// Nobody, when the slot has to leave whoever had it.
    from: Option<usize>,
    to: usize,
    gives: Window,
    takes: Window,
    /// Whether the shard falls out of its band without the move.
    giver_needs: bool,
    taker_needs: bool,
}

/// Joins moves as long as there are any to join.
pub(super) fn join(book: &mut Book<'_>) {
    let mut looks = LOOKS_MAX;
    while looks > 0 && (chains(book, &mut looks) | regive(book, &mut looks) | retake(book, &mut looks)) {}
}

/// Above and below the window of what a shard has to give, when it has `load` without giving.
fn gives(book: &Book<'_>, shard: usize, load: u64) -> Window {
    // Nothing is given below the band.
    Window(load.saturating_sub(book.bands.hi[shard]).max(1), load.saturating_sub(book.bands.lo[shard]))
}

fn takes(book: &Book<'_>, shard: usize, load: u64) -> Window {
    Window(book.bands.lo[shard].saturating_sub(load).max(1), book.bands.hi[shard].saturating_sub(load))
}

fn moves(book: &Book<'_>) -> Vec<Move> {
    let survey = book.survey;
    let moved = (0_u16..).zip(book.owner.iter().zip(&survey.owners)).filter(|(_, (now, before))| now != before);
    let of = |(slot, (&now, &before)): (u16, (&u16, &u16))| {
        let (load, to) = (book.loads[usize::from(slot)], usize::from(now));
        let from = Some(usize::from(before)).filter(|&from| before != survey.nobody && book.takes_part(from));
        let without = book.load[to].checked_sub(load).expect("the slot is there");
        let too_few = book.count[to] <= survey.bounds[to].lb;
        let with = from.map(|from| book.load[from] + load);
        let too_many = from.is_some_and(|from| book.count[from] >= survey.bounds[from].ub);
        Move {
            slot,
            load,
            from,
            to,
            gives: from.zip(with).map_or(Window(load, load), |(from, with)| gives(book, from, with)),
            takes: takes(book, to, without),
            giver_needs: too_many || from.zip(with).is_none_or(|(from, with)| with > book.bands.hi[from]),
            taker_needs: too_few || without < book.bands.lo[to],
        }
    };
    moved.filter(|(slot, _)| !is_fixed(book, *slot)).map(of).collect()
}

/// A slot for both windows: the one that moves already, else the largest.
fn fitting(book: &Book<'_>, from: Option<usize>, gives: Window, takes: Window, moved: &[&Move]) -> Option<u16> {
    let (least, most) = (gives.0.max(takes.0), gives.1.min(takes.1));
    if least > most {
        return None;
    }
    let fits = |load: u64| (least..=most).contains(&load);
    if let Some(found) = moved.iter().find(|other| fits(other.load)) {
        return Some(found.slot);
    }
    let slots = &book.own[from?];
    let end = slots.partition_point(|(load, _)| *load <= most);
    slots[..end].last().filter(|(load, _)| fits(*load)).map(|(_, slot)| *slot)
}

/// The slot that the giver of one move could send to the taker of another.
fn between(book: &Book<'_>, giver: &Move, taker: &Move) -> Option<u16> {
    let apart = giver.from != Some(taker.to);
    apart.then(|| fitting(book, giver.from, giver.gives, taker.takes, &[giver])).flatten()
}

/// Sends a slot in place of a move.
fn replace(book: &mut Book<'_>, moved: &Move, slot: u16, to: usize) {
    if slot != moved.slot {
        take_back(book, moved);
    }
    book.hand(slot, to);
}

fn take_back(book: &mut Book<'_>, moved: &Move) {
    if let Some(home) = moved.from {
        book.hand(moved.slot, home);
    }
}

/// One breadth-first search from all moves whose takers do not need them to those whose givers do not. Chains of one search
/// have no shard in common, so that what was found for one stays true when another is applied.
fn chains(book: &mut Book<'_>, looks: &mut u32) -> bool {
    let moves = moves(book);
    let mut targets: Vec<usize> = (0..moves.len()).filter(|&n| moves[n].taker_needs).collect();
    targets.sort_by_key(|&n| moves[n].giver_needs);
    let mut queue: VecDeque<usize> = (0..moves.len()).filter(|&m| !moves[m].taker_needs).collect();
    if queue.is_empty() || targets.first().is_none_or(|&n| moves[n].giver_needs) {
        return false;
    }
    let mut came_from: Vec<Option<(usize, u16)>> = vec![None; moves.len()];
    let mut root: Vec<usize> = (0..moves.len()).collect();
    let (mut used, mut touched) = (vec![false; moves.len()], vec![false; book.load.len()]);
    let mut joined = false;
    while let Some(m) = queue.pop_front() {
        for &n in &targets {
            if used[root[m]] || *looks == 0 {
                break;
            }
            if came_from[n].is_some() || n == m {
                continue;
            }
            *looks -= 1;
            let Some(slot) = between(book, &moves[m], &moves[n]) else { continue };
            came_from[n] = Some((m, slot));
            root[n] = root[m];
            if moves[n].giver_needs {
                queue.push_back(n);
            } else if apply(book, &moves, &came_from, n, &mut touched) {
                used[root[n]] = true;
                joined = true;
            } else {
                came_from[n] = None;
            }
        }
    }
    joined
}

/// Applies the chain that ends at a move, unless it meets a shard twice or one that has changed since.
fn apply(
    book: &mut Book<'_>,
    moves: &[Move],
    came_from: &[Option<(usize, u16)>],
    end: usize,
    touched: &mut [bool],
) -> bool {
    let mut chain = vec![end];
    while let Some((before, _)) = came_from[chain[chain.len() - 1]] {
        chain.push(before);
    }
    let mut shards: Vec<usize> = chain.iter().flat_map(|&n| moves[n].from.into_iter().chain([moves[n].to])).collect();
    shards.sort_unstable();
    if shards.windows(2).any(|pair| pair[0] == pair[1]) || shards.iter().any(|&shard| touched[shard]) {
        return false;
    }
    for shard in shards {
        touched[shard] = true;
    }
    take_back(book, &moves[end]);
    for &n in &chain {
        if let Some((giver, slot)) = came_from[n] {
            replace(book, &moves[giver], slot, moves[n].to);
        }
    }
    true
}

/// Two moves of one giver, of which one taker needs none, into a larger one to the other.
fn regive(book: &mut Book<'_>, looks: &mut u32) -> bool {
    merge(book, looks, |book, gone, kept| {
        let from = kept.from.filter(|_| gone.from == kept.from && !gone.taker_needs && gone.to != kept.to)?;
        if book.count[from] >= book.survey.bounds[from].ub {
            return None;
        }
        let window = gives(book, from, book.load[from] + gone.load + kept.load);
        fitting(book, Some(from), window, kept.takes, &[gone])
    })
}

/// Two moves to one taker, of which one giver needs none, into a larger one from the other.
fn retake(book: &mut Book<'_>, looks: &mut u32) -> bool {
    merge(book, looks, |book, gone, kept| {
        let from = kept.from.filter(|_| gone.to == kept.to && !gone.giver_needs && gone.from != kept.from)?;
        if book.count[kept.to] <= book.survey.bounds[kept.to].lb {
            return None;
        }
        let window = takes(book, kept.to, book.load[kept.to] - gone.load - kept.load);
        fitting(book, Some(from), kept.gives, window, &[])
    })
}

/// Every two moves of a shard, until nothing more is found for them: the first goes home, the second becomes the slot that
/// `found` tells.
fn merge(book: &mut Book<'_>, looks: &mut u32, found: impl Fn(&Book<'_>, &Move, &Move) -> Option<u16>) -> bool {
    let moves = moves(book);
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); book.load.len()];
    for (n, each) in moves.iter().enumerate() {
        for shard in each.from.into_iter().chain([each.to]) {
            at[shard].push(n);
        }
    }
    let (mut touched, mut joined) = (vec![false; book.load.len()], false);
    for gone in &moves {
        let Some(home) = gone.from.filter(|_| !gone.giver_needs || !gone.taker_needs) else { continue };
        for &n in at[home].iter().chain(&at[gone.to]) {
            let kept = &moves[n];
            let shards = [Some(home), Some(gone.to), kept.from, Some(kept.to)];
            if *looks == 0 || touched[home] || touched[gone.to] {
                break;
            }
            *looks -= 1;
            if kept.slot == gone.slot || shards.iter().flatten().any(|&shard| touched[shard]) {
                continue;
            }
            if let Some(slot) = found(book, gone, kept) {
                if slot != gone.slot {
                    take_back(book, gone);
                }
                replace(book, kept, slot, kept.to);
                for &shard in shards.iter().flatten() {
                    touched[shard] = true;
                }
                joined = true;
            }
        }
    }
    joined
}

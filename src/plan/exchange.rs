//! The last step of a layout with few ranges: pieces of equal length exchange their owners where that leaves fewer ranges.
//! What every shard owns stays what it is.
//!
//! An exchange that gains nothing, or loses one range, may be what lets the next one gain. So the tables that can be
//! reached are looked at one after the other, those with the fewest ranges first, until enough exchanges were weighed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::layout::Flow;

/// No table is looked at after so many exchanges were weighed: a millisecond at most, as a rule. Twice as many save less
/// than half a range on average in tables of sixty, and nothing in tables of ten.
const WEIGHED_MAX: usize = 5_000;

/// Exchanges that lose more ranges than this are left out.
const LOSS_MAX: i32 = 1;

/// Consecutive slots with one owner before and one afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Section {
    before: u16,
    after: u16,
    fixed: bool,
    len: u32,
}

/// One end of a section, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    section: usize,
    at_right: bool,
}

/// Two pieces of equal length, `a` before `b`, in one of the tables that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Exchange {
    table: usize,
    a: Piece,
    b: Piece,
    len: u32,
}

/// The table with the fewest ranges that is found from these layouts, each a table of `owners` after `flow`.
pub(super) fn fewest_ranges(
    owners: &[u16],
    pinned: &impl Fn(usize) -> bool,
    flow: &Flow,
    layouts: &[Vec<u16>],
) -> Vec<u16> {
    let mut search = Search { flow, tables: Vec::new(), seen: BTreeSet::new(), queue: BinaryHeap::new(), weighed: 0 };
    let mut layouts: Vec<Vec<Section>> = layouts.iter().map(|after| sections(owners, pinned, after)).collect();
    layouts.sort_by_key(|table| ranges(table));
    let mut best = layouts[0].clone();
    // Every shard that owns slots has a range.
    let fewest = i32::try_from(best.iter().map(|section| section.after).collect::<BTreeSet<_>>().len()).expect("a few");
    for table in layouts {
        search.look_at(table);
    }
    while search.weighed < WEIGHED_MAX
        && ranges(&best) > fewest
        && let Some(Reverse((count, exchange))) = search.queue.pop()
    {
        let table = exchanged(&search.tables[exchange.table], exchange);
        debug_assert_eq!(count, ranges(&table), "the gain of an exchange is what it leaves");
        if count < ranges(&best) {
            best.clone_from(&table);
        }
        search.look_at(table);
    }
    best.iter().flat_map(|section| std::iter::repeat_n(section.after, section.len as usize)).collect()
}

fn sections(owners: &[u16], pinned: &impl Fn(usize) -> bool, after: &[u16]) -> Vec<Section> {
    let slots = owners.iter().zip(after).enumerate();
    merged(slots.map(|(slot, (&before, &after))| Section { before, after, fixed: pinned(slot), len: 1 }))
}

fn merged(sections: impl Iterator<Item = Section>) -> Vec<Section> {
    let mut merged: Vec<Section> = Vec::new();
    for section in sections.filter(|section| section.len > 0) {
        match merged.last_mut() {
            Some(last) if *last == (Section { len: last.len, ..section }) => last.len += section.len,
            _ => merged.push(section),
        }
    }
    merged
}

fn ranges(table: &[Section]) -> i32 {
    i32::try_from(table.chunk_by(|a, b| a.after == b.after).count()).expect("at most one a slot")
}

struct Search<'a> {
    flow: &'a Flow,
    /// The tables that were looked at.
    tables: Vec<Vec<Section>>,
    seen: BTreeSet<Vec<Section>>,
    /// Exchanges and how many ranges each leaves, fewest first.
    queue: BinaryHeap<Reverse<(i32, Exchange)>>,
    weighed: usize,
}

impl Search<'_> {
    /// Weighs every exchange in a table that was not looked at yet.
    fn look_at(&mut self, table: Vec<Section>) {
        if !self.seen.insert(table.clone()) {
            return;
        }
        let count = ranges(&table);
        for (first, of_a) in table.iter().enumerate() {
            for (second, of_b) in table.iter().enumerate().skip(first + 1) {
                if of_a.after == of_b.after || !self.may(of_a, of_b.after) || !self.may(of_b, of_a.after) {
                    continue;
                }
                let len = of_a.len.min(of_b.len);
                for a in pieces(first, len < of_a.len) {
                    for b in pieces(second, len < of_b.len) {
                        let exchange = Exchange { table: self.tables.len(), a, b, len };
                        let gain = gain(&table, exchange);
                        if gain >= -LOSS_MAX {
                            self.queue.push(Reverse((count - gain, exchange)));
                        }
                        self.weighed += 1;
                    }
                }
            }
        }
        self.tables.push(table);
    }

    /// Whether the slots of a section may have this owner.
    fn may(&self, section: &Section, owner: u16) -> bool {
        let gives = self.flow.give[usize::from(section.before)] > 0 && !section.fixed;
        section.before == owner || gives && self.flow.take[usize::from(owner)] > 0
    }
}

/// Both ends of a section, or all of it.
fn pieces(section: usize, two: bool) -> impl Iterator<Item = Piece> {
    std::iter::once(false).chain(two.then_some(true)).map(move |at_right| Piece { section, at_right })
}

/// How many ranges fewer an exchange leaves.
fn gain(table: &[Section], Exchange { a, b, len, .. }: Exchange) -> i32 {
    let beside = |piece: Piece| {
        let Section { after, len: of, .. } = table[piece.section];
        let rest = (len < of).then_some(after);
        let left = piece.section.checked_sub(1).map(|left| table[left].after);
        let right = table.get(piece.section + 1).map(|right| right.after);
        if piece.at_right { (rest, right) } else { (left, rest.or(right)) }
    };
    let ((a_left, a_right), (b_left, b_right)) = (beside(a), beside(b));
    let touch = a.section + 1 == b.section && (a.at_right || len == table[a.section].len) && !b.at_right;
    let borders = |of_a: u16, of_b: u16| {
        let border = |beside: Option<u16>, owner: u16| i32::from(beside.is_some_and(|beside| beside != owner));
        let between = if touch { 1 } else { border(a_right, of_a) + border(b_left, of_b) };
        border(a_left, of_a) + between + border(b_right, of_b)
    };
    let (of_a, of_b) = (table[a.section].after, table[b.section].after);
    borders(of_a, of_b) - borders(of_b, of_a)
}

fn exchanged(table: &[Section], Exchange { a, b, len, .. }: Exchange) -> Vec<Section> {
    let cut = |(index, section): (usize, &Section)| {
        let (piece, owner) = match index {
            index if index == a.section => (a, table[b.section].after),
            index if index == b.section => (b, table[a.section].after),
            _ => return [*section, Section { len: 0, ..*section }],
        };
        let given = Section { after: owner, len, ..*section };
        let rest = Section { len: section.len - len, ..*section };
        if piece.at_right { [rest, given] } else { [given, rest] }
    };
    merged(table.iter().enumerate().flat_map(cut))
}

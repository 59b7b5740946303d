//! Is what the clients of a register saw linearizable: is there one order of the operations in which every answer is
//! right and no operation comes after one that began when it had ended? The search is that of Wing and Gong ("Testing and
//! Verifying Concurrent Objects", JPDC 17, 1993) with Lowe's memory of what was tried ("Testing for Linearizability",
//! CCPE 29(4), 2017), as in Porcupine: an operation may come next if none that is not placed ended before it began, and a
//! set of placed operations with the value they lead to is looked at once. Registers are independent of each other, so
//! each has a history of its own.
//!
//! A write whose outcome is unknown may take effect at any time after it began, or never.

use std::collections::HashSet;
use std::fmt;

/// What a client asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// The value.
    Read,
    /// A new value, if it is still the one expected.
    Swap {
        /// What the client has read.
        expected: String,
        /// The new value.
        new: String,
    },
}

/// What it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value read.
    Value(String),
    /// Whether the value was swapped.
    Swapped(bool),
}

/// One operation of one client; times are of one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub client: usize,
    pub call: Call,
    /// When it began.
    pub from: u64,
    /// The answer and when it was there; none when the outcome is unknown.
    pub end: Option<(u64, Answer)>,
}

/// Why a history has no order: the longest attempt, and what would have had to come next.
#[derive(Debug)]
pub struct Violation {
    order: Vec<Operation>,
    left: Vec<Operation>,
}

/// Whether the operations, in any order, are those of a register with this first value.
pub fn check(first: &str, operations: &[Operation]) -> Result<(), Violation> {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.from);
    let answered = operations.iter().filter(|operation| operation.end.is_some()).count();
    let mut placed = Placed { set: vec![0; operations.len().div_ceil(64)], answered: 0, value: first.to_owned() };
    let mut tried = HashSet::from([placed.clone()]);
    let mut order: Vec<(usize, Placed)> = Vec::new();
    let mut longest: Vec<usize> = Vec::new();
    let mut next = 0;
    while placed.answered < answered {
        let deadline = operations.iter().enumerate().filter(|(index, _)| !placed.has(*index));
        let deadline = deadline.filter_map(|(_, operation)| operation.end.as_ref().map(|(end, _)| *end)).min();
        let deadline = deadline.expect("an answered operation is left");
        let step = (next..operations.len())
            .take_while(|&index| operations[index].from <= deadline)
            .filter(|&index| !placed.has(index))
            .find_map(|index| {
                let after = placed.with(index, &operations[index])?;
                tried.insert(after.clone()).then_some((index, after))
            });
        if let Some((index, after)) = step {
            order.push((index, std::mem::replace(&mut placed, after)));
            if order.len() > longest.len() {
                longest = order.iter().map(|(index, _)| *index).collect();
            }
            next = 0;
        } else {
            let Some((index, before)) = order.pop() else { return Err(violation(&operations, &longest)) };
            (next, placed) = (index + 1, before);
        }
    }
    Ok(())
}

fn violation(operations: &[Operation], longest: &[usize]) -> Violation {
    let of = |index: &usize| operations[*index].clone();
    let left: Vec<usize> = (0..operations.len()).filter(|index| !longest.contains(index)).take(8).collect();
    Violation {
        order: longest[longest.len().saturating_sub(8)..].iter().map(of).collect(),
        left: left.iter().map(of).collect(),
    }
}

/// The operations that have their place, and the value after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Placed {
    set: Vec<u64>,
    answered: usize,
    value: String,
}

impl Placed {
    fn has(&self, index: usize) -> bool {
        self.set[index / 64] >> (index % 64) & 1 == 1
    }

    /// With one more; none when its answer would be wrong here.
    fn with(&self, index: usize, operation: &Operation) -> Option<Self> {
        let answer = operation.end.as_ref().map(|(_, answer)| answer);
        let value = match (&operation.call, answer) {
            (Call::Read, Some(Answer::Value(read))) => (*read == self.value).then_some(read)?,
            (Call::Swap { expected, .. }, Some(Answer::Swapped(false))) => {
                (*expected != self.value).then_some(&self.value)?
            }
            (Call::Swap { expected, new }, Some(Answer::Swapped(true)) | None) => {
                (*expected == self.value).then_some(new)?
            }
            // An unknown read, or an answer to another question: it has no place.
            _ => return None,
        };
        let mut set = self.set.clone();
        set[index / 64] |= 1 << (index % 64);
        Some(Self { set, answered: self.answered + usize::from(answer.is_some()), value: value.clone() })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, call, from, end } = self;
        match end {
            Some((end, answer)) => write!(f, "[{from}, {end}] client {client}: {call:?} -> {answer:?}"),
            None => write!(f, "[{from}, …] client {client}: {call:?} -> unknown"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable. The longest order ends with")?;
        self.order.iter().try_for_each(|operation| writeln!(f, "  {operation}"))?;
        writeln!(f, "and none of these, among others, can come next:")?;
        self.left.iter().try_for_each(|operation| writeln!(f, "  {operation}"))
    }
}

mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(client: usize, from: u64, end: u64, value: &str) -> Operation {
        Operation { client, call: Call::Read, from, end: Some((end, Answer::Value(value.to_owned()))) }
    }

    fn swap(client: usize, from: u64, end: Option<(u64, bool)>, expected: &str, new: &str) -> Operation {
        let call = Call::Swap { expected: expected.to_owned(), new: new.to_owned() };
        Operation { client, call, from, end: end.map(|(end, swapped)| (end, Answer::Swapped(swapped))) }
    }

    fn accepted(operations: &[Operation]) {
        if let Err(violation) = check("a", operations) {
            panic!("{violation}");
        }
    }

    fn refused(operations: &[Operation]) {
        assert!(check("a", operations).is_err(), "{operations:#?}");
    }

    #[test]
    fn what_one_register_can_do_is_accepted() {
        accepted(&[]);
        accepted(&[read(1, 0, 1, "a"), swap(1, 2, Some((3, true)), "a", "b"), read(2, 4, 5, "b")]);
        // While it is swapped, either value may be read, the old one only before the new one.
        let swapping = swap(1, 0, Some((9, true)), "a", "b");
        accepted(&[swapping.clone(), read(2, 1, 2, "a"), read(3, 3, 4, "b"), read(2, 5, 6, "b")]);
        // Of two swaps of one value one is refused.
        accepted(&[swapping, swap(2, 1, Some((8, false)), "a", "c"), read(1, 10, 11, "b")]);
    }

    #[test]
    fn a_write_of_unknown_outcome_may_happen_late_or_never_or_be_seen_at_once() {
        let unknown = swap(1, 0, None, "a", "b");
        accepted(&[unknown.clone(), read(2, 1, 2, "b")]);
        accepted(&[unknown.clone(), read(2, 1, 2, "a"), read(2, 3, 4, "a")]);
        accepted(&[unknown.clone(), read(2, 1, 2, "a"), read(2, 100, 101, "b")]);
        // It does not happen twice, nor before it began.
        let back = swap(2, 5, Some((6, true)), "b", "a");
        refused(&[unknown.clone(), read(2, 1, 2, "b"), back.clone(), read(2, 7, 8, "b"), read(2, 9, 10, "a")]);
        refused(&[Operation { from: 3, ..unknown }, read(2, 1, 2, "b")]);
    }

    #[test]
    fn what_one_register_cannot_do_is_refused() {
        let swapped = swap(1, 0, Some((1, true)), "a", "b");
        // A stale read, a lost write, a value out of nowhere.
        refused(&[swapped.clone(), read(2, 2, 3, "a")]);
        refused(&[swapped.clone(), read(2, 2, 3, "b"), read(3, 4, 5, "a")]);
        refused(&[read(2, 2, 3, "x")]);
        // Back to the old value after the new one was seen, though the swap is still under way.
        refused(&[swap(1, 0, Some((9, true)), "a", "b"), read(2, 1, 2, "b"), read(3, 3, 4, "a")]);
        // Two swaps of one value.
        refused(&[swapped.clone(), swap(2, 0, Some((1, true)), "a", "c")]);
        // A refusal although the value was the one expected all the time.
        refused(&[swap(1, 0, Some((1, false)), "a", "b"), read(1, 2, 3, "a")]);
        // A refused swap that is seen all the same.
        refused(&[swap(1, 0, Some((1, false)), "x", "b"), read(1, 2, 3, "b")]);
        // Two clients that see two swaps in different order.
        let (first, second) = (swap(1, 0, Some((20, true)), "a", "b"), swap(2, 0, Some((20, true)), "b", "a"));
        accepted(&[first.clone(), second.clone(), read(3, 1, 2, "a"), read(4, 3, 4, "b"), read(4, 5, 6, "a")]);
        refused(&[first, second, read(3, 1, 2, "b"), read(4, 3, 4, "a"), read(4, 5, 6, "b")]);
    }

    /// Every order of the answered operations and of any of the others.
    fn by_brute_force(value: &str, left: &[Operation]) -> bool {
        let Some(deadline) = left.iter().filter_map(|operation| operation.end.as_ref().map(|end| end.0)).min() else {
            return true;
        };
        (0..left.len()).filter(|&index| left[index].from <= deadline).any(|index| {
            let placed = Placed { set: vec![0], answered: 0, value: value.to_owned() };
            let mut rest = left.to_vec();
            let operation = rest.remove(index);
            placed.with(0, &operation).is_some_and(|after| by_brute_force(&after.value, &rest))
        })
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let value = || proptest::sample::select(vec!["a", "b", "c"]);
        (0..3usize, 0..12u64, 1..8u64, 0..6u8, value(), value()).prop_map(|(client, from, lasts, kind, one, other)| {
            let end = from + lasts;
            match kind {
                0..3 => read(client, from, end, one),
                3 => swap(client, from, Some((end, true)), one, other),
                4 => swap(client, from, Some((end, false)), one, other),
                _ => swap(client, from, None, one, other),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        /// Small histories of all kinds, by far most of them not linearizable.
        #[test]
        fn it_says_what_trying_every_order_says(operations in prop::collection::vec(operation(), 0..7)) {
            prop_assert_eq!(check("a", &operations).is_ok(), by_brute_force("a", &operations));
        }
    }
}

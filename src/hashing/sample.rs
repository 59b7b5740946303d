//! The keys of a comparison: distinct ones, and how often each is asked for.

use super::key::Key;
use crate::domain::Invalid;

/// Most keys of a sample.
pub const KEYS_MAX: usize = 10_000_000;

/// Distinct keys in the order in which they came first, with the number of their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub(super) keys: Vec<Key>,
    pub(super) counts: Vec<u64>,
    pub(super) requests: u64,
}

impl Sample {
    /// Keys as they were asked for: repeated ones are requests. Keys are told apart by 112 bits of their hashes.
    ///
    /// # Errors
    /// [`Invalid`] when there is none, or more than [`KEYS_MAX`].
    pub fn of_trace(trace: &[Key]) -> Result<Self, Invalid> {
        check_count(trace.len())?;
        let mut order: Vec<u32> = (0..).take(trace.len()).collect();
        let identity = |&index: &u32| {
            let key = &trace[index as usize];
            (key.hash, key.ketama, key.slot, index)
        };
        order.sort_unstable_by_key(identity);
        // The first of each run of equal keys, then back into the order in which they came.
        let mut firsts: Vec<(u32, u64)> = order
            .chunk_by(|&a, &b| trace[a as usize] == trace[b as usize])
            .map(|run| (run[0], u64::try_from(run.len()).expect("fits in memory")))
            .collect();
        firsts.sort_unstable();
        let requests = u64::try_from(trace.len()).expect("fits in memory");
        let keys = firsts.iter().map(|&(index, _)| trace[index as usize]).collect();
        Ok(Self { keys, counts: firsts.into_iter().map(|(_, count)| count).collect(), requests })
    }

    /// Generated keys, each asked for once; or with `skewed` as Zipf's law has it: the k-th key ⌈n/k⌉ times.
    ///
    /// # Errors
    /// As [`Self::of_trace`].
    pub fn of_generated(keys: Vec<Key>, skewed: bool) -> Result<Self, Invalid> {
        check_count(keys.len())?;
        let count = u64::try_from(keys.len()).expect("fits in memory");
        let counts: Vec<u64> =
            if skewed { (1..=count).map(|rank| count.div_ceil(rank)).collect() } else { vec![1; keys.len()] };
        let requests = counts.iter().sum();
        Ok(Self { keys, counts, requests })
    }

    /// Number of distinct keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Never: a sample has keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// At most so many keys, evenly from the whole.
    pub(super) fn thinned(&self, most: usize) -> Vec<Key> {
        let step = self.keys.len().div_ceil(most).max(1);
        self.keys.iter().step_by(step).copied().collect()
    }
}

/// A part of a generated sample: the keys `key:SEED:FIRST` and on.
#[must_use]
pub fn generate(seed: u64, numbers: std::ops::Range<u64>) -> Vec<Key> {
    use std::io::Write as _;
    let mut text = Vec::with_capacity(48);
    let key = |number| {
        text.clear();
        write!(text, "key:{seed}:{number}").expect("a vector takes all");
        Key::of(&text)
    };
    numbers.map(key).collect()
}

fn check_count(count: usize) -> Result<(), Invalid> {
    match count {
        0 => Err(Invalid::new("keys", "there is none".to_owned())),
        1..=KEYS_MAX => Ok(()),
        _ => Err(Invalid::new("keys", format!("{count} are more than {KEYS_MAX}"))),
    }
}

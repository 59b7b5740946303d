//! A set of slots as a bitmap of 2 KiB, or nothing while it is empty, with its maximal ranges.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Invalid, SLOT_COUNT, Slot, SlotRange};

const WORDS: usize = SLOT_COUNT / 64;

/// A set of slots. Serialised as its maximal ranges, ascending.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<SlotRange>", into = "Vec<SlotRange>")]
pub struct SlotSet {
    /// None until the first slot comes: thousands of shards have no pins.
    words: Option<Box<[u64; WORDS]>>,
}

impl SlotSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: None }
    }

    /// The union of ranges that do not overlap.
    ///
    /// # Errors
    /// [`Invalid`] naming the first slot that two ranges share.
    pub fn from_ranges(ranges: impl IntoIterator<Item = SlotRange>) -> Result<Self, Invalid> {
        let mut set = Self::new();
        for range in ranges {
            for slot in range.slots() {
                if !set.insert(slot) {
                    return Err(Invalid::new("slot ranges", format!("slot {slot} is listed twice (again in {range})")));
                }
            }
        }
        Ok(set)
    }

    /// Adds a slot; false when it was there already.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let (word, bit) = (slot.index() / 64, 1_u64 << (slot.index() % 64));
        let words = self.words.get_or_insert_with(|| Box::new([0; WORDS]));
        let absent = words[word] & bit == 0;
        words[word] |= bit;
        absent
    }

    /// Adds every slot of a range.
    pub fn insert_range(&mut self, range: SlotRange) {
        for slot in range.slots() {
            self.insert(slot);
        }
    }

    /// Removes a slot; false when it was not there.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let (word, bit) = (slot.index() / 64, 1_u64 << (slot.index() % 64));
        let Some(words) = &mut self.words else { return false };
        let present = words[word] & bit != 0;
        words[word] &= !bit;
        present
    }

    /// Whether the slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        self.words.as_ref().is_some_and(|words| words[slot.index() / 64] >> (slot.index() % 64) & 1 == 1)
    }

    /// Number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words().iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether no slot is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words().iter().all(|&w| w == 0)
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let bits = |word: u64| std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)));
        (0..WORDS).zip(self.words()).flat_map(move |(index, &word)| {
            bits(word)
                .take_while(|left| *left != 0)
                .map(move |left| Slot::at(index * 64 + left.trailing_zeros() as usize))
        })
    }

    /// All words, or none of an empty set.
    fn words(&self) -> &[u64] {
        self.words.as_ref().map_or(&[], |words| words.as_slice())
    }

    /// The maximal ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> Vec<SlotRange> {
        ranges_of(self.iter())
    }
}

/// The maximal ranges of slots given in ascending order.
#[must_use]
pub fn ranges_of(slots: impl IntoIterator<Item = Slot>) -> Vec<SlotRange> {
    let mut ranges: Vec<(Slot, Slot)> = Vec::new();
    for slot in slots {
        match ranges.last_mut() {
            Some((_, last)) if last.get() + 1 == slot.get() => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
        .into_iter()
        .map(|(first, last)| SlotRange::new(first, last).expect("ascending slots give ascending ranges"))
        .collect()
}

/// A set that was emptied equals one that was never filled.
impl PartialEq for SlotSet {
    fn eq(&self, other: &Self) -> bool {
        match (&self.words, &other.words) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

impl Eq for SlotSet {}

/// `0-3,7`, or `none`.
impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (i, range) in self.ranges().into_iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotSet({self})")
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::new();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl TryFrom<Vec<SlotRange>> for SlotSet {
    type Error = Invalid;
    fn try_from(ranges: Vec<SlotRange>) -> Result<Self, Invalid> {
        Self::from_ranges(ranges)
    }
}

impl From<SlotSet> for Vec<SlotRange> {
    fn from(set: SlotSet) -> Self {
        set.ranges()
    }
}

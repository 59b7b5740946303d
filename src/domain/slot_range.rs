//! A contiguous range of slots, both ends included.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Invalid, Slot};

/// Slots `first..=last`; never empty. Serialised as `[first, last]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "(Slot, Slot)", into = "(Slot, Slot)")]
pub struct SlotRange {
    first: Slot,
    last: Slot,
}

impl SlotRange {
    /// All 16384 slots.
    pub const ALL: Self = Self { first: Slot::FIRST, last: Slot::LAST };

    /// The range from `first` to `last`, both included.
    ///
    /// # Errors
    /// [`Invalid`] when `first` is above `last`.
    pub fn new(first: Slot, last: Slot) -> Result<Self, Invalid> {
        if first <= last {
            Ok(Self { first, last })
        } else {
            Err(Invalid::new("slot range", format!("{first}-{last} starts after it ends")))
        }
    }

    /// The range of one slot.
    #[must_use]
    pub const fn single(slot: Slot) -> Self {
        Self { first: slot, last: slot }
    }

    /// The first slot.
    #[must_use]
    pub const fn first(self) -> Slot {
        self.first
    }

    /// The last slot, included.
    #[must_use]
    pub const fn last(self) -> Slot {
        self.last
    }

    /// Number of slots, at least 1.
    #[must_use]
    pub const fn count(self) -> usize {
        self.last.index() - self.first.index() + 1
    }

    /// Whether the slot lies in the range.
    #[must_use]
    pub fn contains(self, slot: Slot) -> bool {
        self.first <= slot && slot <= self.last
    }

    /// The slots in ascending order.
    pub fn slots(self) -> impl DoubleEndedIterator<Item = Slot> {
        (self.first.index()..=self.last.index()).map(Slot::at)
    }
}

impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// Reads `n` or `a-b`.
impl FromStr for SlotRange {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let slot = |part: &str| {
            if part.is_empty() || part.len() > 5 || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(Invalid::new("slot range", format!("{text:?} is not a slot or a-b")));
            }
            let number: u32 = part.parse().map_err(|_| Invalid::new("slot", format!("{part:?} is not a number")))?;
            u16::try_from(number)
                .ok()
                .and_then(|n| Slot::new(n).ok())
                .ok_or_else(|| Invalid::new("slot", format!("{number} is not in 0..=16383")))
        };
        match text.split_once('-') {
            None => Ok(Self::single(slot(text)?)),
            Some((first, last)) => Self::new(slot(first)?, slot(last)?),
        }
    }
}

impl TryFrom<(Slot, Slot)> for SlotRange {
    type Error = Invalid;
    fn try_from((first, last): (Slot, Slot)) -> Result<Self, Invalid> {
        Self::new(first, last)
    }
}

impl From<SlotRange> for (Slot, Slot) {
    fn from(range: SlotRange) -> Self {
        (range.first, range.last)
    }
}

//! A slot number, and the slot of a key exactly as Redis Cluster computes it.
//!
//! The shipped implementation is the `crc16` crate; the SDK has a faster table of its own and is
//! tested against this one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Number of slots in every table: 16384, as in Redis Cluster.
pub const SLOT_COUNT: usize = 16384;

/// A slot number, `0..=16383`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Slot(u16);

impl Slot {
    /// The first slot, 0.
    pub const FIRST: Self = Self(0);
    /// The last slot, 16383.
    pub const LAST: Self = Self(16383);

    /// The slot with this number.
    ///
    /// # Errors
    /// [`Invalid`] when the number is above 16383.
    pub fn new(number: u16) -> Result<Self, Invalid> {
        if usize::from(number) < SLOT_COUNT {
            Ok(Self(number))
        } else {
            Err(Invalid::new("slot", format!("{number} is not in 0..=16383")))
        }
    }

    /// The number, `0..=16383`.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number as an index into an array of [`SLOT_COUNT`] entries.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slot at an index below [`SLOT_COUNT`].
    ///
    /// # Panics
    /// When the index is out of bounds: a defect in the caller.
    #[must_use]
    pub fn at(index: usize) -> Self {
        assert!(index < SLOT_COUNT, "slot index {index} out of bounds");
        #[expect(clippy::cast_possible_truncation, reason = "below 16384, asserted above")]
        Self(index as u16)
    }

    /// All slots in ascending order.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..SLOT_COUNT).map(Self::at)
    }

    /// The slot of a key: CRC16/XMODEM of its hash tag, or of the whole key, modulo 16384.
    ///
    /// Source: the Redis Cluster specification, "Key distribution model" and "Hash tags".
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        Self(crc16::State::<crc16::XMODEM>::calculate(hash_tag(key)) & 0x3fff)
    }
}

/// The part of a key that is hashed: between the first `{` and the first `}` after it, unless that
/// part is empty or missing; then the whole key.
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&b| b == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u16> for Slot {
    type Error = Invalid;
    fn try_from(number: u16) -> Result<Self, Invalid> {
        Self::new(number)
    }
}

impl From<Slot> for u16 {
    fn from(slot: Slot) -> Self {
        slot.0
    }
}

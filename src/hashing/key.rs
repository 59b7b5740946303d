//! A key as the families see it: its hashes, computed once.

use md5::{Digest as _, Md5};
use twox_hash::XxHash3_64;

use crate::domain::Slot;

/// The hashes of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// XXH3 of 64 bits, seed 0: for every family but two.
    pub hash: u64,
    /// The first word of MD5, little-endian: ketama's.
    pub ketama: u32,
    /// The slot of Redis Cluster: CRC16 of the hash tag.
    pub slot: u16,
}

impl Key {
    /// Hashes the bytes of a key; any bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let digest = Md5::digest(bytes);
        let word = digest.first_chunk::<4>().expect("MD5 has 16 bytes");
        Self { hash: XxHash3_64::oneshot(bytes), ketama: u32::from_le_bytes(*word), slot: Slot::of_key(bytes).get() }
    }

    /// Another position of the same key, as if it were another key; the key itself for 0.
    #[must_use]
    pub fn again(self, number: u64) -> Self {
        if number == 0 {
            return self;
        }
        let hash = with(self.hash, number);
        let (low, slot) = (hash & 0xffff_ffff, hash >> 32 & 0x3fff);
        let fits = "masked to fit";
        Self { hash, ketama: u32::try_from(low).expect(fits), slot: u16::try_from(slot).expect(fits) }
    }
}

/// The hash of a node's name; `number` tells its points apart.
#[must_use]
pub fn point(name: &str, number: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(number, name.as_bytes())
}

/// One hash of two: the finaliser of `SplitMix64` (Steele, Lea and Flood 2014) over both.
#[must_use]
pub const fn with(hash: u64, other: u64) -> u64 {
    mix(hash ^ mix(other.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

/// The finaliser of `SplitMix64`: a bijection in which every bit of the input changes half the bits of the output.
#[must_use]
pub const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// Numbers that look random and are the same everywhere: `SplitMix64`.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Starts a sequence.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below a bound that is not 0 (Lemire 2019, the bias below 2⁻³² for small bounds).
    pub fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }
}

/// `hash · bound / 2⁶⁴`: a hash to a number below the bound.
#[must_use]
pub fn scale(hash: u64, bound: u64) -> u64 {
    u64::try_from((u128::from(hash) * u128::from(bound)) >> 64).expect("below the bound")
}

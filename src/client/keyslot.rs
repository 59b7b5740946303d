//! Key → slot on the hot path: the same function as [`Slot::of_key`], faster.
//!
//! CRC16/XMODEM sixteen, eight and four bytes at a time (slicing, Kounavis and Berry 2005) with the tables of the
//! `crc` crate: the look-ups of one step do not wait for each other. The hash tag is looked for eight bytes at a time
//! in short keys, where a call of `memchr` costs more than the search, and by `memchr` in long ones.

use crate::domain::Slot;

static TABLES: crc::Crc<u16, crc::Table<16>> = crc::Crc::<u16, crc::Table<16>>::new(&crc::CRC_16_XMODEM);

/// Keys up to this length are searched without `memchr`.
const SHORT_BYTES: usize = 32;

/// The slot of a key, as Redis Cluster computes it.
///
/// ```
/// # use slotkeeper::{client::slot_of_key, domain::Slot};
/// assert_eq!(slot_of_key(b"123456789"), Slot::at(12739));
/// assert_eq!(slot_of_key(b"{user1000}.following"), slot_of_key(b"user1000"));
/// ```
#[inline]
#[must_use]
pub fn slot_of_key(key: &[u8]) -> Slot {
    let open = if key.len() <= SHORT_BYTES { short_has_brace(key) } else { memchr::memchr(b'{', key).is_some() };
    let hashed = if open { tag(key) } else { key };
    Slot::at(usize::from(crc16(hashed) & 0x3fff))
}

/// The hash tag of a key that has an opening brace.
#[cold]
fn tag(key: &[u8]) -> &[u8] {
    let open = memchr::memchr(b'{', key).expect("the caller saw the brace");
    let rest = &key[open + 1..];
    match memchr::memchr(b'}', rest) {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// Whether there is a `{`; eight bytes at a time, the last eight overlapping those before.
#[inline]
fn short_has_brace(key: &[u8]) -> bool {
    let Some(last) = key.last_chunk::<8>() else { return key.contains(&b'{') };
    let (chunks, _) = key.as_chunks::<8>();
    chunks.iter().fold(word_has_brace(*last), |seen, &chunk| seen | word_has_brace(chunk))
}

/// The test for a zero byte of Mycroft (1987), on the bytes' differences from `{`.
#[inline]
const fn word_has_brace(bytes: [u8; 8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    let differences = u64::from_le_bytes(bytes) ^ (ONES * b'{' as u64);
    differences.wrapping_sub(ONES) & !differences & (ONES * 0x80) != 0
}

#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let crc = blocks.iter().fold(0, step);
    let (blocks, rest) = rest.as_chunks::<8>();
    let crc = blocks.iter().fold(crc, step);
    let (blocks, rest) = rest.as_chunks::<4>();
    let crc = blocks.iter().fold(crc, step);
    rest.iter().fold(crc, |crc, &byte| TABLES.table()[0][usize::from((crc >> 8) as u8 ^ byte)] ^ (crc << 8))
}

/// Takes in `N` bytes: the table of a byte is how many bytes follow it.
#[inline]
fn step<const N: usize>(crc: u16, block: &[u8; N]) -> u16 {
    let tables = TABLES.table();
    let [high, low] = crc.to_be_bytes();
    let mut next = tables[N - 1][usize::from(block[0] ^ high)] ^ tables[N - 2][usize::from(block[1] ^ low)];
    for (i, &byte) in block.iter().enumerate().skip(2) {
        next ^= tables[N - 1 - i][usize::from(byte)];
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_the_shipped_implementation(key in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(slot_of_key(&key), Slot::of_key(&key));
        }

        #[test]
        fn agrees_where_braces_abound(key in "[{}a\u{7b}-\u{7f}]{0,70}") {
            prop_assert_eq!(slot_of_key(key.as_bytes()), Slot::of_key(key.as_bytes()));
        }

        #[test]
        fn agrees_with_one_tag_anywhere(
            before in proptest::collection::vec(any::<u8>(), 0..40),
            tag in proptest::collection::vec(any::<u8>(), 0..40),
            after in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let key = [before, vec![b'{'], tag, vec![b'}'], after].concat();
            prop_assert_eq!(slot_of_key(&key), Slot::of_key(&key));
        }
    }

    #[test]
    fn every_byte_at_every_place_is_told_from_a_brace() {
        for length in 1..=SHORT_BYTES {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut key = vec![b'z'; length];
                    key[place] = byte;
                    assert_eq!(short_has_brace(&key), byte == b'{', "{byte} at {place} of {length}");
                }
            }
        }
    }
}

//! A look at SQLite's write-ahead log before SQLite sees it. SQLite drops every frame after the first bad one without
//! a word, commits that were acknowledged included: right for a tail that a crash tore, wrong for damage in the middle.
//! The file format: <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::super::OpenError;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC_LITTLE_ENDIAN: u32 = 0x377f_0682;
const MAGIC_BIG_ENDIAN: u32 = 0x377f_0683;

/// Refuses a log whose damage cannot be a torn tail: a crash tears the last commit only, so two or more commits after
/// the first bad frame were once on the disk whole.
pub(super) fn check_wal(path: &Path) -> Result<(), OpenError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(OpenError::Directory { path: path.to_owned(), source }),
    };
    match damage(&bytes) {
        None => Ok(()),
        Some(Damage { frame, commits_after }) => {
            let place = frame.map_or("the header".to_owned(), |number| format!("frame {number}"));
            let why = format!("it is damaged and {commits_after} committed transactions follow: not a torn tail");
            Err(OpenError::damaged(path, &place, &why))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Damage {
    /// The first bad frame, from 1; none when the header is bad.
    frame: Option<usize>,
    commits_after: usize,
}

/// The first damage that is no torn tail.
fn damage(bytes: &[u8]) -> Option<Damage> {
    let header = bytes.get(..HEADER_BYTES)?;
    let mut sums = (0, 0);
    let magic = word(header, 0);
    let big_endian = magic == MAGIC_BIG_ENDIAN;
    checksum(&header[..24], big_endian, &mut sums);
    let page_bytes = word(header, 8) as usize;
    let header_good = (big_endian || magic == MAGIC_LITTLE_ENDIAN)
        && page_bytes.is_power_of_two()
        && (512..=65536).contains(&page_bytes)
        && sums == (word(header, 24), word(header, 28));
    if !header_good {
        // The header is written before the first frame, so it is torn only while no frame follows. The salts of the
        // first frame, at the page size this store always has, say whether commits do.
        let frames = &bytes[HEADER_BYTES..];
        let salts = frames.get(8..16)?;
        let commits_after = commits(frames, 4096, salts);
        return (commits_after >= 2).then_some(Damage { frame: None, commits_after });
    }
    let salts = &header[16..24];
    let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
    for (number, frame) in bytes[HEADER_BYTES..].chunks_exact(frame_bytes).enumerate() {
        checksum(&frame[..8], big_endian, &mut sums);
        checksum(&frame[FRAME_HEADER_BYTES..], big_endian, &mut sums);
        if frame[8..16] != *salts || sums != (word(frame, 16), word(frame, 20)) {
            let after = &bytes[HEADER_BYTES + (number + 1) * frame_bytes..];
            let commits_after = commits(after, page_bytes, salts);
            return (commits_after >= 2).then_some(Damage { frame: Some(number + 1), commits_after });
        }
    }
    None
}

/// How many frames with these salts end a transaction.
fn commits(frames: &[u8], page_bytes: usize, salts: &[u8]) -> usize {
    frames
        .chunks_exact(FRAME_HEADER_BYTES + page_bytes)
        .filter(|frame| frame[8..16] == *salts && word(frame, 4) != 0)
        .count()
}

/// SQLite's running checksum over pairs of words, continued from `sums`.
fn checksum(bytes: &[u8], big_endian: bool, sums: &mut (u32, u32)) {
    let read = |four: &[u8]| {
        let four = four.try_into().expect("four bytes");
        if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for pair in bytes.chunks_exact(8) {
        sums.0 = sums.0.wrapping_add(read(&pair[..4])).wrapping_add(sums.1);
        sums.1 = sums.1.wrapping_add(read(&pair[4..])).wrapping_add(sums.0);
    }
}

/// A word of a header: these are big-endian always.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A log that SQLite itself wrote: five transactions of one page each after the first.
    fn real_log() -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        for _ in 0..5 {
            connection.execute("INSERT INTO t VALUES (1)", []).unwrap();
        }
        fs::read(dir.path().join("a.db-wal")).unwrap()
    }

    fn frame_at(number: usize) -> usize {
        HEADER_BYTES + (number - 1) * (FRAME_HEADER_BYTES + 4096)
    }

    #[test]
    fn what_sqlite_wrote_is_good_whole_and_cut_anywhere() {
        let bytes = real_log();
        assert!(bytes.len() > frame_at(6));
        for len in (0..=bytes.len()).step_by(97).chain([bytes.len()]) {
            assert_eq!(damage(&bytes[..len]), None, "cut at {len}");
        }
    }

    #[test]
    fn a_flipped_bit_is_refused_unless_at_most_one_commit_follows() {
        let bytes = real_log();
        let frames = (bytes.len() - HEADER_BYTES) / (FRAME_HEADER_BYTES + 4096);
        for number in 1..=frames {
            let mut torn = bytes.clone();
            torn[frame_at(number) + 100] ^= 1;
            let commits_after = (number + 1..=frames).filter(|&later| word(&bytes, frame_at(later) + 4) != 0).count();
            let expected = (commits_after >= 2).then_some(Damage { frame: Some(number), commits_after });
            assert_eq!(damage(&torn), expected, "frame {number}");
        }
    }

    #[test]
    fn a_bad_header_with_commits_behind_it_is_refused() {
        let mut bytes = real_log();
        bytes[13] ^= 1;
        assert!(matches!(damage(&bytes), Some(Damage { frame: None, .. })));
        assert_eq!(damage(&bytes[..frame_at(2)]), None);
    }
}

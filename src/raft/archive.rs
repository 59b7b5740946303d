//! A snapshot outside of memory: on this member's disk, on its way to another member, in a backup. One form for all:
//! lines of JSON, the first of them the head, the second the state, then audit records, and last the SHA-256 of all
//! bytes before. A file that is cut off or changed anywhere is refused before anything in it is used, and one of a
//! newer version by name. Read and written in pieces, so that only the state itself is ever in memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::codec::{self, CodecError};
use super::types::SnapshotMeta;
use crate::domain::hex;
use crate::state::{AuditRecord, State};

/// The newest format this member reads, and the one it writes.
const FORMAT: u16 = 1;
/// What every snapshot of every version begins with.
const BEGINNING: &[u8] = b"{\"slotkeeper_snapshot\":";
/// `{"sha256":"`, 64 digits, `"}` and the end of the line.
const TRAILER_BYTES: u64 = 78;
/// Longest head: the members of the group are in it.
const HEAD_MAX_BYTES: usize = 1 << 20;
/// A file that must be durable is synced every so many bytes: one large sync at the end would stall the log beside it.
const SYNC_EVERY_BYTES: usize = 1 << 20;
/// Longest pause after a sync, in which the log has the disk to itself.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Bytes read or written at a time.
const PIECE_BYTES: usize = 128 << 10;

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    slotkeeper_snapshot: u16,
    /// Version of the program that wrote it.
    pub(super) written_by: String,
    /// The group that the state is of.
    pub(super) group_id: String,
    /// Where in the log it stands, and the members then.
    pub(super) meta: SnapshotMeta,
    /// The audit records kept when it was written.
    pub(super) audit: Span,
    /// How many of them it holds: all, or none where they are in the store beside it.
    pub(super) records: u64,
}

/// The retained end of the audit chain. Its beginning is anchored here: records cut off before it are missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Span {
    /// Number of the first record kept; one more than `last` when none is.
    pub(super) first: u64,
    /// Hash of the record before it.
    pub(super) previous: String,
    /// Number of the last: the state's.
    pub(super) last: u64,
    /// Its hash.
    pub(super) hash: String,
}

/// Why a file was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    /// Written by a newer version.
    #[error("it is a snapshot of format {found}, written by a newer version; this one knows up to {FORMAT}")]
    Newer {
        /// Its format.
        found: u16,
    },
    /// Something else, or its beginning is lost.
    #[error("it is no snapshot of slotkeeper")]
    Foreign,
    /// Not as it was written.
    #[error("{place}: {why}")]
    Damaged {
        /// Which part.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ArchiveError {
    #[expect(clippy::needless_pass_by_value, reason = "errors are given as they come")]
    pub(super) fn damaged(place: impl Into<String>, why: impl ToString) -> Self {
        Self::Damaged { place: place.into(), why: why.to_string() }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) bytes: u64,
    /// SHA-256 (hex) of all bytes before the last line, as the last line says it.
    pub(super) sha256: String,
}

impl Head {
    pub(super) fn new(group_id: &str, meta: &SnapshotMeta, audit: Span, records: u64) -> Self {
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        let (group_id, meta) = (group_id.to_owned(), meta.clone());
        Self { slotkeeper_snapshot: FORMAT, written_by, group_id, meta, audit, records }
    }
}

/// Hashes what passes, and syncs from time to time.
struct Sink<'a> {
    file: &'a File,
    sha: Sha256,
    bytes: u64,
    durable: bool,
    unsynced: usize,
}

impl Write for Sink<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.file.write_all(piece)?;
        self.sha.update(piece);
        self.bytes += piece.len() as u64;
        self.unsynced += piece.len();
        if self.durable && self.unsynced >= SYNC_EVERY_BYTES {
            let began = Instant::now();
            self.file.sync_data()?;
            self.unsynced = 0;
            // As long as the disk was busy with it: a snapshot has at most half of the disk.
            thread::sleep(began.elapsed().min(PAUSE_MAX));
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a snapshot to a new file. `records` are the audit records as JSON, as many as the head says.
pub(super) fn write(
    file: &File,
    durable: bool,
    head: &Head,
    state: &State,
    records: impl IntoIterator<Item = io::Result<String>>,
) -> io::Result<Written> {
    let sink = Sink { file, sha: Sha256::new(), bytes: 0, durable, unsynced: 0 };
    let mut out = BufWriter::with_capacity(PIECE_BYTES, sink);
    serde_json::to_writer(&mut out, head)?;
    out.write_all(b"\n")?;
    codec::write(&mut out, state).map_err(io::Error::other)?;
    out.write_all(b"\n")?;
    let mut count = 0;
    for record in records {
        out.write_all(record?.as_bytes())?;
        out.write_all(b"\n")?;
        count += 1;
    }
    if count != head.records {
        return Err(io::Error::other(format!("{count} audit records, not {}", head.records)));
    }
    let mut sink = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let sha256 = hex(&std::mem::take(&mut sink.sha).finalize());
    let bytes = sink.bytes + TRAILER_BYTES;
    sink.file.write_all(trailer(&sha256).as_bytes())?;
    if durable {
        sink.file.sync_all()?;
    }
    Ok(Written { bytes, sha256 })
}

fn trailer(sha256: &str) -> String {
    format!("{{\"sha256\":\"{sha256}\"}}\n")
}

/// A snapshot in a file, whole.
#[derive(Debug)]
pub(super) struct Archive {
    file: File,
    pub(super) head: Head,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    state_at: u64,
    records_at: u64,
}

impl Archive {
    /// Checks a file from its first byte to its last.
    ///
    /// # Errors
    /// [`ArchiveError`] when it is not exactly what was written.
    pub(super) fn open(file: File) -> Result<Self, ArchiveError> {
        let bytes = file.metadata()?.len();
        let end = bytes.saturating_sub(TRAILER_BYTES);
        let mut sha = Sha256::new();
        let mut first_line = Vec::new();
        let mut line_ends = Vec::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < end {
            let size = PIECE_BYTES.min(usize::try_from(end - at).unwrap_or(PIECE_BYTES));
            let read = &mut piece[..size];
            file.read_exact_at(read, at)?;
            sha.update(&*read);
            if line_ends.is_empty() && first_line.len() < HEAD_MAX_BYTES {
                first_line.extend_from_slice(read);
            }
            let wanted = 2 - line_ends.len();
            line_ends.extend(memchr::memchr_iter(b'\n', read).take(wanted).map(|offset| at + offset as u64));
            at += size as u64;
        }
        if !first_line.starts_with(BEGINNING) {
            return Err(ArchiveError::Foreign);
        }
        let head_end = line_ends.first().and_then(|&end| usize::try_from(end).ok());
        let head_line = head_end.and_then(|end| first_line.get(..end)).unwrap_or(&first_line);
        refuse_newer(head_line)?;
        let sha256 = hex(&sha.finalize());
        let mut last_line = vec![0; usize::try_from(bytes - end).expect("a line")];
        file.read_exact_at(&mut last_line, end)?;
        if last_line != trailer(&sha256).as_bytes() {
            return Err(ArchiveError::damaged(
                "its last line",
                format!("it is not the SHA-256 of the {end} bytes before: the file is cut off or was changed"),
            ));
        }
        let head: Head = serde_json::from_slice(head_line).map_err(|error| ArchiveError::damaged("its head", error))?;
        let [head_end, state_end] = line_ends[..] else {
            return Err(ArchiveError::damaged("its state", "it is missing"));
        };
        Ok(Self { file, head, bytes, sha256, state_at: head_end + 1, records_at: state_end + 1 })
    }

    /// The state.
    ///
    /// # Errors
    /// [`ArchiveError`] when it cannot be understood.
    pub(super) fn state(&self) -> Result<State, ArchiveError> {
        let mut text = Vec::new();
        self.part(self.state_at, self.records_at - 1).read_to_end(&mut text)?;
        let state: State = codec::decode(&text).map_err(|error| match error {
            CodecError::Newer { found } => ArchiveError::Newer { found },
            CodecError::Malformed(error) => ArchiveError::damaged("its state", error),
        })?;
        let (span, end) = (&self.head.audit, &state.audit_head);
        if (span.last, &span.hash) != (end.seq, &end.hash) {
            return Err(ArchiveError::damaged("its head", "its audit ends elsewhere than that of the state"));
        }
        match state.fault() {
            Some(fault) => Err(ArchiveError::damaged("its state", fault)),
            None => Ok(state),
        }
    }

    /// The audit records in it, in order, checked to be one chain from its anchor to the end of the state's.
    pub(super) fn records(&self) -> impl Iterator<Item = Result<AuditRecord, ArchiveError>> {
        let lines =
            BufReader::with_capacity(PIECE_BYTES, self.part(self.records_at, self.bytes - TRAILER_BYTES)).lines();
        let Span { first, previous, last, hash } = &self.head.audit;
        let mut chain = crate::state::AuditHead { seq: first.saturating_sub(1), hash: previous.clone() };
        lines.map(move |line| {
            let place = format!("its audit record {}", chain.seq + 1);
            let record: AuditRecord =
                serde_json::from_str(&line?).map_err(|error| ArchiveError::damaged(place.as_str(), error))?;
            chain = chain.verify([&record]).map_err(|error| ArchiveError::damaged(place.as_str(), error))?;
            if chain.seq == *last && chain.hash != *hash {
                return Err(ArchiveError::damaged(place, "it is not the last one that the state knows"));
            }
            Ok(record)
        })
    }

    /// Reads every audit record: a snapshot from elsewhere must be known to be whole before anything of it is used.
    ///
    /// # Errors
    /// [`ArchiveError`] when one is missing or does not belong there.
    pub(super) fn check_records(&self) -> Result<(), ArchiveError> {
        let mut count = 0;
        for record in self.records() {
            record?;
            count += 1;
        }
        let Span { first, last, .. } = self.head.audit;
        if count != self.head.records || count != (last + 1).saturating_sub(first) {
            return Err(ArchiveError::damaged("its audit records", format!("there are {count} for {first} to {last}")));
        }
        Ok(())
    }

    /// Bytes from an offset on, for whoever sends them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn read_at(&self, at: u64, most: usize) -> io::Result<Vec<u8>> {
        let size = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(most).min(most);
        let mut piece = vec![0; size];
        self.file.read_exact_at(&mut piece, at)?;
        Ok(piece)
    }

    fn part(&self, at: u64, end: u64) -> Part<'_> {
        Part { file: &self.file, at, end }
    }
}

fn refuse_newer(head: &[u8]) -> Result<(), ArchiveError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        slotkeeper_snapshot: u16,
    }
    match serde_json::from_slice::<VersionOnly>(head) {
        Ok(VersionOnly { slotkeeper_snapshot: found }) if found > FORMAT => Err(ArchiveError::Newer { found }),
        _ => Ok(()),
    }
}

/// Some bytes of a file, without moving its cursor.
struct Part<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = into.len().min(usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut into[..size], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::domain::{ClusterId, ClusterName, DriverKind, Instant, Policy, Principal};
    use crate::state::{COMMAND_VERSION, Command, Op};

    /// A state with one cluster and the records of its making.
    fn sample() -> (State, Vec<AuditRecord>) {
        let mut state = State::default();
        let records = ["a", "b", "c"].map(|name| {
            let (name, id) = (ClusterName::new(name).unwrap(), ClusterId::new(name).unwrap());
            let (driver, by) = (DriverKind::Manual, Principal::system("test"));
            let op = Op::CreateCluster { name, id, driver, policy: Policy::default_for(driver) };
            let (version, at) = (COMMAND_VERSION, Instant(1));
            let command = Command { version, at, by, reason: None, idempotency: None, op };
            state.apply(&command).audit.unwrap()
        });
        (state, records.into())
    }

    fn written(path: &Path) -> (State, Vec<AuditRecord>) {
        let (state, records) = sample();
        let end = &state.audit_head;
        let span = Span { first: 1, previous: String::new(), last: end.seq, hash: end.hash.clone() };
        let head = Head::new("group", &SnapshotMeta::default(), span, 3);
        let lines = records.iter().map(|record| Ok(serde_json::to_string(record).unwrap()));
        let written = write(&File::create(path).unwrap(), true, &head, &state, lines).unwrap();
        assert_eq!(written.bytes, fs::metadata(path).unwrap().len());
        (state, records)
    }

    #[test]
    fn what_was_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (state, records) = written(&path);
        let archive = Archive::open(File::open(&path).unwrap()).unwrap();
        assert_eq!(archive.state().unwrap(), state);
        assert_eq!(archive.records().collect::<Result<Vec<_>, _>>().unwrap(), records);
        assert_eq!(archive.head.group_id, "group");
        let bytes = fs::read(&path).unwrap();
        assert_eq!(archive.read_at(10, 20).unwrap(), bytes[10..30]);
        assert_eq!(archive.read_at(bytes.len() as u64 - 5, 20).unwrap(), bytes[bytes.len() - 5..]);
    }

    #[test]
    fn a_file_cut_or_bent_at_any_byte_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        written(&path);
        let bytes = fs::read(&path).unwrap();
        let bent = dir.path().join("bent");
        let refused = |content: &[u8], what: &str| {
            fs::write(&bent, content).unwrap();
            Archive::open(File::open(&bent).unwrap()).err().unwrap_or_else(|| panic!("{what} went unseen"))
        };
        for at in 0..bytes.len() {
            refused(&bytes[..at], &format!("a cut at {at}"));
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            refused(&flipped, &format!("a flip at {at}"));
        }
        refused(&[&bytes[..], b"\n"].concat(), "a byte more");
        assert!(matches!(refused(b"", "nothing"), ArchiveError::Foreign));
        assert!(matches!(refused(&bytes[..bytes.len() / 2], "half"), ArchiveError::Damaged { .. }));
    }

    #[test]
    fn a_newer_format_is_refused_by_name_whatever_follows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let text = format!("{{\"slotkeeper_snapshot\":2,\"other\":[]}}\nwhat{}", "ever".repeat(50));
        fs::write(&path, text).unwrap();
        let error = Archive::open(File::open(&path).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is a snapshot of format 2, written by a newer version; this one knows up to 1"
        );
    }

    #[test]
    fn records_that_are_no_chain_are_refused_though_the_checksum_is_right() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (state, mut records) = sample();
        records[1].summary.push('!');
        let end = &state.audit_head;
        let span = Span { first: 1, previous: String::new(), last: end.seq, hash: end.hash.clone() };
        let head = Head::new("group", &SnapshotMeta::default(), span, 3);
        let lines = records.iter().map(|record| Ok(serde_json::to_string(record).unwrap()));
        write(&File::create(&path).unwrap(), false, &head, &state, lines).unwrap();
        let archive = Archive::open(File::open(&path).unwrap()).unwrap();
        let error = archive.records().find_map(Result::err).unwrap();
        assert!(error.to_string().starts_with("its audit record 2: "), "{error}");
    }
}

//! The snapshots of this member: files beside the database, not rows in it, so that writing one never holds up a
//! commit. The newest is used, and when it is damaged the one before it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::super::OpenError;
use super::super::archive::{self, Archive, Head, Span};
use super::super::types::SnapshotMeta;
use super::{schema, signed};
use crate::state::{AuditRecord, State};

/// Audit records kept; older ones go when the snapshots that are anchored in them are gone.
pub(super) const AUDIT_RETAINED: u64 = 65_536;
/// Snapshots kept.
const KEPT: u64 = 2;
/// A file is given back to the disk in pieces of so many bytes: giving back a large one at once stalls the log beside it,
/// most of all where the file system tells the disk what it no longer needs.
const FREED_AT_ONCE_BYTES: u64 = 4 << 20;
/// Pause between two pieces.
const FREE_PAUSE: Duration = Duration::from_millis(2);
/// How much a thread that writes a snapshot stands back for the others.
const NICE: i32 = 10;
const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".jsonl";
/// A snapshot that is being written, being received, or being deleted; nothing after a restart.
const UNFINISHED: [&str; 3] = ["snapshot.new", INCOMING, "snapshot.old"];
/// A snapshot that is being received.
pub(in super::super) const INCOMING: &str = "snapshot.part";

/// Where a snapshot is and what it needs of the audit.
pub(super) struct Saved {
    /// Number of the first audit record that one of the snapshots kept needs.
    pub(super) audit_from: u64,
}

/// Makes the applied state durable as the newest snapshot. The audit records up to its end must be durable already.
pub(super) fn save(dir: &Path, group_id: &str, meta: &SnapshotMeta, state: &State) -> io::Result<Saved> {
    let span = span(&schema::open_reader(dir).map_err(io::Error::other)?, state).map_err(io::Error::other)?;
    let new = dir.join(UNFINISHED[0]);
    let head = Head::new(group_id, meta, span, 0);
    standing_back(|| archive::write(&File::create(&new)?, true, &head, state, std::iter::empty()))?;
    let number = put(dir, &new)?;
    let oldest = number.saturating_sub(KEPT - 1);
    forget(dir, |other| other < oldest)?;
    let before = list(dir)?.last().and_then(|(_, path)| read_head(path));
    Ok(Saved { audit_from: before.map_or(head.audit.first, |before| before.audit.first.min(head.audit.first)) })
}

/// Makes a received file the only snapshot: those before it may need audit records that go now.
pub(super) fn adopt(dir: &Path, received: &Path) -> io::Result<()> {
    let number = put(dir, received)?;
    forget(dir, |other| other != number)
}

/// Gives a file that is durable its name as the newest snapshot.
pub(super) fn put(dir: &Path, file: &Path) -> io::Result<u64> {
    let number = list(dir)?.first().map_or(1, |(newest, _)| newest + 1);
    fs::rename(file, dir.join(format!("{PREFIX}{number:016}{SUFFIX}")))?;
    sync_directory(dir)?;
    Ok(number)
}

pub(super) fn forget(dir: &Path, which: impl Fn(u64) -> bool) -> io::Result<()> {
    list(dir)?.into_iter().filter(|(number, _)| which(*number)).try_for_each(|(_, path)| free(dir, &path))
}

/// Removes a snapshot, piece by piece. It loses its name first: what is left of it must not be taken for a snapshot.
fn free(dir: &Path, snapshot: &Path) -> io::Result<()> {
    let old = dir.join(UNFINISHED[2]);
    fs::rename(snapshot, &old)?;
    let file = File::options().write(true).open(&old)?;
    let mut left = file.metadata()?.len();
    while left > FREED_AT_ONCE_BYTES {
        left -= FREED_AT_ONCE_BYTES;
        file.set_len(left)?;
        thread::sleep(FREE_PAUSE);
    }
    fs::remove_file(&old)
}

/// Does long work on a thread of its own that takes the processor only when others leave it.
fn standing_back<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("snapshot".to_owned()).spawn_scoped(scope, || {
            // Linux keeps this by thread. Where it is refused, the work is done as well.
            _ = rustix::process::nice(NICE);
            work()
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes names in a directory durable.
pub(in super::super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Every snapshot, the newest first.
fn list(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok());
        if let Some(number) = number {
            found.push((number, dir.join(name)));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// What a snapshot says of itself, unchecked.
fn read_head(path: &Path) -> Option<Head> {
    let mut line = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// What the store retains of the audit chain up to the end of a state's.
pub(super) fn span(connection: &Connection, state: &State) -> Result<Span, Box<dyn std::error::Error + Send + Sync>> {
    let end = &state.audit_head;
    let from = end.seq.saturating_sub(AUDIT_RETAINED) + 1;
    let text: Option<String> = connection
        .prepare("SELECT record FROM raft_audit WHERE seq >= ? AND seq <= ? ORDER BY seq LIMIT 1")?
        .query_row([signed(from), signed(end.seq)], |row| row.get(0))
        .optional()?;
    let first: Option<AuditRecord> = text.map(|text| serde_json::from_str(&text)).transpose()?;
    let (last, hash) = (end.seq, end.hash.clone());
    Ok(match first {
        Some(record) => Span { first: record.seq, previous: record.previous, last, hash },
        None => Span { first: last + 1, previous: hash.clone(), last, hash },
    })
}

/// A snapshot that was found, read and checked.
pub(super) struct Found {
    pub(super) meta: SnapshotMeta,
    pub(super) state: State,
    pub(super) archive: Arc<Archive>,
    /// Whether a newer one is damaged: the audit may then start later than this one says.
    pub(super) is_substitute: bool,
}

/// The newest good snapshot of a group from which its log goes on without a gap; none when the log is whole. Removes
/// what was never finished.
pub(super) fn load(dir: &Path, group_id: Option<&str>, needed: u64) -> Result<Option<Found>, OpenError> {
    let failed = |source| OpenError::Directory { path: dir.to_owned(), source };
    for name in UNFINISHED {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let mut fault = None;
    for (_, path) in list(dir).map_err(failed)? {
        let Some(group_id) = group_id else {
            return Err(OpenError::damaged(
                &path,
                "the snapshot",
                &"it is beside a database that belongs to no member",
            ));
        };
        let file = File::open(&path).map_err(|source| OpenError::Directory { path: path.clone(), source })?;
        let read = Archive::open(file).and_then(|archive| Ok((archive.state()?, archive)));
        match read {
            // Left by the group that this member belonged to before it was made a new one.
            Ok((_, archive)) if archive.head.group_id != group_id => {}
            Ok((state, archive)) => {
                let meta = archive.head.meta.clone();
                if meta.last_log_id.as_ref().map_or(0, |log| log.index + 1) >= needed {
                    let (archive, is_substitute) = (Arc::new(archive), fault.is_some());
                    return Ok(Some(Found { meta, state, archive, is_substitute }));
                }
            }
            // Not damage: an older one would be a state that the newer version has left behind.
            Err(error @ archive::ArchiveError::Newer { .. }) => {
                return Err(OpenError::damaged(&path, "the snapshot", &error));
            }
            Err(error) => {
                tracing::error!("{} is damaged, trying the one before: {error}", path.display());
                fault.get_or_insert((path, error));
            }
        }
    }
    match fault {
        None if needed == 0 => Ok(None),
        Some((path, error)) if needed > 0 => Err(OpenError::damaged(&path, "the snapshot", &error)),
        Some(_) => Ok(None),
        None => Err(OpenError::damaged(
            dir,
            "snapshots",
            &format!("none covers the entries before {needed}, which the log has no more"),
        )),
    }
}

//! What an existing store holds, read once when it is opened, with every row checked: a damaged, missing or foreign
//! row is an error that names its place, never a state that is quietly wrong.

use std::collections::BTreeMap;
use std::path::Path;

use openraft::entry::RaftEntry;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::OpenError;
use super::super::archive::Span;
use super::super::codec;
use super::super::identity::Starts;
use super::super::types::{Entry, LogId, SnapshotMeta, Vote};
use super::snapshots::{self, Found};
use super::writer::{signed, take_over_audit};
use crate::domain::MemberId;
use crate::state::{AuditRecord, State};

/// Whose store this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Identity {
    /// The member.
    pub(in super::super) member_id: MemberId,
    /// Its group.
    pub(in super::super) group_id: String,
    /// Random per store: a member that lost its disk and comes back under its old id is another incarnation.
    pub(in super::super) incarnation: String,
    /// The group was made from a snapshot or by force: its id does not follow from a list of first members.
    #[serde(default)]
    pub(in super::super) made: bool,
    /// It joined a group that was there: it never makes one of its own.
    #[serde(default)]
    pub(in super::super) joined: bool,
}

impl Identity {
    /// A member of a group that was made from what another one left.
    pub(in super::super) fn made(member_id: MemberId, group_id: String, incarnation: String) -> Self {
        Self { member_id, group_id, incarnation, made: true, joined: false }
    }
}

/// Everything that was stored but the audit records.
#[derive(Default)]
pub(in super::super) struct Loaded {
    pub(in super::super) identity: Option<Identity>,
    /// Every process that used this store, the latest ones by name.
    pub(in super::super) starts: Starts,
    /// Why the group refuses this store.
    pub(in super::super) refusal: Option<String>,
    /// The incarnation and latest start of each other member.
    pub(in super::super) peers: BTreeMap<MemberId, String>,
    pub(in super::super) vote: Option<Vote>,
    pub(in super::super) committed: Option<LogId>,
    pub(in super::super) purged: Option<LogId>,
    /// The log with the size in bytes of each entry.
    pub(in super::super) entries: BTreeMap<u64, (Entry, usize)>,
    pub(in super::super) snapshot: Option<(SnapshotMeta, State)>,
}

/// CRC-32C of a row: of its key too, so that a row under another row's key is noticed.
pub(super) fn checksum(key: &[u8], text: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), text)
}

/// Reads and checks everything.
pub(super) fn load(connection: &mut Connection, dir: &Path, path: &Path) -> Result<Loaded, OpenError> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|source| OpenError::sqlite(path, source))?;
    if verdict != "ok" {
        return Err(OpenError::damaged(path, "the database file", &verdict));
    }
    let meta = Meta::read(connection, path)?;
    let mut loaded = Loaded {
        identity: meta.value("identity")?,
        starts: meta.value("starts")?.unwrap_or_default(),
        refusal: meta.value("refusal")?,
        peers: meta.value("peers")?.unwrap_or_default(),
        vote: meta.value("vote")?,
        committed: meta.value("committed")?,
        purged: meta.value("purged")?,
        ..Loaded::default()
    };
    loaded.entries = read_log(connection, path, loaded.purged.as_ref())?;
    let used = !loaded.entries.is_empty() || loaded.purged.is_some();
    if used && loaded.vote.is_none() {
        return Err(OpenError::damaged(path, "raft_meta, key \"vote\"", &"it is missing, and there is a log"));
    }
    if (used || loaded.vote.is_some()) && loaded.identity.is_none() {
        return Err(OpenError::damaged(path, "raft_meta, key \"identity\"", &"it is missing, and there is a log"));
    }
    let group_id = loaded.identity.as_ref().map(|identity| identity.group_id.as_str());
    let needed = loaded.purged.as_ref().map_or(0, |id| id.index + 1);
    let found = snapshots::load(dir, group_id, needed)?;
    if let Some(found) = &found {
        complete_audit(connection, path, found)?;
    }
    check_audit(connection, path, found.as_ref())?;
    loaded.snapshot = found.map(|found| (found.meta, found.state));
    Ok(loaded)
}

struct Meta<'a> {
    path: &'a Path,
    values: BTreeMap<String, Vec<u8>>,
}

impl<'a> Meta<'a> {
    fn read(connection: &Connection, path: &'a Path) -> Result<Self, OpenError> {
        let mut values = BTreeMap::new();
        each_row(connection, path, "SELECT key, value, crc FROM raft_meta", |row| {
            let key = String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned();
            let text = checked(row, key.as_bytes())?.map_err(|why| (format!("raft_meta, key {key:?}"), why))?;
            values.insert(key, text);
            Ok(())
        })?;
        Ok(Self { path, values })
    }

    fn value<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, OpenError> {
        let Some(text) = self.values.get(key) else { return Ok(None) };
        serde_json::from_slice(text)
            .map(Some)
            .map_err(|error| OpenError::damaged(self.path, &format!("raft_meta, key {key:?}"), &error))
    }
}

fn read_log(
    connection: &Connection,
    path: &Path,
    purged: Option<&LogId>,
) -> Result<BTreeMap<u64, (Entry, usize)>, OpenError> {
    let mut entries: BTreeMap<u64, (Entry, usize)> = BTreeMap::new();
    let mut next = purged.map(|id| id.index + 1);
    // Purged rows may still be there: they are deleted little by little.
    let sql = format!("SELECT idx, entry, crc FROM raft_log WHERE idx >= {} ORDER BY idx", next.unwrap_or(0));
    each_row(connection, path, &sql, |row| {
        let index: i64 = row.get(0)?;
        let place = format!("raft_log, entry {index}");
        let text = checked(row, &index.to_le_bytes())?.map_err(|why| (place.clone(), why))?;
        let entry: Entry = codec::decode(&text).map_err(|error| (place.clone(), error.to_string()))?;
        let index = entry.index();
        // Without a purge point the log starts where it starts: at 0.
        let expected = next.unwrap_or(0);
        if index != expected || place != format!("raft_log, entry {index}") {
            return Err((place, format!("entry {expected} was expected here: there is a gap")).into());
        }
        next = Some(index + 1);
        entries.insert(index, (entry, text.len()));
        Ok(())
    })?;
    Ok(entries)
}

/// The audit records are one run without gaps: from the one that the snapshot is anchored in, whose predecessor's hash
/// it knows, at least to the one that it ends with.
fn check_audit(connection: &Connection, path: &Path, snapshot: Option<&Found>) -> Result<(), OpenError> {
    let whole = Span { first: 1, previous: String::new(), last: 0, hash: String::new() };
    let span = snapshot.map_or(&whole, |found| &found.archive.head.audit);
    let (first, covered) = (signed(span.first), signed(span.last));
    let mut last: Option<i64> = None;
    let mut anchored = first > covered && snapshot.is_some() || snapshot.is_some_and(|found| found.is_substitute);
    each_row(connection, path, "SELECT seq, record, crc FROM raft_audit ORDER BY seq", |row| {
        let seq: i64 = row.get(0)?;
        let place = format!("raft_audit, record {seq}");
        let text = checked(row, &seq.to_le_bytes())?.map_err(|why| (place.clone(), why))?;
        if let Some(last) = last.filter(|last| last + 1 != seq) {
            return Err((place, format!("record {} was expected here: there is a gap", last + 1)).into());
        }
        if !anchored && seq >= first {
            let record: AuditRecord =
                serde_json::from_slice(&text).map_err(|error| (place.clone(), error.to_string()))?;
            if seq > first || record.previous != span.previous {
                return Err((place, format!("record {first} was expected here: what is before is cut off")).into());
            }
            anchored = true;
        }
        last = Some(seq);
        Ok(())
    })?;
    let last = last.unwrap_or(0);
    if last < covered {
        let why = format!("the records {} to {covered} are missing", last.max(first - 1) + 1);
        return Err(OpenError::damaged(path, "raft_audit", &why));
    }
    Ok(())
}

/// A snapshot from elsewhere brings its audit records with it; a crash may have come between it and their taking over.
fn complete_audit(connection: &mut Connection, path: &Path, found: &Found) -> Result<(), OpenError> {
    let span = &found.archive.head.audit;
    let last: Option<i64> = connection
        .query_row("SELECT max(seq) FROM raft_audit", [], |row| row.get(0))
        .map_err(|source| OpenError::sqlite(path, source))?;
    if found.archive.head.records == 0 || last.unwrap_or(0) >= signed(span.last) {
        return Ok(());
    }
    let failed = |source| OpenError::sqlite(path, source);
    let transaction = connection.transaction().map_err(failed)?;
    take_over_audit(&transaction, &found.archive).map_err(|error| OpenError::damaged(path, "raft_audit", &error))?;
    transaction.commit().map_err(failed)
}

/// A row's text when its checksum agrees; key in column 0, text in 1, checksum in 2.
fn checked(row: &Row<'_>, key: &[u8]) -> rusqlite::Result<Result<Vec<u8>, String>> {
    let text = row.get_ref(1)?.as_bytes()?;
    let stored: i64 = row.get(2)?;
    let found = checksum(key, text);
    Ok(if i64::from(found) == stored {
        Ok(text.to_vec())
    } else {
        Err(format!("its checksum is {found:08x}, not {stored:08x} as stored"))
    })
}

/// Why a row was refused: by SQLite, or for its content, with its place.
enum RowFault {
    Sqlite(rusqlite::Error),
    Content(String, String),
}

impl From<rusqlite::Error> for RowFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for RowFault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<(String, String)> for RowFault {
    fn from((place, why): (String, String)) -> Self {
        Self::Content(place, why)
    }
}

fn each_row(
    connection: &Connection,
    path: &Path,
    sql: &str,
    mut look: impl FnMut(&Row<'_>) -> Result<(), RowFault>,
) -> Result<(), OpenError> {
    let mut walk = || {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            look(row)?;
        }
        Ok(())
    };
    walk().map_err(|fault| match fault {
        RowFault::Sqlite(source) => OpenError::sqlite(path, source),
        RowFault::Content(place, why) => OpenError::damaged(path, &place, &why),
    })
}

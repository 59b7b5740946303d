//! A store without a member: looked into, and made the first of another group.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::super::OpenError;
use super::super::archive::Span;
use super::super::types::{LogId, Vote};
use super::verify::{Identity, Loaded};
use super::writer::{put_audit, put_meta, text_of};
use super::{outgoing, schema, snapshots, verify, wal};
use crate::state::{AuditRecord, State};

/// A store that nothing runs on.
pub(in super::super) struct Offline {
    connection: Connection,
    path: std::path::PathBuf,
    pub(in super::super) loaded: Loaded,
    _lock: File,
}

impl Offline {
    /// Opens and checks a store, and keeps everybody else out.
    pub(in super::super) fn open(dir: &Path) -> Result<Self, OpenError> {
        let lock = schema::lock_directory(dir)?;
        wal::check_wal(&schema::wal_path(dir))?;
        let mut connection = schema::open_database(dir, schema::Sync::Full)?;
        let path = dir.join(schema::DATABASE);
        let loaded = verify::load(&mut connection, dir, &path)?;
        Ok(Self { connection, path, loaded, _lock: lock })
    }

    /// Adds the records of entries that were applied; those that are there already must be the same.
    pub(in super::super) fn add_audit(&mut self, records: &[AuditRecord]) -> Result<(), OpenError> {
        let failed = |source| OpenError::sqlite(&self.path, source);
        let transaction = self.connection.transaction().map_err(failed)?;
        put_audit(&transaction, records).map_err(|error| OpenError::damaged(&self.path, "raft_audit", &error))?;
        transaction.commit().map_err(failed)
    }

    /// The retained audit up to the end of a state's.
    pub(in super::super) fn audit_until(&self, state: &State) -> Result<(Span, Vec<String>), OpenError> {
        let failed = |error: &dyn std::fmt::Display| OpenError::damaged(&self.path, "raft_audit", error);
        let span = snapshots::span(&self.connection, state).map_err(|error| failed(&error))?;
        let lines: Result<Vec<_>, _> = outgoing::records(&self.connection, &span).collect();
        Ok((span, lines.map_err(|error| failed(&error))?))
    }
}

/// Makes a finished snapshot file the beginning of a store: an identity, a vote, a log that starts after it. What was
/// there of another group goes, in one transaction; a start after a crash before it finds the old group as it was.
pub(in super::super) fn begin_anew(
    dir: &Path,
    snapshot: &Path,
    identity: &Identity,
    vote: &Vote,
    position: &LogId,
) -> Result<(), OpenError> {
    let _lock = schema::lock_directory(dir)?;
    let mut connection = schema::open_database(dir, schema::Sync::Full)?;
    let path = dir.join(schema::DATABASE);
    let failed = |source| OpenError::Directory { path: dir.to_owned(), source };
    let number = snapshots::put(dir, snapshot).map_err(failed)?;
    let write = |connection: &mut Connection| -> rusqlite::Result<()> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("DELETE FROM raft_log", [])?;
        transaction.execute("DELETE FROM raft_meta WHERE key IN ('committed', 'peers', 'refusal')", [])?;
        let text = |value: serde_json::Result<String>| value.expect("plain JSON");
        put_meta(&transaction, "identity", &text(text_of(identity)))?;
        put_meta(&transaction, "vote", &text(text_of(vote)))?;
        put_meta(&transaction, "purged", &text(text_of(position)))?;
        transaction.commit()
    };
    write(&mut connection).map_err(|source| OpenError::sqlite(&path, source))?;
    connection.close().map_err(|(_, source)| OpenError::sqlite(&path, source))?;
    snapshots::forget(dir, |other| other != number).map_err(failed)?;
    snapshots::sync_directory(dir).map_err(failed)
}

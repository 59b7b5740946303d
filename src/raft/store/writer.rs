//! The one thread that writes. It takes everything that waits, writes it in one transaction and reports only after the
//! commit: writers that come together share one wait for the disk. An error is never retried, because after a failed
//! fsync nobody knows what the disk holds: the process ends.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use openraft::storage::IOFlushed;
use rusqlite::{Connection, params};
use serde::Serialize;
use tokio::sync::oneshot;

use super::super::FatalHook;
use super::super::archive::{Archive, ArchiveError};
use super::super::types::{LogId, Types};
use super::verify::checksum;
use crate::state::AuditRecord;

/// About the most jobs in one transaction: bounds how long the first of them waits.
pub(super) const BATCH_MAX: usize = 1024;
/// Most rows of purged log, and of audit that is no longer retained, that one transaction deletes beside its work:
/// more at once would make the commit that does it wait.
const SWEPT_AT_ONCE: i64 = 256;
/// Most audit records that wait in memory. They are written many at a time: with every commit they would dirty as many
/// pages as the entries do.
const DEFERRED_MAX: usize = 512;

pub(super) type Done = oneshot::Sender<io::Result<()>>;

/// Something to write. Order of sending is order on the disk.
pub(super) enum Job {
    /// Log entries, encoded.
    Append { rows: Vec<(u64, String)>, flushed: IOFlushed<Types> },
    /// A value of `raft_meta` that must be durable when `done` is told.
    Meta { key: &'static str, text: String, done: Done },
    /// The commit index. Not worth a wait for the disk: it is written with the next job that is, so that a member which
    /// starts without its peers knows its state but for the last of it.
    Committed { text: String },
    /// Drops the log after an index.
    Truncate { after: Option<u64> },
    /// Drops the log up to an index: at once for whoever reads it, little by little on the disk.
    Purge { upto: LogId },
    /// Audit records of applied entries. They wait as well: replay makes them again.
    Audit(Vec<AuditRecord>),
    /// The audit records of a snapshot that came from elsewhere.
    TakeOver { archive: Arc<Archive>, done: Done },
    /// Drops audit records before a number, little by little.
    AuditFrom(u64),
    /// Writes what waits.
    Flush(Done),
    /// Writes what waits and ends the thread.
    Close(Done),
}

impl Job {
    /// Whether it is not worth a wait for the disk.
    pub(super) const fn can_wait(&self) -> bool {
        !matches!(
            self,
            Self::Append { .. } | Self::Meta { .. } | Self::TakeOver { .. } | Self::Flush(_) | Self::Close(_)
        )
    }

    /// Tells who waits for it.
    pub(super) fn report(self, result: io::Result<()>) {
        match self {
            Self::Append { flushed, .. } => flushed.io_completed(result),
            // A receiver that is gone has stopped waiting: nothing to tell.
            Self::Meta { done, .. } | Self::TakeOver { done, .. } | Self::Flush(done) | Self::Close(done) => {
                drop(done.send(result));
            }
            Self::Committed { .. }
            | Self::Truncate { .. }
            | Self::Purge { .. }
            | Self::Audit(_)
            | Self::AuditFrom(_) => {}
        }
    }
}

/// What the thread owns: dropped in this order, the lock last.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) on_fatal: FatalHook,
    pub(super) sweep: Sweep,
    pub(super) deferred: Deferred,
    pub(super) lock: File,
}

/// Audit records that a start makes again from the log, and so may be lost: they are written before anything else than
/// entries is, or when there are many.
#[derive(Default)]
pub(super) struct Deferred(Vec<AuditRecord>);

impl Deferred {
    fn write(&mut self, connection: &Connection) -> Result<(), WriteError> {
        put_audit(connection, &self.0)?;
        self.0.clear();
        Ok(())
    }
}

/// Rows that are still to be deleted.
#[derive(Default)]
pub(super) struct Sweep {
    /// Log entries before this index.
    pub(super) log_before: Option<i64>,
    /// Audit records before this number.
    pub(super) audit_before: Option<i64>,
}

impl Sweep {
    fn learn(&mut self, job: &Job) {
        match job {
            Job::Purge { upto } => self.log_before = Some(signed(upto.index + 1)),
            Job::AuditFrom(first) => self.audit_before = Some(signed(*first)),
            _ => {}
        }
    }

    /// Deletes some of them: rows by their numbers, which have no gaps.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let some = |first: &str, delete: &str, end: &mut Option<i64>| -> rusqlite::Result<()> {
            let Some(all) = *end else { return Ok(()) };
            let first: Option<i64> = connection.prepare_cached(first)?.query_row([], |row| row.get(0))?;
            let now = first.map_or(all, |first| all.min(first + SWEPT_AT_ONCE));
            connection.prepare_cached(delete)?.execute([now])?;
            if now == all {
                *end = None;
            }
            Ok(())
        };
        some("SELECT min(idx) FROM raft_log", "DELETE FROM raft_log WHERE idx < ?", &mut self.log_before)?;
        some("SELECT min(seq) FROM raft_audit", "DELETE FROM raft_audit WHERE seq < ?", &mut self.audit_before)
    }
}

impl Writer {
    /// Writes until it is told to close or every sender is gone, then what is still waiting.
    pub(super) fn run(mut self, jobs: &Receiver<Vec<Job>>) {
        let mut batch: Vec<Job> = Vec::new();
        while let Ok(first) = jobs.recv() {
            batch.extend(first);
            while batch.len() < BATCH_MAX
                && let Ok(more) = jobs.try_recv()
            {
                batch.extend(more);
            }
            if batch.iter().all(Job::can_wait) && batch.len() < BATCH_MAX {
                continue;
            }
            if let Err(error) = self.commit(&mut batch) {
                return self.fail(batch, jobs.iter().flatten(), &error);
            }
            // The close is told last, when the file is free for the next process.
            let (closing, written): (Vec<Job>, Vec<Job>) =
                batch.drain(..).partition(|job| matches!(job, Job::Close(_)));
            for job in written {
                job.report(Ok(()));
            }
            if !closing.is_empty() {
                self.close();
                for job in closing {
                    job.report(Ok(()));
                }
                return;
            }
        }
        batch.push(Job::Flush(oneshot::channel().0));
        if let Err(error) = self.commit(&mut batch) {
            return self.fail(batch, jobs.iter().flatten(), &error);
        }
        self.close();
    }

    pub(super) fn close(self) {
        let Self { connection, lock, .. } = self;
        if let Err((_, error)) = connection.close() {
            tracing::warn!("closing the store: {error}");
        }
        drop(lock);
    }

    /// Makes a batch durable, but for what is deferred.
    pub(super) fn commit(&mut self, batch: &mut [Job]) -> Result<(), WriteError> {
        self.begin(batch)?;
        self.end()
    }

    /// Writes a batch without making it durable. After an error the connection is of no more use.
    pub(super) fn begin(&mut self, batch: &mut [Job]) -> Result<(), WriteError> {
        let Self { connection, sweep, deferred, .. } = self;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut committed = None;
        for job in batch {
            match job {
                Job::Append { .. } => {}
                Job::Audit(records) => deferred.0.append(records),
                Job::Committed { text } => committed = Some(std::mem::take(text)),
                _ => deferred.write(connection)?,
            }
            write(connection, job)?;
            sweep.learn(job);
        }
        if let Some(text) = committed {
            put_meta(connection, "committed", &text)?;
        }
        if deferred.0.len() >= DEFERRED_MAX {
            deferred.write(connection)?;
        }
        Ok(sweep.run(connection)?)
    }

    /// Makes what was begun durable.
    pub(super) fn end(&self) -> Result<(), WriteError> {
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Ends the process, before anybody else does anything about it; where that is not done, tells everybody, now and
    /// from now on.
    fn fail(self, batch: Vec<Job>, later: impl Iterator<Item = Job>, error: &WriteError) {
        let reason = format!("the store cannot be written: {error}");
        let refuse = |job: Job| job.report(Err(io::Error::other(reason.clone())));
        self.on_fatal.call(&reason);
        batch.into_iter().for_each(refuse);
        later.for_each(refuse);
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("cannot encode a row: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("audit record {seq} is stored with another content: the state of this member has diverged")]
    Diverged { seq: u64 },
    #[error("the audit of a snapshot: {0}")]
    Archive(#[from] ArchiveError),
}

fn write(connection: &Connection, job: &Job) -> Result<(), WriteError> {
    match job {
        Job::Append { rows, .. } => {
            let mut insert =
                connection.prepare_cached("INSERT OR REPLACE INTO raft_log (idx, entry, crc) VALUES (?, ?, ?)")?;
            for (index, entry) in rows {
                insert.execute(params![signed(*index), entry, checksum(&index.to_le_bytes(), entry.as_bytes())])?;
            }
        }
        Job::Meta { key, text, .. } => put_meta(connection, key, text)?,
        Job::Truncate { after } => {
            let after = after.map_or(-1, signed);
            connection.prepare_cached("DELETE FROM raft_log WHERE idx > ?")?.execute([after])?;
        }
        // The rows go later; who reads the log again goes by the mark.
        Job::Purge { upto } => put_meta(connection, "purged", &text_of(upto)?)?,
        Job::TakeOver { archive, .. } => take_over_audit(connection, archive)?,
        Job::Audit(_) | Job::Committed { .. } | Job::AuditFrom(_) | Job::Flush(_) | Job::Close(_) => {}
    }
    Ok(())
}

/// A value as the text of a `raft_meta` row.
pub(super) fn text_of<T: Serialize>(value: &T) -> serde_json::Result<String> {
    serde_json::to_string(value)
}

/// Writes a row of `raft_meta`.
pub(super) fn put_meta(connection: &Connection, key: &str, text: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO raft_meta (key, value, crc) VALUES (?, ?, ?)")?
        .execute(params![key, text, checksum(key.as_bytes(), text.as_bytes())])
        .map(drop)
}

pub(super) fn put_audit(connection: &Connection, records: &[AuditRecord]) -> Result<(), WriteError> {
    let mut insert = connection
        .prepare_cached("INSERT INTO raft_audit (seq, record, crc) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")?;
    for record in records {
        let text = text_of(record)?;
        let crc = checksum(&record.seq.to_le_bytes(), text.as_bytes());
        if insert.execute(params![signed(record.seq), text, crc])? == 0 {
            let stored: String = connection
                .prepare_cached("SELECT record FROM raft_audit WHERE seq = ?")?
                .query_row([signed(record.seq)], |row| row.get(0))?;
            // A replayed record: the same, though a newer version may write it in other words.
            if stored != text && serde_json::from_str::<AuditRecord>(&stored).ok().as_ref() != Some(record) {
                return Err(WriteError::Diverged { seq: record.seq });
            }
        }
    }
    Ok(())
}

/// Puts the records of a snapshot from elsewhere in: the chain stays without gaps, so what ends before they start goes.
pub(super) fn take_over_audit(connection: &Connection, archive: &Archive) -> Result<(), WriteError> {
    let span = &archive.head.audit;
    let last: Option<i64> = connection.query_row("SELECT max(seq) FROM raft_audit", [], |row| row.get(0))?;
    if last.is_some_and(|last| last + 1 < signed(span.first)) {
        connection.execute("DELETE FROM raft_audit", [])?;
    }
    for record in archive.records() {
        put_audit(connection, &[record?])?;
    }
    Ok(())
}

/// An index as SQLite keeps it.
pub(super) fn signed(index: u64) -> i64 {
    i64::try_from(index).expect("a log index is far below 2^63")
}

//! A snapshot on its way out of this member: to another one, or into a backup.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;

use super::super::archive::{self, Archive, Head, Span};
use super::super::types::SnapshotMeta;
use super::snapshots::span;
use super::{schema, signed};
use crate::state::State;

/// Audit records read at a time: a long read would keep the write-ahead log from being emptied.
const RECORDS_AT_ONCE: u64 = 1024;

/// Writes a snapshot with its audit records to a file that is gone with the process, so that it can be read in pieces,
/// again and again, and stays as it is.
pub(super) fn archive(dir: &Path, group_id: &str, meta: &SnapshotMeta, state: &State) -> io::Result<Archive> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let path = dir.join(format!("outgoing-{}.tmp", NUMBER.fetch_add(1, Ordering::Relaxed)));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    let connection = schema::open_reader(dir).map_err(io::Error::other)?;
    let span = span(&connection, state).map_err(io::Error::other)?;
    let count = span.last + 1 - span.first;
    let head = Head::new(group_id, meta, span.clone(), count);
    archive::write(&file, false, &head, state, records(&connection, &span))?;
    Archive::open(file).map_err(io::Error::other)
}

/// The records of a span as they are stored. One that goes while it is read is missed by the count.
pub(super) fn records(connection: &Connection, span: &Span) -> impl Iterator<Item = io::Result<String>> {
    let (first, last) = (span.first, span.last);
    let pages = (first..=last).step_by(usize::try_from(RECORDS_AT_ONCE).expect("small"));
    pages.flat_map(move |from| {
        let upto = last.min(from + RECORDS_AT_ONCE - 1);
        match page(connection, from, upto) {
            Ok(texts) => texts.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) => vec![Err(io::Error::other(error))],
        }
    })
}

fn page(connection: &Connection, from: u64, upto: u64) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare_cached("SELECT record FROM raft_audit WHERE seq BETWEEN ? AND ? ORDER BY seq")?;
    let rows = statement.query_map([signed(from), signed(upto)], |row| row.get(0))?;
    rows.collect()
}

//! The file of a member: its lock, how it is opened, and its schema.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::super::OpenError;

/// The database within the data directory.
pub(in super::super) const DATABASE: &str = "slotkeeper.db";
const LOCK: &str = "slotkeeper.lock";

/// Every migration in order; the schema's version is how many have run. A released one is never edited.
const MIGRATIONS: &[&str] = &[include_str!("../../../migrations/0001_initial.sql")];

/// Takes the data directory for this process; it is free again when the file is dropped.
pub(super) fn lock_directory(dir: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::Directory { path: dir.to_owned(), source };
    fs::create_dir_all(dir).map_err(failed)?;
    let lock = File::options().create(true).truncate(false).write(true).open(dir.join(LOCK)).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Whether a commit has reached the disk when it returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sync {
    /// Yes.
    Full,
    /// No: the disk is simulated.
    Off,
}

/// Opens the database for its one writer and brings the schema up to date.
pub(super) fn open_database(dir: &Path, sync: Sync) -> Result<Connection, OpenError> {
    let path = dir.join(DATABASE);
    let failed = |source| OpenError::sqlite(&path, source);
    let mut connection = Connection::open(&path).map_err(failed)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
    // FULL: in WAL mode a commit has reached the disk when it returns. Nothing less keeps an acknowledged write.
    let synchronous = match sync {
        Sync::Full => "FULL",
        Sync::Off => "OFF",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(failed)?;
    migrate(&mut connection, &path)?;
    Ok(connection)
}

/// A second connection that only reads.
pub(super) fn open_reader(dir: &Path) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(dir.join(DATABASE), OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// The path of the write-ahead log beside the database.
pub(super) fn wal_path(dir: &Path) -> PathBuf {
    dir.join(format!("{DATABASE}-wal"))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::sqlite(path, source);
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    let known = MIGRATIONS.len();
    let done = usize::try_from(found).ok().filter(|&done| done <= known).ok_or_else(|| OpenError::NewerSchema {
        path: path.to_owned(),
        found,
        known,
    })?;
    for (sql, version) in MIGRATIONS.iter().zip(1_i64..).skip(done) {
        let transaction = connection.transaction().map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "user_version", version).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

-- The store of one member. Every `crc` is the CRC-32C of the row's key and its text, checked when the store is opened:
-- SQLite has no checksum on the pages of its main file.

-- Vote, commit index, purge point, identity: one JSON value each.
CREATE TABLE raft_meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    crc   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The log, without gaps, from the entry after the purge point.
CREATE TABLE raft_log (
    idx   INTEGER PRIMARY KEY,
    entry TEXT NOT NULL,
    crc   INTEGER NOT NULL
) STRICT;

-- The retained end of the audit chain, without gaps.
CREATE TABLE raft_audit (
    seq    INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    crc    INTEGER NOT NULL
) STRICT;

//! Compaction must not hold up commits. Counted, not timed: what the one writer is given.

use super::*;

/// Rows of a table whose key is below a bound.
fn rows_below(dir: &Path, table: &str, key: &str, bound: i64) -> i64 {
    let connection = schema::open_reader(dir).unwrap();
    let sql = format!("SELECT count(*) FROM {table} WHERE {key} < ?");
    connection.query_row(&sql, [bound], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn compaction_gives_the_writer_little_at_a_time() {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    append(&mut store, 0..1500).await;
    apply(&mut machine, 0..1500).await;
    store.durable(Job::Flush).await.unwrap();
    let other = schema::open_reader(dir.path()).unwrap();
    // Changes with every transaction that another connection commits.
    let commits = || other.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();

    let before = commits();
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert_eq!(commits(), before, "a snapshot goes past the writer");
    append(&mut store, 1500..1501).await;
    assert_ne!(commits(), before, "a commit would have been seen");

    // What is deleted after it goes with the commits that follow, so many rows with each.
    store.purge(log_id(1199)).await.unwrap();
    store.send(Job::AuditFrom(1001)).unwrap();
    let (mut log, mut audit) = (1200, 1000);
    for term in 2..20 {
        store.save_vote(&Vote::new_committed(term, 1)).await.unwrap();
        let left = rows_below(dir.path(), "raft_log", "idx", 1200);
        let left_audit = rows_below(dir.path(), "raft_audit", "seq", 1001);
        assert!(log - left <= 256 && audit - left_audit <= 256, "{log} to {left}, {audit} to {left_audit}");
        (log, audit) = (left, left_audit);
    }
    assert_eq!((log, audit), (0, 0));
    assert_eq!(rows_below(dir.path(), "raft_log", "idx", i64::MAX), 301);
    store.close().await;
}

#[tokio::test]
async fn rows_still_to_be_deleted_are_no_part_of_the_log() {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    append(&mut store, 0..1501).await;
    apply(&mut machine, 0..1501).await;
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    store.purge(log_id(1400)).await.unwrap();
    store.close().await;
    assert!(rows_below(dir.path(), "raft_log", "idx", i64::MAX) > 0);
    let (store, _) = Store::open(dir.path(), no_fatal()).unwrap();
    assert_eq!(store.lock().entries.keys().copied().collect::<Vec<_>>(), (1401..1501).collect::<Vec<_>>());
}

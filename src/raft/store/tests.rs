//! The store against openraft's own suite, against damage and against crashes.

mod compaction;
mod crashes;
mod retention;

use std::fs;
use std::sync::Arc;

use openraft::storage::{RaftLogStorageExt, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftSnapshotBuilder, StorageError};
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::machine::{Machine, Replica};
use super::super::types::Request;
use super::*;
use crate::domain::{ClusterId, ClusterName, DriverKind, Instant, Policy, Principal};
use crate::state::{COMMAND_VERSION, Command, Op};

fn no_fatal() -> FatalHook {
    FatalHook::new(|reason| panic!("fatal: {reason}"))
}

struct OnDisk;

impl StoreBuilder<Types, Store, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Store, Machine), StorageError<Types>> {
        let dir = TempDir::new().unwrap();
        let (store, machine) = reopen(dir.path()).await;
        Ok((dir, store, machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_the_contract_of_openraft() {
    Suite::test_all(OnDisk).await.unwrap();
}

struct Simulated;

impl StoreBuilder<Types, Store, Machine, TempDir> for Simulated {
    async fn build(&self) -> Result<(TempDir, Store, Machine), StorageError<Types>> {
        let dir = TempDir::new().unwrap();
        let disk = Disk::new(dir.path().to_owned(), 1);
        let (store, loaded) = Store::simulated(disk, no_fatal()).unwrap();
        let replica = Arc::new(Replica::new(loaded.snapshot.as_ref()));
        let machine = Machine::new(replica, store.clone(), loaded.snapshot, no_fatal());
        Ok((dir, store, machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_simulated_disk_keeps_the_contract_too() {
    Suite::test_all(Simulated).await.unwrap();
}

fn identity() -> Identity {
    Identity { member_id: 1, group_id: "group".into(), incarnation: "first".into(), made: false, joined: false }
}

/// Appends one entry after the other until the member crashes: how many were reported durable, and how many are found.
fn crash_while_appending(seed: u64, lying: bool) -> (u64, u64) {
    let dir = TempDir::new().unwrap();
    let disk = Disk::new(dir.path().to_owned(), seed);
    disk.set_lying(lying);
    let crashing = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut reported = 0;
    crashing.block_on(async {
        let (mut store, _) = Store::simulated(disk.clone(), no_fatal()).unwrap();
        store.save_identity(&identity()).await.unwrap();
        store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
        let writing = async {
            loop {
                append(&mut store, reported..reported + 1).await;
                reported += 1;
            }
        };
        let crash = tokio::time::sleep(std::time::Duration::from_millis(20 + seed));
        tokio::select! { () = writing => {}, () = crash => {} }
    });
    drop(crashing);
    let (store, _) = Store::open(dir.path(), no_fatal()).unwrap();
    let found = store.lock().entries.len() as u64;
    (reported, found)
}

#[test]
fn a_crash_on_a_simulated_disk_loses_what_was_not_synced_and_nothing_else() {
    let mut lost = 0;
    for seed in 0..40 {
        let (reported, found) = crash_while_appending(seed, false);
        assert!(found == reported || found == reported + 1, "{found} found, {reported} reported");
        lost += u32::from(found == reported);
    }
    assert!(lost > 0 && lost < 40, "a crash during a sync goes either way: {lost} of 40 lost an entry");
    assert!((0..5).any(|seed| {
        let (reported, found) = crash_while_appending(seed, true);
        found < reported
    }));
}

async fn reopen(dir: &Path) -> (Store, Machine) {
    let (store, loaded) = Store::open(dir, no_fatal()).unwrap();
    if loaded.identity.is_none() {
        store.save_identity(&identity()).await.unwrap();
    }
    let replica = Arc::new(Replica::new(loaded.snapshot.as_ref()));
    let machine = Machine::new(replica, store.clone(), loaded.snapshot, no_fatal());
    (store, machine)
}

fn log_id(index: u64) -> LogId {
    let leader = openraft::impls::leader_id_std::LeaderId::<u64, u64>::new(1, 1);
    LogId::new(leader.to_committed(), index)
}

/// Entry `index`: a cluster is made, or deleted again.
fn entry(index: u64) -> Entry {
    let name = ClusterName::new("a").unwrap();
    let op = if index.is_multiple_of(2) {
        let (driver, id) = (DriverKind::Manual, ClusterId::new(&format!("id-{index}")).unwrap());
        Op::CreateCluster { name, id, driver, policy: Policy::default_for(driver) }
    } else {
        Op::DeleteCluster { name, if_match: None }
    };
    let by = Principal::system("test");
    let command = Command { version: COMMAND_VERSION, at: Instant(index), by, reason: None, idempotency: None, op };
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(Request(Arc::new(command))) }
}

async fn append(store: &mut Store, indexes: std::ops::Range<u64>) {
    store.blocking_append(indexes.map(entry)).await.unwrap();
}

async fn apply(machine: &mut Machine, indexes: std::ops::Range<u64>) {
    machine.apply(futures::stream::iter(indexes.map(|index| Ok((entry(index), None))))).await.unwrap();
}

/// A closed store with a vote, entries 4 to 20, a snapshot at 9 and one at 14.
async fn filled() -> TempDir {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    append(&mut store, 0..21).await;
    for (from, upto) in [(0, 10), (10, 15)] {
        apply(&mut machine, from..upto).await;
        machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    }
    apply(&mut machine, 15..21).await;
    store.purge(log_id(3)).await.unwrap();
    store.save_committed(Some(log_id(20))).await.unwrap();
    store.close().await;
    dir
}

fn change(dir: &TempDir, sql: &str) {
    let changed = Connection::open(dir.path().join(schema::DATABASE)).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql}");
}

fn refusal(dir: &TempDir) -> String {
    let error = Store::open(dir.path(), no_fatal()).err().expect("refused");
    assert_eq!(error.exit_code(), 10, "{error}");
    error.to_string()
}

#[tokio::test]
async fn what_was_written_is_read_again() {
    let dir = filled().await;
    let (mut store, loaded) = Store::open(dir.path(), no_fatal()).unwrap();
    assert_eq!(loaded.vote, Some(Vote::new_committed(1, 1)));
    assert_eq!((loaded.purged, loaded.committed), (Some(log_id(3)), Some(log_id(20))));
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), (4..21).map(entry).collect::<Vec<_>>());
    assert_eq!(loaded.snapshot.unwrap().0.last_log_id, Some(log_id(14)));
    let audit = store.audit(0, 100).await.unwrap();
    assert_eq!(audit.iter().map(|record| record.seq).collect::<Vec<_>>(), (1..=21).collect::<Vec<_>>());
    assert_eq!(store.audit(19, 1).await.unwrap(), audit[19..20]);
}

#[tokio::test]
async fn damage_is_refused_with_its_place() {
    let cases = [
        (
            "UPDATE raft_log SET entry = replace(entry, '\"at\":9', '\"at\":8') WHERE idx = 9",
            "raft_log, entry 9: its checksum is",
        ),
        ("DELETE FROM raft_log WHERE idx = 9", "raft_log, entry 10: entry 9 was expected here: there is a gap"),
        ("DELETE FROM raft_log WHERE idx < 7", "raft_log, entry 7: entry 4 was expected here: there is a gap"),
        ("UPDATE raft_log SET idx = 99 WHERE idx = 20", "raft_log, entry 99: its checksum is"),
        ("DELETE FROM raft_meta WHERE key = 'vote'", "raft_meta, key \"vote\": it is missing, and there is a log"),
        ("DELETE FROM raft_meta WHERE key = 'identity'", "raft_meta, key \"identity\": it is missing"),
        ("UPDATE raft_meta SET value = 'x' WHERE key = 'purged'", "raft_meta, key \"purged\": its checksum is"),
        ("DELETE FROM raft_audit WHERE seq = 3", "raft_audit, record 4: record 3 was expected here"),
        ("DELETE FROM raft_audit WHERE seq > 10", "raft_audit: the records 11 to 15 are missing"),
        (
            "DELETE FROM raft_audit WHERE seq < 5",
            "raft_audit, record 5: record 1 was expected here: what is before is cut",
        ),
        ("DELETE FROM raft_audit", "raft_audit: the records 1 to 15 are missing"),
        ("UPDATE raft_audit SET record = 'x' WHERE seq = 7", "raft_audit, record 7: its checksum is"),
    ];
    for (sql, place) in cases {
        let dir = filled().await;
        change(&dir, sql);
        let refusal = refusal(&dir);
        assert!(refusal.contains(place) && refusal.contains("slotkeeper.db"), "{sql}: {refusal}");
    }
}

#[tokio::test]
async fn a_newer_schema_and_a_torn_file_are_refused() {
    let dir = filled().await;
    Connection::open(dir.path().join(schema::DATABASE)).unwrap().pragma_update(None, "user_version", 2).unwrap();
    assert!(refusal(&dir).ends_with("has schema version 2; this version knows up to 1"));

    let dir = filled().await;
    let path = dir.path().join(schema::DATABASE);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 4096]).unwrap();
    refusal(&dir);
    fs::write(&path, b"SQLite format 4\0 and then nothing like it").unwrap();
    refusal(&dir);
}

/// The snapshots of a directory, the oldest first.
fn snapshot_files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    found.sort();
    found
}

fn bend(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn without_a_good_snapshot_before_its_log_a_store_is_refused() {
    let dir = filled().await;
    for path in snapshot_files(dir.path()) {
        bend(&path);
    }
    let refused = refusal(&dir);
    assert!(refused.contains("snapshot-0000000000000002.jsonl, the snapshot: its last line"), "{refused}");

    let dir = filled().await;
    for path in snapshot_files(dir.path()) {
        fs::remove_file(path).unwrap();
    }
    let refused = refusal(&dir);
    assert!(refused.contains("none covers the entries before 4, which the log has no more"), "{refused}");

    // The one of a newer version is not passed over for an older one: its state would be left behind.
    let dir = filled().await;
    let newest = snapshot_files(dir.path()).pop().unwrap();
    let newer =
        fs::read_to_string(&newest).unwrap().replace("{\"slotkeeper_snapshot\":1,", "{\"slotkeeper_snapshot\":2,");
    fs::write(&newest, newer).unwrap();
    let refused = refusal(&dir);
    assert!(refused.contains("it is a snapshot of format 2, written by a newer version"), "{refused}");
}

#[tokio::test]
async fn what_was_never_finished_and_what_is_of_another_group_is_no_snapshot() {
    let dir = filled().await;
    let [old, new] = &snapshot_files(dir.path())[..] else { panic!("two are kept") };
    fs::copy(new, dir.path().join("snapshot.new")).unwrap();
    fs::write(dir.path().join("snapshot.part"), "half").unwrap();
    change(&dir, "UPDATE raft_meta SET value = value WHERE key = 'identity'");
    let (store, _) = Store::open(dir.path(), no_fatal()).unwrap();
    assert!(!dir.path().join("snapshot.new").exists() && !dir.path().join("snapshot.part").exists());
    let identity =
        Identity { member_id: 1, group_id: "another".into(), incarnation: "first".into(), made: false, joined: false };
    store.save_identity(&identity).await.unwrap();
    store.close().await;
    assert!(old.exists() && new.exists());
    assert!(refusal(&dir).contains("none covers the entries before 4"));
}

#[tokio::test]
async fn a_damaged_newest_snapshot_gives_way_to_the_one_before() {
    let dir = filled().await;
    bend(&snapshot_files(dir.path())[1]);
    let (_, mut machine) = reopen(dir.path()).await;
    assert_eq!(machine.applied_state().await.unwrap().0, Some(log_id(9)));
    // From it, the log gives the same state; the audit records that are there already are found equal.
    apply(&mut machine, 10..21).await;
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
}

#[tokio::test]
async fn a_replay_that_gives_another_audit_record_ends_the_member() {
    let dir = filled().await;
    let (sent, fatal) = std::sync::mpsc::channel();
    let hook = FatalHook::new(move |reason| sent.send(reason.to_owned()).unwrap());
    let (store, _) = Store::open(dir.path(), hook).unwrap();
    let mut record = store.audit(4, 1).await.unwrap().remove(0);
    record.summary.push_str(" or not");
    store.add_audit(Some(record)).unwrap();
    // The write that carries it fails, and so does every later one: nothing is retried.
    assert!(store.audit(0, 1).await.is_err());
    assert!(store.clone().save_vote(&Vote::new_committed(2, 1)).await.is_err());
    let reason = fatal.recv().unwrap();
    assert!(reason.contains("audit record 5 is stored with another content"), "{reason}");
}

#[tokio::test]
async fn a_directory_is_for_one_process_and_free_after_the_close() {
    let dir = TempDir::new().unwrap();
    let (store, _) = reopen(dir.path()).await;
    let error = Store::open(dir.path(), no_fatal()).err().unwrap();
    assert!(matches!(error, OpenError::Locked { .. }) && error.exit_code() == 2, "{error}");
    store.close().await;
    Store::open(dir.path(), no_fatal()).unwrap();
}

/// What a killed process leaves: the files as they are now.
fn crash(dir: &Path) -> TempDir {
    let left = TempDir::new().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, left.path().join(path.file_name().unwrap())).unwrap();
    }
    left
}

#[tokio::test]
async fn a_crash_after_any_write_loses_nothing_that_was_reported_durable() {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    let mut purged = None;
    for round in 0..20 {
        store.save_vote(&Vote::new_committed(round + 1, 1)).await.unwrap();
        append(&mut store, round * 3..round * 3 + 3).await;
        apply(&mut machine, round * 3..round * 3 + 3).await;
        store.save_committed(Some(log_id(round * 3 + 2))).await.unwrap();
        if round % 5 == 4 {
            machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
            purged = Some(log_id(round * 3 - 3));
            store.purge(purged.unwrap()).await.unwrap();
        }
        let left = crash(dir.path());
        let (mut after, loaded) = Store::open(left.path(), no_fatal()).unwrap();
        assert_eq!(loaded.vote, Some(Vote::new_committed(round + 1, 1)));
        // A purge need not have reached the disk, an appended entry must have.
        assert!(loaded.purged <= purged);
        let last = after.get_log_state().await.unwrap().last_log_id;
        assert_eq!(last, Some(log_id(round * 3 + 2)));
        let (meta, state) = loaded.snapshot.unwrap_or_default();
        let replica = Arc::new(Replica::new(Some(&(meta.clone(), state))));
        let mut machine_after = Machine::new(Arc::clone(&replica), after.clone(), None, no_fatal());
        let from = meta.last_log_id.map_or(0, |id| id.index + 1);
        apply(&mut machine_after, from..round * 3 + 3).await;
        assert_eq!(replica.look(|state, _| state.audit_head.seq), round * 3 + 3);
        assert_eq!(after.audit(0, 1000).await.unwrap().len() as u64, round * 3 + 3);
    }
}

#[tokio::test]
async fn a_torn_write_ahead_log_loses_its_tail_only_and_damage_before_it_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut store, _machine) = reopen(dir.path()).await;
    store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    for index in 0..20 {
        append(&mut store, index..index + 1).await;
    }
    let left = crash(dir.path());
    let path = schema::wal_path(left.path());
    let bytes = fs::read(&path).unwrap();

    fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let (mut after, _) = Store::open(left.path(), no_fatal()).unwrap();
    assert_eq!(after.get_log_state().await.unwrap().last_log_id, Some(log_id(18)));
    after.close().await;

    let left = crash(dir.path());
    let path = schema::wal_path(left.path());
    let mut bent = bytes.clone();
    bent[bytes.len() / 2] ^= 1;
    fs::write(&path, bent).unwrap();
    let refusal = refusal(&left);
    assert!(refusal.contains("slotkeeper.db-wal, frame") && refusal.contains("not a torn tail"), "{refusal}");
}

#[tokio::test]
async fn an_entry_of_a_newer_version_is_refused_by_name() {
    let unknown = r#"{"v":2,"body":{"log_id":{},"payload":{"Normal":{"version":2,"op":{"op":"teleport"}}}}}"#;
    let mut newer = entry(20);
    let EntryPayload::Normal(request) = &mut newer.payload else { panic!("a command") };
    request.0 = Arc::new(Command { version: 2, ..Command::clone(&request.0) });
    for text in [unknown, &codec::encode_entry(&newer).unwrap()] {
        let dir = filled().await;
        let crc = verify::checksum(&20_i64.to_le_bytes(), text.as_bytes());
        change(&dir, &format!("UPDATE raft_log SET entry = '{text}', crc = {crc} WHERE idx = 20"));
        let refusal = refusal(&dir);
        let expected = "raft_log, entry 20: it has format version 2; this member knows up to 1";
        assert!(refusal.ends_with(expected), "{refusal}");
    }
}

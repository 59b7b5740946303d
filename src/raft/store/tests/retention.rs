//! The audit at its bound: the oldest records go, and what is left is one chain whose beginning is known.

use super::super::snapshots::AUDIT_RETAINED;
use super::*;
use crate::state::{AuditHead, Noted};

/// Records beyond the bound: more than one snapshot's worth.
const SURPLUS: u64 = 700;

/// An entry that leaves a record and nothing else.
fn note(index: u64) -> Entry {
    let by = Principal::system("test");
    let by = Principal { role: crate::domain::Role::Admin, ..by };
    let op = Op::Note { what: Noted::Backup };
    let command = Command { version: COMMAND_VERSION, at: Instant(index), by, reason: None, idempotency: None, op };
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(Request(Arc::new(command))) }
}

async fn apply_notes(machine: &mut Machine, indexes: std::ops::Range<u64>) {
    machine.apply(futures::stream::iter(indexes.map(|index| Ok((note(index), None))))).await.unwrap();
}

/// Every record that a store has, checked to be one chain that ends like the state's; the number of the first.
async fn chain(store: &Store, end: &AuditHead) -> u64 {
    let records = store.audit(0, usize::MAX).await.unwrap();
    let first = &records[0];
    let before = AuditHead { seq: first.seq - 1, hash: first.previous.clone() };
    assert_eq!(before.verify(&records).unwrap(), *end);
    first.seq
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_bound_the_audit_loses_its_oldest_records_and_stays_one_chain() {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    store.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    // The log holds one entry alone: what is looked at is the audit of what was applied.
    let last = AUDIT_RETAINED + SURPLUS - 1;
    store.blocking_append([note(0)]).await.unwrap();
    apply_notes(&mut machine, 0..AUDIT_RETAINED).await;
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let (_, full) = machine.snapshot();
    assert_eq!(full.audit_head.seq, 65_536);
    assert_eq!(chain(&store, &full.audit_head).await, 1, "at the bound everything is there");

    apply_notes(&mut machine, AUDIT_RETAINED..last + 1).await;
    // Two snapshots are kept, and each needs what it is anchored in.
    for _ in 0..2 {
        machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    }
    for term in 2..8 {
        store.save_vote(&Vote::new_committed(term, 1)).await.unwrap();
    }
    let (meta, state) = machine.snapshot();
    assert_eq!(state.audit_head.seq, 65_536 + SURPLUS);
    assert_eq!(chain(&store, &state.audit_head).await, SURPLUS + 1);

    // What is carried away has all of them and says where they begin.
    let archive = store.archive(meta, state.clone()).await.unwrap();
    assert_eq!((archive.head.audit.first, archive.head.records), (SURPLUS + 1, 65_536));
    archive.check_records().unwrap();
    store.close().await;
    drop(machine);

    // So does the store after a restart, which checks every record; and it does not start with one cut off.
    let (store, loaded) = Store::open(dir.path(), no_fatal()).unwrap();
    assert_eq!(loaded.snapshot.unwrap().1, state);
    assert_eq!(chain(&store, &state.audit_head).await, SURPLUS + 1);
    store.close().await;
    let database = Connection::open(dir.path().join(DATABASE)).unwrap();
    database.execute("DELETE FROM raft_audit WHERE seq = ?", [signed(SURPLUS + 1)]).unwrap();
    drop(database);
    let refused = Store::open(dir.path(), no_fatal()).err().unwrap().to_string();
    assert!(
        refused.contains(&format!("record {} was expected here: what is before is cut off", SURPLUS + 1)),
        "{refused}"
    );
}

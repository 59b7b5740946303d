//! The store against openraft's own suite, against damage and against crashes.

use std::sync::Arc;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::super::machine::{Machine, Replica};
use super::*;

fn no_fatal() -> FatalHook {
    FatalHook::new(|reason| panic!("fatal: {reason}"))
}

struct OnDisk;

impl StoreBuilder<Types, Store, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Store, Machine), StorageError<Types>> {
        let dir = TempDir::new().unwrap();
        let (store, loaded) = Store::open(dir.path(), no_fatal()).unwrap();
        let replica = Arc::new(Replica::new(loaded.snapshot.as_ref()));
        let machine = Machine::new(replica, store.clone(), loaded.snapshot, no_fatal());
        Ok((dir, store, machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_keeps_the_contract_of_openraft() {
    Suite::test_all(OnDisk).await.unwrap();
}

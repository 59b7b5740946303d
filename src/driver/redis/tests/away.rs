//! Ends that stay away for longer than the driver waits, and a source that leaves its shard once it is empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Client, cmd};

use super::fixture::{Cluster, driver, key_in};
use crate::driver::redis::{Failpoints, Settings};
use crate::driver::{Driver as _, DriverError, Job};

const SLOTS: [u16; 3] = [700, 701, 702];

fn fill(cluster: &Cluster) {
    let mut connection = cluster.servers[0].connect().unwrap();
    for slot in SLOTS {
        for number in 0..20 {
            cmd("SET").arg(key_in(slot, number)).arg(number).exec(&mut connection).unwrap();
        }
    }
}

/// Ends a server at a place of the driver, once.
fn ending(port: u16, at: &'static str) -> Failpoints {
    let done = Arc::new(AtomicBool::new(false));
    Failpoints::new(move |place| {
        let first = place == at && !done.swap(true, Ordering::Relaxed);
        Box::pin(async move {
            if first {
                let client = Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
                let mut connection = client.get_connection().unwrap();
                // The connection ends before there is an answer.
                drop(cmd("SHUTDOWN").arg("NOSAVE").exec(&mut connection));
            }
        })
    })
}

/// What was opened before an end went away is never told to be as before; it is ended, or taken home, when the end is back.
async fn goes_away(which: usize, at: &'static str) {
    let mut cluster = Cluster::start(2, 1, 0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let topology = Arc::new(cluster.topology());
    fill(&cluster);
    let job = cluster.job(&topology, 0, 2, &[(700, 702)]);
    let failpoints = ending(cluster.servers[which].port, at);
    let answer = driver(Settings { failpoints, ..Settings::default() }).execute(&job).await;
    let Err(DriverError::Open(why)) = answer else { panic!("{answer:?} though slots are open") };
    assert!(why.contains("700-702"), "{why}");
    cluster.servers[which].kill();
    cluster.servers[which].run();
    cluster.settle();
    if which == 0 {
        cluster.execute(&job).await.unwrap();
        for slot in SLOTS {
            cluster.assert_owned(slot, 2);
        }
    } else {
        // A rollout that ends takes home only what cannot go on.
        cluster.execute(&Job { ending: true, ..job }).await.unwrap();
    }
    cluster.assert_sound();
    let keys: i64 = SLOTS.iter().flat_map(|slot| cluster.masters().map(|server| server.keys_in(*slot))).sum();
    assert_eq!(keys, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_stays_away_leaves_its_slots_open() {
    goes_away(0, "after-migrate").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_stays_away_leaves_its_slots_open() {
    goes_away(2, "before-drain").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_copies_another_shard_once_it_is_empty_has_given_its_slots() {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    fill(&cluster);
    cluster.execute(&cluster.job(&topology, 0, 2, &[(700, 702)])).await.unwrap();
    let back = cluster.job(&topology, 2, 0, &[(700, 702)]);
    cluster.execute(&back).await.unwrap();
    let (home, emptied) = (cluster.servers[0].id(), cluster.servers[2].id());
    cluster.servers[2].ask(&["CLUSTER", "REPLICATE", home.as_str()]);
    cluster.wait("it is seen as a replica", || {
        let text = cluster.servers[0].text(&["CLUSTER", "NODES"]);
        text.lines().any(|line| line.starts_with(emptied.as_str()) && line.contains("slave"))
    });
    cluster.execute(&back).await.unwrap();
    for slot in SLOTS {
        cluster.assert_owned(slot, 0);
    }
}

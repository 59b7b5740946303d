//! Tests of publishing: never back, no lost wake, one rendering per version.

use std::io::Read as _;
use std::time::Duration;

use super::*;
use crate::domain::{ClusterId, Epoch, Generation, SlotTable};

fn name() -> ClusterName {
    ClusterName::new("c").unwrap()
}

fn version(generation: u64, epoch: u64) -> Version {
    Version { generation: Generation(generation), epoch: Epoch(epoch) }
}

fn topology(generation: u64, epoch: u64) -> Topology {
    Topology {
        cluster_id: ClusterId::new("id").unwrap(),
        version: version(generation, epoch),
        shards: Vec::new(),
        table: SlotTable::new(),
        moving: Vec::new(),
    }
}

fn newest(publisher: &Publisher) -> Version {
    publisher.newest(&name()).unwrap().topology.version
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_version_never_goes_back() {
    let publisher = Publisher::default();
    assert!(publisher.newest(&name()).is_none());
    publisher.publish(&name(), topology(7, 5));
    publisher.publish(&name(), topology(7, 4));
    assert_eq!(newest(&publisher), version(7, 5));
    publisher.publish(&name(), topology(6, 900));
    assert_eq!(newest(&publisher), version(7, 5));
    publisher.publish(&name(), topology(8, 0));
    assert_eq!(newest(&publisher), version(8, 0), "a new generation replaces everything");
}

#[test]
fn tags_are_strong_and_differ_per_coding() {
    let (one, again, other) =
        (Snapshot::render(topology(1, 1)), Snapshot::render(topology(1, 1)), Snapshot::render(topology(1, 2)));
    assert_eq!((&one.etag, &one.etag_gzip), (&again.etag, &again.etag_gzip));
    assert_ne!(one.etag, one.etag_gzip);
    assert_ne!(one.etag, other.etag);
    assert!(one.etag.starts_with('"') && one.etag.ends_with('"') && one.etag.len() == 34, "{}", one.etag);
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&one.json_gzip[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, one.json);
    let body: serde_json::Value = serde_json::from_slice(&one.json).unwrap();
    assert_eq!((body["generation"].as_u64(), body["epoch"].as_u64()), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_waiter_wakes_on_the_next_version_only() {
    let publisher = Publisher::default();
    publisher.publish(&name(), topology(1, 1));
    let answer = publisher.wait_newer(&name(), version(1, 0), LONG).await.unwrap();
    assert_eq!(answer.topology.version, version(1, 1), "what is newer already is answered at once");

    let waiter = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.wait_newer(&name(), version(1, 2), LONG).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(publisher.waiting(), 1);
    publisher.publish(&name(), topology(1, 2));
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished(), "an equal version is not newer");
    publisher.publish(&name(), topology(1, 3));
    assert_eq!(waiter.await.unwrap().unwrap().topology.version, version(1, 3));
    assert_eq!(publisher.waiting(), 0);
}

#[tokio::test]
async fn the_wait_ends_without_news() {
    let publisher = Publisher::default();
    publisher.publish(&name(), topology(1, 1));
    let before = tokio::time::Instant::now();
    assert!(publisher.wait_newer(&name(), version(1, 1), Duration::from_millis(30)).await.is_none());
    assert!(before.elapsed() >= Duration::from_millis(30));
}

#[tokio::test]
async fn a_deleted_cluster_wakes_its_waiters() {
    let publisher = Publisher::default();
    publisher.publish(&name(), topology(1, 1));
    let waiter = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.wait_newer(&name(), version(1, 1), LONG).await }
    });
    tokio::task::yield_now().await;
    publisher.forget(&name());
    assert!(waiter.await.unwrap().is_none());
    assert!(publisher.newest(&name()).is_none());
}

#[tokio::test]
async fn a_cluster_not_published_yet_is_waited_for() {
    let publisher = Publisher::default();
    let waiter = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.wait_newer(&name(), Version::default(), LONG).await }
    });
    tokio::task::yield_now().await;
    publisher.publish(&ClusterName::new("other").unwrap(), topology(1, 9));
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    publisher.publish(&name(), topology(1, 1));
    assert_eq!(waiter.await.unwrap().unwrap().topology.version, version(1, 1));
}

/// A publisher on one thread, waiters on others that ask for the next version each time: none misses a wake.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_is_lost() {
    const LAST: u64 = 400;
    let publisher = Publisher::default();
    let waiters: Vec<_> = (0..16)
        .map(|_| {
            let publisher = publisher.clone();
            tokio::spawn(async move {
                let mut seen = Version::default();
                while seen < version(1, LAST) {
                    let next = publisher.wait_newer(&name(), seen, Duration::from_secs(20)).await;
                    let next = next.expect("a wake was lost").topology.version;
                    assert!(next > seen);
                    seen = next;
                }
            })
        })
        .collect();
    for epoch in 1..=LAST {
        publisher.publish(&name(), topology(1, epoch));
        tokio::task::yield_now().await;
    }
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

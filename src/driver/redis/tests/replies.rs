//! What `MIGRATE` may answer, and what is right then.

use std::sync::Arc;

use redis::{Cmd, cmd};

use super::fixture::{Cluster, Server, driver, key_in};
use crate::driver::redis::{Failpoints, Settings};
use crate::driver::{Driver as _, DriverError};

const SLOT: u16 = 700;

/// A command to a server that imports the slot.
fn asking(server: &Server, command: &Cmd) {
    let mut connection = server.connect().unwrap();
    cmd("ASKING").exec(&mut connection).unwrap();
    command.exec(&mut connection).unwrap();
}

fn fill(cluster: &Cluster, slot: u16, keys: usize) {
    let mut connection = cluster.servers[0].connect().unwrap();
    for number in 0..keys {
        cmd("SET").arg(key_in(slot, number)).arg(number).exec(&mut connection).unwrap();
    }
}

fn open(cluster: &Cluster, slot: u16) {
    let (source, target) = (&cluster.servers[0], &cluster.servers[1]);
    target.ask(&["CLUSTER", "SETSLOT", &slot.to_string(), "IMPORTING", source.id().as_str()]);
    source.ask(&["CLUSTER", "SETSLOT", &slot.to_string(), "MIGRATING", target.id().as_str()]);
}

/// Settings with something that happens once at a place.
fn at(place: &'static str, act: impl Fn() + Send + Sync + 'static) -> Settings {
    let (act, once) = (Arc::new(act), Arc::new(std::sync::Once::new()));
    let failpoints = Failpoints::new(move |reached| {
        let (act, once) = (Arc::clone(&act), Arc::clone(&once));
        Box::pin(async move {
            if reached == place {
                once.call_once(|| act());
            }
        })
    });
    Settings { failpoints, ..Settings::default() }
}

fn value(cluster: &Cluster, number: usize) -> Option<String> {
    cluster.on_owner(&key_in(SLOT, number), cmd("GET").arg(key_in(SLOT, number)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_on_both_ends_is_one_when_it_is_equal_and_a_persons_business_when_not() {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    for slot in [SLOT, 701, 702] {
        fill(&cluster, slot, 10);
        open(&cluster, slot);
    }
    // As a batch leaves it that was cut off: copied, not deleted.
    asking(&cluster.servers[1], cmd("SET").arg(key_in(SLOT, 3)).arg(3));
    asking(&cluster.servers[1], cmd("SET").arg(key_in(701, 4)).arg("newer or older"));
    let job = cluster.job(&topology, 0, 1, &[(700, 702)]);
    let why = match cluster.execute(&job).await {
        Err(DriverError::Open(why)) => why,
        other => panic!("{other:?}"),
    };
    let key = String::from_utf8(key_in(701, 4)).unwrap();
    assert!(why.contains(&key) && why.contains("slot 701") && why.contains("different values"), "{why}");
    assert!(!why.contains("700") && !why.contains("702"), "one bad slot does not stop the others: {why}");
    for slot in [SLOT, 702] {
        cluster.assert_owned(slot, 1);
        assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[1].keys_in(slot)), (0, 10));
    }
    // Both copies are still there, and the person decides.
    assert_eq!((cluster.servers[0].keys_in(701), cluster.servers[1].keys_in(701)), (1, 10));
    let mut connection = cluster.servers[0].connect().unwrap();
    cmd("DEL").arg(key_in(701, 4)).exec(&mut connection).unwrap();
    cluster.execute(&job).await.unwrap();
    cluster.assert_owned(701, 1);
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_right_as_long_as_it_is_the_same_process() {
    let cluster = Arc::new(Cluster::start(2, 1, 0, &[]));
    let topology = Arc::new(cluster.topology());
    fill(&cluster, SLOT, 10);
    let there = Arc::clone(&cluster);
    let settings = at("after-migrate", move || asking(&there.servers[1], cmd("SET").arg(key_in(SLOT, 4)).arg("old")));
    driver(settings).execute(&cluster.job(&topology, 0, 1, &[(SLOT, SLOT)])).await.unwrap();
    assert_eq!(value(&cluster, 4).as_deref(), Some("4"));
    cluster.assert_owned(SLOT, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_started_anew_is_right_only_when_it_writes_its_log_first() {
    for (fsync, right) in [("always", true), ("everysec", false)] {
        let mut cluster = Cluster::start(2, 1, 0, &["--appendonly", "yes", "--appendfsync", fsync]);
        let topology = Arc::new(cluster.topology());
        fill(&cluster, SLOT, 10);
        open(&cluster, SLOT);
        // It was copied, and the source came back from before it was deleted.
        asking(&cluster.servers[1], cmd("SET").arg(key_in(SLOT, 4)).arg("other"));
        cluster.wait("the log is written", || {
            cluster.servers[0].text(&["INFO", "persistence"]).contains("aof_pending_bio_fsync:0")
        });
        cluster.servers[0].kill();
        cluster.servers[0].run();
        cluster.settle();
        let done = cluster.execute(&cluster.job(&topology, 0, 1, &[(SLOT, SLOT)])).await;
        if right {
            done.unwrap();
            assert_eq!(value(&cluster, 4).as_deref(), Some("4"));
            cluster.assert_owned(SLOT, 1);
        } else {
            assert!(matches!(&done, Err(DriverError::Open(why)) if why.contains("started anew")), "{done:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_stops_for_a_moment_costs_nothing_but_time() {
    let cluster = Arc::new(Cluster::start(2, 1, 0, &[]));
    let topology = Arc::new(cluster.topology());
    fill(&cluster, SLOT, 50);
    let there = Arc::clone(&cluster);
    let settings = at("before-drain", move || {
        there.servers[1].signal("STOP");
        let there = Arc::clone(&there);
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(900));
            there.servers[1].signal("CONT");
        });
    });
    driver(settings).execute(&cluster.job(&topology, 0, 1, &[(SLOT, SLOT)])).await.unwrap();
    assert_eq!((cluster.servers[0].keys_in(SLOT), cluster.servers[1].keys_in(SLOT)), (0, 50));
    cluster.assert_owned(SLOT, 1);
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_gone_meanwhile_and_flags_that_are_gone_stop_nothing() {
    let cluster = Arc::new(Cluster::start(2, 1, 0, &[]));
    let topology = Arc::new(cluster.topology());
    fill(&cluster, SLOT, 3);
    let there = Arc::clone(&cluster);
    // Every key that was listed is deleted, and one is written; then the target loses what it had set.
    let settings = at("before-drain", move || {
        let mut connection = there.servers[0].connect().unwrap();
        for number in 0..2 {
            cmd("DEL").arg(key_in(SLOT, number)).exec(&mut connection).unwrap();
        }
        there.servers[1].ask(&["CLUSTER", "SETSLOT", &SLOT.to_string(), "STABLE"]);
    });
    driver(settings).execute(&cluster.job(&topology, 0, 1, &[(SLOT, SLOT)])).await.unwrap();
    assert_eq!((cluster.servers[0].keys_in(SLOT), cluster.servers[1].keys_in(SLOT)), (0, 1));
    assert_eq!(value(&cluster, 2).as_deref(), Some("2"));
    cluster.assert_owned(SLOT, 1);
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_key_is_moved_only_with_a_persons_word() {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    for slot in [SLOT, 701] {
        fill(&cluster, slot, 10);
    }
    let mut connection = cluster.servers[0].connect().unwrap();
    let mut big = key_in(SLOT, 99);
    big.extend(b"\x00\"\xff");
    cmd("SET").arg(&big).arg(vec![7_u8; 3 << 20]).exec(&mut connection).unwrap();
    let driver = || driver(Settings { big_key_bytes: 1 << 20, ..Settings::default() });
    let mut job = cluster.job(&topology, 0, 1, &[(700, 701)]);
    let shown = format!("{}:99\\x00\\\"\\xff", String::from_utf8_lossy(&key_in(SLOT, 99)).split(':').next().unwrap());
    // Nothing was opened: it is as before, and the rest of the plan goes on.
    let done = driver().execute(&job).await;
    assert!(
        matches!(&done, Err(DriverError::Halt(why)) if why.contains(&shown) && why.contains("slot 700")),
        "{done:?}"
    );
    cluster.assert_owned(SLOT, 0);
    cluster.assert_owned(701, 0);
    // Found when the slot is open already: it stays so, or comes home when the rollout ends, with what has arrived.
    open(&cluster, SLOT);
    let mut migrate = cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(cluster.servers[1].port).arg("").arg(0).arg(500).arg("KEYS").arg(key_in(SLOT, 1));
    migrate.exec(&mut connection).unwrap();
    let done = driver().execute(&job).await;
    assert!(matches!(&done, Err(DriverError::Open(why)) if why.contains(&shown)), "{done:?}");
    cluster.assert_owned(701, 1);
    job.ending = true;
    let done = driver().execute(&job).await;
    assert!(matches!(&done, Err(DriverError::Halt(why)) if why.contains(&shown)), "{done:?}");
    for (slot, keys) in [(SLOT, 11), (701, 10)] {
        cluster.assert_owned(slot, 0);
        assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[1].keys_in(slot)), (keys, 0));
    }
    cluster.assert_sound();
    job.ending = false;
    job.acks = Arc::new(["big-key".to_owned()].into());
    driver().execute(&job).await.unwrap();
    cluster.assert_owned(SLOT, 1);
    assert_eq!(cluster.servers[1].keys_in(SLOT), 11);
    cluster.assert_sound();
}

/// A stop of one end for longer than a look holds, at a place, once.
fn stopping(cluster: &Arc<Cluster>, at_place: &'static str, which: usize) -> Settings {
    let there = Arc::clone(cluster);
    at(at_place, move || {
        there.servers[which].signal("STOP");
        let there = Arc::clone(&there);
        let longer = std::time::Duration::from_millis(1_600);
        std::thread::spawn(move || {
            std::thread::sleep(longer);
            there.servers[which].signal("CONT");
        });
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_stops_for_longer_than_a_look_holds_is_looked_at_again_before_anything_is_given_away() {
    let cluster = Arc::new(Cluster::start(2, 1, 0, &[]));
    let topology = Arc::new(cluster.topology());
    for (round, (place, which)) in
        [("before-own", 0), ("before-own", 1), ("before-drain", 0), ("after-own", 0), ("before-release", 1)]
            .into_iter()
            .enumerate()
    {
        let slot = SLOT + u16::try_from(round).unwrap();
        fill(&cluster, slot, 30);
        let settings = stopping(&cluster, place, which);
        driver(settings).execute(&cluster.job(&topology, 0, 1, &[(slot, slot)])).await.unwrap();
        assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[1].keys_in(slot)), (0, 30), "{place} {which}");
        cluster.assert_owned(slot, 1);
    }
    cluster.settle();
    cluster.assert_sound();
}

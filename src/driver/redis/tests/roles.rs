//! Actions other than moves, what is verified, and who is shut out.

use std::sync::Arc;

use redis::cmd;

use super::fixture::{Cluster, driver, key_in};
use crate::domain::{ActionKind, Slot, SlotRange};
use crate::driver::redis::{Credentials, Failpoints, Secret, Settings};
use crate::driver::{Direction, Driver as _, DriverError, Lease};

fn slot(number: u16) -> Slot {
    Slot::new(number).unwrap()
}

fn ranges(first: u16, last: u16) -> Vec<SlotRange> {
    vec![SlotRange::new(slot(first), slot(last)).unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_promoted_and_follows_again() {
    let cluster = Cluster::start(3, 0, 1, &[]);
    let topology = Arc::new(cluster.topology());
    let driver = driver(Settings::default());
    driver.verify(&topology).await.unwrap();
    let (primary, replica) = (cluster.servers[1].id(), cluster.servers[4].id());
    let promote = ActionKind::Promote { shard: cluster.shard(1), from: primary.clone(), to: replica.clone() };
    let mut job = cluster.job_of(&topology, promote);
    driver.execute(&job).await.unwrap();
    assert!(cluster.servers[4].is_master());
    driver.execute(&job).await.unwrap();
    driver.verify(&topology).await.unwrap();
    // A move finds the new primary by itself.
    cmd("SET").arg(key_in(6000, 1)).arg(1).exec(&mut cluster.servers[4].connect().unwrap()).unwrap();
    driver.execute(&cluster.job(&topology, 1, 2, &[(6000, 6000)])).await.unwrap();
    cluster.assert_owned(6000, 2);
    job.direction = Direction::Back;
    driver.execute(&job).await.unwrap();
    assert!(cluster.servers[1].is_master() && !cluster.servers[4].is_master());
    // Its replica goes to another shard.
    let follow = ActionKind::SetReplicaOf { node: replica, shard: cluster.shard(0) };
    driver.execute(&cluster.job_of(&topology, follow)).await.unwrap();
    assert!(
        cluster.servers[4].text(&["INFO", "replication"]).contains(&format!("master_port:{}", cluster.servers[0].port))
    );
    let follow = ActionKind::SetReplicaOf { node: primary, shard: cluster.shard(0) };
    let refused = driver.execute(&cluster.job_of(&topology, follow)).await;
    assert!(matches!(&refused, Err(DriverError::Halt(why)) if why.contains("owns slots")), "{refused:?}");
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_of_nobody_and_of_a_lost_shard_get_an_owner() {
    let mut cluster = Cluster::start(4, 0, 0, &["--cluster-require-full-coverage", "no"]);
    let topology = Arc::new(cluster.topology());
    for server in &cluster.servers {
        server.ask(&["CLUSTER", "DELSLOTS", "5", "6"]);
    }
    let (lost, to) = (cluster.shard(3), cluster.shard(2));
    let assign = ActionKind::AssignSlots { from: None, to: to.clone(), ranges: ranges(5, 6) };
    driver(Settings::default()).execute(&cluster.job_of(&topology, assign)).await.unwrap();
    cluster.assert_owned(5, 2);
    cluster.servers[3].kill();
    cluster.wait("it is known to be dead", || {
        cluster.masters().all(|server| server.text(&["CLUSTER", "NODES"]).contains("fail -"))
    });
    let assign = ActionKind::AssignSlots { from: Some(lost), to, ranges: ranges(12288, 16383) };
    let job = cluster.job_of(&topology, assign);
    driver(Settings::default()).execute(&job).await.unwrap();
    driver(Settings::default()).execute(&job).await.unwrap();
    cluster.assert_owned(12288, 2);
    cluster.assert_owned(16383, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_several_have_is_brought_to_one() {
    let cluster = Cluster::start(3, 0, 0, &[]);
    let topology = Arc::new(cluster.topology());
    let [first, second, third] = [0, 1, 2].map(|at| &cluster.servers[at]);
    let set = |at: &super::fixture::Server, what: &[&str]| at.ask(&[&["CLUSTER", "SETSLOT", "800"], what].concat());
    cmd("SET").arg(key_in(800, 1)).arg("mine").exec(&mut first.connect().unwrap()).unwrap();
    // Open from the owner to one, and imported by another, which has a key.
    set(first, &["MIGRATING", second.id().as_str()]);
    set(third, &["IMPORTING", first.id().as_str()]);
    let mut connection = third.connect().unwrap();
    cmd("ASKING").exec(&mut connection).unwrap();
    cmd("SET").arg(key_in(800, 2)).arg("theirs").exec(&mut connection).unwrap();
    let driver = driver(Settings::default());
    let doubt = driver.verify(&topology).await;
    assert!(matches!(&doubt, Err(DriverError::Retry(why)) if why.contains("slot 800 open")), "{doubt:?}");
    for owner in [1, 0, 2] {
        let repair = ActionKind::RepairSlot { slot: slot(800), owner: cluster.shard(owner) };
        driver.execute(&cluster.job_of(&topology, repair)).await.unwrap();
        cluster.assert_owned(800, owner);
        assert_eq!(cluster.servers[owner].keys_in(800), 2);
        assert_eq!(cluster.servers.iter().map(|server| server.keys_in(800)).sum::<i64>(), 2);
    }
    cluster.assert_sound();
    let doubt = driver.verify(&topology).await;
    assert!(matches!(&doubt, Err(DriverError::Retry(why)) if why.contains("owns slot 800")), "{doubt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_leader_is_refused() {
    let mut cluster = Cluster::start(2, 0, 0, &[]);
    for server in &cluster.servers {
        server.ask(&["ACL", "SETUSER", "admin", "on", ">canary", "~*", "&*", "+@all"]);
    }
    let topology = Arc::new(cluster.topology());
    let admin = Credentials { username: Some("admin".to_owned()), password: Secret::new("canary") };
    let settings = Settings { credentials: Some(admin), fence_with_acl: true, ..Settings::default() };
    let (old, new) = (driver(settings.clone()), driver(settings));
    let lease = |term| Lease::new(term, || true);
    old.fence(&cluster.name, &topology, &lease(4)).await.unwrap();
    for number in 0..20 {
        cmd("SET").arg(key_in(900, number)).arg(1).exec(&mut cluster.servers[0].connect().unwrap()).unwrap();
    }
    let job = |first, last| cluster.job(&topology, 0, 1, &[(first, last)]);
    old.execute(&job(900, 900)).await.unwrap();
    assert_eq!(cluster.servers[1].keys_in(900), 20);
    let whose = cluster.servers[0].text(&["CLIENT", "LIST"]);
    assert!(whose.contains("user=slotkeeper-live-t4"), "{whose}");
    new.fence(&cluster.name, &topology, &lease(5)).await.unwrap();
    new.execute(&job(901, 901)).await.unwrap();
    // What the old leader still sends has no effect; nor does it let itself in again.
    let refused = old.execute(&job(902, 902)).await;
    assert!(refused.is_err(), "{refused:?}");
    cluster.assert_owned(902, 0);
    let refused = old.fence(&cluster.name, &topology, &lease(4)).await;
    assert!(matches!(refused, Err(DriverError::Retry(_))), "{refused:?}");
    let users = format!("{:?}", cluster.servers[0].ask(&["ACL", "USERS"]));
    assert!(!users.contains("t4"), "{users}");
    // A server that lost its users with a restart lets the leader in again.
    cluster.servers[1].kill();
    cluster.servers[1].run();
    cluster.servers[1].ask(&["ACL", "SETUSER", "admin", "on", ">canary", "~*", "&*", "+@all"]);
    cluster.settle();
    let job = cluster.job(&topology, 0, 1, &[(903, 903)]);
    new.execute(&job).await.unwrap();
    cluster.assert_owned(903, 1);
    new.step_down();
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_fence_an_end_that_dies_in_the_middle_lets_the_leader_in_again() {
    // The administrator stands in the configuration; the user of the term goes with the process.
    let all = "--appendonly yes --appendfsync always --user admin on >canary ~* &* +@all";
    let all: Vec<&str> = all.split(' ').collect();
    for which in [0, 1] {
        let mut cluster = Cluster::start(2, 0, 0, &all);
        let topology = Arc::new(cluster.topology());
        for slot in 100..110 {
            for number in 0..20 {
                let key = key_in(slot, number);
                cmd("SET").arg(key).arg(number).exec(&mut cluster.servers[0].connect().unwrap()).unwrap();
            }
        }
        let admin = Credentials { username: Some("admin".to_owned()), password: Secret::new("canary") };
        let (reached, place_reached) = std::sync::mpsc::channel::<()>();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (once, gone) = (std::sync::Once::new(), std::sync::Mutex::new(gone));
        let failpoints = Failpoints::new(move |place| {
            if place == "before-drain" {
                once.call_once(|| {
                    reached.send(()).unwrap();
                    gone.lock().unwrap().recv().unwrap();
                });
            }
            Box::pin(std::future::ready(()))
        });
        let settings = Settings { credentials: Some(admin), fence_with_acl: true, failpoints, ..Settings::default() };
        let driver = driver(settings);
        driver.fence(&cluster.name, &topology, &Lease::new(7, || true)).await.unwrap();
        let mut job = cluster.job(&topology, 0, 1, &[(100, 109)]);
        job.lease = Lease::new(7, || true);
        let moving = tokio::spawn(async move { driver.execute(&job).await });
        let cluster = tokio::task::spawn_blocking(move || {
            place_reached.recv().unwrap();
            cluster.servers[which].kill();
            cluster.servers[which].run();
            go.send(()).unwrap();
            cluster
        })
        .await
        .unwrap();
        moving.await.unwrap().unwrap();
        for slot in 100..110 {
            cluster.assert_owned(slot, 1);
            assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[1].keys_in(slot)), (0, 20), "{which}");
        }
        cluster.assert_sound();
        let users = cluster.servers[which].ask(&["ACL", "USERS"]);
        assert!(format!("{users:?}").contains("slotkeeper-live-t7"), "{users:?}");
    }
}

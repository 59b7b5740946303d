//! Every cell of the table of crashes: slots are brought by hand to where each step leaves them, somebody dies, and the
//! job begins anew. Every key is there once afterwards, and no slot is open.

use std::sync::Arc;

use redis::cmd;

use super::fixture::{Cluster, Server, key_in};

const KEYS: usize = 12;
/// The slot at which each step was the last one done.
const AT_STEP: [u16; 7] = [600, 601, 602, 603, 604, 605, 606];

fn set(server: &Server, slot: u16, what: &[&str]) {
    server.ask(&[&["CLUSTER", "SETSLOT", &slot.to_string()], what].concat());
}

/// Moves the first keys of a slot as the driver would.
fn migrate(source: &Server, target: &Server, slot: u16, keys: usize) {
    let mut migrate = cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(target.port).arg("").arg(0).arg(500).arg("KEYS");
    for number in 0..keys {
        migrate.arg(key_in(slot, number));
    }
    migrate.exec(&mut source.connect().unwrap()).unwrap();
}

/// Fills a slot and does the first steps of its move.
fn bring(cluster: &Cluster, (from, to): (usize, usize), slot: u16, step: usize) {
    let (source, target) = (&cluster.servers[from], &cluster.servers[to]);
    let mut connection = source.connect().unwrap();
    for number in 0..KEYS {
        cmd("SET").arg(key_in(slot, number)).arg(number).exec(&mut connection).unwrap();
    }
    let (source_id, target_id) = (source.id(), target.id());
    for done in 1..=step {
        match done {
            1 => set(target, slot, &["IMPORTING", source_id.as_str()]),
            2 => set(source, slot, &["MIGRATING", target_id.as_str()]),
            3 => migrate(source, target, slot, KEYS / 2),
            4 => migrate(source, target, slot, KEYS),
            5 => set(target, slot, &["NODE", target_id.as_str()]),
            _ => set(source, slot, &["NODE", target_id.as_str()]),
        }
    }
}

fn bring_all(cluster: &Cluster, from: usize, to: usize) {
    for (step, slot) in AT_STEP.into_iter().enumerate() {
        bring(cluster, (from, to), slot, step);
    }
    // What was acknowledged has reached the replicas: what has not is lost in any failover.
    for server in [from, to] {
        cluster.wait("the replica has it all", || cluster.servers[server].number(&["WAIT", "1", "1000"]) >= 1);
    }
}

fn assert_moved(cluster: &Cluster, to: usize) {
    for slot in AT_STEP {
        cluster.assert_owned(slot, to);
        let keys: Vec<i64> = cluster.masters().map(|server| server.keys_in(slot)).collect();
        assert_eq!(keys.iter().sum::<i64>(), i64::try_from(KEYS).unwrap(), "slot {slot}: each key once, not {keys:?}");
        for number in 0..KEYS {
            let value: Option<usize> = cluster.on_owner(&key_in(slot, number), cmd("GET").arg(key_in(slot, number)));
            assert_eq!(value, Some(number), "slot {slot}");
        }
    }
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_step_another_controller_goes_on() {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    for (step, slot) in AT_STEP.into_iter().enumerate() {
        bring(&cluster, (0, 2), slot, step);
    }
    cluster.execute(&cluster.job(&topology, 0, 2, &[(600, 606)])).await.unwrap();
    assert_moved(&cluster, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_step_the_source_fails_over() {
    let mut cluster = Cluster::start(3, 0, 1, &[]);
    let topology = Arc::new(cluster.topology());
    let job = cluster.job(&topology, 0, 2, &[(600, 606)]);
    bring_all(&cluster, 0, 2);
    let now = cluster.fail_over(0);
    assert!(cluster.servers[now].keys_in(600) > 0);
    cluster.execute(&job).await.unwrap();
    assert_moved(&cluster, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_step_the_target_fails_over() {
    let mut cluster = Cluster::start(3, 0, 1, &[]);
    let topology = Arc::new(cluster.topology());
    let job = cluster.job(&topology, 0, 2, &[(600, 606)]);
    bring_all(&cluster, 0, 2);
    let now = cluster.fail_over(2);
    cluster.execute(&job).await.unwrap();
    assert_moved(&cluster, now);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_comes_back_with_its_disk_goes_on() {
    let mut cluster = Cluster::start(3, 0, 0, &["--appendonly", "yes", "--appendfsync", "always"]);
    let topology = Arc::new(cluster.topology());
    let job = cluster.job(&topology, 0, 2, &[(600, 606)]);
    for (step, slot) in AT_STEP.into_iter().enumerate() {
        bring(&cluster, (0, 2), slot, step);
    }
    cluster.servers[2].kill();
    cluster.servers[0].kill();
    let later = std::thread::spawn(move || {
        cluster.servers[2].run();
        cluster.servers[0].run();
        cluster
    });
    let (links, settings) = (super::fixture::driver, crate::driver::redis::Settings::default());
    let done = crate::driver::Driver::execute(&links(settings), &job).await;
    let cluster = later.join().unwrap();
    done.unwrap();
    assert_moved(&cluster, 2);
}

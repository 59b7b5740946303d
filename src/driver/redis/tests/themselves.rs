//! Real servers that move slots by themselves: Valkey 9 where `SLOTKEEPER_TEST_VALKEY` names one (`make test` installs it),
//! Redis 8.4 where `SLOTKEEPER_TEST_REDIS84` does. Valkey is held in the middle by its own `DEBUG SLOTMIGRATION`.

mod held;
mod moves;

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::cmd;

use super::fixture::{Cluster, Server, key_in};
use crate::domain::Topology;
use crate::driver::redis::atomic::Dialect;

const KEYS: usize = 12;

/// A task as a server lists it.
type Listed = BTreeMap<String, String>;

/// The tasks of a server, the newest first.
fn tasks(server: &Server, dialect: Dialect) -> Vec<Listed> {
    let words: &[&str] = match dialect {
        Dialect::Valkey => &["CLUSTER", "GETSLOTMIGRATIONS"],
        Dialect::Redis => &["CLUSTER", "MIGRATION", "STATUS", "ALL"],
    };
    cmd(words[0]).arg(&words[1..]).query(&mut server.connect().unwrap()).unwrap()
}

/// States of a source's tasks, the newest first.
fn states(server: &Server) -> Vec<String> {
    let exports = tasks(server, Dialect::Valkey).into_iter().filter(|task| task["operation"] == "EXPORT");
    exports.map(|task| task["state"].clone()).collect()
}

/// Three masters and one without slots, each with so many replicas, whose disks keep what was acknowledged.
fn cluster(binary: &std::path::Path, replicas: usize) -> (Cluster, Arc<Topology>) {
    let cluster = Cluster::start_of(binary, (3, 1, replicas), &["--appendonly", "yes", "--appendfsync", "always"]);
    let topology = Arc::new(cluster.topology());
    (cluster, topology)
}

fn fill(server: &Server, slots: impl Iterator<Item = u16>) {
    let mut connection = server.connect().unwrap();
    for slot in slots {
        for number in 0..KEYS {
            cmd("SET").arg(key_in(slot, number)).arg(number).exec(&mut connection).unwrap();
        }
    }
}

/// Each key of the slots is at this server, once.
fn assert_there(cluster: &Cluster, slots: impl Iterator<Item = u16>, at: usize) {
    for slot in slots {
        cluster.assert_owned(slot, at);
        // A target removes by and by what a move that failed had brought.
        cluster.wait(&format!("each key of {slot} is there once"), || {
            cluster.masters().map(|server| server.keys_in(slot)).sum::<i64>() == i64::try_from(KEYS).unwrap()
        });
        for number in 0..KEYS {
            let value: Option<usize> = cluster.on_owner(&key_in(slot, number), cmd("GET").arg(key_in(slot, number)));
            assert_eq!(value, Some(number), "slot {slot}");
        }
    }
    cluster.assert_sound();
}

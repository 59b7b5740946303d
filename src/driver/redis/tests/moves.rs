//! Moves in which nobody dies.

use std::sync::Arc;

use redis::cmd;

use super::fixture::{Cluster, key_in};

/// Writes 26 keys of every type into a slot: twenty strings with names that need care, and one with an end.
pub(super) fn fill_with_every_type(connection: &mut redis::Connection, slot: u16) {
    for number in 0..20 {
        let mut key = key_in(slot, number);
        key.extend(b" \x00\\\xff{}\r\n");
        cmd("SET").arg(&key).arg(format!("{slot}-{number}")).exec(connection).unwrap();
    }
    let key = |number| key_in(slot, number);
    cmd("HSET").arg(key(100)).arg("a").arg(1).arg("b").arg(2).exec(connection).unwrap();
    cmd("RPUSH").arg(key(101)).arg("a").arg("b").exec(connection).unwrap();
    cmd("SADD").arg(key(102)).arg("a").arg(7).exec(connection).unwrap();
    cmd("ZADD").arg(key(103)).arg(1.5).arg("a").exec(connection).unwrap();
    cmd("XADD").arg(key(104)).arg("*").arg("f").arg("v").exec(connection).unwrap();
    cmd("SET").arg(key(105)).arg("soon").arg("PX").arg(600_000).exec(connection).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_with_their_keys_whatever_they_are() {
    let cluster = Cluster::start(2, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    let slots = 100..=163_u16;
    let mut connection = cluster.servers[0].connect().unwrap();
    for slot in slots.clone() {
        fill_with_every_type(&mut connection, slot);
    }
    let job = cluster.job(&topology, 0, 2, &[(100, 163)]);
    cluster.execute(&job).await.unwrap();
    for slot in slots {
        assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[2].keys_in(slot)), (0, 26), "{slot}");
    }
    let mut connection = cluster.servers[2].connect().unwrap();
    let mut key = key_in(130, 7);
    key.extend(b" \x00\\\xff{}\r\n");
    assert_eq!(cmd("GET").arg(&key).query::<String>(&mut connection).unwrap(), "130-7");
    assert_eq!(cmd("HGET").arg(key_in(100, 100)).arg("b").query::<String>(&mut connection).unwrap(), "2");
    let left: i64 = cmd("PTTL").arg(key_in(163, 105)).query(&mut connection).unwrap();
    assert!((500_000..=600_000).contains(&left), "{left}");
    for slot in [100, 131, 163] {
        cluster.assert_owned(slot, 2);
    }
    cluster.assert_sound();
    // Once more is as good as once.
    cluster.execute(&job).await.unwrap();
    cluster.assert_owned(100, 2);
}

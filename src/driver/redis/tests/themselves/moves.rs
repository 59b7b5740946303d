//! Moves in which nobody dies.

use std::sync::Arc;

use redis::cmd;

use super::super::binaries::that_move_slots;
use super::super::fixture::{Cluster, driver, key_in};
use super::super::moves::fill_with_every_type;
use super::{assert_there, cluster, fill, tasks};
use crate::driver::redis::atomic::{self, Dialect};
use crate::driver::redis::{Credentials, Secret, Settings};
use crate::driver::{Driver as _, Lease};

/// What a server that gave or took slots by itself lists of it: the slots of each task that came to its end.
fn done(cluster: &Cluster, dialect: Dialect, (source, target): (usize, usize)) -> Vec<String> {
    let (at, side, slots, word) = match dialect {
        Dialect::Valkey => (source, "EXPORT", "slot_ranges", "success"),
        Dialect::Redis => (target, "import", "slots", "completed"),
    };
    let listed = tasks(&cluster.servers[at], dialect).into_iter();
    listed.filter(|task| task["operation"] == side && task["state"] == word).map(|task| task[slots].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_whole_with_all_that_they_hold() {
    for (dialect, binary) in that_move_slots("slots_move_whole_with_all_that_they_hold") {
        let (cluster, topology) = cluster(&binary, 1);
        let mut connection = cluster.servers[0].connect().unwrap();
        let slots = || (100..=163_u16).chain(200..=200);
        for slot in slots() {
            fill_with_every_type(&mut connection, slot);
        }
        // A key that the classic way would not touch without a person's word.
        for field in 0..100 {
            cmd("HSET").arg(key_in(200, 300)).arg(field).arg(vec![7_u8; 20_000]).exec(&mut connection).unwrap();
        }
        let digest = |server: usize, key: &[u8]| {
            let mut asked = cmd("DEBUG");
            asked.arg("DIGEST-VALUE").arg(key);
            asked.query::<Vec<String>>(&mut cluster.servers[server].connect().unwrap()).unwrap()
        };
        let before = digest(0, &key_in(200, 300));
        let job = cluster.job(&topology, 0, 3, &[(100, 163), (200, 200)]);
        let settings = Settings { big_key_bytes: 1 << 20, ..Settings::default() };
        driver(settings).execute(&job).await.unwrap();
        for slot in slots() {
            let expected = if slot == 200 { 27 } else { 26 };
            cluster.assert_owned(slot, 3);
            assert_eq!((cluster.servers[0].keys_in(slot), cluster.servers[3].keys_in(slot)), (0, expected), "{slot}");
        }
        assert_eq!(digest(3, &key_in(200, 300)), before);
        let mut connection = cluster.servers[3].connect().unwrap();
        let mut key = key_in(130, 7);
        key.extend(b" \x00\\\xff{}\r\n");
        assert_eq!(cmd("GET").arg(&key).query::<String>(&mut connection).unwrap(), "130-7");
        assert_eq!(cmd("HGET").arg(key_in(100, 100)).arg("b").query::<String>(&mut connection).unwrap(), "2");
        let left: i64 = cmd("PTTL").arg(key_in(163, 105)).query(&mut connection).unwrap();
        assert!((500_000..=600_000).contains(&left), "{left}");
        assert_eq!(done(&cluster, dialect, (0, 3)), ["100-163 200-200"]);
        cluster.assert_sound();
        // Once more is as good as once, and asks for nothing.
        cluster.execute(&job).await.unwrap();
        assert_eq!(done(&cluster, dialect, (0, 3)).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_go_there_and_back_and_there_again() {
    for (dialect, binary) in that_move_slots("slots_go_there_and_back_and_there_again") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 300..=303);
        // What the servers remember of the first time says nothing of the third.
        for (from, to) in [(0, 3), (3, 0), (0, 3)] {
            let job = cluster.job(&topology, from, to, &[(300, 301), (303, 303)]);
            cluster.execute(&job).await.unwrap();
            assert_there(&cluster, [300, 301, 303].into_iter(), to);
        }
        assert_eq!(done(&cluster, dialect, (0, 3)), ["300-301 303-303", "300-301 303-303"]);
        cluster.assert_owned(302, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_of_one_source_and_of_one_target_at_once() {
    for (dialect, binary) in that_move_slots("many_jobs_of_one_source_and_of_one_target_at_once") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 400..=415);
        fill(&cluster.servers[1], 6000..=6003);
        let driver = driver(Settings::default());
        let ranges = [(0, 3, 400), (0, 3, 404), (0, 1, 408), (0, 2, 412), (1, 3, 6000)];
        let jobs: Vec<_> = ranges
            .iter()
            .map(|(from, to, first)| cluster.job(&topology, *from, *to, &[(*first, *first + 3)]))
            .collect();
        for answer in futures::future::join_all(jobs.iter().map(|job| driver.execute(job))).await {
            answer.unwrap();
        }
        for (_, to, first) in ranges {
            assert_there(&cluster, first..=first + 3, to);
        }
        if dialect == Dialect::Valkey {
            assert_eq!(done(&cluster, dialect, (0, 3)).len(), 4, "each once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_start_as_far_apart_as_their_bytes_take() {
    for (dialect, binary) in that_move_slots("tasks_start_as_far_apart_as_their_bytes_take") {
        let (cluster, topology) = cluster(&binary, 0);
        let mut connection = cluster.servers[0].connect().unwrap();
        // Of 450 keys only some are measured; each slot has about 450 KB.
        for slot in 400..=405 {
            for number in 0..450 {
                cmd("SET").arg(key_in(slot, number)).arg(vec![7_u8; 1000]).exec(&mut connection).unwrap();
            }
        }
        let driver = driver(Settings::default());
        let jobs: Vec<_> = [400, 402, 404]
            .iter()
            .map(|first| {
                let mut job = cluster.job(&topology, 0, 3, &[(*first, *first + 1)]);
                job.limits.bytes_per_second = Some(900_000);
                job
            })
            .collect();
        let begun = std::time::Instant::now();
        for answer in futures::future::join_all(jobs.iter().map(|job| driver.execute(job))).await {
            answer.unwrap();
        }
        // The third one has waited for the first two: each takes a second, without what a key takes beside its value.
        assert!(begun.elapsed() >= std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
        for slot in 400..=405 {
            cluster.assert_owned(slot, 3);
        }
        if dialect == Dialect::Valkey {
            assert_eq!(done(&cluster, dialect, (0, 3)).len(), 3, "each once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_opened_by_hand_is_ended_by_hand() {
    for (dialect, binary) in that_move_slots("what_was_opened_by_hand_is_ended_by_hand") {
        let (cluster, topology) = cluster(&binary, 0);
        fill(&cluster.servers[0], 500..=503);
        // Somebody else's slot is open at the source: the server moves nothing by itself.
        let to = cluster.servers[1].id();
        cluster.servers[0].ask(&["CLUSTER", "SETSLOT", "510", "MIGRATING", to.as_str()]);
        if dialect == Dialect::Valkey {
            let (node, asked) =
                (cluster.servers[3].id(), ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "500", "501", "NODE"]);
            let refused = cluster.servers[0].try_ask(&[&asked[..], &[node.as_str()]].concat()).unwrap_err();
            assert!(atomic_refuses(&refused.to_string()), "{refused}");
        }
        cluster.execute(&cluster.job(&topology, 0, 3, &[(500, 501)])).await.unwrap();
        assert_eq!(done(&cluster, dialect, (0, 3)), [""; 0]);
        cluster.servers[0].ask(&["CLUSTER", "SETSLOT", "510", "STABLE"]);
        // A slot of the batch is half moved already.
        let (source, target) = (cluster.servers[0].id(), cluster.servers[3].id());
        cluster.servers[3].ask(&["CLUSTER", "SETSLOT", "502", "IMPORTING", source.as_str()]);
        cluster.servers[0].ask(&["CLUSTER", "SETSLOT", "502", "MIGRATING", target.as_str()]);
        cluster.execute(&cluster.job(&topology, 0, 3, &[(502, 503)])).await.unwrap();
        assert_eq!(done(&cluster, dialect, (0, 3)), [""; 0]);
        assert_there(&cluster, 500..=503, 3);
    }
}

fn atomic_refuses(text: &str) -> bool {
    text.contains("being manually")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_leader_starts_nothing() {
    for (dialect, binary) in that_move_slots("a_deposed_leader_starts_nothing") {
        let (cluster, topology) = cluster(&binary, 0);
        for server in &cluster.servers {
            server.ask(&["ACL", "SETUSER", "admin", "on", ">canary", "~*", "&*", "+@all"]);
        }
        fill(&cluster.servers[0], 600..=602);
        let admin = Credentials { username: Some("admin".to_owned()), password: Secret::new("canary") };
        let settings = Settings { credentials: Some(admin), fence_with_acl: true, ..Settings::default() };
        let (old, new) = (driver(settings.clone()), driver(settings));
        let lease = |term| Lease::new(term, || true);
        let job = |slot| cluster.job(&topology, 0, 3, &[(slot, slot)]);
        old.fence(&cluster.name, &topology, &lease(4)).await.unwrap();
        // The user of a term may ask for it.
        old.execute(&job(600)).await.unwrap();
        new.fence(&cluster.name, &topology, &lease(5)).await.unwrap();
        let refused = old.execute(&job(602)).await;
        assert!(refused.is_err(), "{refused:?}");
        new.execute(&job(601)).await.unwrap();
        assert_eq!(done(&cluster, dialect, (0, 3)), ["601-601", "600-600"]);
        assert_there(&cluster, 600..=601, 3);
        cluster.assert_owned(602, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_source_may_become_a_replica() {
    for (_, binary) in that_move_slots("an_emptied_source_may_become_a_replica") {
        let more = ["--cluster-allow-replica-migration", "yes"];
        let cluster = Cluster::start_of(&binary, (3, 0, 0), &more);
        let topology = Arc::new(cluster.topology());
        fill(&cluster.servers[0], 700..=701);
        cluster.execute(&cluster.job(&topology, 0, 1, &[(0, 5460)])).await.unwrap();
        assert_there(&cluster, 700..=701, 1);
    }
}

#[test]
fn slots_are_written_as_they_are_read() {
    assert_eq!(atomic::slots("100-163 200-200").unwrap().len(), 65);
}

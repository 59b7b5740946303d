//! Slots of a running action that somebody gives to a node that takes no part in it.

use std::sync::Arc;

use redis::cmd;

use super::fixture::{Cluster, driver, key_in};
use crate::domain::{ActionKind, NodeId, Slot, SlotSet, split_advice};
use crate::driver::redis::Settings;
use crate::driver::{Driver as _, DriverError, Job};

const SLOT: u16 = 700;
const OTHER: u16 = 701;

fn set(cluster: &Cluster, at: usize, what: &str, node: &NodeId) {
    cluster.servers[at].ask(&["CLUSTER", "SETSLOT", &SLOT.to_string(), what, node.as_str()]);
}

fn slots() -> SlotSet {
    SlotSet::from_iter([SLOT, OTHER].map(|slot| Slot::new(slot).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_a_third_node_got_is_named_and_left_to_a_repair_when_the_rollout_ends() {
    let cluster = Cluster::start(3, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    let job = cluster.job(&topology, 0, 3, &[(SLOT, OTHER)]);
    let mut connection = cluster.servers[0].connect().unwrap();
    for number in 0..10 {
        cmd("SET").arg(key_in(OTHER, number)).arg(number).exec(&mut connection).unwrap();
    }
    let (source, third) = (cluster.servers[0].id(), cluster.servers[1].id());
    // Begun, and then given to a third node at every server, as a person with a loop in the shell does.
    set(&cluster, 3, "IMPORTING", &source);
    set(&cluster, 0, "MIGRATING", &cluster.servers[3].id());
    for at in [1, 0, 2, 3] {
        set(&cluster, at, "NODE", &third);
    }
    let doubt = driver(Settings::default()).closed(&topology, &slots()).await;
    let told = doubt.unwrap_err().to_string();
    assert!(told.contains(&format!("slots {SLOT} of the plan open")) && told.contains("STABLE"), "{told}");
    let Err(DriverError::Open(why)) = cluster.execute(&job).await else { panic!("it is open") };
    let (why, advice) = split_advice(&why);
    let at = |server: usize| format!("127.0.0.1:{}", cluster.servers[server].port);
    assert!(why.contains(&format!("slot {SLOT}: ")) && why.contains(&format!("{} owns it", at(1))), "{why}");
    let advice = advice.unwrap();
    let back =
        format!("redis-cli --cluster call {} CLUSTER SETSLOT {SLOT} NODE {source} --cluster-only-masters", at(0));
    assert!(advice.starts_with(&back) && advice.ends_with("rollout abort, then plan create --repair"), "{advice}");

    // Aborted: the rest is at home, and this one with whoever has it, closed everywhere.
    let ending = Job { ending: true, ..job };
    let ended = cluster.execute(&ending).await;
    assert!(matches!(&ended, Err(DriverError::Halt(why)) if why.ends_with("do: plan create --repair")), "{ended:?}");
    cluster.assert_owned(SLOT, 1);
    cluster.assert_owned(OTHER, 0);
    assert_eq!(cluster.servers[0].keys_in(OTHER), 10);
    driver(Settings::default()).closed(&topology, &slots()).await.unwrap();
    cluster.assert_sound();
    let repair = ActionKind::RepairSlot { slot: Slot::new(SLOT).unwrap(), owner: cluster.shard(0) };
    cluster.execute(&cluster.job_of(&topology, repair)).await.unwrap();
    cluster.assert_owned(SLOT, 0);
    cluster.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_the_target_imported_are_not_closed_in_there_and_the_command_given_brings_the_slot_home() {
    let cluster = Cluster::start(3, 1, 0, &[]);
    let topology = Arc::new(cluster.topology());
    let job = Job { ending: true, ..cluster.job(&topology, 0, 3, &[(SLOT, SLOT)]) };
    let mut connection = cluster.servers[0].connect().unwrap();
    cmd("SET").arg(key_in(SLOT, 1)).arg("kept").exec(&mut connection).unwrap();
    let (source, third) = (cluster.servers[0].id(), cluster.servers[1].id());
    set(&cluster, 3, "IMPORTING", &source);
    set(&cluster, 0, "MIGRATING", &cluster.servers[3].id());
    let mut migrate = cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(cluster.servers[3].port).arg("").arg(0).arg(500).arg("KEYS").arg(key_in(SLOT, 1));
    migrate.exec(&mut connection).unwrap();
    for at in [1, 0, 2] {
        set(&cluster, at, "NODE", &third);
    }
    let Err(DriverError::Open(why)) = cluster.execute(&job).await else { panic!("the key could not be reached") };
    assert_eq!(cluster.servers[3].keys_in(SLOT), 1);
    let advice = split_advice(&why).1.unwrap();
    let words: Vec<&str> = advice.split(',').next().unwrap().split_whitespace().collect();
    let given = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(given.status.success(), "{words:?}: {}", String::from_utf8_lossy(&given.stdout));
    let ended = cluster.execute(&job).await;
    assert!(ended.is_ok() || matches!(ended, Err(DriverError::Halt(_))), "{ended:?}");
    let owner = if cluster.servers[3].keys_in(SLOT) == 1 { 3 } else { 0 };
    assert_eq!(owner == 3, ended.is_ok(), "it has arrived, or is at home");
    cluster.assert_owned(SLOT, owner);
    let value: String = cluster.on_owner(&key_in(SLOT, 1), cmd("GET").arg(key_in(SLOT, 1)));
    assert_eq!(value, "kept");
    cluster.assert_sound();
}

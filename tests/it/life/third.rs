//! Somebody gives a slot of a running action to a node that takes no part in it: it is shown, with what to do, the rollout can be
//! ended, and a reviewed repair brings the slot home.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{CLUSTER, Stage};
use crate::harness::{Member, eventually};
use crate::live::cluster::Cluster;
use crate::live::server::Options;

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_in_flight_that_a_third_node_got_is_shown_and_does_not_hold_an_abort() {
    let folder = tempfile::tempdir().unwrap();
    let (stage, hold) = held(folder.path(), "after-migrate").await;
    let ids: Vec<String> = stage.cluster.servers.iter().map(crate::live::server::Server::id).collect();
    let request = json!({"reweight": {(ids[0].clone()): 0}, "goal": {"kind": "budget", "max_moves": 1}});
    let path = start(&stage, request).await;
    eventually("slots are open", || async { hold.exists().then_some(()) }).await;
    let view = stage.cluster.view(0);
    let open = view.iter().find(|line| !line.open.is_empty()).expect("one that migrates").open[0].clone();
    let (slot, target) = open.trim_matches(['[', ']']).split_once("->-").expect("it migrates");
    let third = (1..3).find(|index| ids[*index] != target).expect("two others");
    for server in [third, 0, 1, 2] {
        stage.cluster.servers[server].ask(&["CLUSTER", "SETSLOT", slot, "NODE", &ids[third]]);
    }
    std::fs::remove_file(&hold).unwrap();

    let (blamed, home) = (stage.cluster.servers[third].address().to_string(), stage.cluster.servers[0].address());
    let drift = stage.until_drift(&["foreign-claim"]).await;
    let number: u64 = slot.parse().unwrap();
    assert_eq!(drift[0]["ranges"], json!([[number, number]]));
    let back = format!("redis-cli --cluster call {home} CLUSTER SETSLOT {slot} NODE {} --cluster-only-masters", ids[0]);
    assert!(drift[0]["advice"].as_str().unwrap().starts_with(&back), "{drift:?}");
    let checked = stage.member.cli(&["cluster", "check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(3), "{said}");
    assert!(said.contains(&blamed) && said.contains(&format!("do: {back}")), "{said}");
    let blocked = eventually("blocked", || async {
        let rollout = stage.member.get(&path).await.expect(200);
        (rollout["state"] == "blocked").then_some(rollout)
    })
    .await;
    let cause = blocked["cause"].as_str().unwrap();
    assert!(cause.contains(&format!("slot {slot}: ")) && cause.contains(&format!("{blamed} owns it")), "{blocked}");
    assert!(blocked["advice"].as_str().unwrap().starts_with(&back), "{blocked}");
    let shown = stage.member.cli_ok(&["rollout", "show"]);
    assert!(shown.contains(&format!("\n      do: {back}")), "{shown}");

    stage.member.post(&format!("{path}/abort"), json!({})).await.expect(200);
    let ended = eventually("aborted", || async {
        let rollout = stage.member.get(&path).await.expect(200);
        (rollout["state"] == "aborted").then_some(rollout)
    })
    .await;
    // What is done with a rollout that is under way is not told of one that has ended.
    let advice = |of: &Value| of["advice"].as_str().unwrap_or_default().to_owned();
    let mut all = ended["actions"].as_array().unwrap().iter().map(advice).chain([advice(&ended)]);
    assert!(all.all(|advice| !advice.contains("rollout ")), "{ended}");
    assert_eq!(stage.cluster.open_slots(), Vec::<String>::new());
    // The table's word stands, and nothing was overwritten: a repair is reviewed like any plan.
    stage.until_drift(&["foreign-claim"]).await;
    let plan = stage.propose(json!({"repair": true})).await;
    assert_eq!(plan["actions"].as_array().unwrap().len(), 1, "{plan}");
    let one_way = super::check(&plan, "one-way");
    assert!(one_way["text"].as_str().unwrap().contains("rollback does not undo"), "{one_way}");
    stage.carry_out(&plan).await;
    let rollout =
        stage.member.get(&format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&rollout["progress"]["slots_done"], &rollout["progress"]["slots_total"]), (&json!(1), &json!(1)));
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    stage.cluster.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_says_what_it_waits_for_while_it_still_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (mut stage, hold) = held(folder.path(), "before-migrate").await;
    let id = stage.cluster.servers[0].id();
    let path = start(&stage, json!({"reweight": {id: 0}, "goal": {"kind": "budget", "max_moves": 16}})).await;
    eventually("it is about to open slots", || async { hold.exists().then_some(()) }).await;
    stage.cluster.servers[0].kill_9();
    std::fs::remove_file(&hold).unwrap();
    let address = stage.cluster.servers[0].address().to_string();
    let told = eventually("it says what it waits for", || async {
        let rollout = stage.member.get(&path).await.expect(200);
        rollout["cause"].as_str().is_some_and(|cause| cause.contains(&address)).then_some(rollout)
    })
    .await;
    assert_eq!(told["state"], "running", "{told}");
    assert!(told["advice"].as_str().unwrap().starts_with("start it"), "{told}");
    stage.cluster.servers[0].restart();
    eventually("it has gone on", || async {
        let rollout = stage.member.get(&path).await.expect(200);
        if rollout["state"] == "blocked" {
            drop(stage.member.post(&format!("{path}/resume"), json!({})).await);
        }
        (rollout["state"] == "succeeded").then_some(())
    })
    .await;
    stage.cluster.assert_clean();
}

/// An adopted cluster of three primaries, whose controller stops at a place in the protocol as long as the file is there.
async fn held(folder: &Path, place: &str) -> (Stage, PathBuf) {
    let cluster = Cluster::start(folder, 3, 0, &Options::default());
    let hold = folder.join("hold");
    let env = vec![("SLOTKEEPER_FAILPOINT".to_owned(), format!("{place}:hold={}", hold.display()))];
    let member = Member::serve(&folder.join("member"), &[], env);
    member.ready().await;
    let stage = Stage { member, cluster };
    stage.adopt(0).await;
    (stage, hold)
}

/// Proposes, approves and starts a plan; the path of its rollout.
async fn start(stage: &Stage, request: Value) -> String {
    let plan = stage.propose(request).await;
    stage.approve(&plan).await;
    let path = format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap());
    stage.member.post(&path, json!({})).await.expect(201);
    path
}

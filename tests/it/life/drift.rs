//! What the nodes do by themselves is followed where it may be, and told where not; repair plans and preflight checks.

use serde_json::json;

use super::{CLUSTER, Stage, check};
use crate::harness::eventually;
use crate::live::server::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_inside_a_shard_is_one_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), 3, 1).await;
    let epoch = stage.topology().await["epoch"].as_u64().unwrap();
    let (old, new) = (stage.cluster.servers[1].id(), stage.cluster.servers[4].id());
    stage.cluster.servers[4].ask(&["CLUSTER", "FAILOVER"]);
    let topology = eventually("the failover is followed", || async {
        let topology = stage.topology().await;
        (topology["epoch"].as_u64().unwrap() > epoch).then_some(topology)
    })
    .await;
    assert_eq!(topology["epoch"], epoch + 1);
    let shard = topology["shards"].as_array().unwrap().iter().find(|shard| shard["id"] == old).unwrap();
    assert_eq!((&shard["primary"]["id"], &shard["replicas"][0]["id"]), (&json!(new), &json!(old)));
    stage.cluster.until_agreed();
    assert_eq!(stage.until_drift(&[]).await, Vec::<serde_json::Value>::new());
    let audit = stage.member.get("/v1/audit?limit=100").await.expect(200);
    let records = audit["items"].as_array().unwrap();
    let observed: Vec<_> = records.iter().filter(|record| record["action"] == "cluster.observe").collect();
    assert_eq!(observed.len(), 1, "{audit}");
    let summary = observed[0]["summary"].as_str().unwrap();
    assert_eq!(summary, format!("shard {old} failed over from {old} to {new}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_ordered_is_told_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), 3, 0).await;
    let servers = &stage.cluster.servers;
    let ids: Vec<String> = servers.iter().map(crate::live::server::Server::id).collect();
    // An open slot at either end, with a key that has moved; a slot that its owner let go; one that another took.
    servers[1].ask(&["CLUSTER", "SETSLOT", "866", "IMPORTING", &ids[0]]);
    servers[0].ask(&["CLUSTER", "SETSLOT", "866", "MIGRATING", &ids[1]]);
    for server in servers {
        server.ask(&["CLUSTER", "DELSLOTS", "16000", "16001", "16002"]);
    }
    let drift = stage.until_drift(&["uncovered", "open-slot", "open-slot"]).await;
    assert_eq!(drift[0]["ranges"], json!([[16000, 16002]]));
    assert_eq!((&drift[0]["shard"], &drift[1]["ranges"]), (&json!(ids[2]), &json!([[866, 866]])));
    let checked = stage.member.cli(&["cluster", "check"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(3), "{said}");
    assert!(said.contains("open-slot: slot 866") && said.contains("plan create --repair"), "{said}");
    eventually("the leader's metrics", || async {
        let metrics = stage.member.get("/metrics").await.body.to_string();
        metrics.contains(r#"slotkeeper_cluster_drift{cluster=\"default\",kind=\"open-slot\"} 2"#).then_some(())
    })
    .await;
    // Any other plan is refused by the same check.
    let weigh = json!({"reweight": {(ids[0].clone()): 2}});
    let plan = stage.propose(weigh).await;
    let failing = check(&plan, "nodes-disagree");
    assert_eq!(failing["level"], "fail", "{failing}");
    stage
        .member
        .post(&format!("{CLUSTER}/plans/{}/withdrawal", plan["id"].as_str().unwrap()), json!({"revert_intent": true}))
        .await
        .expect(200);
    let plan = stage.propose(json!({"repair": true})).await;
    let actions = plan["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 4, "{plan}");
    assert_eq!(actions[0]["kind"], "repair_slot");
    assert_eq!(check(&plan, "nodes-agree")["level"], "ok");
    let shown = stage.member.cli_ok(&["plan", "show", plan["id"].as_str().unwrap()]);
    assert!(
        shown.contains("\"repair 4 slots\"")
            && shown.contains("close slot 866 at")
            && shown.contains("close slots 16000-16002 at"),
        "{shown}"
    );
    stage.carry_out(&plan).await;
    assert_eq!(stage.until_drift(&[]).await, Vec::<serde_json::Value>::new());
    stage.cluster.assert_clean();
    let nothing = stage.member.post(&format!("{CLUSTER}/plans"), json!({"repair": true})).await.expect(200);
    assert!(nothing["empty_because"].as_str().unwrap().contains("no slot is open"), "{nothing}");
    let both = stage.member.post(&format!("{CLUSTER}/plans"), json!({"repair": true, "drain": [ids[0]]})).await;
    assert_eq!(both.expect(422)["field"], "repair");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_speak_against_a_plan_when_it_is_made_and_when_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(folder.path(), 3, 0).await;
    let ids: Vec<String> = stage.cluster.servers.iter().map(crate::live::server::Server::id).collect();
    // Slot 0 holds {06S}: a big key, and no room at the target.
    stage.cluster.servers[0].ask(&["SETRANGE", "{06S}big", "70000000", "x"]);
    stage.cluster.servers[0].ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let plan = stage.propose(json!({"reweight": {(ids[0].clone()): 0}})).await;
    let big = check(&plan, "big-key");
    assert_eq!((&big["level"], &big["needs_ack"]), (&json!("warn"), &json!(true)), "{plan}");
    assert!(big["text"].as_str().unwrap().contains("{06S}big"), "{big}");
    let lossy = check(&plan, "durability")["text"].as_str().unwrap().to_owned();
    assert!(lossy.contains("lossy on crash") && lossy.contains("everysec"), "{lossy}");
    assert_eq!(check(&plan, "reachable")["level"], "ok");
    assert_eq!(plan["summary"]["keys_est"], 1, "{plan}");
    // Statistics that nobody brought come from the nodes.
    let by_bytes = json!({"goal": {"kind": "balance_load", "metric": "bytes"}, "reason": "one key"});
    let answer = stage.member.post(&format!("{CLUSTER}/plans?dry_run=true"), by_bytes).await.expect(200);
    assert!(answer["plan"].is_object() || answer["empty_because"].is_string(), "{answer}");
    let by_ops = json!({"goal": {"kind": "balance_load", "metric": "ops"}});
    stage.member.post(&format!("{CLUSTER}/plans?dry_run=true"), by_ops).await.expect(422);
    stage.approve(&plan).await;
    let path = format!("{CLUSTER}/plans/{}/rollout", plan["id"].as_str().unwrap());
    stage.cluster.servers[2].kill_9();
    let refused = stage.member.post(&path, json!({})).await.expect(409);
    assert_eq!(refused["code"], "checks-failed", "{refused}");
    let address = stage.cluster.servers[2].address().to_string();
    assert!(refused["detail"].as_str().unwrap().contains(&address), "{refused}");
    let drift = stage.until_drift(&["unreachable"]).await;
    assert!(drift[0]["what"].as_str().unwrap().contains(&address), "{drift:?}");
    stage.cluster.servers[2].restart();
    stage.cluster.until_agreed();
    for target in [1, 2] {
        stage.cluster.servers[target].ask(&["CONFIG", "SET", "maxmemory", "20mb"]);
    }
    let refused = stage.member.post(&path, json!({})).await.expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("memory: "), "{refused}");
    // A user that may not do what a move takes.
    stage.cluster.servers[1].ask(&["CONFIG", "SET", "maxmemory", "0"]);
    stage.cluster.servers[2].ask(&["CONFIG", "SET", "maxmemory", "0"]);
    stage.cluster.servers[1].ask(&["ACL", "SETUSER", "default", "-restore-asking", "-dump"]);
    let refused = stage.member.post(&path, json!({})).await.expect(409);
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("default may not RESTORE-ASKING, DUMP"), "{refused}");
    stage.cluster.servers[1].ask(&["ACL", "SETUSER", "default", "+@all"]);
    until("nothing stands against it", || Ok(()));
    stage.member.post(&path, json!({})).await.expect(201);
}

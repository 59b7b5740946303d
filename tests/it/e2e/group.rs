//! Three members: any start order, writes through any of them, and the leader killed in mid-rollout.

use serde_json::json;

use super::*;
use crate::harness::Group;

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_killed_in_mid_rollout_is_replaced_and_the_rollout_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [2, 0, 1]).await;
    let leader = group.leader().await;
    let follower = (leader + 1) % 3;
    let survivor = (leader + 2) % 3;

    // Everything is asked of a follower: it forwards.
    let member = &group.members[follower];
    import(member, "01-3m3r.nodes.txt").await;
    set_limits(member, json!({"slots_per_second": 1000})).await;
    let drained = "3ff99ba2b5e26e3974d67804ec06fc2106c86fea";
    let request = json!({
        "add": [
            {"name": "new-1", "host": "127.0.0.1", "port": 21003},
            {"name": "new-2", "host": "127.0.0.1", "port": 21004},
        ],
        "drain_shards": [drained],
    });
    let plan = propose(member, request).await;
    let approver = token(member, "alice", "approver").await;
    let urls = group.members.iter().map(|member| member.url.clone()).collect();
    let watcher = Watcher::start(urls, group.members[0].token.clone());
    let admin = group.members[follower].token.clone();
    group.members[follower].token = approver;
    let reviewed = json!({"digest": plan["digest"], "acks": acks(&plan)});
    let path = format!("{CLUSTER}/plans/{}", plan["id"].as_str().unwrap());
    group.members[follower].post(&format!("{path}/approvals"), reviewed).await.expect(200);
    group.members[follower].token = admin;
    group.members[follower].post(&format!("{path}/rollout"), json!({})).await.expect(201);

    until_slots_done(&group.members[follower], &plan, 500).await;
    group.members[leader].kill_9();
    until_state(&group.members[survivor], &plan, "succeeded").await;
    assert_eq!(counts(&group.members[follower]).await, target(&plan));
    assert_eq!(target(&plan)[drained], 0);

    // The killed member comes back and agrees, to the byte.
    group.members[leader].start();
    group.members[leader].ready().await;
    eventually("all members have the same state", || async {
        let mut hashes = Vec::new();
        for member in &group.members {
            let status = member.request(Method::GET, "/v1/status", None).await.ok()?.body;
            hashes.push((status["state_hash_index"].as_u64()?, status["state_hash"].as_str()?.to_owned()));
        }
        hashes.windows(2).all(|pair| pair[0] == pair[1]).then_some(())
    })
    .await;
    let seen = watcher.finish();
    assert!(seen.len() > 10, "{seen:?}");
    for member in &group.members {
        audit_is_whole(member).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_three_killed_at_once_lose_nothing_acknowledged_and_one_alone_takes_no_write() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    for number in 0..5 {
        let body = json!({"name": format!("c{number}"), "driver": "flip"});
        group.members[number % 3].post("/v1/clusters", body).await.expect(201);
    }
    for member in &mut group.members {
        member.kill_9();
    }
    group.members[1].start();
    let alone = eventually("it answers", || async {
        group.members[1].request(Method::POST, "/v1/clusters", Some(json!({"name": "x", "driver": "flip"}))).await.ok()
    })
    .await;
    assert_eq!(alone.status, 503, "no quorum: {}", alone.body);
    assert!(alone.headers.contains_key("retry-after"));
    group.members[0].start();
    group.members[2].start();
    for member in &group.members {
        member.ready().await;
        let clusters = member.get("/v1/clusters").await.expect(200);
        let names: Vec<&str> =
            clusters["items"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        for expected in ["c0", "c1", "c2", "c3", "c4"] {
            assert!(names.contains(&expected), "{expected} in {names:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_left_alone_names_no_leader_and_goes_on_serving_the_topology() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    group.members[0].ready().await;
    group.members[1].kill_9();
    group.members[2].kill_9();
    let alone = &group.members[0];
    eventually("it is not ready", || async { (alone.get("/readyz").await.status == 503).then_some(()) }).await;
    let status = alone.get("/v1/status").await.expect(200);
    assert_eq!((&status["leader"], &status["ready"]), (&Value::Null, &json!(false)), "{status}");
    let topology = alone.get("/v1/clusters/default/topology").await;
    assert_eq!(topology.status, 200);
    assert!(!topology.headers.contains_key("slotkeeper-leader"));
    assert!(topology.headers.contains_key("slotkeeper-stale-ms"));
    assert_eq!(alone.get("/livez").await.status, 200);
}

/// An older copy of a member's own store has forgotten what it acknowledged: it is refused, and the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_an_older_copy_of_its_own_store_is_refused_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[follower].terminate();
    let (dir, old) = (group.members[follower].data_dir(), folder.path().join("old"));
    copy_dir(&dir, &old);
    group.members[follower].start();
    group.members[follower].ready().await;
    for number in 0..5 {
        let body = json!({"name": format!("c{number}"), "driver": "flip"});
        group.members[follower].post("/v1/clusters", body).await.expect(201);
    }
    group.members[follower].terminate();
    std::fs::remove_dir_all(&dir).unwrap();
    copy_dir(&old, &dir);
    group.members[follower].start();

    let code = eventually("the old store's member has ended", || {
        let ended = group.members[follower].ended();
        async move { ended }
    })
    .await;
    assert_eq!(code, 10);
    assert!(group.members[follower].log_text().contains("refuses this member"));
    for index in [leader, other] {
        assert_eq!(group.members[index].ended(), None, "the others live");
    }
    group.members[other].post("/v1/clusters", json!({"name": "after", "driver": "flip"})).await.expect(201);
    let clusters = group.members[other].get("/v1/clusters").await.expect(200);
    assert_eq!(clusters["items"].as_array().unwrap().len(), 7, "{clusters}");
}

pub fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

pub(super) async fn token(member: &Member, name: &str, role: &str) -> String {
    let answer = member.post("/v1/tokens", json!({"name": name, "role": role})).await.expect(201);
    answer["secret"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn acks(plan: &Value) -> Vec<&Value> {
    plan["checks"].as_array().unwrap().iter().filter(|c| c["needs_ack"] == true).map(|c| &c["code"]).collect()
}

//! Backups: saved from a running controller, looked into, restored into new groups; and the group that is made of the
//! one member that is left.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use slotkeeper::client::{CacheOptions, Client, TopologyCache};
use slotkeeper::domain::ClusterName;

use super::*;
use crate::harness::{BINARY, Group, PATIENCE, free_port};

fn slotkeeper(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().unwrap()
}

fn value(output: &Output) -> Value {
    assert!(output.status.success(), "{}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command that must fail says.
fn refused(args: &[&str], code: i32) -> String {
    let output = slotkeeper(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

async fn version(member: &Member) -> (u64, u64) {
    let topology = member.get(&format!("{CLUSTER}/topology?consistency=linearizable")).await.expect(200);
    (topology["generation"].as_u64().unwrap(), topology["epoch"].as_u64().unwrap())
}

async fn last_audit(member: &Member) -> Value {
    let records = member.get("/v1/audit?limit=1000").await.expect(200);
    records["items"].as_array().unwrap().last().unwrap().clone()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_saved_checked_and_restored_and_clients_take_the_restored_map() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = Member::dev(folder.path());
    old.ready().await;
    import(&old, "01-3m3r.nodes.txt").await;
    let before = version(&old).await;
    let file = folder.path().join("backup");

    let saved = value(&old.cli(&["snapshot", "save", text(&file), "-o", "json"]));
    assert_eq!(saved["clusters"], json!([["default", format!("{}.{}", before.0, before.1)]]));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let status = old.get("/v1/status").await.expect(200);
    assert_eq!((&saved["group_id"], &saved["state_hash"]), (&status["group_id"], &status["state_hash"]));
    let again = old.cli(&["snapshot", "save", text(&file)]);
    assert_eq!(again.status.code(), Some(3), "an old backup is not written over");
    assert_eq!(value(&slotkeeper(&["snapshot", "status", text(&file), "-o", "json"])), saved);
    assert!(old.cli_ok(&["snapshot", "status", text(&file)]).contains("records 1 to "));

    // What came after the backup is gone in the restored group, and a client that saw it takes the older map.
    old.post(&format!("{CLUSTER}/nodes"), json!({"name": "late", "host": "127.0.0.1", "port": 21009}))
        .await
        .expect(201);
    let after = version(&old).await;
    assert!(after > before);
    let port = free_port();
    let client = Client::new([old.url.clone(), format!("http://127.0.0.1:{port}")]).unwrap();
    let cache = TopologyCache::start(&client, &ClusterName::new("default").unwrap(), CacheOptions::default());
    let mut held = cache.watch();
    let newest = held.wait_for(|held| held.is_some_and(|held| held.epoch.0 == after.1)).await.unwrap().unwrap();
    old.kill_9();

    let new_dir = folder.path().join("new");
    let restore =
        ["snapshot", "restore", text(&file), "--data-dir", text(&new_dir), "--by", "alice", "--reason", "fire"];
    let made = value(&slotkeeper(&[&restore[..], &["-o", "json"]].concat()));
    assert_ne!(made["group_id"], saved["group_id"]);
    assert!(refused(&restore, 2).contains("is not empty"));
    let new = Member::serve_on(port, &new_dir, &[], Vec::new());
    new.ready().await;
    let taken = held.wait_for(|held| held.is_some_and(|held| held > newest));
    let taken = tokio::time::timeout(PATIENCE, taken).await.expect("the client takes it").unwrap().unwrap();
    assert_eq!((taken.generation.0, taken.epoch.0), version(&new).await);
    let restored = version(&new).await;
    assert!(restored.0 > after.0 && restored.1 == before.1, "{restored:?} after {after:?}");
    assert!(new.get(&format!("{CLUSTER}/nodes/late")).await.status == 404);
    assert_eq!(new.get("/v1/status").await.expect(200)["group_id"], made["group_id"]);
    let record = last_audit(&new).await;
    assert_eq!((&record["action"], &record["reason"]), (&json!("group.restore"), &json!("fire")));
    assert_eq!(record["by"]["name"], "alice");
    audit_is_whole(&new).await;

    // Damage anywhere, and what is no snapshot at all.
    let bytes = std::fs::read(&file).unwrap();
    for at in [5, 60, bytes.len() / 3, bytes.len() - 200, bytes.len() - 40] {
        let mut bent = bytes.clone();
        bent[at] ^= 4;
        let path = folder.path().join("bent");
        std::fs::write(&path, bent).unwrap();
        refused(&["snapshot", "status", text(&path)], 10);
        let other = folder.path().join("other");
        refused(&["snapshot", "restore", text(&path), "--data-dir", text(&other), "--reason", "x"], 10);
        assert!(!other.exists());
    }
    let newer = String::from_utf8(bytes).unwrap().replace("{\"slotkeeper_snapshot\":1,", "{\"slotkeeper_snapshot\":7,");
    std::fs::write(&file, newer).unwrap();
    assert!(
        refused(&["snapshot", "status", text(&file)], 10)
            .contains("a snapshot of format 7, written by a newer version")
    );
    let said = refused(&["snapshot", "status", text(&folder.path().join("nowhere"))], 2);
    assert!(!said.contains("data directory"), "it is a file: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_taken_on_request_and_needs_an_admin() {
    let folder = tempfile::tempdir().unwrap();
    let group = Group::start(folder.path(), [0, 1, 2]).await;
    let follower = (group.leader().await + 1) % 3;
    let taken = group.members[follower].post("/v1/snapshots", json!(null)).await;
    // Not even null is a body.
    assert_eq!(taken.status, 400);
    let member = &group.members[follower];
    let taken = member.request(Method::POST, "/v1/snapshots", None).await.unwrap().expect(200);
    assert_eq!(taken["member_id"], json!(follower + 1));
    let names: Vec<_> = std::fs::read_dir(member.data_dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name == "snapshot-0000000000000001.jsonl"), "{names:?}");
    let operator = group::token(member, "bob", "operator").await;
    let denied = |method, path: &'static str| {
        let (operator, url) = (operator.clone(), member.url.clone());
        async move {
            let client = reqwest::Client::new();
            client.request(method, format!("{url}{path}")).bearer_auth(operator).send().await.unwrap().status()
        }
    };
    assert_eq!(denied(Method::GET, "/v1/snapshots/latest").await, 403);
    assert_eq!(denied(Method::POST, "/v1/snapshots").await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_asked_for_while_another_is_written_comes_too() {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::dev(folder.path());
    member.ready().await;
    // Enough of it that writing it takes longer than the writes in between.
    let line =
        |n: u32| format!("{n:040x} 10.0.0.1:{}@0 master - 0 0 {n} connected {}-{}\n", n + 1, n * 16, n * 16 + 15);
    let nodes: String = (0..1024).map(line).collect();
    for number in 0..8 {
        member.post("/v1/clusters", json!({"name": format!("c{number}"), "driver": "flip"})).await.expect(201);
        member.post(&format!("/v1/clusters/c{number}/import"), Value::String(nodes.clone())).await.expect(200);
    }
    let take = || async { member.request(Method::POST, "/v1/snapshots", None).await.unwrap().expect(200) };
    for number in 0..3 {
        let first = take().await;
        assert_eq!(take().await, first, "nothing was written since");
        group::token(&member, &format!("bob-{number}"), "viewer").await;
        assert!(take().await["index"].as_u64() > first["index"].as_u64());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_restored_alike_are_one_group_and_one_restored_otherwise_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut old = Member::dev(folder.path());
    old.ready().await;
    import(&old, "01-3m3r.nodes.txt").await;
    let file = folder.path().join("backup");
    old.cli_ok(&["snapshot", "save", text(&file)]);
    let seen = version(&old).await;
    old.kill_9();

    let peers: Vec<String> = (0..3).map(|_| format!("127.0.0.1:{}", free_port())).collect();
    let list: Vec<String> = peers.iter().enumerate().map(|(index, peer)| format!("{}={peer}", index + 1)).collect();
    let list = list.join(",");
    let dir = |id: usize| folder.path().join(format!("restored-{id}"));
    let restore = |id: usize, at: Option<&str>| {
        let (dir, id) = (dir(id), id.to_string());
        let mut args = vec!["snapshot", "restore", text(&file), "--data-dir", text(&dir), "--member-id", &id];
        args.extend(["--initial-members", &list, "--by", "alice", "--reason", "fire", "-o", "json"]);
        args.extend(at.iter().flat_map(|at| ["--at", at]));
        slotkeeper(&args)
    };
    let asked = restore(1, None);
    assert_eq!(asked.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("--at is needed"), "{asked:?}");
    let at = "1900000000000";
    let made: Vec<Value> = (1..=3).map(|id| value(&restore(id, Some(at)))).collect();
    assert!(made.iter().all(|one| one["group_id"] == made[0]["group_id"]));
    std::fs::remove_dir_all(dir(3)).unwrap();
    let stranger = value(&restore(3, Some("1900000000001")));
    assert_ne!(stranger["group_id"], made[0]["group_id"]);

    let members: Vec<Member> = (1..=3)
        .map(|id| {
            let more = ["--peer-listen", &peers[id - 1], "--member-id", &id.to_string(), "--initial-members", &list];
            Member::serve(&dir(id), &more, Vec::new())
        })
        .collect();
    members[0].ready().await;
    members[1].ready().await;
    eventually("the stranger is refused", || async {
        members[2].log_text().contains("refuses this member").then_some(())
    })
    .await;
    let ready = members[2].request(Method::GET, "/readyz", None).await.unwrap();
    assert_eq!(ready.status, 503);
    let hashes = [members[0].get("/v1/status").await, members[1].get("/v1/status").await];
    let generation = version(&members[0]).await.0;
    assert_eq!(generation, 1_900_000_000);
    assert!(generation > seen.0);
    let [first, second] = hashes.map(|answer| answer.body);
    assert_eq!(first["group_id"], made[0]["group_id"]);
    assert_eq!(second["group_id"], made[0]["group_id"]);
    members[1].post("/v1/clusters", json!({"name": "after", "driver": "flip"})).await.expect(201);
    audit_is_whole(&members[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_member_left_goes_on_alone_and_the_others_are_refused_when_they_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    import(&group.members[0], "01-3m3r.nodes.txt").await;
    for number in 0..10 {
        let name = format!("c-{number}");
        group.members[number % 3].post("/v1/clusters", json!({"name": name, "driver": "flip"})).await.expect(201);
    }
    let before = version(&group.members[0]).await;
    let old_group = group.members[0].get("/v1/status").await.expect(200)["group_id"].clone();
    let last = group.leader().await;
    let dir = group.members[last].data_dir();
    let force = ["force-new-group", "--data-dir", text(&dir), "--reason", "two disks burnt", "--others-are-lost"];
    assert!(refused(&force, 2).contains("in use by another process"));
    for member in &mut group.members {
        member.kill_9();
    }
    assert!(refused(&force[..5], 2).contains("--others-are-lost"));
    let made = value(&slotkeeper(&[&force[..], &["-o", "json"]].concat()));
    assert_eq!((&made["old_group_id"], &made["member_id"]), (&old_group, &json!(last + 1)));

    // With the arguments it always had: the flag is no part of them.
    group.members[last].start();
    group.members[last].ready().await;
    let member = &group.members[last];
    let after = version(member).await;
    assert!(after.0 > before.0 && after.1 == before.1, "{before:?} {after:?}");
    for number in 0..10 {
        member.get(&format!("/v1/clusters/c-{number}")).await.expect(200);
    }
    member.post("/v1/clusters", json!({"name": "alone", "driver": "flip"})).await.expect(201);
    let status = member.get("/v1/status").await.expect(200);
    assert_eq!(status["members"].as_array().unwrap().len(), 1);
    assert_eq!(status["group_id"], made["group_id"]);

    let back = (last + 1) % 3;
    group.members[back].start();
    eventually("it is refused", || async {
        group.members[back].log_text().contains("refuses this member").then_some(())
    })
    .await;
    let member = &group.members[last];
    member.post("/v1/clusters", json!({"name": "undisturbed", "driver": "flip"})).await.expect(201);
    assert_eq!(member.get("/v1/status").await.expect(200)["term"], status["term"]);
    let records = member.get("/v1/audit?limit=1000").await.expect(200);
    let forced: Vec<&Value> =
        records["items"].as_array().unwrap().iter().filter(|record| record["action"] == "group.force_new").collect();
    assert_eq!(forced.len(), 1);
    assert_eq!(forced[0]["reason"], "two disks burnt");
    audit_is_whole(member).await;
}

//! Groups that grow, shrink, lose members for good and hand the lead over, with clients at work all the time.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use slotkeeper::client::{Client, Request};
use slotkeeper::wire::{ClusterCreate, Revision};

use super::*;
use crate::harness::{Group, free_port};

/// Clients that create and delete clusters through the SDK until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    clients: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(urls: &[String], token: &str) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..3)
            .map(|number: usize| {
                // Each has another favourite.
                let urls: Vec<String> = (0..urls.len()).map(|n| urls[(n + number) % urls.len()].clone()).collect();
                let client = Client::builder(urls).token(token).timeout(Duration::from_secs(20)).build().unwrap();
                let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
                tokio::spawn(async move {
                    let mut failed = Vec::new();
                    let name = format!("load-{number}");
                    while !stop.load(Ordering::Relaxed) {
                        let body: ClusterCreate =
                            serde_json::from_value(json!({"name": name, "driver": "flip"})).unwrap();
                        if let Err(error) = client.create_cluster(&body).await {
                            failed.push(format!("create: {error}"));
                        }
                        let delete = Request::delete(format!("/v1/clusters/{name}")).if_match(Revision(1));
                        if let Err(error) = client.send(delete).await {
                            failed.push(format!("delete: {error}"));
                        }
                        written.fetch_add(2, Ordering::Relaxed);
                    }
                    failed
                })
            })
            .collect();
        Self { stop, written, clients }
    }

    async fn go_on(&self, writes: u64) {
        let wanted = self.written.load(Ordering::Relaxed) + writes;
        eventually("the clients' writes go on", || async {
            (self.written.load(Ordering::Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    /// No write failed, after the retries that every client makes.
    async fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            let failed = client.await.unwrap();
            assert!(failed.is_empty(), "{failed:?}");
        }
        self.written.load(Ordering::Relaxed)
    }
}

/// A member that joins: the arguments are known before its process runs.
pub(super) fn joiner(folder: &Path, name: &str, through: &str, token: &str, port: u16) -> (Member, String) {
    let peer = format!("127.0.0.1:{port}");
    let token_file = folder.join(format!("{name}.join"));
    let args = ["--peer-listen", &peer, "--join", through, "--join-token-file", token_file.to_str().unwrap()];
    let mut member = Member::serve_with(folder, name, &args);
    // Without the token it ends at once: it is started when that is there.
    member.kill_9();
    token.clone_into(&mut member.token);
    (member, peer)
}

/// Adds a member as a voter through the command line, the process started as soon as its token is there.
async fn add_voter(asked: &Member, joining: &mut Member, peer: &str) -> u64 {
    let token_file = joining.argument("--join-token-file");
    let args = ["member", "add", "--voter", "--peer-address", peer, "-o", "json", "--join-token-file", &token_file];
    let adding = asked.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the join token", || async { std::fs::read_to_string(&token_file).ok().filter(|t| t.contains('\n')) })
        .await;
    joining.start();
    let output = tokio::task::spawn_blocking(move || adding.wait_with_output().unwrap()).await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(err.contains("has a vote"), "{err}");
    serde_json::from_str::<Value>(&out).unwrap()["member_id"].as_u64().unwrap()
}

/// `(number, standing, leads)` of each member.
pub(super) async fn listed(member: &Member) -> Vec<(u64, String, bool)> {
    let answer = member.get("/v1/members").await.expect(200);
    let items = answer["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let standing = item["standing"].as_str().unwrap().to_owned();
            (item["id"].as_u64().unwrap(), standing, item["leader"].as_bool().unwrap())
        })
        .collect()
}

pub(super) async fn voters(member: &Member) -> Vec<u64> {
    listed(member).await.into_iter().filter(|(_, standing, _)| standing == "voter").map(|(id, _, _)| id).collect()
}

async fn leader_id(member: &Member) -> u64 {
    eventually("a leader", || async {
        listed(member).await.into_iter().find(|(_, _, leads)| *leads).map(|(id, _, _)| id)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_grows_to_five_and_shrinks_to_one_and_no_write_fails() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("admin.token");
    let mut first = Member::serve_with(folder.path(), "m1", &["--admin-token-file", token_file.to_str().unwrap()]);
    let token = eventually("the first admin token", || async {
        std::fs::read_to_string(&token_file).ok().filter(|token| token.ends_with('\n'))
    })
    .await;
    token.trim().clone_into(&mut first.token);
    first.ready().await;
    let refused = first.post("/v1/members", json!({"peer_address": "127.0.0.1:9"})).await;
    assert!(refused.status == 409 && refused.body["detail"].as_str().unwrap().contains("--peer-listen"), "{refused:?}");

    // It began alone; with an address for others it can have some.
    assert!(first.terminate().success());
    let peer = format!("127.0.0.1:{}", free_port());
    first.add_args(&["--peer-listen", &peer]);
    first.start();
    first.ready().await;
    eventually("its address is known", || async {
        let members = first.get("/v1/members").await.expect(200);
        (members["items"][0]["peer_address"] == peer.as_str()).then_some(())
    })
    .await;
    let mut joiners = Vec::new();
    for name in ["m2", "m3", "m4", "m5", "m6"] {
        joiners.push(joiner(folder.path(), name, &first.url, &first.token, free_port()));
    }
    let urls: Vec<String> =
        [first.url.clone()].into_iter().chain(joiners.iter().map(|(member, _)| member.url.clone())).collect();
    let load = Load::start(&urls, &first.token);

    for ((joining, peer), number) in joiners[..4].iter_mut().zip(2..) {
        assert_eq!(add_voter(&first, joining, peer).await, number);
        load.go_on(10).await;
    }
    assert_eq!(voters(&first).await, [1, 2, 3, 4, 5]);
    for (member, _) in &joiners[..4] {
        member.ready().await;
        // Fresh as of now, confirmed by the leader's lease: every member answers.
        eventually("a read by lease", || async {
            (member.get("/v1/clusters/default?consistency=lease").await.status == 200).then_some(())
        })
        .await;
    }

    // A dead member is replaced: its number goes with it.
    joiners[3].0.kill_9();
    first.cli_ok(&["member", "remove", "5", "--yes"]);
    let (joining, peer) = &mut joiners[4];
    assert_eq!(add_voter(&first, joining, peer).await, 6);
    load.go_on(10).await;
    assert_eq!(voters(&first).await, [1, 2, 3, 4, 6]);

    // The lead goes where it is told to go.
    joiners[0].0.cli_ok(&["member", "transfer", "3"]);
    assert_eq!(leader_id(&first).await, 3);
    load.go_on(10).await;

    // A leader is removed, then one that is none; each learns of it and ends.
    let third = &joiners[1].0;
    third.cli_ok(&["member", "remove", "3", "--yes", "--reason", "smaller"]);
    assert_eq!(end_of(&mut joiners[1].0).await, 10);
    assert!(joiners[1].0.log_text().contains("was removed from the group"), "{}", joiners[1].0.log_text());
    joiners[1].0.start();
    assert_eq!(end_of(&mut joiners[1].0).await, 10, "its store is of no use any more");
    for id in ["2", "4", "1"] {
        joiners[4].0.cli_ok(&["member", "remove", id, "--yes"]);
        load.go_on(10).await;
    }
    assert_eq!(voters(&joiners[4].0).await, [6]);
    for member in [&mut first].into_iter().chain(joiners.iter_mut().take(3).step_by(2).map(|(member, _)| member)) {
        assert_eq!(end_of(member).await, 10, "{}", member.log_text());
    }
    let alone = &joiners[4].0;
    let last = alone.cli(&["member", "remove", "6", "--yes"]);
    let why = String::from_utf8_lossy(&last.stderr).into_owned();
    assert!(last.status.code() == Some(3) && why.contains("only voter"), "{why}");

    assert!(load.finish().await >= 100);
    let audit = audit_is_whole(alone).await;
    let count = |action: &str| audit.iter().filter(|record| record["action"] == action).count();
    assert_eq!((count("member.add"), count("member.promote"), count("member.remove")), (5, 5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_would_leave_no_majority_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let leader = group.leader().await;
    let (dead, other) = ((leader + 1) % 3, (leader + 2) % 3);
    group.members[dead].kill_9();
    let number = |index: usize| (index + 1).to_string();
    let refused = eventually("the dead one is noticed", || async {
        let output = group.members[leader].cli(&["member", "remove", &number(other), "--yes"]);
        assert!(!output.status.success(), "two voters of which one is dead");
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        why.contains("needs 2 of them").then_some((output.status.code(), why))
    })
    .await;
    assert!(refused.0 == Some(3) && refused.1.contains("1 answer now"), "{refused:?}");
    let promoted = group.members[leader].cli(&["member", "promote", "9"]);
    assert_eq!(promoted.status.code(), Some(5), "{promoted:?}");
    let dead_leader = group.members[leader].cli(&["member", "transfer", &number(dead)]);
    assert_eq!(dead_leader.status.code(), Some(3), "{dead_leader:?}");
    // The dead one can go, and the group of two goes on.
    group.members[leader].cli_ok(&["member", "remove", &number(dead), "--yes"]);
    group.members[other].post("/v1/clusters", json!({"name": "after", "driver": "flip"})).await.expect(201);
    // Nobody disturbs them: the removed one is told when it comes back.
    group.members[dead].start();
    assert_eq!(end_of(&mut group.members[dead]).await, 10);
    assert!(group.members[dead].log_text().contains("was removed"), "{}", group.members[dead].log_text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_request_after_retry() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let urls: Vec<String> = group.members.iter().map(|member| member.url.clone()).collect();
    let load = Load::start(&urls, &group.members[0].token);
    load.go_on(20).await;
    for index in 0..3 {
        let before = group.leader().await;
        let status = group.members[index].terminate();
        assert!(status.success(), "{status}");
        load.go_on(5).await;
        if before == index {
            let text = group.members[index].log_text();
            assert!(text.contains("the lead goes to member"), "{text}");
        }
        group.members[index].start();
        group.members[index].ready().await;
        load.go_on(10).await;
    }
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_handed_on_and_on_and_nothing_is_done_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut group = Group::start(folder.path(), [0, 1, 2]).await;
    let asked = &group.members[0];
    import(asked, "01-3m3r.nodes.txt").await;
    set_limits(asked, json!({"slots_per_second": 400, "overlap_ms": 50})).await;
    let answer = asked.get(CLUSTER).await;
    let etag = answer.headers["etag"].to_str().unwrap().to_owned();
    let alone = json!({"policy": {"author_may_approve": true}});
    asked.request_with(Method::PATCH, CLUSTER, Some(alone), &[("if-match", &etag)]).await.unwrap().expect(200);
    let plan = propose(asked, json!({"add": [{"name": "new-1", "host": "127.0.0.1", "port": 21003}]})).await;
    approve_and_start(asked, asked, &plan).await;

    let total = plan["summary"]["slots"].as_u64().unwrap();
    for turn in 1..=6 {
        let leader = group.leader().await;
        let next = (leader + 1) % 3;
        until_slots_done(&group.members[next], &plan, total * turn / 8).await;
        let before = rollout(&group.members[next], &plan).await;
        let term = term_of(&group.members[next]).await;
        match turn % 3 {
            0 => {
                group.members[leader].kill_9();
                group.members[leader].start();
                group.members[leader].ready().await;
            }
            1 => {
                let answer = format!("/v1/members/{}/transfer-leadership", next + 1);
                group.members[leader].post(&answer, json!({})).await.expect(200);
            }
            _ => {
                group.members[leader].signal("STOP");
                eventually("another leader", || async {
                    let status = group.members[next].get("/v1/status").await.expect(200);
                    (status["leader"].as_u64()? != leader as u64 + 1).then_some(())
                })
                .await;
                group.members[leader].signal("CONT");
            }
        }
        // It was handed on, and in the middle.
        assert_eq!(before["state"], "running");
        eventually("another term", || async { (term_of(&group.members[next]).await > term).then_some(()) }).await;
    }
    until_state(&group.members[0], &plan, "succeeded").await;
    assert_eq!(counts(&group.members[0]).await, target(&plan));

    // Every action was begun once and done once, whoever led.
    let audit = audit_is_whole(&group.members[0]).await;
    each_action_once(&audit, &plan);
}

/// Every action of the plan was begun once and finished once, and no other.
pub(super) fn each_action_once(audit: &[Value], plan: &Value) {
    let actions = plan["actions"].as_array().unwrap().len();
    for action in ["action.begin", "action.finish"] {
        let summaries = audit.iter().filter(|record| record["action"] == action);
        let summaries: Vec<&str> = summaries.map(|record| record["summary"].as_str().unwrap()).collect();
        let times: usize = summaries.iter().map(|text| numbered(text)).sum();
        assert_eq!(times, actions, "{action}: {summaries:?}");
    }
}

async fn term_of(member: &Member) -> u64 {
    member.get("/v1/status").await.expect(200)["term"].as_u64().unwrap()
}

/// `begun 3 actions (48 slots): …` is 3.
fn numbered(summary: &str) -> usize {
    summary.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{summary}"))
}

//! Whoever is asked for a node to come or go, the leader commands the nodes; and one that stood still commands nobody any more.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::CLUSTER;
use crate::harness::{Group, Member, Setting, eventually};
use crate::live::cluster::Cluster;
use crate::live::server::{Options, Server};

/// For how long the leader stands still: longer than it looks for another one to hand the errand to.
const STILL: Duration = Duration::from_secs(3);

/// A group of three that has adopted three servers; each member stops once at the place until its file is gone.
async fn group(folder: &Path, cluster: &Cluster, place: Option<&str>) -> Group {
    let mut setting = Setting::direct(3);
    if let Some(place) = place {
        let value = format!("{place}:hold={}", hold(folder, "{id}").display());
        setting.env.push(("SLOTKEEPER_FAILPOINT".to_owned(), value));
    }
    let group = Group::start_with(folder, &[0, 1, 2], &setting).await;
    let seed = cluster.servers[0].address().to_string();
    group.members[0].post(&format!("{CLUSTER}/import"), json!({"seed": seed})).await.expect(200);
    group
}

/// Lets everybody go on who stops.
async fn release(folder: &Path) -> Infallible {
    loop {
        for member in ["1", "2", "3"] {
            drop(std::fs::remove_file(hold(folder, member)));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn post(member: &Member, cluster: &Cluster, server: usize) -> u16 {
    // Once: who is told to ask again is answered by the next leader, who stands at the place as well.
    let body = Some(add(cluster, server));
    member.request(reqwest::Method::POST, &format!("{CLUSTER}/nodes"), body).await.unwrap().status.as_u16()
}

async fn remove(member: &Member, id: &str) -> u16 {
    let path = format!("{CLUSTER}/nodes/{id}");
    let etag = member.get(&path).await.headers["etag"].to_str().unwrap().to_owned();
    let removed = member.request_with(reqwest::Method::DELETE, &path, None, &[("if-match", &etag)]).await;
    removed.unwrap().status.as_u16()
}

fn hold(folder: &Path, member: &str) -> PathBuf {
    folder.join(format!("hold-{member}"))
}

fn knows(server: &Server, id: &str) -> bool {
    server.ask(&["CLUSTER", "NODES"]).text().contains(id)
}

fn add(cluster: &Cluster, server: usize) -> Value {
    json!({"host": "127.0.0.1", "port": cluster.servers[server].port, "propose": false})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_asked_has_the_leader_do_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), 3, 0, &Options::default());
    let group = group(folder.path(), &cluster, None).await;
    let leader = group.leader().await;
    let follower = &group.members[(leader + 1) % 3];
    let server = cluster.add_server();
    let id = cluster.servers[server].id();
    follower.post(&format!("{CLUSTER}/nodes"), add(&cluster, server)).await.expect(201);
    assert!(cluster.servers.iter().all(|server| knows(server, &id)));
    // What the leader refuses is told in its words.
    let owner = cluster.servers[0].id();
    let refused = follower.cli(&["node", "remove", &owner, "--yes"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    cluster.servers[1].kill_9();
    let refused = follower.cli(&["node", "remove", &id, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("could not forget") && !refused.status.success(), "{said}");
    cluster.servers[1].restart();
    cluster.until_agreed();
    follower.cli_ok(&["node", "remove", &id, "--yes"]);
    assert!(cluster.servers[..3].iter().all(|server| !knows(server, &id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stood_still_before_a_meeting_or_a_farewell_lets_it_be() {
    for place in ["before-meet", "before-forget"] {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::start(folder.path(), 3, 0, &Options::default());
        let group = group(folder.path(), &cluster, Some(place)).await;
        let server = cluster.add_server();
        let id = cluster.servers[server].id();
        if place == "before-forget" {
            group.members[0].post(&format!("{CLUSTER}/nodes"), add(&cluster, server)).await.expect(201);
        }
        let leader = group.leader().await;
        let old = &group.members[leader];
        let file = hold(folder.path(), &(leader + 1).to_string());
        let asked =
            async { if place == "before-meet" { post(old, &cluster, server).await } else { remove(old, &id).await } };
        let meanwhile = async {
            eventually("the leader stands at the place", || async { file.exists().then_some(()) }).await;
            old.signal("STOP");
            let stopped = Instant::now();
            let others = [(leader + 1) % 3, (leader + 2) % 3];
            eventually("another one leads", || async {
                for other in others {
                    let status = group.members[other].get("/v1/status").await.body;
                    if status["role"] == "leader" {
                        return Some(());
                    }
                }
                None
            })
            .await;
            sleep(STILL.saturating_sub(stopped.elapsed())).await;
            // It finds its way free when it wakes.
            std::fs::remove_file(&file).unwrap();
            old.signal("CONT");
        };
        let (status, ()) = tokio::join!(asked, meanwhile);
        assert!([409, 503].contains(&status), "{place}: {status}");
        // Nobody has met or forgotten anybody.
        for server in &cluster.servers[..3] {
            assert_eq!(knows(server, &id), place == "before-forget", "{place}: {}", server.address());
        }
        // Who leads now does it, wherever it was left.
        let next = group.leader().await;
        let next = &group.members[next];
        let again =
            async { if place == "before-meet" { post(next, &cluster, server).await } else { remove(next, &id).await } };
        let status = tokio::select! {
            status = again => status,
            never = release(folder.path()) => match never {},
        };
        assert!([200, 201].contains(&status), "{place}: {status}");
        for server in &cluster.servers[..3] {
            assert_eq!(knows(server, &id), place == "before-meet", "{place}: {}", server.address());
        }
    }
}

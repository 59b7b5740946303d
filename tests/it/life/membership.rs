//! Nodes of a live cluster come and go.

use reqwest::Method;
use serde_json::{Value, json};

use super::{CLUSTER, Stage};
use crate::harness::eventually;
use crate::live::server::{Options, Server, until};

/// Removes a node by its id.
async fn remove(stage: &Stage, id: &str) -> crate::harness::Answer {
    let path = format!("{CLUSTER}/nodes/{id}");
    let found = stage.member.get(&path).await;
    let etag = found.headers["etag"].to_str().unwrap().to_owned();
    stage.member.request_with(Method::DELETE, &path, None, &[("if-match", &etag)]).await.unwrap()
}

fn knows(server: &Server, id: &str) -> bool {
    server.ask(&["CLUSTER", "NODES"]).text().contains(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_becomes_a_node_and_a_replica_and_is_forgotten_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(folder.path(), 3, 0).await;
    let shard = stage.cluster.servers[0].id();
    let primary = stage.cluster.add_server();
    let said = stage.member.cli_ok(&["node", "add", &stage.cluster.servers[primary].address().to_string()]);
    let id = stage.cluster.servers[primary].id();
    assert!(said.contains("4096 slots move"), "{said}");
    let node = stage.member.get(&format!("{CLUSTER}/nodes/{id}")).await.expect(200);
    assert_eq!(node["shard"], id, "the server's own id is the node's: {node}");
    for server in &stage.cluster.servers {
        assert!(knows(server, &id), "{}", server.address());
    }
    let replica = stage.cluster.add_server();
    let address = stage.cluster.servers[replica].address();
    let body = json!({"host": "127.0.0.1", "port": address.port(), "replica_of": shard});
    // A shard by the beginning of its name, as lists show it.
    let answer = stage.member.cli_ok(&["node", "add", &address.to_string(), "--replica-of", &shard[..8], "-o", "json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let copy = stage.cluster.servers[replica].id();
    assert_eq!((&answer["node"]["id"], &answer["shard"]), (&json!(copy), &json!(shard)));
    for server in &stage.cluster.servers {
        let text = server.ask(&["CLUSTER", "NODES"]).text();
        let line = text.lines().find(|line| line.starts_with(&copy)).unwrap();
        assert!(line.contains(&format!("slave {shard}")), "{}: {line}", server.address());
    }
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    let twice = stage.member.post(&format!("{CLUSTER}/nodes"), body).await.expect(409);
    assert_eq!(twice["code"], "exists", "{twice}");

    let removed = remove(&stage, &copy).await.expect(200);
    assert_eq!(removed["removed"], copy);
    let removed = remove(&stage, &id).await.expect(200);
    assert_eq!(removed["removed"], id);
    for server in &stage.cluster.servers[..3] {
        assert!(!knows(server, &id) && !knows(server, &copy), "{}", server.address());
    }
    for server in &stage.cluster.servers[3..] {
        assert_eq!(server.ask(&["CLUSTER", "NODES"]).text().lines().count(), 1, "it knows nobody any more");
    }
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    let owner = remove(&stage, &shard).await.expect(409);
    assert!(owner["detail"].as_str().unwrap().contains("5462 slots"), "{owner}");
    assert!(knows(&stage.cluster.servers[1], &shard), "nobody was told to forget it");

    // Somebody brings it back behind the controller's back: it is told, and may be added again.
    let (port, bus) = (stage.cluster.servers[3].port.to_string(), stage.cluster.servers[3].bus_port.to_string());
    eventually("the minute of the ban, or the first that learns of it", || async {
        stage.cluster.servers[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        let drift = stage.drift().await;
        let back = drift.iter().any(|item| item["what"].as_str().unwrap().contains("was removed and is known to"));
        back.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_join_is_refused_before_anybody_meets_it() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(folder.path(), 3, 0).await;
    let add = |address: std::net::SocketAddr, name: Option<&'static str>| {
        let stage = &stage;
        async move {
            let body = json!({"host": address.ip().to_string(), "port": address.port(), "name": name});
            stage.member.post(&format!("{CLUSTER}/nodes"), body).await
        }
    };
    let single = Options { more: vec!["--cluster-enabled".to_owned(), "no".to_owned()], ..Options::default() };
    let single = Server::start(folder.path(), &single);
    let full = Server::start(folder.path(), &Options::default());
    full.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("it serves", || match full.call(&["SET", "k", "v"]) {
        Ok(crate::live::resp::Reply::Simple(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let other = Server::start(folder.path(), &Options::default());
    full.ask(&["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string(), &other.bus_port.to_string()]);
    until("they know each other", || if knows(&other, &full.id()) { Ok(()) } else { Err("not yet".to_owned()) });
    for (server, words) in
        [(&single, "not in cluster mode"), (&full, "of another cluster"), (&other, "of another cluster")]
    {
        let refused = add(server.address(), None).await.expect(409);
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains(words) && detail.contains(&server.address().to_string()), "{refused}");
    }
    other.ask(&["CLUSTER", "RESET"]);
    let named = add(other.address(), Some("n-7")).await.expect(422);
    assert_eq!(named["field"], "name", "{named}");
    assert_eq!(stage.cluster.view(0).len(), 3, "nobody was met");
    let body = json!({"add": [{"host": "127.0.0.1", "port": other.port}]});
    let plan = stage.member.post(&format!("{CLUSTER}/plans"), body).await.expect(201);
    assert_eq!(plan["plan"]["summary"]["slots"], 4096);
    assert_eq!(stage.cluster.view(0).len(), 4, "a plan that adds a node makes it a member");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stopped_halfway_goes_on_and_the_dead_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(folder.path(), 3, 0).await;
    // Met by an attempt that ended before the table had it, and made a replica.
    let added = stage.cluster.add_server();
    stage.cluster.meet_last();
    let (shard, id) = (stage.cluster.servers[1].id(), stage.cluster.servers[added].id());
    stage.cluster.servers[added].ask(&["CLUSTER", "REPLICATE", &shard]);
    let drift = stage.until_drift(&["unknown-node"]).await;
    assert_eq!(drift[0]["node"], id);
    let port = stage.cluster.servers[added].port;
    let body = json!({"host": "127.0.0.1", "port": port, "replica_of": shard});
    stage.member.post(&format!("{CLUSTER}/nodes"), body).await.expect(201);
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
    // One of them has forgotten it already, and it is dead.
    stage.cluster.servers[added].kill_9();
    stage.cluster.servers[0].ask(&["CLUSTER", "FORGET", &id]);
    let removed = remove(&stage, &id).await.expect(200);
    assert!(removed["notes"][0].as_str().unwrap().contains("was not reset"), "{removed}");
    for server in &stage.cluster.servers[..3] {
        assert!(!knows(server, &id), "{}", server.address());
    }
    // Somebody who cannot be told would bring a node back: nothing is done then.
    let other = stage.cluster.add_server();
    let address = stage.cluster.servers[other].address();
    let body = json!({"host": "127.0.0.1", "port": address.port(), "propose": false});
    stage.member.post(&format!("{CLUSTER}/nodes"), body).await.expect(201);
    let id = stage.cluster.servers[other].id();
    stage.cluster.servers[2].kill_9();
    let refused = remove(&stage, &id).await.expect(409);
    let dead = stage.cluster.servers[2].address().to_string();
    assert!(refused["detail"].as_str().unwrap().contains(&format!("{dead} could not forget")), "{refused}");
    assert!(knows(&stage.cluster.servers[0], &id));
    stage.cluster.servers[2].restart();
    stage.cluster.until_agreed();
    remove(&stage, &id).await.expect(200);
    assert_eq!(stage.until_drift(&[]).await, Vec::<Value>::new());
}

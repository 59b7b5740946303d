//! Snapshots and the long poll.

use std::time::{Duration, Instant};

use super::fixture::{Answer, Server};
use crate::domain::Role;

const PATH: &str = "/v1/clusters/default/topology";

fn version(answer: &Answer) -> (u64, u64) {
    let number = |name: &str| answer.header(name).unwrap().parse().unwrap();
    (number("slotkeeper-generation"), number("slotkeeper-epoch"))
}

#[tokio::test]
async fn a_snapshot_has_its_headers_and_is_revalidated() {
    let server = Server::start().await;
    let (g, e) = server.import_published().await;
    let full = server.send(Role::Client, "GET", PATH, &[], b"").await;
    assert_eq!((200, (g, e)), (full.status, version(&full)));
    let body = full.json();
    assert_eq!(("full", e), (body["kind"].as_str().unwrap(), body["epoch"].as_u64().unwrap()));
    assert_eq!(serde_json::json!([[0, 8191]]), body["shards"][0]["ranges"]);
    assert_eq!(body["cluster_id"].as_str(), full.header("slotkeeper-cluster"));
    assert_eq!(
        (Some("leader"), Some("1"), Some("0")),
        (full.header("slotkeeper-role"), full.header("slotkeeper-leader"), full.header("slotkeeper-stale-ms"),)
    );
    assert_eq!(Some("no-cache"), full.header("cache-control"));
    assert_eq!(Some("accept, accept-encoding"), full.header("vary"));
    let tag = format!("if-none-match: {}", full.header("etag").unwrap());
    let same = server.send(Role::Client, "GET", PATH, &[&tag], b"").await;
    assert_eq!((304, 0, (g, e)), (same.status, same.body.len(), version(&same)));
    assert_eq!(full.header("etag"), same.header("etag"));
    let zipped = server.send(Role::Client, "GET", PATH, &["accept-encoding: gzip"], b"").await;
    assert_eq!(Some("gzip"), zipped.header("content-encoding"));
    assert_ne!(full.header("etag"), zipped.header("etag"));
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&zipped.body[..]), &mut plain).unwrap();
    assert_eq!(full.body, plain);
}

#[tokio::test]
async fn an_older_version_is_answered_at_once_and_never_with_an_older_map() {
    let server = Server::start().await;
    let (g, e) = server.import_published().await;
    for after in [format!("{g}.0"), format!("{}.999", g - 1), "0.0".to_owned()] {
        let answer = server.get(&format!("{PATH}?after={after}&wait=50s")).await;
        assert_eq!((200, (g, e)), (answer.status, version(&answer)), "{after}");
    }
    for ahead in [format!("{g}.{e}"), format!("{g}.{}", e + 9), format!("{}.0", g + 1), format!("{g}.{}", u64::MAX)] {
        let started = Instant::now();
        let answer = server.get(&format!("{PATH}?after={ahead}&wait=160ms")).await;
        assert_eq!((204, 0, (g, e)), (answer.status, answer.body.len(), version(&answer)), "{ahead}");
        assert!(started.elapsed() >= Duration::from_millis(150), "{ahead}: {:?}", started.elapsed());
        let answer = server.get(&format!("{PATH}?after={ahead}")).await;
        assert_eq!(204, answer.status, "{ahead}: without a wait it is told at once");
    }
    let poll = format!("{PATH}?after={g}.{e}&wait=20ms");
    let answer = server.send(Role::Client, "GET", &poll, &["if-none-match: \"x\""], b"").await;
    assert_eq!(304, answer.status);
    let answer = server.send(Role::Client, "GET", &format!("{PATH}?after={g}.{e}"), &["prefer: wait=0.02"], b"").await;
    assert_eq!(204, answer.status);
}

#[tokio::test]
async fn a_waiting_client_hears_of_the_next_epoch() {
    let server = Server::start().await;
    let (g, e) = server.import_published().await;
    let poll = server.request(Role::Client, "GET", &format!("{PATH}?after={g}.{e}&wait=50s"), &[], b"");
    let waiting = server.exchange(&poll);
    let changing = async {
        server.somebody_waits().await;
        let added = server.post("/v1/clusters/default/nodes", r#"{"host":"10.0.0.3","port":7000}"#).await;
        assert_eq!(201, added.status, "{}", added.json());
    };
    let (received, ()) = tokio::join!(waiting, changing);
    let answer = Answer::parse(&received);
    assert_eq!((200, (g, e + 1)), (answer.status, version(&answer)));
    assert_eq!(3, answer.json()["shards"].as_array().unwrap().len());
}

#[tokio::test]
async fn a_client_reads_its_own_writes_or_hears_that_it_cannot() {
    let server = Server::start().await;
    let (g, e) = server.import_published().await;
    let added = server.post("/v1/clusters/default/nodes", r#"{"host":"10.0.0.3","port":7000}"#).await.json();
    assert_eq!((g, e + 1), (added["generation"].as_u64().unwrap(), added["epoch"].as_u64().unwrap()));
    let answer = server.get(&format!("{PATH}?min_epoch={g}.{}", e + 1)).await;
    assert_eq!((200, (g, e + 1)), (answer.status, version(&answer)));
    let answer = server.get(&format!("{PATH}?min_epoch={g}.{}", e + 2)).await;
    assert_eq!("behind", answer.problem(503));
    assert_eq!(Some("1"), answer.header("retry-after"));
    assert_eq!(200, server.get(&format!("{PATH}?consistency=linearizable")).await.status);
}

#[tokio::test]
async fn waiters_are_capped() {
    let config = crate::server::ServerConfig { waiters_max: 0, ..crate::server::ServerConfig::default() };
    let server = Server::start_with(config, crate::domain::DriverKind::Flip).await;
    let (g, e) = server.import_published().await;
    let answer = server.get(&format!("{PATH}?after={g}.{e}&wait=1s")).await;
    assert_eq!("too-many-waiters", answer.problem(429));
    assert_eq!(Some("1"), answer.header("retry-after"));
}

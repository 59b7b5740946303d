//! Shutdown ends what waits, and panics end nothing but their request.

use std::time::{Duration, Instant};

use super::fixture::{Answer, Server};
use crate::domain::Role;

#[tokio::test]
async fn a_shutdown_ends_waiting_requests_with_an_answer_within_two_seconds() {
    let server = Server::start().await;
    let (generation, epoch) = server.import_published().await;
    let path = format!("/v1/clusters/default/topology?after={generation}.{epoch}&wait=50s");
    let poll = server.request(Role::Client, "GET", &path, &[], b"");
    let stopping = async {
        server.somebody_waits().await;
        let started = Instant::now();
        server.shut_down().await.unwrap();
        started.elapsed()
    };
    let (received, took) = tokio::join!(server.exchange(&poll), stopping);
    assert_eq!(204, Answer::parse(&received).status);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_a_shutdown_up() {
    let server = Server::start().await;
    let silent = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let half = tokio::net::TcpStream::connect(server.address).await.unwrap();
    half.writable().await.unwrap();
    half.try_write(b"GET /livez HTT").unwrap();
    assert_eq!(200, server.get("/livez").await.status);
    let started = Instant::now();
    server.shut_down().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(4));
    drop((silent, half));
}

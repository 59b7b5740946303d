//! Servers that are none, or none that can be trusted: what they send is bounded, and what is wrong with them is said.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::cmd;

use super::fixture::{Server, free_port};
use super::link::{node, ping};
use crate::domain::ClusterName;
use crate::driver::redis::{Credentials, LinkError, Links, Secret, Settings, Tls};

/// Listens, and answers the first question of each connection with a beginning, and then the same piece for ever; how many
/// bytes it could send.
fn endless(beginning: &'static [u8], piece: &'static [u8]) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let serve = move |mut stream: TcpStream| {
        if stream.read(&mut [0; 512]).is_err() || stream.write_all(beginning).is_err() {
            return;
        }
        let block: Vec<u8> = piece.iter().copied().cycle().take(64 * 1024 / piece.len() * piece.len()).collect();
        while stream.write_all(&block).is_ok() {
            counted.fetch_add(block.len() as u64, Ordering::Relaxed);
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    (port, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_is_given_up_before_it_fills_the_memory() {
    const MOST: u64 = 1 << 20;
    // What the buffers of both sockets hold besides.
    const ROOM: u64 = 64 << 20;
    for (beginning, piece) in [
        (&b"$999999999999\r\n"[..], &b"x"[..]),
        (b"*1000000000\r\n", b"$1\r\nx\r\n"),
        (b"+", b"x"),
        (b"*1\r\n*1\r\n*500000000\r\n", b":1\r\n"),
    ] {
        let (port, sent) = endless(beginning, piece);
        let given_up = ping(Settings { reply_bytes: MOST, ..Settings::default() }, port).await;
        let Err(LinkError::Lost { why, at }) = given_up else { panic!("{given_up:?}") };
        assert!(why.contains("more than 1048576 bytes") && at.ends_with(&port.to_string()), "{why}");
        assert!(sent.load(Ordering::Relaxed) < MOST + ROOM, "{} bytes were taken", sent.load(Ordering::Relaxed));
    }
    // The same before a user is let in.
    let (port, _) = endless(b"$999999999999\r\n", b"x");
    let credentials = Some(Credentials { username: None, password: Secret::new("canary") });
    let given_up = ping(Settings { reply_bytes: MOST, credentials, ..Settings::default() }, port).await;
    assert!(matches!(&given_up, Err(LinkError::Unreachable { why, .. }) if why.contains("more than")), "{given_up:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_within_the_bound_are_taken_however_many() {
    let server = Server::start(&[]);
    let links = Links::new(Settings { reply_bytes: 1 << 20, ..Settings::default() });
    let name = ClusterName::new("c").unwrap();
    server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    server.wait_whole();
    server.ask(&["SET", "{06S}value", &"x".repeat(700_000)]);
    let link = links.shared(&name, &node(server.port)).await.unwrap();
    for _ in 0..5 {
        let value = link.call(cmd("GET").arg("{06S}value")).await.unwrap();
        assert!(matches!(value, redis::Value::BulkString(bytes) if bytes.len() == 700_000));
    }
    link.expect(4 << 20);
    let twice = vec![cmd("GET").arg("{06S}value").clone(), cmd("GET").arg("{06S}value").clone()];
    assert_eq!(link.pipeline(twice, link.timeout()).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_on_one_side_only_is_named_and_so_is_the_user_that_is_not_let_in() {
    let pem = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    let tls_port = free_port();
    let (cert, key, ca) = (pem("server.pem"), pem("server.key"), pem("ca.pem"));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let server = Server::start(&[
        "--tls-port",
        &tls_port.to_string(),
        "--tls-cert-file",
        &text(&cert),
        "--tls-key-file",
        &text(&key),
        "--tls-ca-cert-file",
        &text(&ca),
        "--tls-auth-clients",
        "no",
    ]);
    let tls = Some(Tls { ca: std::fs::read(&ca).unwrap(), identity: None, server_name: None });
    ping(Settings { tls: tls.clone(), ..Settings::default() }, tls_port).await.unwrap();
    let plain = ping(Settings { tls, ..Settings::default() }, server.port).await.unwrap_err().to_string();
    assert!(plain.contains("it answers without TLS"), "{plain}");
    let spoken = ping(Settings::default(), tls_port).await.unwrap_err().to_string();
    assert!(spoken.contains("it speaks TLS: set tls in [redis]"), "{spoken}");
    let credentials = |user: Option<&str>| Settings {
        credentials: Some(Credentials { username: user.map(str::to_owned), password: Secret::new("canary") }),
        ..Settings::default()
    };
    let spoken = ping(credentials(Some("mover")), tls_port).await.unwrap_err().to_string();
    assert!(spoken.contains("it speaks TLS"), "{spoken}");
    server.ask(&["CONFIG", "SET", "requirepass", "another"]);
    for (user, named) in [(Some("mover"), "user \"mover\""), (None, "user \"default\"")] {
        let denied = ping(credentials(user), server.port).await;
        let Err(denied @ LinkError::Denied { .. }) = denied else { panic!("{denied:?}") };
        assert!(denied.to_string().contains(named) && !denied.to_string().contains("canary"), "{denied}");
    }
}

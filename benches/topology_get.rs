//! `GET …/topology` beside a bare axum handler that answers with the same bytes, both over loopback with keep-alive.
//! The one passes everything a request passes (request id, metrics, guard, token, route table); the other only sends
//! what it holds: the same head and body. A third sends the body without the headers of the topology, to tell what those
//! cost. All are asked by turns, for a moment each, so that what else the machine does meets all alike.
//! Target: at least 0.85 of the bare one's requests per second.
//!
//! `cargo bench --bench topology_get`, with `-- --profile slotkeeper|same|body` to keep one of them busy for a profiler

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::routing::get;
use memchr::memmem;
use slotkeeper::controller::{Caller, Controller, FirstStart, Local, Zones};
use slotkeeper::domain::{ClusterName, DriverKind, Policy, PrincipalName, Role};
use slotkeeper::server::{ServerConfig, listener, router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 41;
const TURN: Duration = Duration::from_millis(150);

/// A cluster of equal shards as `CLUSTER NODES` tells it.
fn nodes_text(shards: usize) -> String {
    (0..shards).fold(String::new(), |mut text, n| {
        let (first, last) = (n * 16384 / shards, (n + 1) * 16384 / shards - 1);
        let flags = if n == 0 { "myself,master" } else { "master" };
        writeln!(text, "{n:040x} 10.0.{}.{}:7000@17000 {flags} - 0 0 1 connected {first}-{last}", n / 250, n % 250 + 1)
            .expect("a String takes every write");
        text
    })
}

/// The servers over a cluster of so many shards: the request to each, and the size of the body.
async fn start(shards: usize) -> ([(SocketAddr, String); 3], usize) {
    let controller = Controller::new(Local::new());
    let (background, stop) = watch::channel(false);
    drop(controller.spawn_background(stop));
    // The background and the servers run until the process ends.
    std::mem::forget(background);
    let policy = Policy::default_for(DriverKind::Flip);
    controller.bootstrap(&FirstStart { driver: DriverKind::Flip, policy }, |_| {}).await.expect("starts");
    let (caller, cluster) = (Caller::system("bench"), ClusterName::new("default").expect("valid"));
    let name = PrincipalName::new("bench").expect("valid");
    let (_, token) = controller.create_token(&caller, name, Role::Client, None).await.expect("a token");
    let text = nodes_text(shards);
    let imported =
        controller.import_nodes_text(&caller, &cluster, text.as_bytes(), None, &Zones::default()).await.expect("sound");
    let body = loop {
        match controller.publisher().newest(&cluster) {
            Some(newest) if newest.topology.version == imported.cluster.version() => break newest.json.clone(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let size = body.len();

    let (ours, same, only_body) = (bind().await, bind().await, bind().await);
    let addresses = [&ours, &same, &only_body].map(|listener| listener.local_addr().expect("bound"));
    let requests = addresses.map(|address| {
        let head = "GET /v1/clusters/default/topology HTTP/1.1\r\n";
        (address, format!("{head}host: {address}\r\nauthorization: Bearer {token}\r\naccept: application/json\r\n\r\n"))
    });
    let app = router(controller, ServerConfig::default());
    tokio::spawn(listener::serve(ours, app, listener::Limits::default(), std::future::pending()));
    let headers = headers_of(&requests[0]).await;
    let mut content_type = HeaderMap::new();
    content_type.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (listener, headers) in [(same, headers), (only_body, content_type)] {
        let body = body.clone();
        let answer = move || async move { (headers.clone(), Bytes::clone(&body)) };
        let app = Router::new().route("/v1/clusters/{cluster}/topology", get(answer));
        tokio::spawn(axum::serve(listener, app).into_future());
    }
    (requests, size)
}

/// The headers of an answer, but for those that every server makes by itself.
async fn headers_of((address, request): &(SocketAddr, String)) -> HeaderMap {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut read = Vec::new();
    let end = loop {
        stream.read_buf(&mut read).await.expect("it writes");
        if let Some(end) = memmem::find(&read, b"\r\n\r\n") {
            break end;
        }
    };
    let head = std::str::from_utf8(&read[..end]).expect("heads are ASCII");
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    let named = fields.map(|(name, value)| {
        (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
    });
    named.filter(|(name, _)| *name != DATE && *name != CONTENT_LENGTH).collect()
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

/// One of them, with connections that stay open.
struct Target {
    request: String,
    connections: Vec<(TcpStream, Vec<u8>)>,
}

impl Target {
    async fn connect((address, request): (SocketAddr, String)) -> Self {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.expect("it listens");
            stream.set_nodelay(true).expect("a TCP socket");
            connections.push((stream, vec![0; 1 << 18]));
        }
        Self { request, connections }
    }

    /// Seconds per request while every connection asks again and again for a while.
    async fn ask(&mut self, turn: Duration) -> f64 {
        let started = Instant::now();
        let end = started + turn;
        let clients = self.connections.drain(..).map(|(stream, buffer)| {
            let request = self.request.clone();
            tokio::spawn(client(stream, buffer, request, end))
        });
        let clients: Vec<_> = clients.collect();
        let mut answered = 0;
        for client in clients {
            let (connection, count) = client.await.expect("every answer came");
            self.connections.push(connection);
            answered += count;
        }
        started.elapsed().as_secs_f64() / f64::from(answered)
    }
}

async fn client(
    mut stream: TcpStream,
    mut buffer: Vec<u8>,
    request: String,
    end: Instant,
) -> ((TcpStream, Vec<u8>), u32) {
    let mut answered = 0;
    while Instant::now() < end {
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let (mut filled, mut whole) = (0, usize::MAX);
        while filled < whole {
            let read = stream.read(&mut buffer[filled..]).await.expect("it writes");
            assert!(read > 0, "the connection ended");
            filled += read;
            if whole == usize::MAX
                && let Some(head) = memmem::find(&buffer[..filled], b"\r\n\r\n")
            {
                whole = head + 4 + body_length(&buffer[..head]);
            }
        }
        answered += 1;
    }
    ((stream, buffer), answered)
}

fn body_length(head: &[u8]) -> usize {
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(head));
    let name = b"content-length: ";
    let value = &head[memmem::find(head, name).expect("a length") + name.len()..];
    value.iter().take_while(|b| b.is_ascii_digit()).fold(0, |length, digit| 10 * length + usize::from(digit - b'0'))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let profiled = arguments.iter().position(|argument| argument == "--profile").map(|at| arguments[at + 1].as_str());
    // `cargo test --benches` starts this too, and wants no figures.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    for shards in [3, 100] {
        let (requests, size) = start(shards).await;
        let [ours, same, only_body] = requests.map(Target::connect);
        let mut targets = [ours.await, same.await, only_body.await];
        if let Some(profiled) = profiled {
            let names = ["slotkeeper", "same", "body"];
            let at = names.iter().position(|name| *name == profiled).expect("slotkeeper, same or body");
            return println!("{:.2} us", 1e6 * targets[at].ask(40 * TURN).await);
        }
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            let mut us = [0.0; 3];
            for (target, us) in targets.iter_mut().zip(&mut us) {
                *us = 1e6 * target.ask(TURN).await;
            }
            // The first round warms all up.
            if round > 0 {
                rounds.push(us);
            }
        }
        let of = |what: fn(&[f64; 3]) -> f64| median(rounds.iter().map(what).collect());
        println!(
            "{shards} shards, {size} bytes: slotkeeper {:.1} us a request, bare axum with the same head and body {:.1} us, \
             with the same body {:.1} us; {:.2} of the requests per second of the first (at least 0.85), {:.2} of the second \
             (medians of {ROUNDS} turns each)",
            of(|us| us[0]),
            of(|us| us[1]),
            of(|us| us[2]),
            of(|us| us[1] / us[0]),
            of(|us| us[2] / us[0]),
        );
    }
}

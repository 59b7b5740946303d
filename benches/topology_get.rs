//! `GET …/topology` beside a bare axum handler that answers with the same bytes, both over loopback with keep-alive.
//! The one passes everything a request passes (request id, metrics, guard, token, route table, version headers); the
//! other does nothing. Both are asked by turns, for a moment each, so that what else the machine does meets both alike.
//! Target: at least 0.85 of the bare one's requests per second.
//!
//! `cargo bench --bench topology_get`, with `-- --profile slotkeeper|bare` to keep one of them busy for a profiler

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use memchr::memmem;
use slotkeeper::controller::{Caller, Controller, FirstStart, Local};
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

/// Both servers over a cluster of so many shards: the request to each, and the size of the answer.
async fn start(shards: usize) -> ([(SocketAddr, String); 2], usize) {
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
    let imported = controller.import_nodes_text(&caller, &cluster, text.as_bytes(), None).await.expect("sound");
    let body = loop {
        match controller.publisher().newest(&cluster) {
            Some(newest) if newest.topology.version == imported.cluster.version() => break newest.json.clone(),
            _ => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let size = body.len();

    let (ours, bare) = (bind().await, bind().await);
    let addresses = [ours.local_addr().expect("bound"), bare.local_addr().expect("bound")];
    let app = router(controller, ServerConfig::default());
    tokio::spawn(listener::serve(ours, app, listener::Limits::default(), std::future::pending()));
    let same = move || async move { ([(CONTENT_TYPE, "application/json")], Bytes::clone(&body)) };
    let app = Router::new().route("/v1/clusters/{cluster}/topology", get(same));
    tokio::spawn(axum::serve(bare, app).into_future());
    let request = |address| {
        let head = "GET /v1/clusters/default/topology HTTP/1.1\r\n";
        (address, format!("{head}host: {address}\r\nauthorization: Bearer {token}\r\naccept: application/json\r\n\r\n"))
    };
    (addresses.map(request), size)
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

/// One of the two, with connections that stay open.
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
        let [ours, bare] = requests.map(Target::connect);
        let (mut ours, mut bare) = (ours.await, bare.await);
        match profiled {
            None => {}
            Some("bare") => return println!("{:.2} us", 1e6 * bare.ask(40 * TURN).await),
            Some(_) => return println!("{:.2} us", 1e6 * ours.ask(40 * TURN).await),
        }
        let (mut us, mut bare_us, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let (one, other) = (1e6 * ours.ask(TURN).await, 1e6 * bare.ask(TURN).await);
            // The first round warms both up.
            if round > 0 {
                us.push(one);
                bare_us.push(other);
                ratios.push(other / one);
            }
        }
        println!(
            "{shards} shards, {size} bytes: slotkeeper {:.1} us, bare axum {:.1} us a request; {:.2} of its requests per \
             second (medians of {ROUNDS} turns each; at least 0.85)",
            median(us),
            median(bare_us),
            median(ratios)
        );
    }
}

//! `GET …/topology` beside a bare axum handler that answers with the same bytes, both over loopback with keep-alive.
//! The one passes everything a request passes (request id, metrics, guard, token, route table, version headers); the
//! other does nothing. Target: at least 0.85 of the bare one's requests per second.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use slotkeeper::controller::{Caller, Controller, FirstStart, Local};
use slotkeeper::domain::{ClusterName, DriverKind, Policy, PrincipalName, Role};
use slotkeeper::server::{ServerConfig, listener, router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

const CONNECTIONS: u64 = 16;

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

/// Sends so many requests over several connections and reads every answer to its end.
async fn load(address: SocketAddr, request: &str, requests: u64) -> Duration {
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        streams.push(stream);
    }
    let started = Instant::now();
    let each = requests.div_ceil(CONNECTIONS);
    let clients: Vec<_> =
        streams.into_iter().map(|stream| tokio::spawn(client(stream, request.to_owned(), each))).collect();
    for client in clients {
        client.await.expect("every answer came");
    }
    // What was sent beyond the number asked for is not counted against it.
    started.elapsed().mul_f64(requests as f64 / (each * CONNECTIONS) as f64)
}

async fn client(mut stream: TcpStream, request: String, requests: u64) {
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..requests {
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let (mut filled, mut whole) = (0, usize::MAX);
        while filled < whole {
            let read = stream.read(&mut buffer[filled..]).await.expect("it writes");
            assert!(read > 0, "the connection ended");
            filled += read;
            if whole == usize::MAX
                && let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n")
            {
                let head = std::str::from_utf8(&buffer[..end]).expect("heads are ASCII").to_ascii_lowercase();
                assert!(head.starts_with("http/1.1 200"), "{head}");
                let (_, rest) = head.split_once("content-length: ").expect("a length");
                let length = rest.split("\r\n").next().expect("a line").parse::<usize>().expect("a number");
                whole = end + 4 + length;
            }
        }
    }
}

fn topology_get(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("topology_get");
    group.throughput(Throughput::Elements(1));
    for shards in [3, 100] {
        let (servers, size) = runtime.block_on(start(shards));
        for (name, (address, request)) in ["slotkeeper", "bare axum"].into_iter().zip(servers) {
            let id = BenchmarkId::new(name, format!("{shards} shards, {size} bytes"));
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|requests| runtime.block_on(load(address, &request, requests)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, topology_get);
criterion_main!(benches);

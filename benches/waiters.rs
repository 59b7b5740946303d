//! How long a change takes to reach clients that wait for it: one real process, 1,000 and 10,000 long polls on
//! connections of their own, from before the write is sent until the last byte of each answer is there. Wanted: p99 at
//! most 100 ms with 1,000, the last of 10,000 within 300 ms.
//!
//! `cargo bench --bench waiters`; each connection takes a file descriptor on both ends, and each end is a process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

const CLUSTER: &str = "/v1/clusters/default";
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/redis/01-3m3r.nodes.txt");
const NODE: &str = "/v1/clusters/default/nodes/256f8fad71da49fc9bd8d75955ece32c6c0cd817";
/// Descriptors of either process that are no waiter's.
const OTHERS: u64 = 600;
const PATIENCE: Duration = Duration::from_secs(120);

/// The process, killed at the end.
struct Server {
    child: Child,
    address: String,
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Server {
    async fn start(dir: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(env!("CARGO_BIN_EXE_slotkeeper"))
            .args(["dev", "--listen", &address, "--data-dir"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary");
        let server = Self { child, address, client: reqwest::Client::new() };
        while server
            .client
            .get(server.url(CLUSTER))
            .send()
            .await
            .is_ok_and(|answer| answer.status().is_success())
            .eq(&false)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let nodes = std::fs::read_to_string(FIXTURE).expect("the fixture");
        let import = server.client.post(server.url(&format!("{CLUSTER}/import"))).header("content-type", "text/plain");
        let imported = import.body(nodes).send().await.expect("it answers");
        assert_eq!(imported.status(), StatusCode::OK);
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(self.url(path)).send().await.expect("it answers");
        answer.json().await.expect("JSON")
    }

    /// A change that every client sees; its epoch.
    async fn change(&self, number: usize) -> u64 {
        let node = self.client.get(self.url(NODE)).send().await.expect("it answers");
        let patch = self.client.patch(self.url(NODE)).header("if-match", &node.headers()["etag"]);
        let changed = patch.json(&json!({"zone": format!("z{number}")})).send().await.expect("it answers");
        assert_eq!(changed.status(), StatusCode::OK);
        changed.json::<Value>().await.expect("JSON")["epoch"].as_u64().expect("an epoch")
    }

    async fn all_wait(&self, waiters: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.get("/v1/status").await["waiting"] != waiters {
            assert!(Instant::now() < deadline, "{waiters} waiters do not come together");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// One client: asks for what is newer than what it has, again and again, and tells when it has which epoch.
async fn wait(address: String, generation: u64, mut epoch: u64, heard: UnboundedSender<(u64, Instant)>) {
    let mut stream = TcpStream::connect(&address).await.expect("a connection");
    stream.set_nodelay(true).expect("a TCP socket");
    let mut buffer = vec![0; 16 << 10];
    loop {
        let request =
            format!("GET {CLUSTER}/topology?after={generation}.{epoch}&wait=55 HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let (mut filled, mut whole) = (0, usize::MAX);
        while filled < whole {
            let read = stream.read(&mut buffer[filled..]).await.expect("it writes");
            if read == 0 {
                return;
            }
            filled += read;
            if whole == usize::MAX
                && let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n")
            {
                let status_and_headers = std::str::from_utf8(&buffer[..end]).expect("heads are ASCII");
                let field = |name: &str| {
                    let (_, rest) = status_and_headers.split_once(name)?;
                    rest.split("\r\n").next()?.parse::<u64>().ok()
                };
                assert!(status_and_headers.starts_with("HTTP/1.1 20"), "{status_and_headers}");
                epoch = field("slotkeeper-epoch: ").expect("an epoch");
                let length = usize::try_from(field("content-length: ").unwrap_or_default()).expect("small");
                whole = end + 4 + length;
                buffer.resize(buffer.len().max(whole), 0);
            }
        }
        if heard.send((epoch, Instant::now())).is_err() {
            return;
        }
    }
}

/// How long each waiter waited for one change, ascending.
async fn round(
    server: &Server,
    waiters: usize,
    number: usize,
    news: &mut UnboundedReceiver<(u64, Instant)>,
) -> (Duration, Vec<Duration>) {
    server.all_wait(waiters).await;
    let started = Instant::now();
    let epoch = server.change(number).await;
    let acknowledged = started.elapsed();
    let mut latencies = Vec::with_capacity(waiters);
    while latencies.len() < waiters {
        let (seen, at) = tokio::time::timeout(PATIENCE, news.recv()).await.expect("in time").expect("waiters");
        if seen >= epoch {
            latencies.push(at - started);
        }
    }
    latencies.sort_unstable();
    (acknowledged, latencies)
}

async fn measure(waiters: usize, rounds: usize) {
    let dir = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a directory on a real disk");
    let server = Server::start(dir.path()).await;
    let now = server.get(&format!("{CLUSTER}/topology?consistency=linearizable")).await;
    let (generation, epoch) = (now["generation"].as_u64().expect("a number"), now["epoch"].as_u64().expect("a number"));
    let (heard, mut news) = unbounded_channel();
    let mut clients = JoinSet::new();
    for number in 0..waiters {
        clients.spawn(wait(server.address.clone(), generation, epoch, heard.clone()));
        // No more at once than the kernel queues.
        if number % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (mut all, mut lasts, mut acknowledged) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds {
        let (write, latencies) = round(&server, waiters, number, &mut news).await;
        acknowledged.push(write);
        lasts.push(*latencies.last().expect("waiters"));
        all.extend(latencies);
    }
    all.sort_unstable();
    lasts.sort_unstable();
    acknowledged.sort_unstable();
    let at = |sorted: &[Duration], percent: usize| sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "{waiters} waiters, {rounds} changes, body of {} bytes: heard after p50 {:.1} ms, p99 {:.1} ms; the last, median {:.1} ms, \
         worst {:.1} ms; the write itself acknowledged after {:.1} ms (median)",
        now.to_string().len(),
        at(&all, 50),
        at(&all, 99),
        at(&lasts, 50),
        at(&lasts, 100),
        at(&acknowledged, 50),
    );
}

/// How many descriptors this process may have, and every process it starts.
fn descriptors() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` starts this too, and wants no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let limit = descriptors();
    for (waiters, rounds) in [(1_000, 40), (10_000, 10)] {
        if waiters as u64 + OTHERS > limit {
            println!("{waiters} waiters: left out, the limit is {limit} file descriptors");
            continue;
        }
        measure(waiters, rounds).await;
    }
}

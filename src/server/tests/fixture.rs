//! A server on a free port of loopback, and a client that hides nothing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::controller::{Caller, Controller, FirstStart, Local};
use crate::domain::{DriverKind, Policy, PrincipalName, Role};
use crate::server::{ServerConfig, listener, router};

/// Longest wait of a test for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server and everything to talk to it.
pub struct Server {
    pub controller: Controller,
    pub group: Local,
    pub address: std::net::SocketAddr,
    tokens: BTreeMap<Role, String>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    pub serving: Mutex<Option<JoinHandle<()>>>,
    _background: watch::Sender<bool>,
}

/// An answer, read to the end of the connection.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads what came over a connection that was closed after it.
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("heads are ASCII");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|text| text.parse().ok());
        let headers =
            lines.filter_map(|line| line.split_once(": ")).map(|(k, v)| (k.to_ascii_lowercase(), v.to_owned()));
        Self { status: status.expect("a status"), headers: headers.collect(), body: bytes[end + 4..].to_vec() }
    }

    pub fn json(&self) -> Value {
        let shown = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{}: {error}: {:?}", self.status, shown()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Asserts that it is a whole problem with this status, and gives its code.
    pub fn problem(&self, status: u16) -> String {
        let shown = String::from_utf8_lossy(&self.body);
        assert_eq!(status, self.status, "{shown}");
        assert_eq!(Some("application/problem+json"), self.header("content-type"), "{shown}");
        let problem = self.json();
        assert_eq!(status, u16::try_from(problem["status"].as_u64().unwrap()).unwrap());
        assert_eq!(self.header("x-request-id"), problem["request_id"].as_str());
        let code = problem["code"].as_str().unwrap().to_owned();
        assert_eq!(format!("urn:slotkeeper:problem:{code}"), problem["type"].as_str().unwrap());
        assert!(!problem["detail"].as_str().unwrap().is_empty());
        code
    }
}

impl Server {
    /// A server that wants tokens, with a cluster `default` of the manual driver.
    pub async fn start() -> Self {
        Self::start_with(ServerConfig::default(), DriverKind::Manual).await
    }

    pub async fn start_with(config: ServerConfig, driver: DriverKind) -> Self {
        let group = Local::new();
        let controller = Controller::new(group.clone());
        let (background, stopped) = watch::channel(false);
        drop(controller.spawn_background(stopped));
        let first = FirstStart { driver, policy: Policy::default_for(driver) };
        controller.bootstrap(&first, |_| {}).await.expect("a local group starts");
        let caller = Caller::system("test");
        let mut tokens = BTreeMap::new();
        for role in Role::OF_TOKENS {
            let name = PrincipalName::new(role.as_str()).unwrap();
            let (_, secret) = controller.create_token(&caller, name, role, None).await.unwrap();
            tokens.insert(role, secret);
        }
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopping) = oneshot::channel();
        let app = router(controller.clone(), config);
        let serving = tokio::spawn(listener::serve(socket, app, listener::Limits::default(), async {
            let _ = stopping.await;
        }));
        let (stop, serving) = (Mutex::new(Some(stop)), Mutex::new(Some(serving)));
        Self { controller, group, address, tokens, stop, serving, _background: background }
    }

    /// Begins a shutdown and gives what ends with it.
    pub fn shut_down(&self) -> JoinHandle<()> {
        self.stop.lock().unwrap().take().expect("once").send(()).expect("it serves");
        self.serving.lock().unwrap().take().expect("once")
    }

    pub fn token(&self, role: Role) -> &str {
        &self.tokens[&role]
    }

    /// Sends bytes and reads to the end of the connection.
    pub async fn raw(&self, bytes: &[u8]) -> Answer {
        Answer::parse(&self.exchange(bytes).await)
    }

    pub async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut received = Vec::new();
        tokio::time::timeout(PATIENCE, async {
            let (mut read, mut write) = stream.split();
            let reading = read.read_to_end(&mut received);
            // A server that refuses early may not take everything.
            let (read, _) = tokio::join!(reading, write.write_all(bytes));
            if let Err(error) = read {
                assert_eq!(std::io::ErrorKind::ConnectionReset, error.kind());
            }
        })
        .await
        .expect("an answer and the end of the connection");
        received
    }

    /// A request with a role's token, headers as lines without their end, and a body.
    pub async fn send(&self, role: Role, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        self.raw(&self.request(role, method, path, headers, body)).await
    }

    pub fn request(&self, role: Role, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Bearer {}\r\n",
            self.address,
            self.token(role)
        );
        for line in headers {
            head += line;
            head += "\r\n";
        }
        if !body.is_empty() || method != "GET" {
            head += "content-length: ";
            head += &body.len().to_string();
            head += "\r\n";
        }
        head += "\r\n";
        [head.as_bytes(), body].concat()
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Role::Admin, "GET", path, &[], b"").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.as_role(Role::Admin, "POST", path, body).await
    }

    pub async fn as_role(&self, role: Role, method: &str, path: &str, body: &str) -> Answer {
        let json: &[&str] = if body.is_empty() { &[] } else { &["content-type: application/json"] };
        self.send(role, method, path, json, body.as_bytes()).await
    }

    /// Two shards that share all slots, and nothing else.
    pub async fn import_two(&self) {
        let text = include_str!("two.nodes.txt");
        let path = "/v1/clusters/default/import";
        let answer = self.send(Role::Admin, "POST", path, &["content-type: text/plain"], text.as_bytes()).await;
        assert_eq!(200, answer.status, "{}", answer.json());
    }

    /// The same, and its version, once that is published.
    pub async fn import_published(&self) -> (u64, u64) {
        self.import_two().await;
        let cluster = self.get("/v1/clusters/default").await.json();
        let (generation, epoch) = (cluster["generation"].as_u64().unwrap(), cluster["epoch"].as_u64().unwrap());
        let path = format!("/v1/clusters/default/topology?min_epoch={generation}.{epoch}");
        assert_eq!(200, self.get(&path).await.status);
        (generation, epoch)
    }

    /// Returns once a request waits for a new epoch.
    pub async fn somebody_waits(&self) {
        let waiting = async {
            while self.controller.publisher().waiting() == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("somebody waits");
    }
}

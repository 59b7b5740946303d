//! A controller that answers what the test tells it to: every request waits until the test replies.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, Response};
use serde_json::{Value, json};
use slotkeeper::wire::Problem;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// The longest a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The server; it ends, with its connections, when it is dropped.
pub struct Scripted {
    pub address: String,
    requests: mpsc::UnboundedReceiver<Asked>,
    task: JoinHandle<()>,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub struct Asked {
    pub method: Method,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    reply: oneshot::Sender<Response<Body>>,
}

impl Scripted {
    pub async fn start() -> Self {
        Self::at("127.0.0.1:0").await
    }

    /// Starts at an address, such as that of a server that was dropped.
    pub async fn at(address: &str) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let address = listener.local_addr().unwrap().to_string();
        let (sender, requests) = mpsc::unbounded_channel();
        let router = axum::Router::new().fallback(ask).with_state(sender);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, requests, task }
    }

    /// The next request.
    pub async fn asked(&mut self) -> Asked {
        within(self.requests.recv()).await.expect("the server runs as long as this value")
    }

    /// Whether a request waits that was not looked at.
    pub fn is_asked(&mut self) -> bool {
        !self.requests.is_empty()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Asked {
    pub fn reply(self, status: u16, body: &Value) {
        let response = Response::builder().status(status).header("content-type", "application/json");
        // The client may have given up on the answer; then there is nobody to tell.
        let _ = self.reply.send(response.body(Body::from(body.to_string())).unwrap());
    }

    pub fn reply_text(self, status: u16, body: &'static str) {
        let _ = self.reply.send(Response::builder().status(status).body(Body::from(body)).unwrap());
    }

    /// The end of a wait without news.
    pub fn reply_unchanged(self) {
        let _ = self.reply.send(Response::builder().status(204).body(Body::empty()).unwrap());
    }

    pub fn refuse(self, status: u16, code: &str) {
        let problem = Problem { status, code: code.to_owned(), detail: format!("{code}!"), ..Problem::default() };
        self.reply(status, &serde_json::to_value(problem).unwrap());
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns once the client has given up on the answer.
    pub async fn given_up(mut self) {
        within(self.reply.closed()).await;
    }
}

async fn ask(State(sender): State<mpsc::UnboundedSender<Asked>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let (reply, replied) = oneshot::channel();
    let target = parts.uri.to_string();
    let _ = sender.send(Asked { method: parts.method, target, headers: parts.headers, body, reply });
    replied.await.unwrap_or_else(|_| Response::builder().status(500).body(Body::empty()).unwrap())
}

/// Awaits, but not for ever.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it takes no 20 seconds")
}

/// A topology of one node that owns every slot; its port tells the map apart.
pub fn topology(cluster: &str, generation: u64, epoch: u64, port: u16) -> Value {
    json!({
        "kind": "full", "cluster_id": cluster, "generation": generation, "epoch": epoch, "slots": 16384,
        "key_hash": "crc16-xmodem", "hash_tag": "{}",
        "shards": [{"id": "a", "weight": 1, "state": "active", "replicas": [], "ranges": [[0, 16383]],
                    "primary": {"id": "n", "host": "127.0.0.1", "port": port, "zone": null}}],
        "unassigned": [], "moving": [], "hot": [],
    })
}

/// An address where nobody listens.
pub async fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

//! HTTP over the simulated network: the listeners of members, the way between them, and that of clients.

use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::http::header::{CONNECTION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use reqwest::Body;
use serde_json::Value;
use slotkeeper::raft::{Lane, Transport, TransportError};
use tokio::time::timeout;
use turmoil::net::{TcpListener, TcpStream};

pub const PEER_PORT: u16 = 7000;
pub const API_PORT: u16 = 80;

const CONNECT_WITHIN: Duration = Duration::from_millis(500);
const REQUEST_WITHIN: Duration = Duration::from_secs(3);

/// Serves a router on a port of this host.
pub async fn serve(port: u16, router: Router) -> std::io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is what the simulation is about.
            drop(connection.await);
        });
    }
}

/// The way to other members: connections that are used again while they last.
#[derive(Default)]
pub struct Wire {
    idle: Mutex<Vec<(Lane, String, SendRequest<Body>)>>,
}

impl Wire {
    fn take(&self, lane: Lane, to: &str) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap();
        idle.retain(|(_, _, connection)| !connection.is_closed());
        let found = idle.iter().position(|(other, address, _)| *other == lane && address == to)?;
        Some(idle.remove(found).2)
    }
}

impl Transport for Wire {
    fn send(&self, lane: Lane, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        Box::pin(async move {
            let to = request.uri().authority().expect("an absolute URI").to_string();
            let mut connection = match self.take(lane, &to) {
                Some(connection) => connection,
                None => connect(&to).await.map_err(TransportError::Connect)?,
            };
            let broken = |error: hyper::Error| TransportError::Broken(error.to_string());
            let response = connection.send_request(in_origin_form(request)).await.map_err(broken)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(broken)?.to_bytes();
            self.idle.lock().unwrap().push((lane, to, connection));
            Ok(Response::from_parts(head, Body::from(body)))
        })
    }
}

async fn connect<B>(to: &str) -> Result<SendRequest<B>, String>
where
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = timeout(CONNECT_WITHIN, TcpStream::connect(to)).await.map_err(|_| "no connection".to_owned())?;
    let stream = stream.map_err(|error| error.to_string())?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn in_origin_form<B>(mut request: Request<B>) -> Request<B> {
    let path = request.uri().path_and_query().expect("a path").as_str().parse::<Uri>().expect("a path is a URI");
    *request.uri_mut() = path;
    request.headers_mut().insert(HOST, "127.0.0.1".parse().expect("a host"));
    request
}

/// What a member answered a client.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub json: Value,
}

impl Answer {
    pub fn number(&self, field: &str) -> u64 {
        self.json[field].as_u64().unwrap_or_else(|| panic!("no {field} in {}", self.json))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// One request of a client; none when nothing came back in time.
pub async fn request(
    to: &str,
    method: Method,
    path: &str,
    headers: &[(&'static str, String)],
    body: &str,
) -> Option<Answer> {
    let exchange = async {
        let mut connection = connect::<Full<Bytes>>(&format!("{to}:{API_PORT}")).await.ok()?;
        let mut request = Request::builder().method(method).uri(path).header(HOST, "127.0.0.1");
        request = request.header(CONNECTION, "close");
        if !headers.iter().any(|(name, _)| *name == "content-type") && !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::from(Bytes::from(body.to_owned()))).expect("a request");
        let response = connection.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Some(Answer { status: head.status, headers: head.headers, json })
    };
    timeout(REQUEST_WITHIN, exchange).await.ok().flatten()
}

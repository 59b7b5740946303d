//! How requests reach the peer listeners of the other members: HTTP over TCP, or what a simulation puts in its place.

use std::time::Duration;

use axum::http::{Request, Response};
use futures::future::BoxFuture;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::Body;

/// Time to get a connection: on the network of a raft group a live peer answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Kinds of traffic: none waits behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Signs of life and votes.
    Heartbeats,
    /// Log entries.
    Entries,
    /// Snapshots.
    Snapshots,
    /// What clients of this member asked, and the leader answers.
    Forwards,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// Anything after sending began.
    #[error("{0}")]
    Broken(String),
}

/// Sends one request. The URI has scheme, authority and path; who calls bounds the time, and dropping the future gives
/// the request up.
pub trait Transport: Send + Sync {
    /// The response, its body possibly still on the way.
    fn send(&self, lane: Lane, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, TransportError>>;
}

/// HTTP clients over TCP, one per lane: hyper's, since a request for every write leaves no time for what reqwest adds.
pub(super) struct Http {
    heartbeats: Client<HttpConnector, Body>,
    entries: Client<HttpConnector, Body>,
    snapshots: Client<HttpConnector, Body>,
    forwards: Client<HttpConnector, Body>,
}

impl Http {
    pub(super) fn new() -> Self {
        let client = |idle: usize| {
            let mut connector = HttpConnector::new();
            connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
            connector.set_nodelay(true);
            Client::builder(TokioExecutor::new())
                // A peer that restarted leaves dead connections behind: keep few, and not for long.
                .pool_max_idle_per_host(idle)
                .pool_idle_timeout(Duration::from_secs(10))
                .pool_timer(TokioTimer::new())
                .build(connector)
        };
        Self { heartbeats: client(1), entries: client(1), snapshots: client(1), forwards: client(64) }
    }
}

impl Transport for Http {
    fn send(&self, lane: Lane, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        let client = match lane {
            Lane::Heartbeats => &self.heartbeats,
            Lane::Entries => &self.entries,
            Lane::Snapshots => &self.snapshots,
            Lane::Forwards => &self.forwards,
        };
        Box::pin(async move {
            let response = client.request(request).await.map_err(|error| {
                let text = chain(&error);
                if error.is_connect() { TransportError::Connect(text) } else { TransportError::Broken(text) }
            })?;
            Ok(response.map(Body::wrap))
        })
    }
}

/// An error with its causes: its own text says little.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

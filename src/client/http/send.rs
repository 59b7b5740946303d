//! One request: sent to the endpoint that answered last, then to the others, until one answers or time is up.
//!
//! A write carries an idempotency key that stays the same over all attempts, so that one whose answer was lost can be
//! sent again.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, IF_MATCH, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Client, innermost};
use crate::client::ClientError;
use crate::client::backoff::Backoff;
use crate::wire::{Problem, Revision};

/// Largest answer that is read.
const ANSWER_MAX_BYTES: usize = 64 << 20;
/// Most rounds over all endpoints.
const ROUNDS_MAX: u32 = 4;
/// Shortest time one attempt gets, while there is time.
const SHARE_MIN: Duration = Duration::from_millis(250);

/// A request, independent of the endpoint.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    path: String,
    query: String,
    body: Option<Vec<u8>>,
    if_match: Option<String>,
    idempotency_key: Option<String>,
}

/// An answer below 400.
#[derive(Clone, Debug)]
pub struct Received {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// The endpoint that answered.
    pub endpoint: String,
}

/// How one attempt failed.
#[derive(Debug)]
pub(in crate::client) enum Failure {
    /// Another endpoint, or an attempt after this pause, may do better.
    Passing(ClientError, Duration),
    /// Answered, once and for all.
    Final(ClientError),
}

impl Failure {
    pub(in crate::client) fn into_error(self) -> ClientError {
        match self {
            Self::Passing(error, _) | Self::Final(error) => error,
        }
    }
}

impl Request {
    /// A read of this path, which starts with a slash.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        let (method, query) = (Method::GET, String::new());
        Self { method, path: path.into(), query, body: None, if_match: None, idempotency_key: None }
    }

    /// A write that posts a body.
    #[must_use]
    pub fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self { method: Method::POST, body: Some(json(body)), ..Self::get(path) }.keyed()
    }

    /// A write without a body.
    #[must_use]
    pub fn act(path: impl Into<String>) -> Self {
        Self { method: Method::POST, ..Self::get(path) }.keyed()
    }

    /// A change of the revision given.
    #[must_use]
    pub fn patch(path: impl Into<String>, revision: Revision, body: &impl Serialize) -> Self {
        Self { method: Method::PATCH, body: Some(json(body)), ..Self::get(path) }.keyed().if_match(revision)
    }

    /// A deletion.
    #[must_use]
    pub fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }.keyed()
    }

    /// Only if the resource has this revision.
    #[must_use]
    pub fn if_match(mut self, revision: Revision) -> Self {
        self.if_match = Some(revision.etag());
        self
    }

    /// A parameter of the query; any bytes.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(name);
        self.query.push('=');
        for &byte in value.as_ref() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.query.push(char::from(byte));
            } else {
                write!(self.query, "%{byte:02X}").expect("a String takes all");
            }
        }
        self
    }

    fn keyed(mut self) -> Self {
        self.idempotency_key = Some(format!("{:032x}", rand::random::<u128>()));
        self
    }
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies of this API are maps with text keys")
}

impl Client {
    /// Sends a request and reads the answer, a JSON value.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn call<T: DeserializeOwned>(&self, request: Request) -> Result<T, ClientError> {
        let received = self.send(request).await?;
        received.read()
    }

    /// Sends a request: to the endpoint that answered last, then to the others, a few rounds with pauses, within the
    /// client's time limit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send(&self, request: Request) -> Result<Received, ClientError> {
        let deadline = Instant::now() + self.inner.timeout;
        let count = self.inner.endpoints.len();
        let first = self.inner.preferred.load(Ordering::Relaxed) % count;
        let mut backoff = Backoff::new();
        for round in 1.. {
            let (mut tried, mut last, mut asked_to_wait) = (Vec::new(), None, Duration::ZERO);
            for index in (0..count).map(|offset| (first + offset) % count) {
                match self.attempt(index, &request, self.share(deadline)).await {
                    Ok(received) => {
                        self.inner.preferred.store(index, Ordering::Relaxed);
                        return Ok(received);
                    }
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Passing(error, wait)) => {
                        asked_to_wait = asked_to_wait.max(wait);
                        if let ClientError::Unreachable { tried: faults } = &error {
                            tried.extend(faults.iter().cloned());
                        }
                        last = Some(error);
                    }
                }
            }
            let pause = backoff.next().max(asked_to_wait);
            if round == ROUNDS_MAX || Instant::now() + pause >= deadline {
                let last = last.expect("there is at least one endpoint");
                return Err(if tried.len() == count { ClientError::Unreachable { tried } } else { last });
            }
            tokio::time::sleep(pause).await;
        }
        unreachable!("the last round returns")
    }

    /// How long one attempt may take: half of what is left where another endpoint can be asked, so that one that hangs
    /// does not use up the time.
    fn share(&self, deadline: Instant) -> Duration {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.inner.endpoints.len() > 1 { (left / 2).max(SHARE_MIN).min(left) } else { left }
    }

    /// One attempt at one endpoint.
    pub(in crate::client) async fn attempt(
        &self,
        index: usize,
        request: &Request,
        limit: Duration,
    ) -> Result<Received, Failure> {
        let endpoint = &self.inner.endpoints[index];
        match tokio::time::timeout(limit, self.exchange(endpoint, request)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(Failure::Passing(ClientError::Timeout { endpoint: endpoint.clone(), after: limit }, Duration::ZERO))
            }
        }
    }

    async fn exchange(&self, endpoint: &str, request: &Request) -> Result<Received, Failure> {
        let unreachable = |error| unreachable_at(endpoint, &error);
        let mut answer = self.begin(endpoint, request).await?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > ANSWER_MAX_BYTES {
                let why = format!("the answer is longer than {ANSWER_MAX_BYTES} bytes");
                return Err(Failure::Final(ClientError::Protocol { endpoint: endpoint.to_owned(), why }));
            }
            body.extend_from_slice(&chunk);
        }
        let received = Received { status: status.as_u16(), headers, body, endpoint: endpoint.to_owned() };
        if status.is_success() || status == StatusCode::NOT_MODIFIED { Ok(received) } else { Err(refusal(&received)) }
    }

    /// Sends a request to an endpoint and waits for the head of the answer.
    pub(super) async fn begin(&self, endpoint: &str, request: &Request) -> Result<reqwest::Response, Failure> {
        let url = format!("{endpoint}{}{}", request.path, request.query);
        let mut outgoing = self.inner.http.request(request.method.clone(), url).header(ACCEPT, "application/json");
        if let Some(authorization) = &self.inner.authorization {
            outgoing = outgoing.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(revision) = &request.if_match {
            outgoing = outgoing.header(IF_MATCH, revision);
        }
        if let Some(key) = &request.idempotency_key {
            outgoing = outgoing.header("idempotency-key", key);
        }
        if let Some(body) = &request.body {
            outgoing = outgoing.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        outgoing.send().await.map_err(|error| unreachable_at(endpoint, &error))
    }
}

/// A connection that was not there, or broke.
pub(super) fn unreachable_at(endpoint: &str, error: &reqwest::Error) -> Failure {
    let tried = vec![format!("{endpoint}: {}", innermost(error))];
    Failure::Passing(ClientError::Unreachable { tried }, Duration::ZERO)
}

impl Received {
    /// The body as a JSON value.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] when it is none of that shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|error| ClientError::Protocol {
            endpoint: self.endpoint.clone(),
            why: format!("status {} with a body that cannot be read: {error}", self.status),
        })
    }
}

/// The problem that came as an answer. A controller without a leader, or one that has too much to do, may be followed by
/// one that has not.
pub(super) fn refusal(received: &Received) -> Failure {
    let endpoint = received.endpoint.clone();
    let passing = matches!(received.status, 429 | 502 | 503 | 504);
    let error = match serde_json::from_slice::<Problem>(&received.body) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) if passing => {
            ClientError::Unreachable { tried: vec![format!("{endpoint}: status {}", received.status)] }
        }
        Err(_) => {
            let why = format!("status {} without a problem as its body", received.status);
            return Failure::Final(ClientError::Protocol { endpoint, why });
        }
    };
    if !passing {
        return Failure::Final(error);
    }
    let wait = received.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Failure::Passing(error, wait.map_or(Duration::ZERO, Duration::from_secs))
}

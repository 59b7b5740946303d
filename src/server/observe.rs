//! What is outermost: names every request, counts it, turns panics into problems and writes problems out.

use std::thread;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::{ApiError, PROBLEM_JSON, PendingProblem};

/// Names a request; echoed in the answer, and in its problem.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is kept of a request until it is answered.
pub struct Observation {
    started: Instant,
    id: HeaderValue,
    method: Method,
    path: Option<MatchedPath>,
}

impl Observation {
    /// Looks at a request before anything else does.
    pub fn begin(request: &Request) -> Self {
        let path = request.extensions().get::<MatchedPath>().cloned();
        Self { started: Instant::now(), id: request_id(request), method: request.method().clone(), path }
    }

    /// The answer as it goes out: what the request was answered with, or the problem that stands for its panic.
    pub fn finish(self, app: &App, answered: thread::Result<Response>) -> Response {
        let Self { started, id, method, path } = self;
        let mut response = answered.unwrap_or_else(|panic| {
            app.metrics.panicked();
            let what = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            tracing::error!(request_id = ?id, what, "a request panicked");
            let detail = "the request ran into a defect of the server; its log names the request id";
            ApiError::internal(detail).into_response()
        });
        write_problem(&mut response, &id, method == Method::HEAD);
        response.headers_mut().insert(REQUEST_ID, id);
        let route = path.as_ref().map_or("none", MatchedPath::as_str);
        app.metrics.answered(&method, route, response.status(), started.elapsed());
        response
    }
}

/// The client's own id when it is short and printable, otherwise a fresh one.
fn request_id(request: &Request) -> HeaderValue {
    let own = request.headers().get(&REQUEST_ID).filter(|value| {
        let bytes = value.as_bytes();
        (1..=64).contains(&bytes.len()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
    });
    own.cloned().unwrap_or_else(|| HeaderValue::try_from(fresh_id()).expect("hex digits"))
}

/// A name for a request that has none.
pub fn fresh_id() -> String {
    crate::domain::hex(&rand::random::<[u8; 8]>())
}

fn write_problem(response: &mut Response, id: &HeaderValue, is_head: bool) {
    if !response.status().is_client_error() && !response.status().is_server_error() {
        return;
    }
    if response.extensions().get::<PendingProblem>().is_none() {
        // Made by the framework, not by a handler.
        let (kept, _) = std::mem::take(response).into_parts();
        *response = ApiError::of_status(kept.status).into_response();
        response.headers_mut().extend(kept.headers.into_iter().filter_map(|(name, value)| {
            let name = name?;
            (name != CONTENT_TYPE && name != CONTENT_LENGTH).then_some((name, value))
        }));
    }
    let Some(problem) = response.extensions_mut().remove::<PendingProblem>() else { return };
    let body = problem.into_json(id.to_str().expect("checked above"));
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    *response.body_mut() = if is_head { Body::empty() } else { Body::from(body) };
}

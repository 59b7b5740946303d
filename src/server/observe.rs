//! The outermost layer: names every request, counts it, turns panics into problems and writes problems out.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::Shared;
use super::error::{ApiError, PROBLEM_JSON, PendingProblem};

/// Names a request; echoed in the answer, and in its problem.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps everything else.
pub async fn observe(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answered.unwrap_or_else(|panic| {
        app.metrics.panicked();
        let what = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        tracing::error!(request_id = ?id, what, "a request panicked");
        ApiError::internal("the request ran into a defect of the server; its log names the request id").into_response()
    });
    write_problem(&mut response, &id, method == Method::HEAD);
    response.headers_mut().insert(REQUEST_ID, id);
    let route = path.as_ref().map_or("none", MatchedPath::as_str);
    app.metrics.answered(&method, route, response.status(), started.elapsed());
    response
}

/// The client's own id when it is short and printable, otherwise a fresh one.
fn request_id(request: &Request) -> HeaderValue {
    let own = request.headers().get(&REQUEST_ID).filter(|value| {
        let bytes = value.as_bytes();
        (1..=64).contains(&bytes.len()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
    });
    own.cloned().unwrap_or_else(|| HeaderValue::from_str(&fresh_id()).expect("hex digits"))
}

/// A name for a request that has none.
pub fn fresh_id() -> String {
    format!("{:016x}", rand::random::<u64>())
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

//! Is it alive, is it ready, how is it doing, and where to read on.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::server::Shared;
use crate::server::error::ApiError;
use crate::server::metrics::OPENMETRICS;
use crate::server::query::Query;

/// How this member is.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthView {
    /// `ok`.
    status: &'static str,
    /// What was looked at; with `verbose` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<HealthCheck>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthCheck {
    /// Its name.
    name: &'static str,
    /// Whether it is as it should be.
    ok: bool,
    /// In words.
    detail: String,
}

/// Whether to tell what was looked at.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadyQuery {
    /// Tell what was looked at: present, whatever its value.
    pub verbose: Option<String>,
}

/// Where to find what.
#[derive(Debug, Serialize, ToSchema)]
pub struct IndexView {
    /// Name of the program.
    name: &'static str,
    /// Its version.
    version: &'static str,
    /// The API as a document.
    openapi: &'static str,
    /// The API in a browser.
    docs: &'static str,
    /// The clusters.
    clusters: &'static str,
}

/// Show where to find what.
#[utoipa::path(get, path = "/", tag = "health",
    responses((status = 200, description = "Links.", body = IndexView)))]
pub async fn index(_: Query) -> Json<IndexView> {
    let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    Json(IndexView { name, version, openapi: "/openapi.json", docs: "/docs", clusters: "/v1/clusters" })
}

/// Tell that the process answers.
#[utoipa::path(get, path = "/livez", tag = "health",
    responses((status = 200, description = "It answers.", body = HealthView)))]
pub async fn livez(_: Query) -> Json<HealthView> {
    Json(HealthView { status: "ok", checks: Vec::new() })
}

/// Tell whether this member may answer reads: it has caught up with its group since it started and knows a leader.
#[utoipa::path(get, path = "/readyz", tag = "health", params(ReadyQuery),
    responses((status = 200, description = "It may.", body = HealthView)))]
pub async fn readyz(State(app): State<Shared>, Query(query): Query<ReadyQuery>) -> Result<Json<HealthView>, ApiError> {
    let status = app.controller.status();
    let recovered = app.controller.ready();
    let checks = vec![
        HealthCheck {
            name: "recovered",
            ok: recovered.is_ok(),
            detail: recovered.as_ref().map_or_else(ToString::to_string, |()| "caught up since its start".to_owned()),
        },
        HealthCheck {
            name: "leader",
            ok: status.leader.is_some(),
            detail: match (status.leader, status.stale_ms) {
                (Some(leader), _) => format!("member {leader}"),
                (None, Some(stale_ms)) => format!("none was heard of for {stale_ms} ms"),
                (None, None) => "none is known".to_owned(),
            },
        },
        HealthCheck {
            name: "applied",
            ok: true,
            detail: format!("{} of {} committed, term {}", status.applied, status.committed, status.term),
        },
    ];
    if checks.iter().all(|check| check.ok) {
        let checks = if query.verbose.is_some() { checks } else { Vec::new() };
        return Ok(Json(HealthView { status: "ok", checks }));
    }
    let faults: Vec<String> =
        checks.iter().filter(|check| !check.ok).map(|check| format!("{}: {}", check.name, check.detail)).collect();
    Err(ApiError::unavailable(faults.join("; ")))
}

/// Show metrics in the text format of `OpenMetrics`.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Metrics.", body = String, content_type = "application/openmetrics-text")))]
pub async fn metrics(State(app): State<Shared>, _: Query) -> Response {
    ([(CONTENT_TYPE, OPENMETRICS)], app.metrics.render()).into_response()
}

/// Show this document.
#[utoipa::path(get, path = "/openapi.json", tag = "health",
    responses((status = 200, description = "The document.", body = Object)))]
pub async fn openapi_json(State(app): State<Shared>, _: Query) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.document.clone()).into_response()
}

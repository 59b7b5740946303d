//! HTTP: routes, authorisation, problems, limits. Sees the controller and never raft.
//!
//! A request passes, from the outside in: `observe` (request id, metrics, panics, problem bodies), `guard` (framing,
//! host, sizes), `auth` (the one authorisation point, over the table in [`routes`]), which are one layer in `entry`; then
//! the handler in `api`, whose extractors (`input`, `query`) check everything that comes with it.

mod api;
mod auth;
mod context;
mod document;
mod entry;
mod error;
mod framing;
mod guard;
mod input;
mod json;
pub mod listener;
mod metrics;
mod observe;
mod page;
mod process;
mod query;
pub mod routes;
mod timer;
mod views;

use std::sync::Arc;

use axum::Router;
use bytes::Bytes;
use tower::layer::layer_fn;
use utoipa::openapi::OpenApi;

use self::entry::Entry;
use self::metrics::Metrics;
use crate::controller::Controller;

/// What the server can be told.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Requests without a token act as the admin `dev`. Only on loopback, which the caller sees to.
    pub insecure_dev: bool,
    /// Most requests that wait for a new epoch at one time.
    pub waiters_max: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { insecure_dev: false, waiters_max: 10_000 }
    }
}

/// What every handler sees.
struct App {
    controller: Controller,
    config: ServerConfig,
    metrics: Metrics,
    document: Bytes,
}

type Shared = Arc<App>;

/// The whole HTTP interface over a controller.
pub fn router(controller: Controller, config: ServerConfig) -> Router {
    let (routes, document) = api::routes().split_for_parts();
    let document = Bytes::from(render(&document::finish(document)));
    let metrics = Metrics::new(controller.clone());
    layered(routes.merge(document::ui()), Arc::new(App { controller, config, metrics, document }))
}

/// Routes with everything around them.
fn layered(routes: Router<Shared>, app: Shared) -> Router {
    let around = Arc::clone(&app);
    routes.layer(layer_fn(move |route| Entry::new(route, Arc::clone(&around)))).with_state(app)
}

/// The `OpenAPI` document, generated from the routes.
#[must_use]
pub fn openapi() -> OpenApi {
    document::finish(api::routes().into_openapi())
}

/// The document as it is served and kept under `openapi/`.
#[must_use]
pub fn openapi_json() -> String {
    render(&openapi())
}

fn render(document: &OpenApi) -> String {
    let mut json = document.to_pretty_json().expect("the document has string keys only");
    json.push('\n');
    json
}

#[cfg(test)]
mod tests;

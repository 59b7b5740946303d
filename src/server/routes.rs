//! The one table of routes: what each needs, and how much it reads. A route that is not listed answers nobody.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;

use crate::domain::Permission;

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody, without a token.
    Open,
    /// A token whose role grants this.
    Needs(Permission),
}

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path as it is registered.
    pub path: &'static str,
    /// What it needs.
    pub access: Access,
    /// Most bytes of a body.
    pub body_max_bytes: usize,
}

const SMALL: usize = 256 * 1024;
const LARGE: usize = 8 * 1024 * 1024;

const fn route(method: &'static str, path: &'static str, permission: Permission) -> Route {
    Route { method, path, access: Access::Needs(permission), body_max_bytes: SMALL }
}

const fn large(method: &'static str, path: &'static str, permission: Permission) -> Route {
    Route { method, path, access: Access::Needs(permission), body_max_bytes: LARGE }
}

const fn open(path: &'static str) -> Route {
    Route { method: "GET", path, access: Access::Open, body_max_bytes: 0 }
}

use Permission::{Administer, Join, Move, Operate, Read, ReadTopology, Review};

/// Every route.
pub const ROUTES: &[Route] = &[
    open("/livez"),
    open("/readyz"),
    route("GET", "/", ReadTopology),
    route("GET", "/openapi.json", ReadTopology),
    route("GET", "/docs", ReadTopology),
    route("GET", "/docs/", ReadTopology),
    route("GET", "/docs/{*rest}", ReadTopology),
    route("GET", "/metrics", Read),
    route("GET", "/v1/whoami", ReadTopology),
    route("GET", "/v1/status", Read),
    route("GET", "/v1/members", Read),
    route("POST", "/v1/members", Administer),
    route("DELETE", "/v1/members/{member}", Administer),
    route("POST", "/v1/members/{member}/promote", Administer),
    route("POST", "/v1/members/{member}/transfer-leadership", Administer),
    route("POST", "/v1/join", Join),
    route("GET", "/v1/audit", Read),
    route("GET", "/v1/tokens", Administer),
    route("POST", "/v1/tokens", Administer),
    route("DELETE", "/v1/tokens/{token}", Administer),
    route("POST", "/v1/snapshots", Administer),
    route("GET", "/v1/snapshots/latest", Administer),
    route("POST", "/v1/comparisons", Read),
    route("GET", "/v1/clusters", Read),
    route("POST", "/v1/clusters", Administer),
    route("GET", "/v1/clusters/{cluster}", Read),
    route("PATCH", "/v1/clusters/{cluster}", Administer),
    route("DELETE", "/v1/clusters/{cluster}", Administer),
    large("POST", "/v1/clusters/{cluster}/import", Administer),
    route("GET", "/v1/clusters/{cluster}/drift", Read),
    route("GET", "/v1/clusters/{cluster}/statistics", Read),
    route("GET", "/v1/clusters/{cluster}/nodes", Read),
    route("POST", "/v1/clusters/{cluster}/nodes", Operate),
    route("GET", "/v1/clusters/{cluster}/nodes/{node}", Read),
    route("PATCH", "/v1/clusters/{cluster}/nodes/{node}", Operate),
    route("DELETE", "/v1/clusters/{cluster}/nodes/{node}", Operate),
    route("POST", "/v1/clusters/{cluster}/nodes/{node}/drain", Operate),
    route("DELETE", "/v1/clusters/{cluster}/nodes/{node}/drain", Operate),
    route("GET", "/v1/clusters/{cluster}/shards", Read),
    route("GET", "/v1/clusters/{cluster}/shards/{shard}", Read),
    route("PATCH", "/v1/clusters/{cluster}/shards/{shard}", Operate),
    route("POST", "/v1/clusters/{cluster}/shards/{shard}/drain", Operate),
    route("DELETE", "/v1/clusters/{cluster}/shards/{shard}/drain", Operate),
    route("GET", "/v1/clusters/{cluster}/plans", Read),
    large("POST", "/v1/clusters/{cluster}/plans", Operate),
    route("GET", "/v1/clusters/{cluster}/plans/{plan}", Read),
    route("GET", "/v1/clusters/{cluster}/plans/{plan}/diff/{other}", Read),
    route("GET", "/v1/clusters/{cluster}/plans/{plan}/explain", Read),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/approvals", Review),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rejection", Review),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/withdrawal", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/refresh", Operate),
    route("GET", "/v1/clusters/{cluster}/plans/{plan}/rollout", Read),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/pause", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/resume", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/abort", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/rollback", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/throttle", Operate),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/begin", Move),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/done", Move),
    route("POST", "/v1/clusters/{cluster}/plans/{plan}/rollout/actions/{action}/failed", Move),
    route("GET", "/v1/clusters/{cluster}/topology", ReadTopology),
    route("GET", "/v1/clusters/{cluster}/slots/{slot}", ReadTopology),
    route("GET", "/v1/clusters/{cluster}/slots/{slot}/explain", Read),
    route("GET", "/v1/clusters/{cluster}/keyslot", ReadTopology),
];

/// The routes of each path: looked up with every request.
static BY_PATH: LazyLock<HashMap<&str, Vec<&Route>>> = LazyLock::new(|| {
    let mut by_path = HashMap::<_, Vec<_>>::new();
    for route in ROUTES {
        by_path.entry(route.path).or_default().push(route);
    }
    by_path
});

/// The route of a method and a registered path; HEAD is GET without a body.
#[must_use]
pub fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    BY_PATH.get(path)?.iter().find(|route| route.method == method).copied()
}

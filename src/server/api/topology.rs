//! The topology: whole snapshots, rendered once per epoch, and the long poll for the next one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::ClusterPath;
use crate::domain::{ClusterName, Epoch, Generation, Rejection, TokenId, Version, is_plain_number};
use crate::publish::{LEADER, ROLE, STALE_MS, Snapshot};
use crate::server::context::{Connection, Context};
use crate::server::error::ApiError;
use crate::server::query::{At, Consistency, Query, number, version};
use crate::server::{App, Shared};
use crate::wire::{Problem, TopologyBody};

/// Its path.
pub const PATH: &str = "/v1/clusters/{cluster}/topology";

/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(55);
/// How long a read waits for what it must have seen.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Which version is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TopologyQuery {
    /// `GENERATION.EPOCH` that the client holds: answered once it is exceeded.
    #[serde(default, deserialize_with = "version")]
    #[param(value_type = Option<String>, pattern = "^(0|[1-9][0-9]{0,19})\\.(0|[1-9][0-9]{0,19})$", example = "1772460300.41")]
    pub after: Option<Version>,
    /// How long to wait for that, such as `30s` or `500ms`; bare numbers are seconds. At most 55 s.
    #[param(example = "30s")]
    pub wait: Option<String>,
    /// `GENERATION.EPOCH` that the answer must have reached: read your own writes.
    #[serde(default, deserialize_with = "version")]
    #[param(value_type = Option<String>, pattern = "^(0|[1-9][0-9]{0,19})\\.(0|[1-9][0-9]{0,19})$")]
    pub min_epoch: Option<Version>,
    /// 503 from a member that has not heard of a leader for more milliseconds than this.
    #[serde(default, deserialize_with = "number")]
    pub max_stale: Option<u64>,
    /// `linearizable` (or `lease`, which trusts clocks): everything committed before the request is seen. This member's
    /// newest when absent.
    #[param(inline)]
    pub consistency: Option<Consistency>,
}

/// Show the topology, or wait for the next.
#[utoipa::path(get, path = "/v1/clusters/{cluster}/topology", tag = "topology",
    params(ClusterPath, TopologyQuery,
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of the snapshot held."),
        ("Prefer" = Option<String>, Header, description = "`wait=30`: like `wait`, in seconds. One that cannot be read is no preference (RFC 7240).")),
    responses(
        (status = 200, description = "The newest snapshot.", body = TopologyBody, headers(
            ("ETag" = String), ("Slotkeeper-Cluster" = String), ("Slotkeeper-Generation" = u64),
            ("Slotkeeper-Epoch" = u64), ("Slotkeeper-Role" = String), ("Slotkeeper-Leader" = u64),
            ("Slotkeeper-Stale-Ms" = u64))),
        (status = 204, description = "Nothing newer than `after` came in time; the headers tell the version."),
        (status = 304, description = "It is the snapshot held."),
        (status = 429, description = "Too many requests wait already.", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn topology(
    State(app): State<Shared>,
    At(ClusterPath { cluster }): At<ClusterPath>,
    Query(query): Query<TopologyQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers();
    let wait = match &query.wait {
        Some(text) => duration(text)
            .ok_or_else(|| ApiError::malformed("wait is not a duration such as 30s or 500ms").field("wait"))?,
        None => preferred_wait(headers).unwrap_or(Duration::ZERO),
    };
    app.controller.ready()?;
    app.check_stale(query.max_stale)?;
    if let Some(fresh @ (Consistency::Linearizable | Consistency::Lease)) = query.consistency {
        fresh.reach(&app.controller).await?;
        let version = app.controller.cluster(&cluster)?.version();
        app.reached(&cluster, version).await?;
    }
    if let Some(version) = query.min_epoch {
        app.reached(&cluster, version).await?;
    }
    let newest = app.published(&cluster).await?;
    let Some(after) = query.after else { return Ok(app.full(&newest, headers, true)) };
    if newest.topology.version > after {
        return Ok(app.full(&newest, headers, false));
    }
    // A body that may come with it is not waited with: the request is not kept.
    let (parts, _) = request.into_parts();
    let ends = Ends::of(&parts.extensions);
    let found = app.wait_newer(&cluster, after, wait, &ends).await?;
    if let Some(snapshot) = found {
        return Ok(app.full(&snapshot, &parts.headers, false));
    }
    let newest = app.newest(&cluster)?;
    Ok(app.unchanged(&newest, &parts.headers))
}

/// What ends a wait before its time.
struct Ends<'a> {
    connection: Option<&'a Connection>,
    token: Option<&'a TokenId>,
}

impl<'a> Ends<'a> {
    fn of(extensions: &'a Extensions) -> Self {
        let context = extensions.get::<Context>();
        let caller = context.and_then(|context| context.principal.as_ref());
        let connection = context.and_then(|context| context.connection.as_deref());
        Self { connection, token: caller.and_then(|caller| caller.token.as_ref()) }
    }
}

impl App {
    /// What [`topology`] answers a plain `GET` with, without what it would be read by and waited for; none where there
    /// is anything else to say.
    pub fn topology_at_once(&self, request: &Request) -> Option<Response> {
        if request.method() != Method::GET || request.uri().query().is_some() {
            return None;
        }
        let name = request.uri().path().strip_prefix("/v1/clusters/")?.strip_suffix("/topology")?;
        // A name that has to be decoded first is none here.
        let cluster = ClusterName::new(name).ok()?;
        self.controller.ready().ok()?;
        let newest = self.controller.publisher().newest(&cluster)?;
        Some(self.full(&newest, request.headers(), true))
    }

    fn newest(&self, cluster: &ClusterName) -> Result<Arc<Snapshot>, ApiError> {
        self.controller.publisher().newest(cluster).ok_or_else(|| match self.controller.cluster(cluster) {
            Ok(_) => ApiError::unavailable("the topology is not published on this member yet"),
            Err(_) => Rejection::not_found("cluster", cluster).into(),
        })
    }

    /// The newest snapshot; a cluster that was created a moment ago is waited for.
    async fn published(&self, cluster: &ClusterName) -> Result<Arc<Snapshot>, ApiError> {
        match self.newest(cluster) {
            Err(error) if error.status() == StatusCode::SERVICE_UNAVAILABLE => {
                let found = self.controller.publisher().wait_newer(cluster, Version::default(), CATCH_UP).await;
                found.ok_or(error)
            }
            found => found,
        }
    }

    fn check_stale(&self, max_stale: Option<u64>) -> Result<(), ApiError> {
        let Some(max_stale) = max_stale else { return Ok(()) };
        match self.controller.standing().stale_ms {
            Some(stale_ms) if stale_ms <= max_stale => Ok(()),
            stale_ms => {
                let detail = stale_ms.map_or_else(
                    || "this member has not heard of a leader yet".to_owned(),
                    |stale_ms| format!("this member has not heard of a leader for {stale_ms} ms"),
                );
                Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stale-member", detail))
            }
        }
    }

    /// Waits a moment until a version is published here.
    async fn reached(&self, cluster: &ClusterName, version: Version) -> Result<(), ApiError> {
        let is_there = |snapshot: &Snapshot| snapshot.topology.version >= version;
        // A cluster that is nowhere is not waited for.
        let newest = self.newest(cluster);
        if newest.as_ref().is_ok_and(|newest| is_there(newest)) {
            return Ok(());
        }
        if let Err(error) = newest
            && error.status() == StatusCode::NOT_FOUND
        {
            return Err(error);
        }
        let found = self.controller.publisher().wait_newer(cluster, before(version), CATCH_UP).await;
        if found.is_some() {
            return Ok(());
        }
        let detail = format!("this member has not got to {version} within {} s", CATCH_UP.as_secs());
        Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "behind", detail))
    }

    async fn wait_newer(
        &self,
        cluster: &ClusterName,
        after: Version,
        wait: Duration,
        ends: &Ends<'_>,
    ) -> Result<Option<Arc<Snapshot>>, ApiError> {
        if wait.is_zero() {
            return Ok(None);
        }
        let publisher = self.controller.publisher();
        if publisher.waiting() >= self.config.waiters_max {
            let detail = format!("{} requests wait already", self.config.waiters_max);
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too-many-waiters", detail));
        }
        // Ended a little early and not all at once: those who began together must not come back together.
        let wait = wait.min(WAIT_MAX);
        let wait = wait.saturating_sub(wait.mul_f64(self.controller.chance() / 16.0));
        let deadline = Instant::now() + wait;
        let stopped = async {
            match ends.connection {
                Some(connection) => connection.stopped().await,
                None => std::future::pending().await,
            }
        };
        let gone = async {
            match ends.token {
                Some(token) => self.controller.token_gone(token).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            found = publisher.wait_newer(cluster, after, deadline - Instant::now()) => Ok(found),
            () = stopped => Ok(None),
            () = gone => {
                let detail = "the token was revoked or has expired while the request waited";
                Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail))
            }
        }
    }

    /// The snapshot, or 304 when `revalidate` and the client has it.
    fn full(&self, snapshot: &Snapshot, headers: &HeaderMap, revalidate: bool) -> Response {
        let gzip = accepts_gzip(headers);
        let etag = if gzip { &snapshot.etag_gzip } else { &snapshot.etag };
        if revalidate && if_none_match(headers, etag) {
            return self.without_body(snapshot, gzip, StatusCode::NOT_MODIFIED);
        }
        let body = if gzip { &snapshot.json_gzip } else { &snapshot.json };
        let mut response = Response::new(Body::from(body.clone()));
        *response.headers_mut() = self.headers(snapshot, gzip);
        response
    }

    /// Nothing newer: 304 to a client that revalidates, 204 to others.
    fn unchanged(&self, snapshot: &Snapshot, headers: &HeaderMap) -> Response {
        let is_conditional = headers.contains_key(IF_NONE_MATCH);
        let status = if is_conditional { StatusCode::NOT_MODIFIED } else { StatusCode::NO_CONTENT };
        self.without_body(snapshot, accepts_gzip(headers), status)
    }

    fn without_body(&self, snapshot: &Snapshot, gzip: bool, status: StatusCode) -> Response {
        let mut headers = self.headers(snapshot, gzip);
        for of_the_body in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LENGTH] {
            headers.remove(of_the_body);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// The snapshot's headers, and what this member knows of its group.
    fn headers(&self, snapshot: &Snapshot, gzip: bool) -> HeaderMap {
        let member = self.controller.standing();
        let mut headers = if gzip { snapshot.headers_gzip.clone() } else { snapshot.headers.clone() };
        headers.insert(ROLE, HeaderValue::from_static(member.role));
        for (name, value) in [(LEADER, member.leader), (STALE_MS, member.stale_ms)] {
            match value {
                Some(value) => headers.insert(name, number_value(value)),
                None => headers.remove(name),
            };
        }
        headers
    }
}

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// A number as a header has it; the leader's own answers have only small ones.
fn number_value(value: u64) -> HeaderValue {
    const SMALL: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let small = usize::try_from(value).ok().and_then(|value| SMALL.get(value));
    small.map_or_else(|| HeaderValue::from(value), |text| HeaderValue::from_static(text))
}

/// The version right below another: what exceeds it has reached that one.
fn before(version: Version) -> Version {
    match (version.generation.0, version.epoch.0) {
        (generation, epoch @ 1..) => Version { generation: Generation(generation), epoch: Epoch(epoch - 1) },
        (generation, 0) => Version { generation: Generation(generation.saturating_sub(1)), epoch: Epoch(u64::MAX) },
    }
}

/// `30s`, `500ms`, `30`, `1.5`, `1e9`: a number of seconds, or milliseconds. Far too long is clamped later.
fn duration(text: &str) -> Option<Duration> {
    let (number, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let (digits, exponent) = number.split_once('e').map_or((number, "0"), |(digits, exponent)| (digits, exponent));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_written_so = is_plain_number(whole) && is_plain_number(exponent);
    let is_written_so = is_written_so && !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let seconds: f64 = number.parse().ok().filter(|_| is_written_so)?;
    Some(Duration::from_secs_f64((seconds * scale).min(WAIT_MAX.as_secs_f64())))
}

/// `Prefer: wait=30` (RFC 7240). What cannot be read is no preference.
fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ';'])).find_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| duration(value.trim().trim_matches('"')))?
    })
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut gzip = None;
    let mut any = None;
    for element in values.flat_map(|value| value.split(',')) {
        let mut parts = element.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|p| p.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0)));
        match coding.as_str() {
            "gzip" | "x-gzip" => gzip = Some(!refused),
            "*" => any = Some(!refused),
            _ => {}
        }
    }
    gzip.or(any).unwrap_or(false)
}

fn if_none_match(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().strip_prefix("W/").unwrap_or(tag.trim()))
        .any(|tag| tag == etag || tag == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_and_clamped() {
        assert_eq!(Some(Duration::from_secs(30)), duration("30s"));
        assert_eq!(Some(Duration::from_secs(30)), duration("30"));
        assert_eq!(Some(Duration::from_millis(500)), duration("500ms"));
        for long in ["1e9", "1e999", "55s", "99999999999999999999999s"] {
            assert_eq!(Some(WAIT_MAX), duration(long), "{long}");
        }
        assert_eq!(Some(Duration::from_millis(1050)), duration("1.05s"));
        for bad in [
            "abc", "", "s", "-1", "nan", "inf", "infs", "+3", "3 s", "3m", "05s", "5.", ".5", "1e", "1e+3", "1e03",
            "1.+3", "1_0", "0x5",
        ] {
            assert_eq!(None, duration(bad), "{bad}");
        }
    }

    #[test]
    fn preferences_and_codings_are_found_in_lists() {
        let with = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        assert_eq!(Some(Duration::from_secs(9)), preferred_wait(&with("prefer", "respond-async, wait=9")));
        assert_eq!(None, preferred_wait(&with("prefer", "wait=soon")));
        for yes in ["gzip", "br, gzip;q=0.2", "*", "identity;q=0.5, *;q=0.1"] {
            assert!(accepts_gzip(&with("accept-encoding", yes)), "{yes}");
        }
        for no in ["", "identity", "gzip;q=0", "gzip;q=0, *", "br"] {
            assert!(!accepts_gzip(&with("accept-encoding", no)), "{no}");
        }
        assert!(if_none_match(&with("if-none-match", "\"a\", W/\"b\""), "\"b\""));
        assert!(!if_none_match(&with("if-none-match", "\"a\""), "\"b\""));
    }

    #[test]
    fn the_version_below_is_exceeded_by_the_version_alone() {
        let version = |generation, epoch| Version { generation: Generation(generation), epoch: Epoch(epoch) };
        for v in [version(5, 3), version(5, 0), version(1, 0)] {
            assert!(before(v) < v);
        }
        assert_eq!(version(4, u64::MAX), before(version(5, 0)));
    }
}

//! Problems as answers. The only place that knows which status a refusal has.

use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::controller::{Cluster, ControlError};
use crate::domain::Rejection;
use crate::wire::{Fault, PROBLEM_TYPE_PREFIX, Problem, Revision};

/// The media type of problems.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refused or failed request. Its request id is filled in on the way out.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    problem: Box<Problem>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The problem of an answer, kept beside its empty body until the request id is known.
#[derive(Clone, Debug)]
pub struct PendingProblem(pub Box<Problem>);

impl PendingProblem {
    /// The problem of a request as it is sent.
    pub fn into_json(mut self, request_id: &str) -> Vec<u8> {
        request_id.clone_into(&mut self.0.request_id);
        serde_json::to_vec(&self.0).expect("a problem has string keys only")
    }
}

impl ApiError {
    /// A problem with a stable code.
    #[must_use]
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        let problem = Problem {
            kind: format!("{PROBLEM_TYPE_PREFIX}{code}"),
            title: title(code).to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            ..Problem::default()
        };
        let mut error = Self { status, problem: Box::new(problem), headers: Vec::new() };
        match status {
            StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => error.header(RETRY_AFTER, "1"),
            StatusCode::UNAUTHORIZED => error.header(WWW_AUTHENTICATE, "Bearer realm=\"slotkeeper\""),
            _ => {}
        }
        error
    }

    /// 400: not well-formed.
    #[must_use]
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", detail)
    }

    /// 422: well-formed, but a field cannot be.
    #[must_use]
    pub fn invalid(field: impl Into<String>, why: &str) -> Self {
        let field = field.into();
        let error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field}: {why}"));
        error.field(field)
    }

    /// 503: try again.
    #[must_use]
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    /// 500: a defect.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The generic problem of a status that something below answered without one.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("not-found", "there is nothing at this path"),
            StatusCode::METHOD_NOT_ALLOWED => ("method-not-allowed", "the path does not allow this method; see Allow"),
            StatusCode::PAYLOAD_TOO_LARGE => ("too-large", "the body is too large"),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ("headers-too-large", "the headers are too large"),
            StatusCode::URI_TOO_LONG => ("uri-too-long", "the URI is too long"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ("unsupported-media-type", "the content type is not supported"),
            status if status.is_server_error() => ("internal", "the request could not be answered"),
            _ => ("malformed", "the request could not be understood"),
        };
        Self::new(status, code, detail)
    }

    /// The problem where there is no response to put it in.
    #[must_use]
    pub fn pending(self) -> PendingProblem {
        PendingProblem(self.problem)
    }

    /// Names the field, header or parameter at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.problem.field = Some(field.into());
        self
    }

    /// Closes the connection after the answer: what follows on it cannot be trusted.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.header(CONNECTION, "close");
        self
    }

    /// Tells the cluster's current version beside a conflict.
    #[must_use]
    pub fn beside(mut self, cluster: Option<&Cluster>) -> Self {
        if let (StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED, Some(cluster)) = (self.status, cluster) {
            self.problem.generation = Some(cluster.generation.0);
            self.problem.epoch = Some(cluster.epoch.0);
        }
        self
    }

    /// The headers that come with it, as lines with their ends.
    pub fn header_lines(&self) -> String {
        let line = |(name, value): &(HeaderName, HeaderValue)| {
            format!("{name}: {}\r\n", value.to_str().expect("written here, in ASCII"))
        };
        self.headers.iter().map(line).collect()
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The problem, without a request id.
    #[cfg(test)]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    fn header(&mut self, name: HeaderName, value: &'static str) {
        self.headers.push((name, HeaderValue::from_static(value)));
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
        response.extensions_mut().insert(PendingProblem(self.problem));
        response
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        Self::invalid(fault.field, &fault.why)
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let mut error = Self::new(status_of(&rejection), rejection.code(), rejection.to_string());
        let problem = &mut error.problem;
        match rejection {
            Rejection::PlanStale { epoch, changes } => {
                problem.epoch = Some(epoch);
                problem.changes = changes;
            }
            Rejection::RevisionMismatch { actual, .. } => problem.revision = Some(Revision(actual).to_string()),
            Rejection::DigestMismatch { plan, actual } => {
                (problem.plan, problem.digest) = (Some(plan), Some(actual));
            }
            Rejection::PlanState { plan, state, .. } | Rejection::RolloutState { plan, state, .. } => {
                (problem.plan, problem.state) = (Some(plan), Some(state));
            }
            Rejection::AcknowledgementMissing { plan, missing: list }
            | Rejection::ChecksFailed { plan, failed: list } => {
                (problem.plan, problem.missing) = (Some(plan), list);
            }
            Rejection::RolloutActive { plan, .. } | Rejection::ApprovalRefused { plan, .. } => {
                problem.plan = Some(plan);
            }
            Rejection::Invalid { field, .. } => problem.field = Some(field),
            Rejection::IdempotencyMismatch { .. } => problem.field = Some("Idempotency-Key".to_owned()),
            Rejection::NotFound { .. }
            | Rejection::Exists { .. }
            | Rejection::InUse { .. }
            | Rejection::ActionRefused { .. }
            | Rejection::Conflict { .. }
            | Rejection::LimitExceeded { .. }
            | Rejection::Forbidden { .. }
            | Rejection::LastAdminToken { .. }
            | Rejection::UnknownVersion { .. } => {}
        }
        error
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Rejected(rejection) => rejection.into(),
            ControlError::Planning(error) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "infeasible", error.to_string()).field(error.field())
            }
            ControlError::Unavailable(why) => Self::unavailable(why),
            ControlError::NodeUnreachable(why) => Self::new(StatusCode::CONFLICT, "node-unreachable", why),
            ControlError::Timeout => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", ControlError::Timeout.to_string())
            }
            ControlError::PlanDefect(faults) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "plan-defect", faults.join("; "))
            }
        }
    }
}

const fn status_of(rejection: &Rejection) -> StatusCode {
    match rejection {
        Rejection::NotFound { .. } => StatusCode::NOT_FOUND,
        Rejection::Exists { .. }
        | Rejection::PlanStale { .. }
        | Rejection::DigestMismatch { .. }
        | Rejection::PlanState { .. }
        | Rejection::RolloutState { .. }
        | Rejection::RolloutActive { .. }
        | Rejection::AcknowledgementMissing { .. }
        | Rejection::ChecksFailed { .. }
        | Rejection::InUse { .. }
        | Rejection::ActionRefused { .. }
        | Rejection::Conflict { .. }
        | Rejection::LastAdminToken { .. }
        | Rejection::LimitExceeded { .. } => StatusCode::CONFLICT,
        Rejection::RevisionMismatch { .. } => StatusCode::PRECONDITION_FAILED,
        Rejection::Invalid { .. } | Rejection::IdempotencyMismatch { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Rejection::ApprovalRefused { .. } | Rejection::Forbidden { .. } => StatusCode::FORBIDDEN,
        // A newer member leads: this one must be upgraded before it can answer for it.
        Rejection::UnknownVersion { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn title(code: &str) -> &'static str {
    match code {
        "acknowledgement-missing" => "A warning must be acknowledged first",
        "action-refused" => "The action cannot do that now",
        "approval-refused" => "Not allowed to approve this plan",
        "behind" => "This member has not got that far yet",
        "checks-failed" => "A check of the plan fails",
        "conflict" => "The state does not allow it",
        "digest-mismatch" => "The digest is not that of the plan",
        "exists" => "It exists already",
        "forbidden" => "The role does not allow it",
        "headers-too-large" => "The request headers are too large",
        "host-refused" => "Not a host name of this server",
        "idempotency-mismatch" => "The idempotency key was used for another request",
        "in-use" => "It is in use",
        "infeasible" => "No plan reaches the goal",
        "internal" => "A defect of the server",
        "invalid" => "A field cannot be as given",
        "last-admin-token" => "Nobody could administer the controller any more",
        "limit-exceeded" => "A bound would be exceeded",
        "malformed" => "The request is malformed",
        "method-not-allowed" => "The path does not allow this method",
        "node-unreachable" => "A node does not answer",
        "not-acceptable" => "No representation is acceptable",
        "not-found" => "It does not exist",
        "outcome-unknown" => "No answer in time: the outcome is unknown",
        "plan-defect" => "The planner's plan did not pass its own check",
        "plan-stale" => "The plan is stale",
        "plan-state" => "The plan's state does not allow it",
        "precondition-required" => "If-Match is required",
        "request-timeout" => "The request took too long to arrive",
        "revision-mismatch" => "The resource was changed meanwhile",
        "rollout-active" => "A rollout is under way",
        "rollout-state" => "The rollout's state does not allow it",
        "stale-member" => "This member has not heard of a leader for too long",
        "too-large" => "The body is too large",
        "too-many-waiters" => "Too many requests wait already",
        "unauthenticated" => "A valid token is required",
        "unavailable" => "Not available now",
        "unknown-version" => "This member is too old for its group",
        "unsupported-media-type" => "The body's type is not supported",
        "uri-too-long" => "The URI is too long",
        _ => "The request was refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_plan_is_a_conflict_that_says_what_changed() {
        let error = ApiError::from(Rejection::PlanStale { epoch: 7, changes: vec!["slot 3 moved".into()] });
        assert_eq!(StatusCode::CONFLICT, error.status());
        assert_eq!((Some(7), vec!["slot 3 moved".to_owned()]), (error.problem.epoch, error.problem.changes.clone()));
        assert_eq!("urn:slotkeeper:problem:plan-stale", error.problem.kind);
    }

    #[test]
    fn every_refusal_has_a_title_of_its_own() {
        let text = String::new;
        let rejections = [
            Rejection::not_found("node", &"n"),
            Rejection::Exists { what: text(), id: text() },
            Rejection::RevisionMismatch { what: text(), id: text(), expected: 1, actual: 2 },
            Rejection::PlanStale { epoch: 1, changes: vec![] },
            Rejection::DigestMismatch { plan: text(), actual: text() },
            Rejection::PlanState { plan: text(), state: text(), verb: text() },
            Rejection::RolloutState { plan: text(), state: text(), verb: text() },
            Rejection::RolloutActive { cluster: text(), plan: text() },
            Rejection::ApprovalRefused { plan: text(), who: text(), why: text() },
            Rejection::AcknowledgementMissing { plan: text(), missing: vec![] },
            Rejection::ChecksFailed { plan: text(), failed: vec![] },
            Rejection::InUse { what: text(), id: text(), why: text() },
            Rejection::ActionRefused { action: text(), why: text() },
            Rejection::conflict("x"),
            Rejection::invalid("f", &"x"),
            Rejection::LimitExceeded { what: text(), most: 1 },
            Rejection::IdempotencyMismatch { key: text() },
            Rejection::Forbidden { role: text(), action: text() },
            Rejection::LastAdminToken { token: text() },
            Rejection::UnknownVersion { version: 9 },
        ];
        for rejection in rejections {
            let error = ApiError::from(rejection);
            assert_ne!("The request was refused", error.problem.title, "{}", error.problem.code);
            assert!(error.status.is_client_error() || error.status == StatusCode::SERVICE_UNAVAILABLE);
        }
    }
}

//! What comes in with a write: body, query, who asks, idempotency key and revision, all checked for their form.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::Shared;
use super::context::Context;
use super::error::ApiError;
use super::json;
use super::query::{self, NoQuery};
use crate::controller::{Caller, Idempotency};
use crate::domain::Principal;
use crate::wire::{Revision, Text};

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what is left of a refused body is read, so that the client gets to read the refusal.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest idempotency key.
const KEY_MAX_BYTES: usize = 128;

/// A body as a route takes it.
pub trait Payload: Sized {
    /// Reads the body; `media` is its content type without parameters, in lower case.
    fn read(media: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError>;
}

/// A JSON object.
#[derive(Debug)]
pub struct Json<T>(pub T);

/// A JSON object, or nothing at all.
#[derive(Debug)]
pub struct MaybeJson<T>(pub T);

/// Nothing.
#[derive(Debug)]
pub struct Nothing;

/// A write.
#[derive(Debug)]
pub struct Input<P, Q = NoQuery> {
    /// Its body.
    pub body: P,
    /// Its query.
    pub query: Q,
    principal: Principal,
    idempotency: Option<Idempotency>,
    if_match: Vec<HeaderValue>,
}

impl<P, Q> Input<P, Q> {
    /// Who calls, and why.
    pub fn caller(&self, reason: Option<&Text>) -> Caller {
        Caller {
            principal: self.principal.clone(),
            reason: reason.map(|text| text.as_str().to_owned()),
            idempotency: self.idempotency.clone(),
        }
    }

    /// The revision that `If-Match` names.
    pub fn if_match(&self) -> Result<u64, ApiError> {
        let [value] = self.if_match.as_slice() else {
            if !self.if_match.is_empty() {
                return Err(ApiError::malformed("If-Match is given more than once").field("If-Match"));
            }
            let detail = "send If-Match with the resource's revision, such as \"r1\"";
            let error = ApiError::new(StatusCode::PRECONDITION_REQUIRED, "precondition-required", detail);
            return Err(error.field("If-Match"));
        };
        let revision = value.to_str().ok().filter(|text| text.starts_with('"')).and_then(|text| text.parse().ok());
        let Revision(revision) =
            revision.ok_or_else(|| ApiError::malformed("If-Match is not one \"r<n>\"").field("If-Match"))?;
        Ok(revision)
    }
}

impl<P: Payload, Q: DeserializeOwned + Send> FromRequest<Shared> for Input<P, Q> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let query = query::parse(parts.uri.query())?;
        let context = parts.extensions.get::<Context>();
        let principal = context.and_then(|context| context.principal.clone());
        let principal = principal.ok_or_else(|| ApiError::internal("a write without a principal"))?;
        let key = idempotency_key(&parts.headers)?;
        if let Some(coding) = parts.headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
            discard(body);
            let detail = format!("bodies with content coding {coding:?} are not read");
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
                .field("Content-Encoding"));
        }
        let most = context.and_then(|context| context.route).map_or(0, |route| route.body_max_bytes);
        let bytes = read(body, most).await?;
        let media = media_type(&parts.headers)?;
        let body = P::read(media.as_deref(), &bytes)?;
        let idempotency = key.map(|key| {
            let mut hash = Sha256::new();
            let target = parts.uri.path_and_query().map_or("/", |part| part.as_str());
            for part in [parts.method.as_str().as_bytes(), target.as_bytes(), &bytes] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            let request = crate::domain::hex(&hash.finalize());
            Idempotency { key, request }
        });
        let if_match = parts.headers.get_all(IF_MATCH).iter().cloned().collect();
        Ok(Self { body, query, principal, idempotency, if_match })
    }
}

async fn read(body: Body, most: usize) -> Result<Bytes, ApiError> {
    let too_large = || {
        let detail = format!("the body has more than {most} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    };
    if body.size_hint().lower() > most as u64 {
        discard(body);
        return Err(too_large());
    }
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, most).collect()).await;
    match collected {
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request-timeout", detail).close())
        }
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large().close()),
        Ok(Err(_)) => Err(ApiError::malformed("the body ended early or is not framed as announced").close()),
    }
}

/// Reads on for a moment beside the answer: closing at once would reset the connection under a client that still
/// sends, and it would never see why.
fn discard(body: Body) {
    tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, async move {
        let mut body = body;
        while let Some(Ok(_)) = body.frame().await {}
    }));
}

/// The content type without parameters, in lower case. A charset other than UTF-8 is refused.
fn media_type(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(None) };
    let text = value.to_str().map_err(|_| unsupported("an unreadable type"))?;
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.eq_ignore_ascii_case("charset").then(|| value.trim_matches('"').to_ascii_lowercase())
    });
    match charset.as_deref() {
        None | Some("utf-8" | "utf8" | "us-ascii") => Ok(Some(media)),
        Some(_) => Err(unsupported(text)),
    }
}

/// 415.
pub fn unsupported(media: &str) -> ApiError {
    let detail = format!("a body of {media:?} is not read here; send application/json");
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail).field("Content-Type")
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let (Some(value), another) = (values.next(), values.next()) else { return Ok(None) };
    let key = value.as_bytes();
    let is_valid = (1..=KEY_MAX_BYTES).contains(&key.len()) && key.iter().all(|b| (b' '..=b'~').contains(b));
    match value.to_str() {
        Ok(text) if is_valid && another.is_none() => Ok(Some(text.to_owned())),
        _ => Err(ApiError::malformed("the key is not one value of 1 to 128 printable ASCII characters")
            .field("Idempotency-Key")),
    }
}

impl<T: DeserializeOwned> Payload for Json<T> {
    fn read(media: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        match media {
            Some("application/json") => json::read(bytes).map(Json),
            other => Err(unsupported(other.unwrap_or("no type"))),
        }
    }
}

impl<T: DeserializeOwned + Default> Payload for MaybeJson<T> {
    fn read(media: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.is_empty() { Ok(Self(T::default())) } else { Json::read(media, bytes).map(|Json(body)| Self(body)) }
    }
}

impl Payload for Nothing {
    fn read(_: Option<&str>, bytes: &[u8]) -> Result<Self, ApiError> {
        if bytes.is_empty() { Ok(Self) } else { Err(ApiError::malformed("this request takes no body")) }
    }
}

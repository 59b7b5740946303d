//! Reading paths and queries: an unknown, repeated or unreadable parameter of a query is 400, a path segment that
//! cannot be is 422.

use std::collections::BTreeSet;
use std::str::FromStr;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use super::Shared;
use super::error::ApiError;
use crate::controller::{ControlError, Controller, Freshness};
use crate::domain::{Version, is_plain_number};

/// The parameters of a path.
#[derive(Debug)]
pub struct At<T>(pub T);

/// A query without parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Everything committed before the request is seen.
    #[default]
    Linearizable,
    /// The same, as far as the clocks of the members run alike: the leader trusts its lease and asks nobody.
    Lease,
    /// What this member has: perhaps old, but without asking anybody.
    Local,
}

impl Consistency {
    /// Waits until this member is as fresh.
    pub async fn reach(self, controller: &Controller) -> Result<(), ControlError> {
        match self {
            Self::Linearizable => controller.catch_up(Freshness::ReadIndex).await,
            Self::Lease => controller.catch_up(Freshness::Lease).await,
            Self::Local => controller.ready(),
        }
    }
}

/// A read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadQuery {
    /// How fresh the answer must be; `linearizable` when absent.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

/// A read of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Most entries of the page; 100 when absent.
    #[serde(default, deserialize_with = "number")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// How fresh the answer must be; `linearizable` when absent.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

/// A query that says how fresh its answer must be.
pub trait Fresh {
    /// How fresh.
    fn consistency(&self) -> Consistency;
}

/// A read, once this member is as fresh as the query asks.
#[derive(Debug)]
pub struct Read<Q = ReadQuery>(pub Q);

impl<Q: DeserializeOwned + Fresh + Send> FromRequestParts<Shared> for Read<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let query: Q = parse(parts.uri.query())?;
        query.consistency().reach(&app.controller).await?;
        Ok(Self(query))
    }
}

/// A query that is read and no more.
#[derive(Debug)]
pub struct Query<Q = NoQuery>(pub Q);

impl<Q: DeserializeOwned> FromRequestParts<Shared> for Query<Q> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        parse(parts.uri.query()).map(Self)
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for At<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        match Path::<T>::from_request_parts(parts, app).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(failure)) => Err(match failure.into_kind() {
                ErrorKind::InvalidUtf8InPathParam { key } => {
                    ApiError::malformed("a path segment is not UTF-8").field(key)
                }
                ErrorKind::ParseErrorAtKey { key, value, expected_type } => {
                    ApiError::invalid(key, &format!("{value:?} is not a {expected_type}"))
                }
                ErrorKind::DeserializeError { key, value: _, message } => ApiError::invalid(key, &message),
                ErrorKind::Message(message) => misfit(parts, app, &message).await,
                other => ApiError::invalid("path", &other.to_string()),
            }),
            Err(_) => Err(ApiError::internal("a route without path parameters")),
        }
    }
}

/// The refusal of a segment whose value said no by itself: which one it is, its message tells by quoting it.
async fn misfit(parts: &mut Parts, app: &Shared, message: &str) -> ApiError {
    let why = message.split_once(": ").map_or(message, |(_, why)| why);
    let params = RawPathParams::from_request_parts(parts, app).await.ok();
    let at_fault = params.as_ref().and_then(|params| {
        params
            .iter()
            .find(|(_, value)| why.starts_with(&format!("{value:?} ")) || why.starts_with(&format!("{value} ")))
    });
    ApiError::invalid(at_fault.map_or("path", |(key, _)| key), why)
}

/// Reads a query.
pub fn parse<Q: DeserializeOwned>(query: Option<&str>) -> Result<Q, ApiError> {
    let query = query.unwrap_or_default();
    serde_urlencoded::from_str(query).map_err(|error| {
        let name = at_fault::<Q>(query).unwrap_or_else(|| "query".to_owned());
        ApiError::new(StatusCode::BAD_REQUEST, "malformed", format!("{name}: {error}")).field(name)
    })
}

/// The parameter that a query was refused for: one that is refused when it stands alone, or the first that is repeated.
fn at_fault<Q: DeserializeOwned>(query: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).ok()?;
    let alone = |pair: &&(String, String)| {
        serde_urlencoded::to_string([pair]).is_ok_and(|text| serde_urlencoded::from_str::<Q>(&text).is_err())
    };
    let mut names = BTreeSet::new();
    let name = pairs.iter().find(alone).or_else(|| pairs.iter().find(|(name, _)| !names.insert(name)));
    name.map(|(name, _)| name.chars().take(64).collect())
}

/// `G.E`.
pub fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// A number in the one way it is written: neither `05` nor `+5`.
pub fn number<'de, D: Deserializer<'de>, N: FromStr>(deserializer: D) -> Result<Option<N>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = is_plain_number(&text).then(|| text.parse().ok()).flatten();
    number.map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is not a number that can be here")))
}

impl Fresh for ReadQuery {
    fn consistency(&self) -> Consistency {
        self.consistency
    }
}

impl Fresh for ListQuery {
    fn consistency(&self) -> Consistency {
        self.consistency
    }
}

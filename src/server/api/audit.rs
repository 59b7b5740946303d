//! The audit.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::domain::is_plain_number;
use crate::server::error::ApiError;
use crate::server::query::{Consistency, Fresh, Read, number};
use crate::server::{Shared, page, views};
use crate::wire::{AuditView, Page};

/// A read of the audit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Show what comes after this number; from the oldest record that is kept when absent.
    #[serde(default, deserialize_with = "number")]
    pub after: Option<u64>,
    /// Most entries of the page; 100 when absent.
    #[serde(default, deserialize_with = "number")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u16>,
    /// `next` of the page before; instead of `after`.
    pub cursor: Option<String>,
    /// How fresh the answer must be; `linearizable` when absent.
    #[serde(default)]
    #[param(inline)]
    pub consistency: Consistency,
}

impl Fresh for AuditQuery {
    fn consistency(&self) -> Consistency {
        self.consistency
    }
}

/// List who did what, when and why.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "Records, the oldest first.", body = Page<AuditView>)))]
pub async fn list_audit(
    State(app): State<Shared>,
    Read(query): Read<AuditQuery>,
) -> Result<Json<Page<AuditView>>, ApiError> {
    let AuditQuery { after, limit, cursor, consistency } = query;
    let list = super::ListQuery { limit, cursor, consistency };
    let limit = page::limit(&list)?;
    let after = match (page::after(&list)?, after) {
        (Some(_), Some(_)) => return Err(ApiError::malformed("cursor excludes after").field("cursor")),
        (Some(key), None) => is_plain_number(&key)
            .then(|| key.parse().ok())
            .flatten()
            .ok_or_else(|| ApiError::malformed("cursor is not one of this list").field("cursor"))?,
        (None, after) => after.unwrap_or(0),
    };
    // One more than is shown tells whether there is a next page.
    let mut records = app.controller.audit(after, limit + 1).await?;
    let more = records.len() > limit;
    records.truncate(limit);
    let next = records.last().filter(|_| more).map(|record| page::cursor(&record.seq.to_string()));
    Ok(Json(Page { items: records.into_iter().map(views::audit).collect(), next }))
}

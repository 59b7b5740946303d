//! Tokens.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;

use super::clusters::RemovalQuery;
use super::{ListQuery, WriteHeaders};
use crate::controller::Op;
use crate::domain::{Rejection, TokenId};
use crate::server::error::ApiError;
use crate::server::input::{Input, Json as Body, Nothing};
use crate::server::page::page;
use crate::server::query::{At, Read};
use crate::server::{Shared, views};
use crate::wire::{Page, TokenAnswer, TokenCreate, TokenCreated, TokenView, schema};

/// A token in a path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub struct TokenPath {
    /// The token's id.
    #[param(value_type = schema::Name, inline)]
    pub token: TokenId,
}

/// List tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "access", params(ListQuery),
    responses((status = 200, description = "Tokens, ascending by id.", body = Page<TokenView>)))]
pub async fn list_tokens(
    State(app): State<Shared>,
    Read(query): Read<ListQuery>,
) -> Result<Json<Page<TokenView>>, ApiError> {
    page(&query, &app.controller.tokens(), |token| token.id.as_str(), views::token).map(Json)
}

/// Create a token. Its secret is in the answer and nowhere else.
#[utoipa::path(post, path = "/v1/tokens", tag = "access", params(WriteHeaders), request_body = TokenCreate,
    responses((status = 201, description = "Created; keep the secret.", body = TokenCreated)))]
pub async fn create_token(State(app): State<Shared>, input: Input<Body<TokenCreate>>) -> Result<Response, ApiError> {
    let Body(create) = &input.body;
    create.validate()?;
    let expires_at = create.expires_at.map(|time| time.0);
    if expires_at.is_some_and(|at| at <= app.controller.now()) {
        return Err(ApiError::invalid("expires_at", "has passed already"));
    }
    let caller = input.caller(create.reason.as_ref());
    let created = app.controller.create_token(&caller, create.name.clone(), create.role, expires_at).await;
    let (receipt, secret) = created?;
    let id = receipt.token.ok_or_else(|| ApiError::internal("a token was created without an id"))?;
    let token = app.controller.token(&id).ok_or_else(|| Rejection::not_found("token", &id))?;
    Ok((StatusCode::CREATED, Json(TokenCreated { token: views::token(&token), secret })).into_response())
}

/// Revoke a token. The last one of an admin that does not expire stays (409 `last-admin-token`), unless no tokens are
/// asked for here.
#[utoipa::path(delete, path = "/v1/tokens/{token}", tag = "access", params(TokenPath, RemovalQuery, WriteHeaders),
    responses((status = 200, description = "It works no more.", body = TokenAnswer)))]
pub async fn revoke_token(
    State(app): State<Shared>,
    At(path): At<TokenPath>,
    input: Input<Nothing, RemovalQuery>,
) -> Result<Json<TokenAnswer>, ApiError> {
    let caller = input.caller(input.query.reason.as_ref());
    let may_be_last = app.config.insecure_dev;
    app.controller.submit(&caller, Op::RevokeToken { id: path.token.clone(), may_be_last }).await?;
    Ok(Json(TokenAnswer { revoked: path.token }))
}

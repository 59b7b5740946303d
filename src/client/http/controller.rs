//! What can be asked of a controller as a whole: clusters, tokens, audit, members.

use serde::de::DeserializeOwned;

use super::{Client, Request};
use crate::client::ClientError;
use crate::domain::TokenId;
use crate::wire::{
    AuditView, ClusterAnswer, ClusterCreate, ClusterView, MemberView, Page, StatusView, TokenAnswer, TokenCreate,
    TokenCreated, TokenView, WhoAmI,
};

/// Entries of one page of a list.
const PAGE: &str = "1000";

impl Client {
    /// Who the token is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn whoami(&self) -> Result<WhoAmI, ClientError> {
        self.call(Request::get("/v1/whoami")).await
    }

    /// The member that answers, and what it knows of its group.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self) -> Result<StatusView, ClientError> {
        self.call(Request::get("/v1/status")).await
    }

    /// The members of the group.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn members(&self) -> Result<Vec<MemberView>, ClientError> {
        self.list(Request::get("/v1/members")).await
    }

    /// Every cluster, ascending by name.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn clusters(&self) -> Result<Vec<ClusterView>, ClientError> {
        self.list(Request::get("/v1/clusters")).await
    }

    /// Creates a cluster.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_cluster(&self, body: &ClusterCreate) -> Result<ClusterAnswer, ClientError> {
        self.call(Request::post("/v1/clusters", body)).await
    }

    /// Every token, without its secret.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn tokens(&self) -> Result<Vec<TokenView>, ClientError> {
        self.list(Request::get("/v1/tokens")).await
    }

    /// Creates a token; its secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn create_token(&self, body: &TokenCreate) -> Result<TokenCreated, ClientError> {
        self.call(Request::post("/v1/tokens", body)).await
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn revoke_token(&self, id: &TokenId) -> Result<TokenAnswer, ClientError> {
        self.call(Request::delete(format!("/v1/tokens/{id}"))).await
    }

    /// One page of the audit, ascending; `cursor` is `next` of the page before.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit(&self, cursor: Option<&str>, limit: u16) -> Result<Page<AuditView>, ClientError> {
        let request = Request::get("/v1/audit").query("limit", limit.to_string());
        self.call(with_cursor(request, cursor)).await
    }

    /// All pages of a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, request: Request) -> Result<Vec<T>, ClientError> {
        let request = request.query("limit", PAGE);
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let page: Page<T> = self.call(with_cursor(request.clone(), cursor.as_deref())).await?;
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }
}

fn with_cursor(request: Request, cursor: Option<&str>) -> Request {
    match cursor {
        Some(cursor) => request.query("cursor", cursor),
        None => request,
    }
}

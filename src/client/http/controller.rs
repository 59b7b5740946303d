//! What can be asked of a controller as a whole: clusters, tokens, audit, members.

use serde::de::DeserializeOwned;

use super::{Client, Request};
use crate::client::ClientError;
use crate::domain::{MemberId, TokenId};
use crate::wire::{
    AuditView, ClusterAnswer, ClusterCreate, ClusterView, JoinAnswer, MemberAdd, MemberAdded, MemberView, Page,
    ReasonRequest, StatusView, Text, TokenAnswer, TokenCreate, TokenCreated, TokenView, WhoAmI,
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
        let page: Page<MemberView> = self.call(Request::get("/v1/members")).await?;
        Ok(page.items)
    }

    /// Makes a number and a join token for a new member.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn add_member(&self, body: &MemberAdd) -> Result<MemberAdded, ClientError> {
        self.call(Request::post("/v1/members", body)).await
    }

    /// Joins the group as the member that this client's token was made for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn join(&self) -> Result<JoinAnswer, ClientError> {
        self.call(Request::post("/v1/join", &serde_json::json!({}))).await
    }

    /// Gives a learner a vote; the members afterwards.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn promote_member(&self, id: MemberId, reason: Option<Text>) -> Result<Vec<MemberView>, ClientError> {
        let request = Request::post(format!("/v1/members/{id}/promote"), &ReasonRequest { reason });
        Ok(self.call::<Page<MemberView>>(request).await?.items)
    }

    /// Takes a member out; the members afterwards. By force it may only be begun: then the member is still among them.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn remove_member(
        &self,
        id: MemberId,
        force: bool,
        reason: Option<Text>,
    ) -> Result<Vec<MemberView>, ClientError> {
        let mut request = Request::delete(format!("/v1/members/{id}"));
        if force {
            request = request.query("force", "true");
        }
        if let Some(reason) = reason {
            request = request.query("reason", reason.as_str());
        }
        Ok(self.call::<Page<MemberView>>(request).await?.items)
    }

    /// Hands the lead to a voter; the members afterwards.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn transfer_leadership(
        &self,
        to: MemberId,
        reason: Option<Text>,
    ) -> Result<Vec<MemberView>, ClientError> {
        let request = Request::post(format!("/v1/members/{to}/transfer-leadership"), &ReasonRequest { reason });
        Ok(self.call::<Page<MemberView>>(request).await?.items)
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

    /// One page of the audit: records with a number above `after`, ascending; `next` is absent on the last page.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn audit(&self, after: u64, limit: u16) -> Result<Page<AuditView>, ClientError> {
        let request = Request::get("/v1/audit").query("after", after.to_string());
        self.call(request.query("limit", limit.to_string())).await
    }

    /// All pages of a list.
    pub(super) async fn list<T: DeserializeOwned>(&self, request: Request) -> Result<Vec<T>, ClientError> {
        let request = request.query("limit", PAGE);
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let request = request.clone();
            let page: Page<T> = match &cursor {
                Some(cursor) => self.call(request.query("cursor", cursor)).await?,
                None => self.call(request).await?,
            };
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(items);
            }
        }
    }
}

//! Tokens and who am I.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Fault, Text, Timestamp, schema};
use crate::domain::{PrincipalName, Role, TokenId};

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: TokenId,
    /// Whose it is.
    #[schema(value_type = schema::Name)]
    pub name: PrincipalName,
    /// What it may do.
    #[schema(schema_with = schema::role)]
    pub role: Role,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops working; `null`: never.
    pub expires_at: Option<Timestamp>,
}

/// Create a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// Whose it is.
    #[schema(value_type = schema::Name)]
    pub name: PrincipalName,
    /// What it may do; not `system`.
    #[schema(schema_with = schema::role)]
    pub role: Role,
    /// When it stops working; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why; kept in the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A new token with its secret, shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    /// The token.
    pub token: TokenView,
    /// `sk_<id>_<secret>`: what goes after `Authorization: Bearer`.
    pub secret: String,
}

/// A token after a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenAnswer {
    /// The token revoked.
    #[schema(value_type = schema::Name)]
    pub revoked: TokenId,
}

/// Who the request's token is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// The name of the token.
    #[schema(value_type = schema::Name)]
    pub name: PrincipalName,
    /// Its role.
    #[schema(schema_with = schema::role)]
    pub role: Role,
    /// Its id; `null` where no token is needed.
    #[schema(value_type = Option<schema::Name>)]
    pub token: Option<TokenId>,
    /// What it may do.
    pub permissions: Vec<String>,
}

impl TokenCreate {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`Fault`] when the role is none of tokens.
    pub fn validate(&self) -> Result<(), Fault> {
        if Role::OF_TOKENS.contains(&self.role) {
            Ok(())
        } else {
            Err(Fault::new("role", format!("no token has the role {}", self.role)))
        }
    }
}

/// The secret is not shown.
impl std::fmt::Debug for TokenCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCreated").field("token", &self.token).finish_non_exhaustive()
    }
}

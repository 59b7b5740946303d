//! Who acts, and what they may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Invalid, PrincipalName, TokenId};

/// A role of a token. What each may do is [`Role::may`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A client library: reads topology only.
    Client,
    /// An outside mover of the manual driver: reads, and acknowledges moves.
    Mover,
    /// Reads everything but tokens.
    Viewer,
    /// Proposes, withdraws, starts, pauses, resumes, aborts, rolls back.
    Operator,
    /// Approves and rejects.
    Approver,
    /// Everything, and alone: policy, tokens, members, force.
    Admin,
    /// The controller itself: executor and expiry. No token has it.
    System,
    /// A process that is to become a member of the raft group. Its token comes with `member add` and in no other way.
    Joiner,
}

/// What a request needs. Every route names exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Topology, slots and key slots.
    ReadTopology,
    /// Clusters, nodes, shards, plans, rollouts, audit.
    Read,
    /// Begin, finish and fail actions of the manual driver.
    Move,
    /// Change the desired state, propose, withdraw, and steer rollouts.
    Operate,
    /// Approve and reject plans.
    Review,
    /// Clusters, policy, tokens, members.
    Administer,
    /// Join the raft group as the member that the token was made for.
    Join,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 7] =
        [Self::ReadTopology, Self::Read, Self::Move, Self::Operate, Self::Review, Self::Administer, Self::Join];
}

impl Role {
    /// The roles a token can have.
    pub const OF_TOKENS: [Self; 6] =
        [Self::Client, Self::Mover, Self::Viewer, Self::Operator, Self::Approver, Self::Admin];

    /// Whether the role grants the permission: the one table of rights.
    #[must_use]
    pub const fn may(self, permission: Permission) -> bool {
        use Permission as P;
        match self {
            Self::Client => matches!(permission, P::ReadTopology),
            Self::Viewer => matches!(permission, P::ReadTopology | P::Read),
            Self::Mover => matches!(permission, P::ReadTopology | P::Read | P::Move),
            Self::Operator => matches!(permission, P::ReadTopology | P::Read | P::Operate),
            Self::Approver => matches!(permission, P::ReadTopology | P::Read | P::Review),
            Self::Admin | Self::System => true,
            Self::Joiner => matches!(permission, P::Join),
        }
    }

    /// The name as it is written in tokens and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Mover => "mover",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
            Self::System => "system",
            Self::Joiner => "joiner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::OF_TOKENS.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Invalid::new("role", format!("{text:?} is not client, mover, viewer, operator, approver or admin"))
        })
    }
}

/// Who submitted a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The name of the token, or of a part of the controller.
    pub name: PrincipalName,
    /// The role it acted in.
    pub role: Role,
    /// The token used, if any.
    pub token: Option<TokenId>,
}

impl Principal {
    /// A part of the controller, such as `executor`.
    ///
    /// # Panics
    /// When the name is not a valid name: a defect in the caller.
    #[must_use]
    pub fn system(name: &str) -> Self {
        Self { name: PrincipalName::new(name).expect("names of parts are valid"), role: Role::System, token: None }
    }
}

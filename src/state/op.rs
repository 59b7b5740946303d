//! What an operation is called, and what its principal must be allowed to do.

use super::{Change, MemberChange, Noted, Op, SteerVerb};
use crate::domain::Permission;

impl Op {
    /// The name of the operation in the audit and in refusals, such as `plan.approve`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateCluster { .. } => "cluster.create",
            Self::ConfigureCluster { .. } => "cluster.configure",
            Self::DeleteCluster { .. } => "cluster.delete",
            Self::Change { changes, plan, .. } => match changes.as_slice() {
                [] if plan.is_some() => "plan.propose",
                [change] => change.name(),
                _ => "cluster.change",
            },
            Self::Approve { .. } => "plan.approve",
            Self::Reject { .. } => "plan.reject",
            Self::Withdraw { .. } => "plan.withdraw",
            Self::Start { .. } => "rollout.start",
            Self::Steer { verb, .. } => match verb {
                SteerVerb::Pause => "rollout.pause",
                SteerVerb::Resume => "rollout.resume",
                SteerVerb::Abort => "rollout.abort",
                SteerVerb::RollBack => "rollout.roll_back",
            },
            Self::Throttle { .. } => "rollout.throttle",
            Self::Begin { .. } => "action.begin",
            Self::Finish { .. } => "action.finish",
            Self::Fail { .. } => "action.fail",
            Self::Block { .. } => "rollout.block",
            Self::Tell { .. } => "rollout.tell",
            Self::Complete { .. } => "rollout.complete",
            Self::Observe { .. } => "cluster.observe",
            Self::Expire => "expire",
            Self::Member { change } => match change {
                MemberChange::Add { .. } => "member.add",
                MemberChange::Promote { .. } => "member.promote",
                MemberChange::Remove { .. } => "member.remove",
            },
            Self::Note { what } => match what {
                Noted::Transfer { .. } => "member.transfer",
                Noted::Backup => "snapshot.save",
            },
            Self::Lead { .. } => "lead",
            Self::InTerm { what, .. } => what.name(),
            Self::CreateToken { .. } => "token.create",
            Self::RevokeToken { .. } => "token.revoke",
        }
    }

    /// What its principal must be allowed to do; none when it is for the controller itself alone.
    #[must_use]
    pub fn permission(&self) -> Option<Permission> {
        match self {
            Self::CreateCluster { .. }
            | Self::ConfigureCluster { .. }
            | Self::DeleteCluster { .. }
            | Self::Member { .. }
            | Self::Note { .. }
            | Self::CreateToken { .. }
            | Self::RevokeToken { .. } => Some(Permission::Administer),
            Self::Change { changes, .. } if changes.iter().any(|c| matches!(c, Change::Import { .. })) => {
                Some(Permission::Administer)
            }
            Self::Change { .. }
            | Self::Withdraw { .. }
            | Self::Start { .. }
            | Self::Steer { .. }
            | Self::Throttle { .. } => Some(Permission::Operate),
            Self::Approve { .. } | Self::Reject { .. } => Some(Permission::Review),
            Self::Begin { .. } | Self::Finish { .. } | Self::Fail { .. } => Some(Permission::Move),
            Self::InTerm { what, .. } => what.permission(),
            Self::Block { .. }
            | Self::Tell { .. }
            | Self::Complete { .. }
            | Self::Observe { .. }
            | Self::Expire
            | Self::Lead { .. } => None,
        }
    }
}

impl Change {
    /// The name of the change in the audit, such as `node.add`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Import { .. } => "cluster.import",
            Self::AddNode { .. } => "node.add",
            Self::SetNode { .. } => "node.set",
            Self::DrainNode { .. } => "node.drain",
            Self::UndrainNode { .. } => "node.undrain",
            Self::RemoveNode { .. } => "node.remove",
            Self::SetShard { .. } => "shard.set",
            Self::DrainShard { .. } => "shard.drain",
            Self::UndrainShard { .. } => "shard.undrain",
        }
    }
}

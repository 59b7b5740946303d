//! Proposing and comparing plans. The plan itself as JSON is in `plan`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::plan::{GoalView, MoveView, PlacementGoalView, PlanView};
use super::{Fault, LimitsPatch, NodeSpec, Revision, StatisticsView, Text, Timestamp, schema};
use crate::domain::{Digest, NodeId, Objective, PlanId, PlanState, PrincipalName, RolloutState, ShardId, Weight};

/// Propose a plan, changing what is desired of the cluster in the same step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Nodes to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4096)]
    pub add: Vec<NodeSpec>,
    /// Nodes to drain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Name>, max_items = 4096)]
    pub drain: Vec<NodeId>,
    /// Whole shards to drain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Name>, max_items = 4096)]
    pub drain_shards: Vec<ShardId>,
    /// New weights by shard.
    #[serde(default, deserialize_with = "super::patch::distinct_keys", skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, schema::WeightNumber>)]
    pub reweight: BTreeMap<ShardId, Weight>,
    /// What to reach; `balance` without tolerance when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<GoalView>,
    /// Which slots move once it is settled how many: for few ranges (when absent) or few bytes, which needs `statistics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::objective, required = false)]
    pub objective: Option<Objective>,
    /// What is known of each slot; used for this plan and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<StatisticsView>,
    /// Give every active shard so many replicas, spread over zones or hosts; absent: nodes stay in their shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementGoalView>,
    /// Limits that differ from the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsPatch>,
    /// Undo this finished plan instead; excludes everything but `reason` and `limits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub revert: Option<PlanId>,
    /// Bring the slots that the nodes have otherwise than the table to their owners by the table, and move nothing else;
    /// excludes everything but `reason` and `limits`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub repair: bool,
    /// Why; kept in the plan and the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
}

/// A plan, briefly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanRef {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: PlanId,
    /// What an approval names.
    #[schema(value_type = schema::DigestText)]
    pub digest: Digest,
    /// Where it is.
    #[schema(example = "/v1/clusters/default/plans/p-7q2m")]
    pub href: String,
    /// Slots that change their owner.
    pub slots: u32,
}

/// A plan after a write; with `dry_run`, as it would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanAnswer {
    /// Generation afterwards.
    pub generation: u64,
    /// Epoch afterwards.
    pub epoch: u64,
    /// The plan; `null` when nothing is to move.
    pub plan: Option<PlanView>,
    /// Why there is no plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_because: Option<String>,
}

/// A plan in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanItem {
    /// Its id.
    #[schema(value_type = schema::Name)]
    pub id: PlanId,
    /// Where it is in its life.
    #[schema(schema_with = schema::plan_state)]
    pub state: PlanState,
    /// What an approval names.
    #[schema(value_type = schema::DigestText)]
    pub digest: Digest,
    /// What it is to reach.
    pub goal: GoalView,
    /// The operator's words; may be empty.
    pub reason: String,
    /// Slots that change their owner.
    pub slots: u32,
    /// Whether no plan moves fewer.
    pub minimal: bool,
    /// Epoch it was computed from.
    pub base_epoch: u64,
    /// Approvals so far.
    pub approvals: u32,
    /// Approvals needed.
    pub approvals_required: u8,
    /// Who proposed it.
    #[schema(value_type = schema::Name)]
    pub author: PrincipalName,
    /// When.
    pub created_at: Timestamp,
    /// Until when it may be approved and started.
    pub expires_at: Timestamp,
    /// State of its rollout, once started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::rollout_state)]
    pub rollout_state: Option<RolloutState>,
    /// Revision of the plan's record.
    pub revision: Revision,
}

/// Slots of one shard when either plan is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardCount {
    /// The shard.
    #[schema(value_type = schema::Name)]
    pub shard: ShardId,
    /// Slots after the first plan; none when the plan has no such shard.
    pub first: Option<u32>,
    /// Slots after the second plan; none when the plan has no such shard.
    pub second: Option<u32>,
}

/// Two plans compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanDiff {
    /// The first plan.
    #[schema(value_type = schema::Name)]
    pub first: PlanId,
    /// The second plan.
    #[schema(value_type = schema::Name)]
    pub second: PlanId,
    /// Moves of the first that the second has not.
    pub only_in_first: Vec<MoveView>,
    /// Moves of the second that the first has not.
    pub only_in_second: Vec<MoveView>,
    /// Shards that end with another number of slots.
    pub shards: Vec<ShardCount>,
}

impl PlanRequest {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`Fault`] naming the field: something listed twice, or beside `revert`.
    pub fn validate(&self) -> Result<(), Fault> {
        let twice = |field: &str, mut ids: Vec<&str>| {
            ids.sort_unstable();
            match ids.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(Fault::new(field, format!("{:?} is listed twice", pair[0]))),
                None => Ok(()),
            }
        };
        twice("drain", self.drain.iter().map(NodeId::as_str).collect())?;
        twice("drain_shards", self.drain_shards.iter().map(ShardId::as_str).collect())?;
        twice("add", self.add.iter().filter_map(|node| node.name.as_ref()).map(NodeId::as_str).collect())?;
        let changes = !(self.add.is_empty()
            && self.drain.is_empty()
            && self.drain_shards.is_empty()
            && self.reweight.is_empty()
            && self.goal.is_none()
            && self.objective.is_none()
            && self.statistics.is_none()
            && self.placement.is_none());
        if self.revert.is_some() && changes {
            return Err(Fault::new(
                "revert",
                "excludes add, drain, drain_shards, reweight, goal, objective, statistics and placement",
            ));
        }
        if self.repair && (changes || self.revert.is_some()) {
            return Err(Fault::new(
                "repair",
                "excludes add, drain, drain_shards, reweight, goal, objective, statistics, placement and revert",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_refuses_parameters_of_another_and_duplicates() {
        let read = |goal: &str| serde_json::from_str::<PlanRequest>(&format!(r#"{{"goal":{goal}}}"#));
        assert!(read(r#"{"kind":"budget","max_moves":3}"#).is_ok());
        assert!(read(r#"{"kind":"budget"}"#).unwrap_err().to_string().contains("missing field `max_moves`"));
        assert!(read(r#"{"kind":"drain_only","max_moves":3}"#).unwrap_err().to_string().contains("unknown field"));
        let twice = read(r#"{"kind":"budget","max_moves":3,"max_moves":3}"#).unwrap_err();
        assert!(twice.to_string().contains("duplicate field `max_moves`"), "{twice}");
        let twice = read(r#"{"kind":"drain_only","kind":"drain_only"}"#).unwrap_err();
        assert!(twice.to_string().contains("duplicate field `kind`"), "{twice}");
    }

    #[test]
    fn nothing_is_listed_twice() {
        let read = |json: &str| serde_json::from_str::<PlanRequest>(json);
        assert_eq!("drain", read(r#"{"drain":["a","b","a"]}"#).unwrap().validate().unwrap_err().field);
        assert_eq!("revert", read(r#"{"revert":"p-1","drain":["a"]}"#).unwrap().validate().unwrap_err().field);
        assert!(read(r#"{"reweight":{"a":1,"a":2}}"#).unwrap_err().to_string().contains("duplicate field `a`"));
        assert!(read(r#"{"reweight":{"a":-1}}"#).is_err());
    }
}

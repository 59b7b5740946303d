//! The placement of copies as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{Host, Invalid, NodeId, PlacedHost, PlacedShard, Placement, PlacementGoal, ShardId, Spread, Zone};

/// What the copies of a shard must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpreadView {
    /// A zone, as far as there are enough of them, and never a host.
    Zone,
    /// A host.
    Host,
}

/// The copies that every active shard is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementGoalView {
    /// Copies beside the primary.
    #[schema(minimum = 1, maximum = 64)]
    pub replicas: u16,
    /// Where they must not meet.
    pub spread: SpreadView,
}

/// Where every copy is when the plan is done, and the fewest changes that lead there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacementView {
    /// What was asked.
    pub goal: PlacementGoalView,
    /// Nodes that get another shard.
    pub changes: u32,
    /// No placement of the goal changes fewer.
    pub lower_bound: u32,
    /// Shards that get another primary.
    pub failovers: u32,
    /// No choice of primaries that is spread as evenly needs fewer.
    pub failovers_lower_bound: u32,
    /// Most copies of one shard in one zone.
    pub per_zone: u32,
    /// Nodes of active shards that count for nothing, since they are draining or lost; ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub left_out: Vec<NodeId>,
    /// Every active shard, ascending by id.
    pub shards: Vec<PlacedShardView>,
    /// Every host with copies, ascending by zone and name.
    pub hosts: Vec<PlacedHostView>,
}

/// The copies of one shard that count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedShardView {
    /// The shard.
    #[schema(value_type = String)]
    pub shard: ShardId,
    /// Its primary afterwards.
    #[schema(value_type = String)]
    pub primary: NodeId,
    /// The other copies, ascending.
    #[schema(value_type = Vec<String>)]
    pub replicas: Vec<NodeId>,
}

/// The copies on one host: the nodes of one address in one zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedHostView {
    /// Its zone.
    #[schema(value_type = Option<String>)]
    pub zone: Option<Zone>,
    /// Its address.
    #[schema(value_type = String)]
    pub host: Host,
    /// Copies afterwards.
    pub copies: u32,
    /// Primaries afterwards.
    pub primaries: u32,
    /// Fewest primaries of an even spread.
    pub lo: u32,
    /// Most primaries of an even spread.
    pub hi: u32,
}

impl PlacementGoalView {
    /// Most replicas that can be asked for.
    pub const REPLICAS_MAX: u16 = 64;
}

impl From<PlacementGoal> for PlacementGoalView {
    fn from(goal: PlacementGoal) -> Self {
        let spread = match goal.spread {
            Spread::Zone => SpreadView::Zone,
            Spread::Host => SpreadView::Host,
        };
        Self { replicas: goal.replicas, spread }
    }
}

impl TryFrom<PlacementGoalView> for PlacementGoal {
    type Error = Invalid;
    fn try_from(goal: PlacementGoalView) -> Result<Self, Invalid> {
        if !(1..=PlacementGoalView::REPLICAS_MAX).contains(&goal.replicas) {
            return Err(Invalid::new("replicas", format!("{} is not in 1..=64", goal.replicas)));
        }
        let spread = match goal.spread {
            SpreadView::Zone => Spread::Zone,
            SpreadView::Host => Spread::Host,
        };
        Ok(Self { replicas: goal.replicas, spread })
    }
}

impl From<&Placement> for PlacementView {
    fn from(placement: &Placement) -> Self {
        let shard = |placed: &PlacedShard| PlacedShardView {
            shard: placed.shard.clone(),
            primary: placed.primary.clone(),
            replicas: placed.replicas.clone(),
        };
        let host = |host: &PlacedHost| PlacedHostView {
            zone: host.zone.clone(),
            host: host.host.clone(),
            copies: host.copies,
            primaries: host.primaries,
            lo: host.lo,
            hi: host.hi,
        };
        Self {
            goal: placement.goal.into(),
            changes: placement.changes,
            lower_bound: placement.lower_bound,
            failovers: placement.failovers,
            failovers_lower_bound: placement.failovers_lower_bound,
            per_zone: placement.per_zone,
            left_out: placement.left_out.clone(),
            shards: placement.shards.iter().map(shard).collect(),
            hosts: placement.hosts.iter().map(host).collect(),
        }
    }
}

impl TryFrom<PlacementView> for Placement {
    type Error = Invalid;
    fn try_from(view: PlacementView) -> Result<Self, Invalid> {
        let shard = |placed: PlacedShardView| PlacedShard {
            shard: placed.shard,
            primary: placed.primary,
            replicas: placed.replicas,
        };
        let host = |host: PlacedHostView| PlacedHost {
            zone: host.zone,
            host: host.host,
            copies: host.copies,
            primaries: host.primaries,
            lo: host.lo,
            hi: host.hi,
        };
        Ok(Self {
            goal: view.goal.try_into()?,
            changes: view.changes,
            lower_bound: view.lower_bound,
            failovers: view.failovers,
            failovers_lower_bound: view.failovers_lower_bound,
            per_zone: view.per_zone,
            left_out: view.left_out,
            shards: view.shards.into_iter().map(shard).collect(),
            hosts: view.hosts.into_iter().map(host).collect(),
        })
    }
}

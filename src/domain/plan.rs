//! A plan: an immutable proposal of actions that a person can check, approve and undo.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ActionId, ClusterId, Figures, Fingerprint, Instant, Intent, Limits, NodeId, Placement, PlanId, Principal, Shard,
    ShardId, ShardState, Slot, SlotRange, SlotSet, Version, Weight,
};

/// What the plan was computed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// Its version then.
    pub version: Version,
    /// Owners of the moved slots, shard set, weights, drain flags: what must not change until the start.
    pub fingerprint: Fingerprint,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its number within the plan, from 1.
    pub id: ActionId,
    /// What it does.
    #[serde(flatten)]
    pub kind: ActionKind,
}

/// The kinds of steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ActionKind {
    /// Move slots with their data.
    MoveSlots {
        /// Owner before.
        from: ShardId,
        /// Owner after.
        to: ShardId,
        /// The slots: ascending and disjoint.
        ranges: Vec<SlotRange>,
    },
    /// Give slots an owner without reading a source: unassigned ones, or those of a lost shard.
    AssignSlots {
        /// The lost shard that owned them; none when they were unassigned.
        from: Option<ShardId>,
        /// Owner after.
        to: ShardId,
        /// The slots: ascending and disjoint.
        ranges: Vec<SlotRange>,
    },
    /// Make a replica the primary of its shard.
    Promote {
        /// The shard.
        shard: ShardId,
        /// The primary before.
        from: NodeId,
        /// The primary after.
        to: NodeId,
    },
    /// Make a node a replica of a shard.
    SetReplicaOf {
        /// The node.
        node: NodeId,
        /// Its shard after.
        shard: ShardId,
    },
    /// Close an open slot so that this shard owns it.
    RepairSlot {
        /// The slot.
        slot: Slot,
        /// The owner after.
        owner: ShardId,
    },
}

impl ActionKind {
    /// The slots whose owner changes; ascending and disjoint.
    #[must_use]
    pub fn ranges(&self) -> &[SlotRange] {
        match self {
            Self::MoveSlots { ranges, .. } | Self::AssignSlots { ranges, .. } => ranges,
            Self::Promote { .. } | Self::SetReplicaOf { .. } | Self::RepairSlot { .. } => &[],
        }
    }

    /// Number of slots whose owner changes.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.ranges().iter().map(|range| range.count()).sum()
    }

    /// Number of slots it is about: those whose owner changes, and one that is repaired.
    #[must_use]
    pub fn touched(&self) -> usize {
        self.slots() + usize::from(matches!(self, Self::RepairSlot { .. }))
    }

    /// The shard the slots leave, if any.
    #[must_use]
    pub const fn source(&self) -> Option<&ShardId> {
        match self {
            Self::MoveSlots { from, .. } => Some(from),
            Self::AssignSlots { from, .. } => from.as_ref(),
            Self::Promote { .. } | Self::SetReplicaOf { .. } | Self::RepairSlot { .. } => None,
        }
    }

    /// The shard the slots enter, if any.
    #[must_use]
    pub const fn target(&self) -> Option<&ShardId> {
        match self {
            Self::MoveSlots { to, .. } | Self::AssignSlots { to, .. } => Some(to),
            Self::Promote { .. } | Self::SetReplicaOf { .. } | Self::RepairSlot { .. } => None,
        }
    }
}

/// A shard's bounds on its slot count: `lo..=hi`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The shard.
    pub shard: ShardId,
    /// Fewest slots.
    pub lo: u32,
    /// Most slots.
    pub hi: u32,
}

/// Why no plan moves fewer slots: `max(A, B − unassigned, 0)` is a lower bound, whoever computes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// `A`: slots above their shard's upper bound, Σ max(0, count − hi).
    pub surplus: u32,
    /// `B`: slots missing below their shard's lower bound, Σ max(0, lo − count).
    pub deficit: u32,
    /// Slots without an owner.
    pub unassigned: u32,
    /// The bands, ascending by shard id; one of each shard.
    pub bands: Vec<Band>,
}

/// An exact share of the slots: a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Numerator.
    pub numerator: u64,
    /// Denominator, at least 1.
    pub denominator: u64,
}

/// `16384/5`, or `4096` when whole.
impl std::fmt::Display for Quota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.denominator == 1 {
            write!(f, "{}", self.numerator)
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

/// One shard before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardChange {
    /// The shard.
    pub id: ShardId,
    /// Its weight.
    pub weight: Weight,
    /// Desired state.
    pub state: ShardState,
    /// Its exact share.
    pub quota: Quota,
    /// Slots now.
    pub before: u32,
    /// Slots when every action is done.
    pub after: u32,
    /// What else bound its share.
    pub bounds: ShardBounds,
}

/// Bounds of a shard's share that the planner kept to, so that a plan can be checked by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardBounds {
    /// [`Shard::min_slots`].
    pub min_slots: Option<u16>,
    /// [`Shard::max_slots`].
    pub max_slots: Option<u16>,
    /// [`Shard::pinned`], as maximal ranges.
    pub pinned: Vec<SlotRange>,
}

impl From<&Shard> for ShardBounds {
    fn from(shard: &Shard) -> Self {
        Self { min_slots: shard.min_slots, max_slots: shard.max_slots, pinned: shard.pinned.ranges() }
    }
}

/// The figures a reviewer looks at first. Estimates are not part of the digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Slots that change their owner.
    pub slots: u32,
    /// Unassigned slots that get one.
    pub assigned: u32,
    /// Contiguous ranges now.
    pub ranges_before: u32,
    /// Contiguous ranges afterwards.
    pub ranges_after: u32,
    /// No plan for this goal moves fewer slots.
    pub lower_bound: u32,
    /// Number of waves.
    pub waves: u32,
    /// No order of these actions within the limits needs fewer.
    pub waves_lower_bound: u32,
    /// Keys in the moved slots, where statistics are known.
    pub keys_est: Option<u64>,
    /// Bytes in the moved slots, where statistics are known.
    pub bytes_est: Option<u64>,
    /// Shortest and longest expected duration in seconds, where it can be told.
    pub eta_seconds: Option<(u64, u64)>,
    /// Slots by which the worst shard is away from its quota now (negative: too few), rounded toward zero.
    pub worst_before: i64,
    /// The same afterwards.
    pub worst_after: i64,
}

/// What the planner computes: everything but who, when and under which policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanBody {
    /// Figures.
    pub summary: Summary,
    /// Proof of the lower bound.
    pub certificate: Certificate,
    /// Every shard, ascending by id.
    pub shards: Vec<ShardChange>,
    /// The steps, in the order of their ids from `a-1`.
    pub actions: Vec<Action>,
    /// Ids of actions that may run together, in order; each action once.
    pub waves: Vec<Vec<ActionId>>,
    /// What it tells beside its actions.
    #[serde(default, skip_serializing_if = "Figures::is_empty")]
    pub figures: Figures,
    /// Why there is nothing to do, when there are no actions.
    pub empty_because: Option<String>,
    /// Where every copy is then, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// How serious a check's finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    /// Nothing found.
    Ok,
    /// Worth reading.
    Warn,
    /// The plan cannot start.
    Fail,
}

/// A check that came with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// `C1`…, `W1`…, `F1`…: unique within the plan; a warning is acknowledged by it or by its name.
    pub code: String,
    /// Stable name, such as `data-loss`.
    pub name: String,
    /// How serious.
    pub level: CheckLevel,
    /// One sentence that names what it is about.
    pub text: String,
    /// Whether an approval must acknowledge it.
    pub needs_ack: bool,
}

/// A plan, complete. Its life (state, approvals, rollout) is kept beside it, never in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// The plan this one replaces.
    pub supersedes: Option<PlanId>,
    /// The plan this one undoes.
    pub reverts: Option<PlanId>,
    /// Why.
    pub intent: Intent,
    /// From what.
    pub base: Base,
    /// What.
    pub body: PlanBody,
    /// What was looked at.
    pub checks: Vec<Check>,
    /// How fast.
    pub limits: Limits,
    /// Approvals needed, `0..=2`.
    pub approvals_required: u8,
    /// Whether the author's approval counts.
    pub author_may_approve: bool,
    /// Who proposed it.
    pub author: Principal,
    /// When.
    pub created_at: Instant,
    /// Until when it may be approved and started.
    pub expires_at: Instant,
}

/// All moves between one pair of shards: the reviewer's view of the actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairMove {
    /// Owner before; none for slots that had none.
    pub from: Option<ShardId>,
    /// Owner after.
    pub to: ShardId,
    /// The slots, as maximal ranges.
    pub slots: SlotSet,
}

impl PlanBody {
    /// The action with this id.
    #[must_use]
    pub fn action(&self, id: ActionId) -> Option<&Action> {
        self.actions.get(usize::try_from(id.0).ok()?.checked_sub(1)?).filter(|action| action.id == id)
    }

    /// The slots whose owner changes.
    #[must_use]
    pub fn moved_slots(&self) -> SlotSet {
        let mut moved = SlotSet::new();
        for range in self.actions.iter().flat_map(|action| action.kind.ranges()) {
            moved.insert_range(*range);
        }
        moved
    }

    /// One entry per source and target: most slots first, then by source and target.
    #[must_use]
    pub fn moves(&self) -> Vec<PairMove> {
        let mut pairs: BTreeMap<(Option<&ShardId>, &ShardId), SlotSet> = BTreeMap::new();
        for action in &self.actions {
            if let Some(to) = action.kind.target() {
                let slots = pairs.entry((action.kind.source(), to)).or_default();
                action.kind.ranges().iter().for_each(|range| slots.insert_range(*range));
            }
        }
        let mut moves: Vec<PairMove> = pairs
            .into_iter()
            .map(|((from, to), slots)| PairMove { from: from.cloned(), to: to.clone(), slots })
            .collect();
        moves.sort_by_cached_key(|pair| std::cmp::Reverse(pair.slots.len()));
        moves
    }
}

//! A plan: an immutable proposal of actions that a person can check, approve and undo.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ActionId, ClusterId, Fingerprint, Instant, Invalid, Limits, NodeId, PlanId, Principal, Shard, ShardId, ShardState,
    Slot, SlotRange, SlotSet, Version, Weight,
};

/// A tolerance in parts per million of the quota: 1 % is 10 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tolerance(pub u32);

impl Tolerance {
    /// Reads a percentage with at most four decimals, `0..=100`, such as `2` or `0.5`.
    ///
    /// # Errors
    /// [`Invalid`] when it is not one.
    pub fn from_percent(text: &str) -> Result<Self, Invalid> {
        let fault =
            || Invalid::new("tolerance", format!("{text:?} is not a percentage in 0..=100 with at most 4 decimals"));
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str, most| !s.is_empty() && s.len() <= most && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole, 3) || !digits(decimals, 4) {
            return Err(fault());
        }
        let ppm = format!("{whole}{decimals:0<4}").parse::<u32>().map_err(|_| fault())?;
        if ppm > 1_000_000 { Err(fault()) } else { Ok(Self(ppm)) }
    }
}

/// What load balancing would balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMetric {
    /// Number of keys.
    Keys,
    /// Bytes of memory.
    Bytes,
    /// Operations per second.
    Ops,
}

/// What a plan is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Goal {
    /// Fewest moves that bring every shard inside its band; with tolerance 0: to its quota.
    Balance {
        /// Half-width of the band.
        tolerance: Tolerance,
    },
    /// Empty the draining shards, touch nothing else.
    DrainOnly,
    /// The best balance reachable in so many moves.
    Budget {
        /// Most slots that may move.
        max_moves: u32,
    },
    /// Balance keys, bytes or operations instead of slot counts.
    BalanceLoad {
        /// What to balance.
        metric: LoadMetric,
        /// Half-width of the band.
        tolerance: Tolerance,
    },
}

/// Why a plan was made: its goal, and the difference between the desired and the actual cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The goal.
    pub goal: Goal,
    /// Shards that own nothing yet and are to get their share, with their weight; ascending.
    pub add: Vec<(ShardId, Weight)>,
    /// Shards to be emptied; ascending.
    pub drain: Vec<ShardId>,
    /// Shards with a new weight; ascending.
    pub reweight: Vec<(ShardId, Weight)>,
    /// The operator's words; may be empty.
    pub reason: String,
}

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
    /// Why there is nothing to do, when there are no actions.
    pub empty_because: Option<String>,
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

/// Where a plan is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Waits for approvals.
    Proposed,
    /// May start.
    Approved,
    /// Its rollout is under way.
    Running,
    /// Carried out.
    Succeeded,
    /// Refused by a reviewer.
    Rejected,
    /// Taken back by an operator.
    Withdrawn,
    /// Waited too long.
    Expired,
    /// Replaced by another plan.
    Superseded,
    /// Its rollout was stopped; moved slots stay where they are.
    Aborted,
    /// Its rollout was undone.
    RolledBack,
}

/// What can happen to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanVerb {
    /// The last approval needed came in.
    Approve,
    /// A reviewer says no.
    Reject,
    /// An operator takes it back.
    Withdraw,
    /// Its time is over.
    Expire,
    /// A successor was proposed.
    Supersede,
    /// The rollout starts.
    Start,
    /// The rollout ended well.
    Succeed,
    /// The rollout ended aborted.
    Abort,
    /// The rollout ended rolled back.
    RollBack,
}

impl PlanState {
    /// The life of a plan, whole: what is not listed is refused.
    pub const TRANSITIONS: [(Self, PlanVerb, Self); 13] = [
        (Self::Proposed, PlanVerb::Approve, Self::Approved),
        (Self::Proposed, PlanVerb::Reject, Self::Rejected),
        (Self::Proposed, PlanVerb::Withdraw, Self::Withdrawn),
        (Self::Proposed, PlanVerb::Expire, Self::Expired),
        (Self::Proposed, PlanVerb::Supersede, Self::Superseded),
        (Self::Approved, PlanVerb::Reject, Self::Rejected),
        (Self::Approved, PlanVerb::Withdraw, Self::Withdrawn),
        (Self::Approved, PlanVerb::Expire, Self::Expired),
        (Self::Approved, PlanVerb::Supersede, Self::Superseded),
        (Self::Approved, PlanVerb::Start, Self::Running),
        (Self::Running, PlanVerb::Succeed, Self::Succeeded),
        (Self::Running, PlanVerb::Abort, Self::Aborted),
        (Self::Running, PlanVerb::RollBack, Self::RolledBack),
    ];

    /// The state after the verb, or none when it is not possible here.
    #[must_use]
    pub fn after(self, verb: PlanVerb) -> Option<Self> {
        Self::TRANSITIONS.iter().find(|(from, by, _)| (*from, *by) == (self, verb)).map(|(_, _, to)| *to)
    }

    /// Whether nothing can happen to the plan any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        !Self::TRANSITIONS.iter().any(|(from, _, _)| *from == self)
    }

    /// The name as it is written in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Aborted => "aborted",
            Self::RolledBack => "rolled_back",
        }
    }
}

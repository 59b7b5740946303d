//! A plan as JSON: what a reviewer reads and what `plan check` verifies. Field names are part of `format_version` 1.0;
//! fields may be added, never renamed.

mod figures;
mod parts;
mod placement;
mod read;
mod show;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use placement::{PlacedHostView, PlacedShardView, PlacementGoalView, PlacementView, SpreadView};
pub use read::PlanTextError;

pub use figures::{CostView, CostsView, CurvePointView, HotSlotView, LoadView, ShardLoadView};
pub use parts::{
    ActionKindView, ActionName, ActionView, ApprovalView, BandView, BaseView, CertificateView, CheckView,
    DeviationView, EndedView, FreshnessView, GoalView, IntentView, LimitsView, MoveView, ShardChangeView, ShardWeight,
    SummaryView,
};

use super::Revision;
use super::schema;
use super::timestamp::Timestamp;
use crate::domain::{Digest, Plan, PlanId, PlanState, PrincipalName, Role, RolloutState};

/// The version of the format that is written, and the only one that is read.
pub const FORMAT_VERSION: &str = "1.0";

/// A plan with its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    /// `1.0`.
    #[schema(example = "1.0")]
    pub format_version: String,
    /// Its id.
    #[schema(value_type = String, example = "p-7q2m4xkz")]
    pub id: PlanId,
    /// Where it is in its life.
    #[schema(schema_with = schema::plan_state)]
    pub state: PlanState,
    /// What an approval names: SHA-256 of intent, base, actions, waves, limits and policy.
    #[schema(value_type = String)]
    pub digest: Digest,
    /// The plan this one replaces.
    #[schema(value_type = Option<String>)]
    pub supersedes: Option<PlanId>,
    /// The plan that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub superseded_by: Option<PlanId>,
    /// The plan this one undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub reverts: Option<PlanId>,
    /// Why it was made.
    pub intent: IntentView,
    /// What it was computed from.
    pub base: BaseView,
    /// Whether that is still so.
    pub freshness: FreshnessView,
    /// The figures to look at first.
    pub summary: SummaryView,
    /// Proof that no plan moves fewer slots.
    pub certificate: CertificateView,
    /// Every shard before and after, ascending by id.
    pub shards: Vec<ShardChangeView>,
    /// One entry per source and target, most slots first.
    pub moves: Vec<MoveView>,
    /// The steps, from `a-1`.
    pub actions: Vec<ActionView>,
    /// Ids of actions that may run together, in order.
    #[schema(value_type = Vec<Vec<String>>)]
    pub waves: Vec<Vec<ActionName>>,
    /// Ranges and bytes of this choice of slots and of the other, where the bytes of the slots are known. Like `curve` and
    /// `load` a figure beside the plan: not part of the digest, recomputed by `plan check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostsView>,
    /// The fewest moves by tolerance, from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<CurvePointView>,
    /// Loads, where the goal is to balance them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadView>,
    /// Why there is nothing to do, when there are no actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_because: Option<String>,
    /// Where every copy is then, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementView>,
    /// What was looked at.
    pub checks: Vec<CheckView>,
    /// How fast it may go.
    pub limits: LimitsView,
    /// Who approved it.
    pub approvals: Vec<ApprovalView>,
    /// Approvals needed, `0..=2`.
    pub approvals_required: u8,
    /// Whether the author's approval counts.
    #[serde(default)]
    pub author_may_approve: bool,
    /// Warnings acknowledged with the approvals.
    #[serde(default)]
    pub acks: Vec<String>,
    /// Who proposed it.
    #[schema(value_type = String)]
    pub author: PrincipalName,
    /// In which role.
    #[serde(default = "operator")]
    #[schema(schema_with = schema::role)]
    pub author_role: Role,
    /// When it was proposed.
    #[serde(default)]
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// Until when it may be approved and started.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
    /// Who rejected or withdrew it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndedView>,
    /// State of its rollout, once started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::rollout_state)]
    pub rollout_state: Option<RolloutState>,
    /// Revision of the plan's record; absent offline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

const fn operator() -> Role {
    Role::Operator
}

/// What is kept beside a plan: everything that changes during its life.
#[derive(Clone, Debug)]
pub struct PlanLife {
    /// Where it is.
    pub state: PlanState,
    /// Its digest.
    pub digest: Digest,
    /// Whether it still stands on its base.
    pub freshness: FreshnessView,
    /// Who approved it.
    pub approvals: Vec<ApprovalView>,
    /// Warnings acknowledged.
    pub acks: Vec<String>,
    /// Who ended it.
    pub ended: Option<EndedView>,
    /// The plan that replaced it.
    pub superseded_by: Option<PlanId>,
    /// State of its rollout.
    pub rollout_state: Option<RolloutState>,
    /// Revision of its record.
    pub revision: Option<u64>,
}

impl PlanLife {
    /// The life of a plan that was just computed: proposed, fresh, approved by nobody.
    #[must_use]
    pub fn proposed(plan: &Plan) -> Self {
        let freshness = FreshnessView { fresh: true, epoch: plan.base.version.epoch.0, changes: Vec::new() };
        Self {
            state: PlanState::Proposed,
            digest: Digest::of_plan(plan),
            freshness,
            approvals: Vec::new(),
            acks: Vec::new(),
            ended: None,
            superseded_by: None,
            rollout_state: None,
            revision: None,
        }
    }
}

impl PlanView {
    /// A plan with its life, as it is shown.
    #[must_use]
    pub fn new(plan: &Plan, life: PlanLife) -> Self {
        let base = &plan.base;
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            id: plan.id.clone(),
            state: life.state,
            digest: life.digest,
            supersedes: plan.supersedes.clone(),
            superseded_by: life.superseded_by,
            reverts: plan.reverts.clone(),
            intent: IntentView::from(&plan.intent),
            base: BaseView {
                cluster_id: base.cluster_id.clone(),
                generation: base.version.generation.0,
                epoch: base.version.epoch.0,
                fingerprint: base.fingerprint,
            },
            freshness: life.freshness,
            summary: SummaryView::from(&plan.body.summary),
            certificate: CertificateView::from(&plan.body.certificate),
            shards: plan.body.shards.iter().map(ShardChangeView::from).collect(),
            moves: plan.body.moves().into_iter().map(MoveView::from).collect(),
            actions: plan.body.actions.iter().map(ActionView::from).collect(),
            waves: plan.body.waves.iter().map(|wave| wave.iter().copied().map(ActionName).collect()).collect(),
            costs: plan.body.figures.costs.map(CostsView::from),
            curve: plan.body.figures.curve.iter().copied().map(CurvePointView::from).collect(),
            load: plan.body.figures.load.as_ref().map(LoadView::from),
            empty_because: plan.body.empty_because.clone(),
            placement: plan.body.placement.as_ref().map(PlacementView::from),
            checks: plan.checks.iter().map(CheckView::from).collect(),
            limits: LimitsView::from(&plan.limits),
            approvals: life.approvals,
            approvals_required: plan.approvals_required,
            author_may_approve: plan.author_may_approve,
            acks: life.acks,
            author: plan.author.name.clone(),
            author_role: plan.author.role,
            created_at: Timestamp(plan.created_at),
            expires_at: Timestamp(plan.expires_at),
            ended: life.ended,
            rollout_state: life.rollout_state,
            revision: life.revision.map(Revision),
        }
    }
}

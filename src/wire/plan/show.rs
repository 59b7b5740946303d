//! From the domain to JSON.

use super::parts::{
    ActionKindView, ActionName, ActionView, BandView, CertificateView, CheckView, DeviationView, GoalView, IntentView,
    LimitsView, MoveView, ShardChangeView, ShardWeight, SummaryView,
};
use crate::domain::{
    Action, ActionKind, Band, Certificate, Check, Goal, Intent, Limits, PairMove, ShardChange, Summary,
};

impl From<Goal> for GoalView {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Balance { tolerance } => Self::Balance { tolerance_ppm: tolerance.0 },
            Goal::BalanceAbove { trigger } => Self::BalanceAbove { trigger_ppm: trigger.0 },
            Goal::DrainOnly => Self::DrainOnly {},
            Goal::Budget { max_moves } => Self::Budget { max_moves },
            Goal::BalanceLoad { metric, tolerance } => Self::BalanceLoad { metric, tolerance_ppm: tolerance.0 },
        }
    }
}

impl From<&Intent> for IntentView {
    fn from(intent: &Intent) -> Self {
        let weights = |list: &[(crate::domain::ShardId, crate::domain::Weight)]| {
            list.iter().map(|(shard, weight)| ShardWeight { shard: shard.clone(), weight: *weight }).collect()
        };
        Self {
            goal: intent.goal.into(),
            add: weights(&intent.add),
            drain: intent.drain.clone(),
            reweight: weights(&intent.reweight),
            reason: intent.reason.clone(),
            placement: intent.placement.map(Into::into),
        }
    }
}

impl From<&Summary> for SummaryView {
    fn from(summary: &Summary) -> Self {
        Self {
            slots: summary.slots,
            assigned: summary.assigned,
            ranges_before: summary.ranges_before,
            ranges_after: summary.ranges_after,
            lower_bound: summary.lower_bound,
            minimal: summary.slots == summary.lower_bound,
            waves: summary.waves,
            waves_lower_bound: summary.waves_lower_bound,
            keys_est: summary.keys_est,
            bytes_est: summary.bytes_est,
            eta_seconds: summary.eta_seconds,
            worst_deviation: DeviationView { before: summary.worst_before, after: summary.worst_after },
        }
    }
}

impl From<&Certificate> for CertificateView {
    fn from(certificate: &Certificate) -> Self {
        let band = |band: &Band| BandView { shard: band.shard.clone(), lo: band.lo, hi: band.hi };
        Self {
            surplus: certificate.surplus,
            deficit: certificate.deficit,
            unassigned: certificate.unassigned,
            bands: certificate.bands.iter().map(band).collect(),
        }
    }
}

impl From<&ShardChange> for ShardChangeView {
    fn from(shard: &ShardChange) -> Self {
        Self {
            id: shard.id.clone(),
            weight: shard.weight,
            state: shard.state,
            quota: shard.quota.to_string(),
            before: shard.before,
            after: shard.after,
            target: shard.after,
            min_slots: shard.bounds.min_slots,
            max_slots: shard.bounds.max_slots,
            pinned: shard.bounds.pinned.clone(),
        }
    }
}

impl From<PairMove> for MoveView {
    fn from(pair: PairMove) -> Self {
        let slots = u32::try_from(pair.slots.len()).expect("at most 16384");
        Self { from: pair.from, to: pair.to, ranges: pair.slots.ranges(), slots }
    }
}

impl From<&Action> for ActionView {
    fn from(action: &Action) -> Self {
        let kind = match action.kind.clone() {
            ActionKind::MoveSlots { from, to, ranges } => ActionKindView::MoveSlots { from, to, ranges },
            ActionKind::AssignSlots { from, to, ranges } => ActionKindView::AssignSlots { from, to, ranges },
            ActionKind::Promote { shard, from, to } => ActionKindView::Promote { shard, from, to },
            ActionKind::SetReplicaOf { node, shard } => ActionKindView::SetReplicaOf { node, shard },
            ActionKind::RepairSlot { slot, owner } => ActionKindView::RepairSlot { slot, owner },
        };
        Self { id: ActionName(action.id), kind }
    }
}

impl From<&Check> for CheckView {
    fn from(check: &Check) -> Self {
        Self {
            code: check.code.clone(),
            name: check.name.clone(),
            level: check.level,
            text: check.text.clone(),
            needs_ack: check.needs_ack,
        }
    }
}

impl From<&Limits> for LimitsView {
    fn from(limits: &Limits) -> Self {
        Self {
            moves_per_source: limits.moves_per_source,
            moves_per_target: limits.moves_per_target,
            slots_per_move: limits.slots_per_move,
            slots_per_second: limits.slots_per_second,
            bytes_per_second: limits.bytes_per_second,
            overlap_ms: limits.overlap_ms,
            windows: limits.windows.clone(),
        }
    }
}

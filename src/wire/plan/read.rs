//! From JSON to the domain, strictly: whatever a plan cannot say is refused with its place. Whether its claims are true
//! is for `plan::check`.

use super::figures::figures;
use super::parts::{ActionKindView, ActionName, ActionView, GoalView, IntentView, LimitsView, ShardWeight};
use super::{FORMAT_VERSION, PlanView};
use crate::domain::{
    Action, ActionId, ActionKind, Band, Base, Certificate, Check, Epoch, Generation, Goal, Intent, Invalid, Limits,
    Plan, PlanBody, Principal, Quota, ShardBounds, ShardChange, ShardId, SlotRange, SlotSet, Summary, Tolerance,
    Version, Weight,
};

/// Why a text is not a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanTextError {
    /// Not JSON, or not of a plan's shape.
    #[error("not a plan: {0}")]
    Syntax(#[from] serde_json::Error),
    /// A value that cannot be.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl PlanView {
    /// Reads a plan's JSON. The version is looked at first, so that a plan of the future is called that, not malformed.
    ///
    /// # Errors
    /// [`PlanTextError`] naming the place.
    pub fn from_json(text: &[u8]) -> Result<Self, PlanTextError> {
        #[derive(serde::Deserialize)]
        struct Versioned {
            format_version: String,
        }
        let head: Versioned = serde_json::from_slice(text)?;
        known_version(&head.format_version)?;
        Ok(serde_json::from_slice(text)?)
    }
}

fn known_version(version: &str) -> Result<(), Invalid> {
    if version == FORMAT_VERSION {
        return Ok(());
    }
    let shown: String = version.chars().take(32).collect();
    Err(Invalid::new("format_version", format!("{shown:?} is not known here; this version reads {FORMAT_VERSION}")))
}

impl TryFrom<GoalView> for Goal {
    type Error = Invalid;
    fn try_from(goal: GoalView) -> Result<Self, Invalid> {
        let ppm = |what, ppm| {
            if ppm <= 1_000_000 {
                Ok(Tolerance(ppm))
            } else {
                Err(Invalid::new(what, format!("{ppm} is not in 0..=1000000")))
            }
        };
        let tolerance = |number| ppm("tolerance_ppm", number);
        Ok(match goal {
            GoalView::Balance { tolerance_ppm } => Self::Balance { tolerance: tolerance(tolerance_ppm)? },
            GoalView::BalanceAbove { trigger_ppm } => Self::BalanceAbove { trigger: ppm("trigger_ppm", trigger_ppm)? },
            GoalView::DrainOnly {} => Self::DrainOnly,
            GoalView::Budget { max_moves } => Self::Budget { max_moves },
            GoalView::BalanceLoad { metric, tolerance_ppm } => {
                Self::BalanceLoad { metric, tolerance: tolerance(tolerance_ppm)? }
            }
        })
    }
}

impl TryFrom<LimitsView> for Limits {
    type Error = Invalid;
    fn try_from(limits: LimitsView) -> Result<Self, Invalid> {
        let limits = Self {
            moves_per_source: limits.moves_per_source,
            moves_per_target: limits.moves_per_target,
            slots_per_move: limits.slots_per_move,
            slots_per_second: limits.slots_per_second,
            bytes_per_second: limits.bytes_per_second,
            overlap_ms: limits.overlap_ms,
            windows: limits.windows,
        };
        limits.validate()?;
        Ok(limits)
    }
}

impl TryFrom<IntentView> for Intent {
    type Error = Invalid;
    fn try_from(intent: IntentView) -> Result<Self, Invalid> {
        let weights = |what, list: Vec<ShardWeight>| {
            let pairs: Vec<(ShardId, Weight)> = list.into_iter().map(|entry| (entry.shard, entry.weight)).collect();
            ascending(what, pairs.iter().map(|(shard, _)| shard))?;
            Ok::<_, Invalid>(pairs)
        };
        ascending("intent.drain", &intent.drain)?;
        Ok(Self {
            goal: intent.goal.try_into()?,
            add: weights("intent.add", intent.add)?,
            drain: intent.drain,
            reweight: weights("intent.reweight", intent.reweight)?,
            reason: intent.reason,
            placement: intent.placement.map(TryInto::try_into).transpose()?,
        })
    }
}

/// The plan a view shows, whole, so that its digest can be computed and its body checked. The author's token is not in
/// the view.
impl TryFrom<PlanView> for Plan {
    type Error = Invalid;
    fn try_from(view: PlanView) -> Result<Self, Invalid> {
        known_version(&view.format_version)?;
        check_moves(&view)?;
        if view.approvals_required > 2 {
            return Err(Invalid::new("approvals_required", format!("{} is not in 0..=2", view.approvals_required)));
        }
        let body = body(&view)?;
        let checks = view.checks.into_iter().map(|check| Check {
            code: check.code,
            name: check.name,
            level: check.level,
            text: check.text,
            needs_ack: check.needs_ack,
        });
        let version = Version { generation: Generation(view.base.generation), epoch: Epoch(view.base.epoch) };
        Ok(Self {
            id: view.id,
            supersedes: view.supersedes,
            reverts: view.reverts,
            intent: view.intent.try_into()?,
            base: Base { cluster_id: view.base.cluster_id, version, fingerprint: view.base.fingerprint },
            body,
            checks: checks.collect(),
            limits: view.limits.try_into()?,
            approvals_required: view.approvals_required,
            author_may_approve: view.author_may_approve,
            author: Principal { name: view.author, role: view.author_role, token: None },
            created_at: view.created_at.0,
            expires_at: view.expires_at.0,
        })
    }
}

/// The reviewer's view of the moves: no slot twice, no shard to itself, counts that are right.
fn check_moves(view: &PlanView) -> Result<(), Invalid> {
    let mut seen = SlotSet::new();
    for entry in &view.moves {
        if entry.from.as_ref() == Some(&entry.to) {
            return Err(Invalid::new("moves", format!("shard {} moves slots to itself", entry.to)));
        }
        let count = claim("moves", &entry.ranges, &mut seen)?;
        if count != u64::from(entry.slots) {
            let from = entry.from.as_ref().map_or("nowhere", ShardId::as_str);
            let why = format!("{from} -> {}: the ranges hold {count} slots, not {}", entry.to, entry.slots);
            return Err(Invalid::new("moves", why));
        }
    }
    Ok(())
}

fn body(view: &PlanView) -> Result<PlanBody, Invalid> {
    let shards = view.shards.iter().map(shard).collect::<Result<Vec<_>, _>>()?;
    ascending("shards", shards.iter().map(|shard| &shard.id))?;
    ascending("certificate.bands", view.certificate.bands.iter().map(|band| &band.shard))?;
    let mut seen = SlotSet::new();
    let actions = (1..).zip(&view.actions).map(|(number, view)| action(number, view, &mut seen));
    let actions = actions.collect::<Result<Vec<_>, _>>()?;
    if view.summary.minimal != (view.summary.slots == view.summary.lower_bound) {
        return Err(Invalid::new("summary.minimal", "does not agree with slots and lower_bound"));
    }
    Ok(PlanBody {
        summary: Summary {
            slots: view.summary.slots,
            assigned: view.summary.assigned,
            ranges_before: view.summary.ranges_before,
            ranges_after: view.summary.ranges_after,
            lower_bound: view.summary.lower_bound,
            waves: view.summary.waves,
            waves_lower_bound: view.summary.waves_lower_bound,
            keys_est: view.summary.keys_est,
            bytes_est: view.summary.bytes_est,
            eta_seconds: view.summary.eta_seconds,
            worst_before: view.summary.worst_deviation.before,
            worst_after: view.summary.worst_deviation.after,
        },
        certificate: Certificate {
            surplus: view.certificate.surplus,
            deficit: view.certificate.deficit,
            unassigned: view.certificate.unassigned,
            bands: view
                .certificate
                .bands
                .iter()
                .map(|band| Band { shard: band.shard.clone(), lo: band.lo, hi: band.hi })
                .collect(),
        },
        shards,
        waves: waves(&view.waves, actions.len())?,
        actions,
        figures: figures(view.costs, &view.curve, view.load.as_ref())?,
        empty_because: view.empty_because.clone(),
        placement: view.placement.clone().map(TryInto::try_into).transpose()?,
    })
}

fn shard(view: &super::ShardChangeView) -> Result<ShardChange, Invalid> {
    let number = |text: &str| crate::domain::is_plain_number(text).then(|| text.parse::<u64>().ok()).flatten();
    let quota = match view.quota.split_once('/') {
        None => number(&view.quota).map(|numerator| Quota { numerator, denominator: 1 }),
        Some((n, d)) => number(n).zip(number(d)).map(|(numerator, denominator)| Quota { numerator, denominator }),
    };
    let quota = quota.filter(|quota| quota.denominator > 0).ok_or_else(|| {
        let shown: String = view.quota.chars().take(64).collect();
        Invalid::new("quota", format!("{shown:?} of shard {} is not a fraction", view.id))
    })?;
    if view.target != view.after {
        return Err(Invalid::new("target", format!("of shard {} is {}, not {}", view.id, view.target, view.after)));
    }
    SlotSet::from_ranges(view.pinned.iter().copied())?;
    Ok(ShardChange {
        id: view.id.clone(),
        weight: view.weight,
        state: view.state,
        quota,
        before: view.before,
        after: view.after,
        bounds: ShardBounds { min_slots: view.min_slots, max_slots: view.max_slots, pinned: view.pinned.clone() },
    })
}

fn action(number: u32, view: &ActionView, seen: &mut SlotSet) -> Result<Action, Invalid> {
    let ActionName(id) = view.id;
    if id != ActionId(number) {
        return Err(Invalid::new("actions", format!("{id} stands where a-{number} belongs")));
    }
    let kind = match view.kind.clone() {
        ActionKindView::MoveSlots { from, to, ranges } => ActionKind::MoveSlots { from, to, ranges },
        ActionKindView::AssignSlots { from, to, ranges } => ActionKind::AssignSlots { from, to, ranges },
        ActionKindView::Promote { shard, from, to } => ActionKind::Promote { shard, from, to },
        ActionKindView::SetReplicaOf { node, shard } => ActionKind::SetReplicaOf { node, shard },
        ActionKindView::RepairSlot { slot, owner } => ActionKind::RepairSlot { slot, owner },
    };
    if let (Some(from), Some(to)) = (kind.source(), kind.target())
        && from == to
    {
        return Err(Invalid::new("actions", format!("{id} moves slots of {from} to itself")));
    }
    if kind.target().is_some() && kind.ranges().is_empty() {
        return Err(Invalid::new("actions", format!("{id} moves no slot")));
    }
    claim("actions", kind.ranges(), seen).map_err(|fault| Invalid::new("actions", format!("{id}: {}", fault.why)))?;
    Ok(Action { id, kind })
}

/// Adds ascending, disjoint ranges to the slots seen before, none of which they may repeat; returns their slots.
fn claim(what: &'static str, ranges: &[SlotRange], seen: &mut SlotSet) -> Result<u64, Invalid> {
    let mut count = 0;
    for (i, range) in ranges.iter().enumerate() {
        if let Some(slot) = range.slots().find(|slot| !seen.insert(*slot)) {
            return Err(Invalid::new(what, format!("slot {slot} is listed twice (again in {range})")));
        }
        if i > 0 && ranges[i - 1].last() >= range.first() {
            return Err(Invalid::new(what, format!("range {range} is not above {}", ranges[i - 1])));
        }
        count += range.count() as u64;
    }
    Ok(count)
}

fn waves(waves: &[Vec<ActionName>], actions: usize) -> Result<Vec<Vec<ActionId>>, Invalid> {
    let mut seen = vec![false; actions];
    for ActionName(id) in waves.iter().flatten() {
        let index = usize::try_from(id.0).ok().and_then(|number| number.checked_sub(1));
        match index.and_then(|index| seen.get_mut(index)) {
            None => return Err(Invalid::new("waves", format!("{id} is not an action of the plan"))),
            Some(true) => return Err(Invalid::new("waves", format!("{id} is listed twice"))),
            Some(unseen) => *unseen = true,
        }
    }
    if let Some(missing) = seen.iter().position(|seen| !seen) {
        return Err(Invalid::new("waves", format!("a-{} is in no wave", missing + 1)));
    }
    Ok(waves.iter().map(|wave| wave.iter().map(|name| name.0).collect()).collect())
}

fn ascending<'a>(what: &'static str, ids: impl IntoIterator<Item = &'a ShardId>) -> Result<(), Invalid> {
    let mut last: Option<&ShardId> = None;
    for id in ids {
        if last.is_some_and(|last| last >= id) {
            return Err(Invalid::new(what, format!("shard {id} is listed twice or out of order")));
        }
        last = Some(id);
    }
    Ok(())
}

impl TryFrom<String> for ActionName {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse().map(Self)
    }
}

impl From<ActionName> for String {
    fn from(name: ActionName) -> Self {
        name.0.to_string()
    }
}

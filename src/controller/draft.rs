//! From a cluster as it is desired to a complete plan: which shards are lost, which replicas take over, the planner, its
//! independent checker, the checks a reviewer reads.

use std::collections::{BTreeMap, BTreeSet};

use super::seen::Seen;
use super::{Caller, Change, Cluster, ControlError, PlanRecord, Propose, fresh, memory};
use crate::domain::{
    Action, ActionKind, ActionState, Base, Instant, Intent, Invalid, Limits, NodeId, NodeState, Plan, PlanBody, PlanId,
    PlanState, Rejection, Shard, ShardId, ShardState, Statistics, Weight,
};
use crate::plan::{self, Input, Looked, PlacementInput, PlanError};

/// Most bytes of a plan as JSON: what fits into one entry of the log.
const PLAN_BYTES_MAX: usize = 512 * 1024;

/// A plan, or why there is none.
#[derive(Default)]
pub struct Draft {
    pub plan: Option<Plan>,
    pub empty_because: Option<String>,
}

/// Computes the plan that takes a cluster (with the changes made already) to what is desired.
pub fn draft(
    cluster: &Cluster,
    changes: &[Change],
    propose: &Propose,
    caller: &Caller,
    now: Instant,
    random: &dyn Fn() -> fresh::Bits,
    seen: Option<&Seen>,
) -> Result<Draft, ControlError> {
    let limits = propose.limits.clone().unwrap_or_else(|| cluster.policy.limits.clone());
    limits.validate().map_err(|invalid| Rejection::invalid("limits", &invalid))?;
    let shards: Vec<Shard> = cluster.shards.values().map(|shard| shard.value.clone()).collect();
    let lost = lost_shards(cluster);
    let statistics = propose.choice.statistics.as_deref();
    timely(statistics, now)?;
    let input = Input { table: &cluster.table, shards: &shards, lost: &lost, statistics };
    let mut body = match &propose.reverts {
        None if propose.repair => repair(cluster, &input, &limits, seen)?,
        Some(reverted) => reverse(cluster, &input, &limits, finished(cluster, reverted)?)?,
        None => forward(cluster, &input, propose, &limits)?,
    };
    if body.actions.is_empty() {
        let mut because = body.empty_because.unwrap_or_else(|| "every shard has its share".to_owned());
        if body.placement.is_some() {
            because += ", and every copy is where it is asked for";
        }
        return Ok(Draft { plan: None, empty_because: Some(because) });
    }
    estimate(&mut body, seen);
    body.summary.eta_seconds = plan::eta_seconds(&body, &limits);
    let nodes: BTreeMap<_, _> = cluster.nodes.iter().map(|(id, node)| (id, &node.value)).collect();
    let checks = plan::checks(&Looked {
        input,
        nodes: &nodes,
        moving: cluster.moving.len(),
        notes: &[],
        driver: cluster.driver,
        body: &body,
        goal: propose.goal,
        limits: &limits,
        reverts: propose.reverts.is_some(),
        facts: seen.map(|seen| &seen.facts),
    });
    let slots = body.summary.slots + body.summary.assigned;
    let small = cluster.policy.auto_approve_max_slots.is_some_and(|most| slots <= most);
    let free = small && !checks.iter().any(|check| check.needs_ack);
    let plan = Plan {
        id: fresh_id(cluster, random),
        supersedes: propose.supersedes.clone(),
        reverts: propose.reverts.clone(),
        intent: intent(cluster, changes, propose),
        base: Base {
            cluster_id: cluster.id.clone(),
            version: cluster.version(),
            fingerprint: cluster.fingerprint(&body.moved_slots()),
        },
        body,
        checks,
        limits,
        approvals_required: if free { 0 } else { cluster.policy.approvals },
        author_may_approve: cluster.policy.author_may_approve,
        author: caller.principal.clone(),
        created_at: now,
        expires_at: now.plus_ms(cluster.policy.ttl_ms),
    };
    bounded(&plan)?;
    Ok(Draft { plan: Some(plan), empty_because: None })
}

/// Statistics must be of today: a plan on old ones would move the wrong slots.
fn timely(statistics: Option<&Statistics>, now: Instant) -> Result<(), Rejection> {
    let Some(taken_at) = statistics.and_then(Statistics::taken_at) else { return Ok(()) };
    let hours = now.since_ms(taken_at) / 3_600_000;
    let fault = if now.since_ms(taken_at) > Statistics::AGE_MAX_MS {
        format!("they were taken {hours} hours ago, and older than 24 is too old to plan by: measure again")
    } else if taken_at.since_ms(now) > Statistics::AHEAD_MAX_MS {
        "they were taken in the future: compare the clocks".to_owned()
    } else {
        return Ok(());
    };
    Err(Rejection::invalid("statistics.taken_at", &Invalid::new("statistics", fault)))
}

/// The planner's body for the goal, with the actions about roles before it, checked by the independent checker.
fn forward(cluster: &Cluster, input: &Input<'_>, propose: &Propose, limits: &Limits) -> Result<PlanBody, ControlError> {
    let body =
        plan::plan_remembering(input, propose.goal, propose.choice.objective, limits, &memory::remembered(cluster))?;
    let Some(goal) = propose.placement else {
        let body = plan::with_leading_actions(body, promotions(cluster, |_| true));
        plan::check(input, propose.goal, limits, &body).map_err(ControlError::PlanDefect)?;
        return Ok(body);
    };
    let nodes: BTreeMap<_, _> = cluster.nodes.iter().map(|(id, node)| (id, &node.value)).collect();
    let members = PlacementInput { shards: input.shards, nodes: &nodes };
    let placed = plan::place(&members, goal)?;
    // Shards that are to be emptied are not placed, but a dead primary of one is replaced all the same.
    let mut waves = vec![promotions(cluster, |shard| shard.state == ShardState::Draining)];
    waves.extend(placed.waves);
    let mut body = plan::with_leading_waves(body, waves);
    body.placement = Some(placed.placement);
    plan::check(input, propose.goal, limits, &body).map_err(ControlError::PlanDefect)?;
    plan::check_placement(&members, goal, &body).map_err(ControlError::PlanDefect)?;
    Ok(body)
}

/// The slots that the nodes have otherwise than the table, brought back to it.
fn repair(
    cluster: &Cluster,
    input: &Input<'_>,
    limits: &Limits,
    seen: Option<&Seen>,
) -> Result<PlanBody, ControlError> {
    let Some(seen) = seen else {
        let (name, driver) = (&cluster.name, cluster.driver.as_str());
        let why = format!("cluster {name} has driver {driver}, which does not ask its nodes: nothing can be repaired");
        return Err(Rejection::conflict(why).into());
    };
    let body = plan::repair(input, &seen.repairs, limits)?;
    plan::check_repair(input, limits, &body).map_err(ControlError::PlanDefect)?;
    Ok(body)
}

/// What moves, as far as a sample of the nodes tells it and no statistics do.
fn estimate(body: &mut PlanBody, seen: Option<&Seen>) {
    let Some(sample) = seen.map(|seen| &seen.facts.sample).filter(|_| body.summary.keys_est.is_none()) else { return };
    let moves = |action: &&Action| matches!(action.kind, ActionKind::MoveSlots { .. });
    let ranges = body.actions.iter().filter(moves).flat_map(|action| action.kind.ranges());
    let keys = sample.keys_in(ranges.flat_map(|range| range.slots()));
    body.summary.keys_est = keys.filter(|_| body.summary.slots > 0);
    body.summary.bytes_est = body.summary.keys_est.and_then(|keys| sample.bytes_of(keys));
}

fn reverse(
    cluster: &Cluster,
    input: &Input<'_>,
    limits: &Limits,
    record: &PlanRecord,
) -> Result<PlanBody, ControlError> {
    let original = &record.plan.body;
    let impossible = |why: String| Rejection::conflict(format!("plan {} cannot be undone: {why}", record.plan.id));
    let body = plan::revert(input, original, limits).map_err(|error| match error {
        PlanError::NoWayBack { .. } => ControlError::from(impossible(error.to_string())),
        other => other.into(),
    })?;
    let draining = |id: &ShardId| input.shards.iter().any(|s| s.id == *id && s.state == ShardState::Draining);
    if let Some(home) = body.actions.iter().filter_map(|action| action.kind.target()).find(|id| draining(id)) {
        return Err(
            impossible(format!("slots would go back to shard {home}, which is draining: undrain it first")).into()
        );
    }
    let body = plan::with_leading_waves(body, roles_back(cluster, record));
    plan::check_revert(input, original, limits, &body).map_err(ControlError::PlanDefect)?;
    Ok(body)
}

/// The promotions and the changes of shard that were carried out, the other way round, as far as they still stand and the
/// nodes are active. Primaries hand over before they leave.
fn roles_back(cluster: &Cluster, record: &PlanRecord) -> Vec<Vec<ActionKind>> {
    let (mut handed_over, mut moved) = (Vec::new(), Vec::new());
    let Some(rollout) = &record.rollout else { return Vec::new() };
    let done = |action: &&Action| rollout.state_of(action.id) == Some(ActionState::Done);
    let is_active = |node: &NodeId| rank(cluster, node) == 2;
    for action in record.plan.body.actions.iter().filter(done) {
        if let ActionKind::Promote { shard, from, to } = &action.kind {
            let now = cluster.shards.get(shard).map(|shard| &shard.value);
            if now.is_some_and(|now| now.primary == *to && now.replicas.contains(from)) && is_active(from) {
                handed_over.push(ActionKind::Promote { shard: shard.clone(), from: to.clone(), to: from.clone() });
            }
        }
    }
    for action in record.plan.body.actions.iter().filter(done) {
        let ActionKind::SetReplicaOf { node, shard } = &action.kind else { continue };
        let Some(home) = rollout.actions.get(&action.id).and_then(|progress| progress.came_from.as_ref()) else {
            continue;
        };
        let now = cluster.shard_of(node).map(|shard| &shard.value);
        let hands_over = |kind: &ActionKind| matches!(kind, ActionKind::Promote { from, .. } if from == node);
        let still_there =
            now.is_some_and(|now| now.id == *shard && (now.primary != *node || handed_over.iter().any(hands_over)));
        let can_return = cluster.shards.get(home).is_some_and(|home| home.value.state == ShardState::Active);
        if still_there && can_return && is_active(node) {
            moved.push(ActionKind::SetReplicaOf { node: node.clone(), shard: home.clone() });
        }
    }
    vec![handed_over, moved]
}

/// What brings back the shards that a plan drained and that are draining still. A shard whose nodes are all lost stays
/// as it is: nothing can go back to it.
pub fn undrains(cluster: &Cluster, reverted: &PlanId) -> Result<Vec<Change>, Rejection> {
    let drained = &finished(cluster, reverted)?.plan.intent.drain;
    let shards = drained.iter().filter_map(|id| cluster.shards.get(id)).map(|shard| &shard.value);
    let can_return =
        |shard: &&Shard| shard.state == ShardState::Draining && shard.nodes().any(|node| rank(cluster, node) > 0);
    Ok(shards.filter(can_return).map(|shard| Change::UndrainShard { shard: shard.id.clone() }).collect())
}

/// The record of a plan that was carried out, in whole or in part.
fn finished<'a>(cluster: &'a Cluster, id: &PlanId) -> Result<&'a PlanRecord, Rejection> {
    let record = cluster.plans.get(id).ok_or_else(|| Rejection::not_found("plan", id))?;
    if matches!(record.state, PlanState::Succeeded | PlanState::Aborted) {
        Ok(record)
    } else {
        let (plan, state) = (id.to_string(), record.state.as_str().to_owned());
        Err(Rejection::PlanState { plan, state, verb: "revert".to_owned() })
    }
}

/// Draining shards without a node that could still be read.
fn lost_shards(cluster: &Cluster) -> BTreeSet<ShardId> {
    let is_lost = |node: &NodeId| rank(cluster, node) == 0;
    let shards = cluster.shards.values().map(|shard| &shard.value);
    let lost = shards.filter(|shard| shard.state == ShardState::Draining && shard.nodes().all(is_lost));
    lost.map(|shard| shard.id.clone()).collect()
}

/// Shards whose primary is to go while a node in better standing copies it: that one takes over, and no slot moves.
fn promotions(cluster: &Cluster, of: impl Fn(&Shard) -> bool) -> Vec<ActionKind> {
    let shards = cluster.shards.values().map(|shard| &shard.value).filter(|shard| of(shard));
    shards
        .filter_map(|shard| {
            let best = shard.replicas.iter().rev().max_by_key(|node| rank(cluster, node))?;
            (rank(cluster, best) > rank(cluster, &shard.primary)).then(|| ActionKind::Promote {
                shard: shard.id.clone(),
                from: shard.primary.clone(),
                to: best.clone(),
            })
        })
        .collect()
}

/// How fit a node is to serve its shard: 2 stays, 1 is to go, 0 is dead.
fn rank(cluster: &Cluster, node: &NodeId) -> u8 {
    match cluster.nodes.get(node).map(|node| node.value.state) {
        Some(NodeState::Active) => 2,
        Some(NodeState::Draining) => 1,
        Some(NodeState::Lost) | None => 0,
    }
}

/// The difference between what is desired and what is.
fn intent(cluster: &Cluster, changes: &[Change], propose: &Propose) -> Intent {
    if propose.repair {
        // What else is wanted waits for a plan of its own.
        let (goal, reason) = (propose.goal, propose.reason.clone());
        return Intent { goal, add: vec![], drain: vec![], reweight: vec![], reason, placement: propose.placement };
    }
    let counts: BTreeMap<&ShardId, u32> = cluster.table.shards().iter().zip(cluster.table.counts()).collect();
    let slots = |shard: &Shard| counts.get(&shard.id).copied().unwrap_or(0);
    let shards = || cluster.shards.values().map(|shard| &shard.value);
    let empty = |shard: &&Shard| shard.state == ShardState::Active && shard.weight.get() > 0 && slots(shard) == 0;
    let leaving = |shard: &&Shard| shard.state == ShardState::Draining && slots(shard) > 0;
    // A successor stands for all that its predecessor was made for, as far as it is still wanted.
    let inherited = propose.supersedes.as_ref().and_then(|id| cluster.plans.get(id));
    let inherited = inherited.into_iter().flat_map(|record| record.plan.intent.reweight.iter().cloned());
    let still = |(id, weight): &(ShardId, Weight)| cluster.shards.get(id).is_some_and(|s| s.value.weight == *weight);
    let asked = changes.iter().filter_map(|change| match change {
        Change::SetShard { shard, weight: Some(weight), .. } => Some((shard.clone(), *weight)),
        _ => None,
    });
    let reweight: BTreeMap<ShardId, Weight> = inherited.filter(still).chain(asked).collect();
    Intent {
        goal: propose.goal,
        // Undoing fills shards that were there before: they must not go when the undoing is withdrawn.
        add: shards()
            .filter(|shard| propose.reverts.is_none() && empty(shard))
            .map(|shard| (shard.id.clone(), shard.weight))
            .collect(),
        drain: shards().filter(leaving).map(|shard| shard.id.clone()).collect(),
        reweight: reweight.into_iter().collect(),
        reason: propose.reason.clone(),
        placement: propose.placement,
    }
}

fn fresh_id(cluster: &Cluster, random: &dyn Fn() -> fresh::Bits) -> PlanId {
    let mut ids = std::iter::repeat_with(|| fresh::plan_id(&random()));
    ids.find(|id| !cluster.plans.contains_key(id)).expect("ids do not run out")
}

fn bounded(plan: &Plan) -> Result<(), Rejection> {
    let bytes = serde_json::to_vec(plan).expect("a plan has string keys only").len();
    if bytes <= PLAN_BYTES_MAX {
        return Ok(());
    }
    let what = format!(
        "bytes in one plan: this one has {bytes}; raise slots_per_move, or take several steps with a budget of moves"
    );
    Err(Rejection::LimitExceeded { what, most: PLAN_BYTES_MAX as u64 })
}

//! `plan check`: verifies a plan file by itself, against the cluster it was made for. Trusts no figure in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;

use super::args::CheckArgs;
use super::offline::new_shard;
use super::source::{OFFLINE, Source};
use super::statistics;
use crate::cli::fault::{Exit, Fault};
use crate::cli::input;
use crate::cli::output::{Output, Style, escape};
use crate::domain::{
    ActionKind, Digest, Fingerprint, NodeState, Plan, PlanBody, PlanId, Shard, ShardChange, ShardId, ShardState,
    SlotSet,
};
use crate::plan::{self, Input, PlacementInput};
use crate::wire::plan::{MoveView, PlanView};

/// What was verified and what is wrong, a sentence each.
#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    plan: PlanId,
    verified: Vec<String>,
    faults: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    because: Vec<String>,
}

/// Checks the plan of the file and says what was verified.
///
/// # Errors
/// Invalid input when it is no plan; a conflict when digest or base differ; an error when a claim is false.
pub fn run(args: &CheckArgs, output: Output) -> Result<(), Fault> {
    let stdin = [Some(&args.file), Some(&args.nodes), args.stats.as_ref(), args.reverts.as_ref()];
    if stdin.into_iter().flatten().filter(|file| *file == "-").count() > 1 {
        return Err(Fault::invalid("only one of FILE, --nodes, --stats and --reverts can be stdin"));
    }
    let (view, plan) = read(&args.file)?;
    let source = Source::read(&args.nodes)?;
    let mut verified = vec![format!(
        "format {}: {} actions in {} waves, no slot twice, no shard to itself",
        view.format_version,
        plan.body.actions.len(),
        plan.body.waves.len()
    )];
    verified.push(check_digest(&plan, view.digest)?);
    let shards = cluster(&plan, &source)?;
    let mut table = source.table.clone();
    for shard in &shards {
        table.insert_shard(shard.id.clone());
    }
    verified.push(check_base(&plan, &source, &shards)?);

    let lost = lost(&plan);
    let statistics = args.stats.as_deref().map(statistics::read).transpose()?;
    let input = Input { table: &table, shards: &shards, lost: &lost, statistics: statistics.as_ref() };
    let mut faults = moves_faults(&plan, &view);
    faults.extend(role_faults(&plan, &source, &shards));
    let checked = match original(&plan, args)? {
        Some(original) => plan::check_revert(&input, &original, &plan.limits, &plan.body),
        None => plan::check(&input, plan.intent.goal, &plan.limits, &plan.body),
    };
    match checked {
        Ok(()) => verified.extend(claims(&plan)),
        Err(found) => faults.extend(found),
    }
    let because = if args.explain_slot.is_some() || args.explain_shard.is_some() {
        super::explain::offline(&plan, &table, args.explain_slot, args.explain_shard.as_deref())?
    } else {
        Vec::new()
    };
    report(&Report { ok: faults.is_empty(), plan: plan.id, verified, faults, because }, output)
}

/// The plan that this one undoes: its claims are about that one, not about a goal.
fn original(plan: &Plan, args: &CheckArgs) -> Result<Option<PlanBody>, Fault> {
    let Some(id) = &plan.reverts else { return Ok(None) };
    let Some(file) = &args.reverts else {
        return Err(Fault::invalid(format!("the plan undoes {id}: give that plan as JSON with --reverts")));
    };
    let original = read(file)?.1;
    if original.id == *id {
        Ok(Some(original.body))
    } else {
        Err(Fault::conflict(format!("{file}: the plan undoes {id}, this is {}", original.id)))
    }
}

fn read(file: &str) -> Result<(PlanView, Plan), Fault> {
    let bytes = input::read_text(file)?;
    let about = |fault: &dyn std::fmt::Display| Fault::invalid(fault.to_string()).about(file);
    let view = PlanView::from_json(input::without_bom(&bytes)).map_err(|fault| about(&fault))?;
    let plan = Plan::try_from(view.clone()).map_err(|fault| about(&fault))?;
    Ok((view, plan))
}

fn report(report: &Report, output: Output) -> Result<(), Fault> {
    if output.is_for_people() {
        let mut text = String::new();
        for line in &report.verified {
            let _ = writeln!(text, "{}    {}", output.paint(Style::Good, "ok"), escape(line));
        }
        for line in &report.faults {
            let _ = writeln!(text, "{}  {}", output.paint(Style::Bad, "FAIL"), escape(line));
        }
        let verdict = if report.ok { "is" } else { "is NOT" };
        let _ = writeln!(text, "Plan {} {verdict} what it says it is.", report.plan);
        text += &super::explain::text(&report.because, output);
        output.text(&text)?;
    } else {
        output.json(report)?;
    }
    if report.ok { Ok(()) } else { Err(Fault::Exit(Exit::Error, String::new())) }
}

fn check_digest(plan: &Plan, claimed: Digest) -> Result<String, Fault> {
    let actual = Digest::of_plan(plan);
    if actual == claimed {
        Ok(format!("digest {actual}"))
    } else {
        Err(Fault::conflict(format!("digest mismatch: the file says {claimed}, its contents give {actual}")))
    }
}

/// The shards of the cluster as the plan's intent wants them. Their weights, states and number must be those of the plan.
fn cluster(plan: &Plan, source: &Source) -> Result<Vec<Shard>, Fault> {
    let mut shards = source.shards.clone();
    for (id, weight) in &plan.intent.add {
        match shards.binary_search_by(|shard| shard.id.cmp(id)) {
            Ok(index) => shards[index].weight = *weight,
            Err(index) => shards.insert(index, new_shard(id, *weight)),
        }
    }
    // CLUSTER NODES knows no weights: those of a controller's plan are taken as they are.
    let knows_weights = source.is_topology() || plan.base.cluster_id.as_str() == OFFLINE;
    for shard in &mut shards {
        let Some(change) = plan.body.shards.iter().find(|change| change.id == shard.id) else {
            return Err(base_mismatch(&format!("the plan does not know shard {}", shard.id)));
        };
        if plan.intent.drain.contains(&shard.id) {
            shard.state = ShardState::Draining;
        }
        if let Some((_, weight)) = plan.intent.reweight.iter().find(|(id, _)| *id == shard.id) {
            shard.weight = *weight;
        }
        if !knows_weights {
            (shard.weight, shard.state) = (change.weight, change.state);
        }
        if (shard.weight, shard.state) != (change.weight, change.state) {
            return Err(base_mismatch(&format!("shard {} has another weight or state than in the plan", shard.id)));
        }
        bind(shard, change);
    }
    let unknown = plan.body.shards.iter().find(|change| shards.iter().all(|shard| shard.id != change.id));
    unknown.map_or(Ok(shards), |change| Err(base_mismatch(&format!("the cluster has no shard {}", change.id))))
}

fn bind(shard: &mut Shard, change: &ShardChange) {
    (shard.min_slots, shard.max_slots) = (change.bounds.min_slots, change.bounds.max_slots);
    shard.pinned = SlotSet::new();
    change.bounds.pinned.iter().for_each(|range| shard.pinned.insert_range(*range));
}

/// Identity, version and fingerprint, as far as the file tells them.
fn check_base(plan: &Plan, source: &Source, shards: &[Shard]) -> Result<String, Fault> {
    let base = &plan.base;
    let offline = base.cluster_id.as_str() == OFFLINE;
    if source.is_topology() || offline {
        if base.cluster_id != source.cluster_id {
            return Err(base_mismatch(&format!("it is of cluster {}, not {}", base.cluster_id, source.cluster_id)));
        }
        let (then, now) = (base.version.generation, source.version.generation);
        if then != now {
            return Err(base_mismatch(&format!("it is of generation {then}, the cluster is at {now}")));
        }
        let fingerprint = Fingerprint::of(&source.table, shards, &plan.body.moved_slots());
        if fingerprint != base.fingerprint {
            return Err(base_mismatch("owners of moved slots, primaries, weights or drain flags are others"));
        }
        let version = if offline { String::new() } else { format!(" at {}, now {}", base.version, source.version) };
        return Ok(format!("base: cluster {}{version}, the same fingerprint", base.cluster_id));
    }
    for action in &plan.body.actions {
        for slot in action.kind.ranges().iter().flat_map(|range| range.slots()) {
            let owner = source.table.owner(slot);
            if owner != action.kind.source() {
                let owner = owner.map_or("nobody", ShardId::as_str);
                return Err(base_mismatch(&format!("slot {slot} of {} belongs to {owner}", action.id)));
            }
        }
    }
    Ok("base: every moved slot has the owner the plan says (CLUSTER NODES tells no version to compare)".to_owned())
}

fn base_mismatch(why: &str) -> Fault {
    Fault::conflict(format!("base mismatch: the plan was made for another cluster or state: {why}"))
}

/// Dead shards: their slots are assigned, not moved.
fn lost(plan: &Plan) -> BTreeSet<ShardId> {
    let assigned = plan.body.actions.iter().filter_map(|action| match &action.kind {
        ActionKind::AssignSlots { from, .. } => from.clone(),
        _ => None,
    });
    assigned.collect()
}

/// What a reviewer reads must be what is carried out.
fn moves_faults(plan: &Plan, view: &PlanView) -> Vec<String> {
    let actual: Vec<MoveView> = plan.body.moves().into_iter().map(MoveView::from).collect();
    if actual == view.moves { Vec::new() } else { vec!["the moves listed are not those of the actions".to_owned()] }
}

/// Promotions of replicas that are there, or a placement as a whole.
fn role_faults(plan: &Plan, source: &Source, shards: &[Shard]) -> Vec<String> {
    let (Some(goal), Some(placement)) = (plan.intent.placement, &plan.body.placement) else {
        let one = plan.intent.placement.is_some() != plan.body.placement.is_some();
        let mut faults = promotion_faults(plan, source, shards);
        faults.extend(one.then(|| "a placement is asked for or told of, but not both".to_owned()));
        return faults;
    };
    let mut nodes = source.nodes.clone();
    // The file does not tell which nodes are draining.
    for node in nodes.iter_mut().filter(|node| placement.left_out.contains(&node.id)) {
        node.state = NodeState::Draining;
    }
    let nodes: BTreeMap<_, _> = nodes.iter().map(|node| (&node.id, node)).collect();
    plan::check_placement(&PlacementInput { shards, nodes: &nodes }, goal, &plan.body).err().unwrap_or_default()
}

fn promotion_faults(plan: &Plan, source: &Source, shards: &[Shard]) -> Vec<String> {
    let mut faults = Vec::new();
    for action in &plan.body.actions {
        if let ActionKind::Promote { shard: id, from, to } = &action.kind {
            let known = shards.iter().find(|shard| shard.id == *id);
            if known.is_none_or(|shard| shard.primary != *from || !shard.replicas.contains(to)) {
                faults.push(format!("{}: {to} does not copy {from} in shard {id}", action.id));
            } else if !source.serves(to) {
                faults.push(format!("{}: node {to} is failing", action.id));
            }
        }
    }
    faults
}

fn claims(plan: &Plan) -> Vec<String> {
    let (summary, certificate) = (&plan.body.summary, &plan.body.certificate);
    let verdict = if summary.slots == summary.lower_bound {
        "MINIMAL".to_owned()
    } else {
        format!("gap {}", i64::from(summary.slots) - i64::from(summary.lower_bound))
    };
    let placed = plan.body.placement.as_ref().map(|placement| {
        format!(
            "placement: {} copies of each shard, apart as asked; no other changes fewer than {} nodes, nor fails over \
             fewer than {} shards",
            u32::from(placement.goal.replicas) + 1,
            placement.changes,
            placement.failovers
        )
    });
    let (slots, bound) = (summary.slots, summary.lower_bound);
    let bounded = match &plan.body.figures.load {
        None => format!(
            "certificate: A {}, B {}, unassigned {}: no plan moves fewer than {bound}; this one moves {slots}: {verdict}",
            certificate.surplus, certificate.deficit, certificate.unassigned
        ),
        Some(load) => format!(
            "certificate: no plan that balances {} moves fewer than {bound}; this one moves {slots}: {verdict}",
            load.metric.as_str()
        ),
    };
    let mut claims = vec![
        bounded,
        format!(
            "table: every shard ends with the slots it says, in {} ranges before and {} after",
            summary.ranges_before, summary.ranges_after
        ),
        format!("waves: {} of at least {}, within the limits", summary.waves, summary.waves_lower_bound),
    ];
    claims.extend(placed);
    claims
}

//! Plans of a controller: propose, list, show, compare, review, start.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::args::{ApproveArgs, CreateArgs, DiffArgs, EndArgs, ListArgs, ObjectiveArg, PlanArgs, ShowArgs, StartArgs};
use super::{Shown, curve, detailed_exit, offline, show, statistics};
use crate::cli::api::Api;
use crate::cli::fault::Fault;
use crate::cli::node;
use crate::cli::output::{Format, escape};
use crate::cli::policy;
use crate::cli::prompt::{can_ask, confirm};
use crate::cli::reason;
use crate::cli::rollout;
use crate::cli::settings::Settings;
use crate::cli::table::{left, render, right};
use crate::client::{ClientError, PlanHandle};
use crate::domain::{Digest, PlanId, PlanState, Slot};
use crate::wire::plan::GoalView;
use crate::wire::{
    ApprovalRequest, EndRequest, PlanAnswer, PlanItem, PlanRequest, ReasonRequest, StatisticsView, Text, Timestamp,
};

/// Proposes a plan.
pub fn create(args: &CreateArgs, settings: &Settings) -> Result<(), Fault> {
    let goal = offline::goal(args)?;
    let statistics = args.stats.as_deref().map(statistics::read).transpose()?;
    let add = args.add.iter().map(|text| node::spec(text).map_err(|fault| fault.about("--add")));
    let mut body = PlanRequest {
        add: add.collect::<Result<_, _>>()?,
        repair: args.repair,
        goal: if args.revert.is_some() || args.repair { None } else { Some(GoalView::from(goal)) },
        objective: args.objective.map(ObjectiveArg::objective),
        statistics: statistics.map(|of| StatisticsView::new(&of, Timestamp(super::now()))),
        limits: policy::limits(&args.limits),
        placement: args.placement().map(Into::into),
        revert: args.revert.as_deref().map(PlanId::new).transpose()?,
        reason: reason::text(args.reason.as_deref())?,
        ..PlanRequest::default()
    };
    let api = if body.add.is_empty() { Api::open(settings)? } else { Api::open(&settings.for_nodes())? };
    for node in &mut body.add {
        // One that is not there yet may be another one's of the same plan.
        node.replica_of = node.replica_of.take().map(|shard| api.shard(shard.as_str()).unwrap_or(shard));
    }
    body.drain = args.drain.iter().map(|text| api.node(text)).collect::<Result<_, _>>()?;
    body.drain_shards = args.drain_shard.iter().map(|text| api.shard(text)).collect::<Result<_, _>>()?;
    body.reweight = reweight(&args.weight, &api)?;
    body.validate().map_err(|fault| Fault::invalid(fault.to_string()))?;
    let answer = api.call(api.cluster.propose(&body, args.dry_run))?;
    let not_empty = answer.plan.as_ref().is_some_and(|plan| !plan.actions.is_empty());
    match &answer.plan {
        Some(plan) if args.curve && settings.output.is_for_people() => settings.output.text(&curve::draw(plan))?,
        _ => show_answer(&answer, args.full, !args.dry_run, settings)?,
    }
    detailed_exit(args.detailed_exitcode && not_empty)
}

fn reweight(values: &[String], api: &Api) -> Result<BTreeMap<crate::domain::ShardId, crate::domain::Weight>, Fault> {
    let mut weights = BTreeMap::new();
    for value in values {
        let (shard, number) =
            value.rsplit_once('=').ok_or_else(|| Fault::invalid(format!("--weight {value:?}: not SHARD=NUMBER")))?;
        let number = node::weight(number).map_err(|fault| fault.about("--weight"))?;
        weights.insert(api.shard(shard)?, number);
    }
    Ok(weights)
}

fn show_answer(answer: &PlanAnswer, full: bool, stored: bool, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(answer);
    }
    if let Some(plan) = &answer.plan {
        return show(plan, &Shown { cluster: &settings.cluster, full, stored }, settings);
    }
    let why = answer.empty_because.as_deref().unwrap_or("nothing is to move");
    settings.output.text(&format!("No plan is needed: {}.", escape(why)))
}

/// Lists plans, newest first.
pub fn list(args: &ListArgs, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let mut plans = api.call(api.cluster.plans())?;
    if let Some(state) = &args.state {
        plans.retain(|plan| plan.state.as_str() == state);
    }
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.created_at));
    if !settings.output.is_for_people() {
        return settings.output.json_list(&plans);
    }
    let row = |plan: &PlanItem| {
        vec![
            plan.id.to_string(),
            plan.rollout_state
                .filter(|_| plan.state == PlanState::Running)
                .map_or(plan.state.as_str(), |state| state.as_str())
                .to_owned(),
            plan.slots.to_string(),
            format!("{}/{}", plan.approvals, plan.approvals_required),
            plan.base_epoch.to_string(),
            plan.author.to_string(),
            plan.created_at.to_string(),
            plan.reason.chars().take(30).collect(),
        ]
    };
    let columns = [
        left("PLAN"),
        left("STATE"),
        right("SLOTS"),
        right("APPROVALS"),
        right("EPOCH"),
        left("AUTHOR"),
        left("PROPOSED"),
        left("REASON"),
    ];
    settings.output.text(&render(&columns, &plans.iter().map(row).collect::<Vec<_>>()))
}

/// Shows a plan, or what it does with one slot or one shard, and why.
pub fn show_one(args: &ShowArgs, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let handle = api.cluster.plan(&PlanId::new(&args.plan)?);
    if args.slot.is_some() || args.shard.is_some() {
        let slot = args.slot.map(Slot::new).transpose()?;
        let shard = args.shard.as_deref().map(|text| api.shard(text)).transpose()?;
        let answer = api.call(handle.explain(slot, shard.as_ref()))?;
        if !settings.output.is_for_people() {
            return settings.output.json(&answer);
        }
        return super::explain::show(&answer.because, settings.output);
    }
    let plan = api.call(handle.show())?;
    if args.curve && settings.output.is_for_people() {
        settings.output.text(&curve::draw(&plan))
    } else if settings.output.is_for_people() {
        show(&plan, &Shown { cluster: &settings.cluster, full: args.full, stored: true }, settings)
    } else {
        settings.output.json(&plan)
    }
}

/// Compares two plans.
pub fn diff(args: &DiffArgs, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let (first, second) = (api.cluster.plan(&PlanId::new(&args.plan)?), PlanId::new(&args.other)?);
    let diff = api.call(first.diff(&second))?;
    if !settings.output.is_for_people() {
        return settings.output.json(&diff);
    }
    let (first, second) = (api.call(first.show())?, api.call(api.cluster.plan(&second).show())?);
    settings.output.text(&super::diff::text(&diff, [&first, &second], settings.output.format == Format::Wide))
}

/// Approves a plan by its digest.
pub fn approve(args: &ApproveArgs, settings: &Settings) -> Result<(), Fault> {
    let digest: Digest = args.digest.parse().map_err(|fault| Fault::from(fault).about("--digest"))?;
    let acks = args.ack.iter().map(|ack| Text::new(ack)).collect::<Result<_, _>>()?;
    let body = ApprovalRequest { digest, acks, reason: reason::text(args.reason.as_deref())? };
    let api = Api::open(settings)?;
    let plan = api.cluster.plan(&PlanId::new(&args.plan)?);
    let answer = api.wait(plan.approve(&body)).map_err(|error| refused(error, &plan, settings))?;
    short_answer(&answer, false, settings)
}

/// A refusal; for a stale plan with the command that mends it.
fn refused(error: ClientError, plan: &PlanHandle, settings: &Settings) -> Fault {
    let is_stale = matches!(&error, ClientError::Problem(problem) if problem.code == "plan-stale");
    match Fault::from(error) {
        Fault::Exit(exit, why) if is_stale => {
            Fault::Exit(exit, format!("{why}\n  next: slotkeeper{} plan refresh {}", settings.globals(), plan.id()))
        }
        fault => fault,
    }
}

/// Rejects or withdraws a plan.
pub fn end(args: &EndArgs, withdraw: bool, settings: &Settings) -> Result<(), Fault> {
    let body = EndRequest { revert_intent: args.revert_intent, reason: reason::text(args.reason.as_deref())? };
    let api = Api::open(settings)?;
    let plan = api.cluster.plan(&PlanId::new(&args.plan)?);
    let answer = if withdraw { api.call(plan.withdraw(&body))? } else { api.call(plan.reject(&body))? };
    short_answer(&answer, args.revert_intent, settings)
}

/// The state of a plan after a review, and what is next.
fn short_answer(answer: &PlanAnswer, reverting: bool, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(answer);
    }
    let Some(plan) = &answer.plan else { return settings.output.text("Done.") };
    let mut text = format!("Plan {} is {}", plan.id, plan.state.as_str());
    if matches!(plan.state, PlanState::Proposed | PlanState::Approved) {
        let _ = write!(text, " ({} of {} approvals)", plan.approvals.len(), plan.approvals_required);
    }
    text += ".\n";
    if let Some(ended) = &plan.ended {
        for (title, sentences) in [("Taken back", &ended.reverted), ("Left as it is", &ended.kept)] {
            for sentence in sentences {
                let _ = writeln!(text, "{title}: {}.", escape(&settings.output.shortened(sentence)));
            }
        }
        if reverting && ended.reverted.is_empty() && ended.kept.is_empty() {
            text += "There was nothing to take back of what it asked for.\n";
        }
    }
    for line in super::screen::next(plan, &settings.globals()) {
        let _ = writeln!(text, "{line}");
    }
    settings.output.text(&text)
}

/// Proposes a plan anew.
pub fn refresh(args: &PlanArgs, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let answer = api.call(api.cluster.plan(&PlanId::new(&args.plan)?).refresh(&ReasonRequest::default()))?;
    show_answer(&answer, false, true, settings)
}

/// Starts a rollout.
pub fn start(args: &StartArgs, settings: &Settings) -> Result<(), Fault> {
    can_ask(settings)?;
    let api = Api::open(settings)?;
    let handle = api.cluster.plan(&PlanId::new(&args.plan)?);
    let body = ReasonRequest { reason: reason::text(args.reason.as_deref())? };
    if !settings.yes {
        let plan = api.call(handle.show())?;
        let slots = plan.summary.slots + plan.summary.assigned;
        confirm(
            settings,
            &format!("Start {}: {slots} slots of cluster {} get another owner?", plan.id, settings.cluster),
        )?;
    }
    let answer = api.wait(handle.start(&body)).map_err(|error| refused(error, &handle, settings))?;
    if args.watch {
        return rollout::watch(&api, &handle, settings);
    }
    if !settings.output.is_for_people() {
        return settings.output.json(&answer);
    }
    let (plan, globals) = (handle.id(), settings.globals());
    settings.output.text(&format!(
        "The rollout of {plan} is {}.\nNext: slotkeeper{globals} rollout watch {plan}",
        answer.rollout.state.as_str()
    ))
}

//! `slotkeeper rollout`: plans being carried out.

mod watch;

use std::fmt::Write as _;

use clap::{Args, Subcommand};

pub use self::watch::watch;

use super::api::Api;
use super::fault::{Exit, Fault};
use super::output::escape;
use super::policy::{Bound, number_or_none};
use super::prompt::{can_ask, confirm};
use super::reason::ReasonArgs;
use super::settings::Settings;
use crate::client::{PlanHandle, Steer};
use crate::domain::{PlanId, RolloutState};
use crate::wire::{ActionStatus, RolloutAnswer, RolloutView, SteerRequest, Text, ThrottleRequest};

/// Rollouts: plans being carried out.
#[derive(Subcommand, Clone, Debug)]
pub enum RolloutCommand {
    /// Show how far a rollout is, and what is stuck
    Show(ShowArgs),
    /// Watch a rollout until it ends or is blocked
    Watch(RolloutArgs),
    /// Start no more actions for now; those in flight finish
    Pause(SteerArgs),
    /// Go on; failed actions are tried again
    Resume(SteerArgs),
    /// End after the actions in flight; moved slots stay where they are
    Abort(SteerArgs),
    /// Undo what was done
    Rollback(SteerArgs),
    /// Lower the pace, or return to the approved one
    Throttle(ThrottleArgs),
}

/// A rollout.
#[derive(Args, Clone, Debug)]
pub struct RolloutArgs {
    /// The plan's id; that of the running rollout when absent
    #[arg(value_name = "PLAN")]
    pub plan: Option<PlanId>,
}

/// What to show.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The plan's id; that of the running rollout when absent
    #[arg(value_name = "PLAN")]
    pub plan: Option<PlanId>,
    /// List every action
    #[arg(long)]
    pub full: bool,
}

/// A rollout that is to be steered.
#[derive(Args, Clone, Debug)]
pub struct SteerArgs {
    /// The plan's id; that of the running rollout when absent
    #[arg(value_name = "PLAN")]
    pub plan: Option<PlanId>,
    /// Acknowledge a warning by its name, such as stale-cache
    #[arg(long, value_name = "NAME")]
    pub ack: Vec<String>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A pace.
#[derive(Args, Clone, Debug)]
pub struct ThrottleArgs {
    /// The plan's id; that of the running rollout when absent
    #[arg(value_name = "PLAN")]
    pub plan: Option<PlanId>,
    /// Slots per second, at most the plan's; none returns to that
    #[arg(long, value_name = "N|none", value_parser = number_or_none)]
    pub slots_per_second: Bound,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: RolloutCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    match command {
        RolloutCommand::Show(args) => {
            let handle = handle(&api, args.plan)?;
            let rollout = if args.full { api.call(handle.rollout_in_full())? } else { api.call(handle.rollout())? };
            show(&rollout, settings)
        }
        RolloutCommand::Watch(args) => watch(&api, &handle(&api, args.plan)?, settings),
        RolloutCommand::Pause(args) => steer(&api, args, Steer::Pause, settings),
        RolloutCommand::Resume(args) => steer(&api, args, Steer::Resume, settings),
        RolloutCommand::Abort(args) => steer(&api, args, Steer::Abort, settings),
        RolloutCommand::Rollback(args) => steer(&api, args, Steer::RollBack, settings),
        RolloutCommand::Throttle(args) => {
            let reason = args.reason.text()?;
            let body = ThrottleRequest { slots_per_second: args.slots_per_second.0, reason };
            body.validate().map_err(|fault| Fault::invalid(fault.to_string()))?;
            let answer = api.call(handle(&api, args.plan)?.throttle(&body))?;
            show_answer(&answer, settings)
        }
    }
}

/// The plan named, or the one whose rollout is under way.
fn handle(api: &Api, plan: Option<PlanId>) -> Result<PlanHandle, Fault> {
    if let Some(plan) = plan {
        return Ok(api.cluster.plan(&plan));
    }
    let cluster = api.call(api.cluster.show())?;
    cluster
        .active_plan
        .map(|plan| api.cluster.plan(&plan))
        .ok_or_else(|| Fault::Exit(Exit::NotFound, format!("no rollout is under way in cluster {}", cluster.name)))
}

fn steer(api: &Api, args: SteerArgs, verb: Steer, settings: &Settings) -> Result<(), Fault> {
    if matches!(verb, Steer::Abort | Steer::RollBack) {
        can_ask(settings)?;
    }
    let acks = args.ack.iter().map(|ack| Text::new(ack)).collect::<Result<_, _>>()?;
    let body = SteerRequest { acks, reason: args.reason.text()? };
    let handle = handle(api, args.plan)?;
    let plan = handle.id();
    match verb {
        Steer::Pause | Steer::Resume => {}
        Steer::Abort => confirm(settings, &format!("Abort the rollout of {plan}? Moved slots stay where they are."))?,
        Steer::RollBack => confirm(settings, &format!("Roll {plan} back? Moved slots return to where they were."))?,
    }
    show_answer(&api.call(handle.steer(verb, &body))?, settings)
}

fn show_answer(answer: &RolloutAnswer, settings: &Settings) -> Result<(), Fault> {
    if settings.output.is_for_people() { show(&answer.rollout, settings) } else { settings.output.json(answer) }
}

fn show(rollout: &RolloutView, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(rollout);
    }
    let mut text = format!("Rollout of {}: {}\n", rollout.plan, line(rollout));
    text += &advice_line(rollout.advice.as_deref());
    let _ = writeln!(text, "started by {} {}", rollout.started_by.name, rollout.started_at);
    if let Some(ended) = rollout.ended_at {
        let _ = writeln!(text, "ended {ended}");
    }
    let pace = |pace: Option<u32>| pace.map_or_else(|| "no limit".to_owned(), |pace| format!("{pace} slots/s"));
    if rollout.slots_per_second.is_some() {
        let _ = writeln!(
            text,
            "throttled to {} (approved: {})",
            pace(rollout.slots_per_second),
            pace(rollout.slots_per_second_max)
        );
    }
    for action in &rollout.actions {
        let _ = writeln!(text, "  {}", watch::action_line(action));
        if action.advice != rollout.advice {
            text += &advice_line(action.advice.as_deref());
        }
    }
    settings.output.sentences(&text)
}

/// State, cause and figures on one line.
fn line(rollout: &RolloutView) -> String {
    let progress = &rollout.progress;
    let mut text = format!(
        "{}, {}/{} slots, {} in flight",
        rollout.state.as_str().replace('_', " "),
        progress.slots_done,
        progress.slots_total,
        progress.slots_in_flight
    );
    if progress.actions_failed > 0 {
        let actions = if progress.actions_failed == 1 { "action" } else { "actions" };
        let _ = write!(text, ", {} {actions} failed", progress.actions_failed);
    }
    if let Some(pace) = rollout.slots_per_second.or(rollout.slots_per_second_max) {
        let _ = write!(text, ", {pace} slots/s");
    }
    if let Some(until) = rollout.waits_until {
        let _ = write!(text, ", waits for its time window until {until}");
    }
    if let Some(ms) = rollout.eta_ms.filter(|_| !rollout.state.is_final()) {
        let _ = write!(text, ", ETA {}", super::plan::span_of_seconds(ms.div_ceil(1000)));
    }
    if let Some(cause) = &rollout.cause {
        let _ = write!(text, ": {}", escape(cause));
    }
    text
}

/// What to do, on a line of its own.
fn advice_line(advice: Option<&str>) -> String {
    advice.map_or_else(String::new, |advice| format!("      do: {}\n", escape(advice)))
}

/// How the state ends a watch, if it does.
fn outcome(state: RolloutState) -> Option<Result<(), Fault>> {
    match state {
        RolloutState::Succeeded => Some(Ok(())),
        RolloutState::Aborted | RolloutState::RolledBack | RolloutState::Blocked => {
            Some(Err(Fault::Exit(Exit::RolloutStopped, String::new())))
        }
        RolloutState::Running | RolloutState::Paused | RolloutState::Aborting | RolloutState::RollingBack => None,
    }
}

/// Whether an action is worth a line of its own.
fn is_stuck(status: ActionStatus) -> bool {
    status == ActionStatus::Failed
}

//! Watching a rollout: a bar on a terminal, a line per change otherwise, a document per change with `-o jsonl`.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{advice_line, is_stuck, line, outcome};
use crate::cli::api::Api;
use crate::cli::fault::{Exit, Fault};
use crate::cli::output::{Format, Output, escape, warn_line};
use crate::cli::settings::Settings;
use crate::client::{ClientError, PlanHandle};
use crate::domain::RolloutState;
use crate::wire::plan::ActionKindView;
use crate::wire::{RolloutAction, RolloutView};

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// How long no controller may answer before the watch gives up. The rollout goes on meanwhile.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Watches until the rollout ends or is blocked.
///
/// # Errors
/// [`Exit::RolloutStopped`] when it did not end well, [`Exit::Interrupted`] on Ctrl-C, [`Exit::Unavailable`] when no
/// controller answers for a minute.
pub fn watch(api: &Api, handle: &PlanHandle, settings: &Settings) -> Result<(), Fault> {
    api.wait(async {
        tokio::select! {
            ended = follow(handle, settings) => ended,
            _ = tokio::signal::ctrl_c() => {
                let why = format!("the rollout continues; slotkeeper{} rollout watch {}", settings.globals(), handle.id());
                Err(Fault::Exit(Exit::Interrupted, why))
            }
        }
    })
}

async fn follow(handle: &PlanHandle, settings: &Settings) -> Result<(), Fault> {
    let mut view = View::new(settings);
    let mut answered = Instant::now();
    loop {
        match handle.rollout().await {
            Ok(rollout) => {
                answered = Instant::now();
                view.update(&rollout)?;
                if let Some(outcome) = outcome(rollout.state) {
                    view.end(&rollout)?;
                    return outcome;
                }
            }
            Err(error) if may_pass(&error) && answered.elapsed() < GIVE_UP_AFTER => view.unreachable(&error),
            Err(error) => return Err(Fault::from(error)),
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// A member is down, or a leader is being elected: ask again.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => true,
        ClientError::Problem(problem) => matches!(problem.status, 429 | 502 | 503 | 504),
        ClientError::Protocol { .. } | ClientError::Config { .. } => false,
    }
}

/// What is on the screen.
struct View {
    output: Output,
    bar: Option<ProgressBar>,
    /// What was said last.
    last: Option<RolloutView>,
    /// Actions whose failure was told.
    told: BTreeSet<(u32, u32)>,
    /// That nobody answers was told.
    unreachable: bool,
}

impl View {
    fn new(settings: &Settings) -> Self {
        let output = settings.output;
        let on_terminal = output.is_for_people() && !output.quiet && std::io::stderr().is_terminal();
        let bar = on_terminal.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} slots  {msg}");
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self { output, bar, last: None, told: BTreeSet::new(), unreachable: false }
    }

    fn update(&mut self, rollout: &RolloutView) -> Result<(), Fault> {
        self.unreachable = false;
        for action in rollout.actions.iter().filter(|action| is_stuck(action.state)) {
            if self.told.insert((action.action.id.0.0, action.attempts)) && self.output.is_for_people() {
                self.say(&self.output.shortened(&action_line(action)))?;
                self.say_advice(action.advice.as_deref())?;
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(rollout.progress.slots_total));
            bar.set_position(u64::from(rollout.progress.slots_done));
            bar.set_message(self.output.shortened(&message(rollout)));
        }
        if self.last.as_ref().is_some_and(|last| same(last, rollout)) {
            return Ok(());
        }
        match self.output.format {
            Format::Jsonl => self.output.json(rollout)?,
            Format::Json => {}
            Format::Table | Format::Wide if self.bar.is_none() => {
                self.output.sentences(&line(rollout))?;
                self.say_advice(rollout.advice.as_deref())?;
            }
            Format::Table | Format::Wide => {
                let changed = self.last.as_ref().is_none_or(|last| last.state != rollout.state);
                if changed && rollout.state != RolloutState::Running && outcome(rollout.state).is_none() {
                    self.say(&self.output.shortened(&line(rollout)))?;
                }
            }
        }
        self.last = Some(rollout.clone());
        Ok(())
    }

    /// A line above the bar, or on stdout where there is none.
    fn say(&self, text: &str) -> Result<(), Fault> {
        if let Some(bar) = &self.bar {
            bar.println(text);
            return Ok(());
        }
        self.output.text(text)
    }

    fn say_advice(&self, advice: Option<&str>) -> Result<(), Fault> {
        if advice.is_none() { Ok(()) } else { self.say(advice_line(advice).trim_end()) }
    }

    fn unreachable(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.unreachable, true) && !self.output.quiet {
            let text = escape(&format!("no answer, asking again: {error}"));
            match &self.bar {
                Some(bar) => bar.println(text),
                None => warn_line(&text),
            }
        }
    }

    fn end(&self, rollout: &RolloutView) -> Result<(), Fault> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        match self.output.format {
            Format::Json => self.output.json(rollout),
            Format::Table | Format::Wide if self.bar.is_some() => {
                self.output.sentences(&(line(rollout) + "\n" + &advice_line(rollout.advice.as_deref())))
            }
            _ => Ok(()),
        }
    }
}

/// What stands beside the bar.
fn message(rollout: &RolloutView) -> String {
    let whole = line(rollout);
    let (state, rest) = whole.split_once(", ").unwrap_or((&whole, ""));
    let rest = rest.split_once(", ").map_or("", |(_, rest)| rest);
    format!("{state}, {rest}")
}

/// Nothing a person would see differs.
fn same(a: &RolloutView, b: &RolloutView) -> bool {
    a.state == b.state
        && a.waits_until == b.waits_until
        && a.progress == b.progress
        && a.cause == b.cause
        && a.advice == b.advice
        && a.slots_per_second == b.slots_per_second
}

/// One action: what it does, where it is, and why it is stuck.
pub(super) fn action_line(action: &RolloutAction) -> String {
    let ranges =
        |ranges: &[crate::domain::SlotRange]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let what = match &action.action.kind {
        ActionKindView::MoveSlots { from, to, ranges: slots } => format!("{from} -> {to} {}", ranges(slots)),
        ActionKindView::AssignSlots { from, to, ranges: slots } => {
            let from = from.as_ref().map_or("(unassigned)", |from| from.as_str());
            format!("{from} => {to} {}", ranges(slots))
        }
        ActionKindView::Promote { shard, to, .. } => format!("promote {to} in {shard}"),
        ActionKindView::SetReplicaOf { node, shard } => format!("{node} replica of {shard}"),
        ActionKindView::RepairSlot { slot, owner } => format!("close slot {slot} at {owner}"),
    };
    let state = serde_json::to_value(action.state).ok();
    let state = state.as_ref().and_then(serde_json::Value::as_str).unwrap_or("?").to_owned();
    let attempts = if action.attempts > 1 { format!(", attempt {}", action.attempts) } else { String::new() };
    let error = action.error.as_ref().map(|error| format!(": {}", escape(error))).unwrap_or_default();
    format!("{} {what}: {state}{attempts}{error}", action.action.id.0)
}

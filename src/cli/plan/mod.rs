//! `slotkeeper plan`: proposing, reviewing and checking plans.

mod args;
mod check;
mod diff;
mod explain;
mod names;
mod offline;
mod online;
mod screen;
mod curve;
mod source;
mod statistics;

pub use args::{Driver, LimitArgs, PlanCommand};
pub use explain::text as sentences;
pub use names::Names;
pub use screen::duration as span_of_seconds;

use self::args::CreateArgs;
use self::screen::Screen;
use super::fault::{Exit, Fault};
use super::settings::Settings;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::Instant;
use crate::wire::plan::{PlanLife, PlanView};

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: PlanCommand, settings: &Settings) -> Result<(), Fault> {
    match command {
        PlanCommand::Create(args) => match &args.offline {
            Some(file) => create_offline(file, &args, settings),
            None => online::create(&args, settings),
        },
        PlanCommand::List(args) => online::list(&args, settings),
        PlanCommand::Show(args) => online::show_one(&args, settings),
        PlanCommand::Diff(args) => online::diff(&args, settings),
        PlanCommand::Check(args) => check::run(&args, settings.output),
        PlanCommand::Approve(args) => online::approve(&args, settings),
        PlanCommand::Reject(args) => online::end(&args, false, settings),
        PlanCommand::Withdraw(args) => online::end(&args, true, settings),
        PlanCommand::Refresh(args) => online::refresh(&args, settings),
        PlanCommand::Start(args) => online::start(&args, settings),
    }
}

fn create_offline(file: &str, args: &CreateArgs, settings: &Settings) -> Result<(), Fault> {
    let (plan, table) = offline::create(file, args)?;
    if args.explain_slot.is_some() || args.explain_shard.is_some() {
        let because = explain::offline(&plan, &table, args.explain_slot, args.explain_shard.as_deref())?;
        explain::show(&because, settings.output)?;
        return detailed_exit(args.detailed_exitcode && !plan.body.actions.is_empty());
    }
    let view = PlanView::new(&plan, PlanLife::proposed(&plan));
    if settings.output.is_for_people() && args.curve {
        settings.output.text(&curve::draw(&view))?;
    } else if settings.output.is_for_people() {
        let shown = Shown { cluster: source::OFFLINE, full: args.full, stored: true };
        show(&view, &shown, settings)?;
    } else {
        settings.output.json(&view)?;
    }
    detailed_exit(args.detailed_exitcode && !view.actions.is_empty())
}

/// 10 when there is something to do and the caller wants to know.
fn detailed_exit(not_empty: bool) -> Result<(), Fault> {
    if not_empty { Err(Fault::Exit(Exit::NotEmpty, String::new())) } else { Ok(()) }
}

/// Puts a plan on the screen.
fn show(plan: &PlanView, shown: &Shown<'_>, settings: &Settings) -> Result<(), Fault> {
    let wide = settings.output.format == super::output::Format::Wide;
    let (globals, output) = (settings.globals(), settings.output);
    let Shown { cluster, full, stored } = *shown;
    let screen = Screen { plan, cluster, globals: &globals, now: now(), full, wide, stored, output };
    output.text(&screen.render())
}

/// What is shown of a plan.
struct Shown<'a> {
    cluster: &'a str,
    full: bool,
    stored: bool,
}

fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

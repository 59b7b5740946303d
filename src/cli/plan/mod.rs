//! `slotkeeper plan`: proposing, reviewing and checking plans.

mod args;
mod check;
mod names;
mod offline;
mod screen;
mod source;

pub use args::PlanCommand;

use self::args::CreateArgs;
use self::screen::Screen;
use super::fault::{Exit, Fault};
use super::settings::Settings;
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
            None => Err(Fault::error("not yet")),
        },
        PlanCommand::Check(args) => check::run(&args, settings.output),
        _ => Err(Fault::error("not yet")),
    }
}

fn create_offline(file: &str, args: &CreateArgs, settings: &Settings) -> Result<(), Fault> {
    let plan = offline::create(file, args)?;
    let view = PlanView::new(&plan, PlanLife::proposed(&plan));
    if settings.output.is_for_people() {
        show(&view, source::OFFLINE, args.full, plan.created_at, settings)?;
    } else {
        settings.output.json(&view)?;
    }
    detailed_exit(args.detailed_exitcode && !view.actions.is_empty())
}

/// 10 when there is something to do and the caller wants to know.
fn detailed_exit(not_empty: bool) -> Result<(), Fault> {
    if not_empty { Err(Fault::Exit(Exit::NotEmpty, String::new())) } else { Ok(()) }
}

fn show(plan: &PlanView, cluster: &str, full: bool, now: Instant, settings: &Settings) -> Result<(), Fault> {
    let wide = settings.output.format == super::output::Format::Wide;
    let globals = settings.globals();
    let output = settings.output;
    settings.output.text(&Screen { plan, cluster, globals: &globals, now, full, wide, output }.render())
}

//! The command line: arguments, one file per group of commands, rendering. Talks to a controller only through `client`.

mod fault;
mod input;
mod output;
mod plan;
mod settings;
mod table;

use std::process::ExitCode;

use clap::Subcommand;

pub use self::settings::GlobalArgs;

use self::fault::Fault;
use self::settings::Settings;

/// Commands that talk to a controller, or need none.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Plans: what is to change, reviewed before it does
    #[command(subcommand)]
    Plan(plan::PlanCommand),
}

/// Carries out a command and gives the process's exit code.
#[must_use]
pub fn run(global: &GlobalArgs, command: Command) -> ExitCode {
    let outcome = Settings::resolve(global).and_then(|settings| dispatch(command, &settings));
    outcome.map_or_else(Fault::report, |()| ExitCode::SUCCESS)
}

fn dispatch(command: Command, settings: &Settings) -> Result<(), Fault> {
    match command {
        Command::Plan(command) => plan::run(command, settings),
    }
}

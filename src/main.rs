//! The `slotkeeper` binary: reads the arguments and hands over to `cli` or `app`.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use slotkeeper::{app, cli};

/// Coordinates the slots of sharded clusters: exact plans, reviewed, carried out, and seen by every client at once.
#[derive(Parser)]
#[command(name = "slotkeeper", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    global: cli::GlobalArgs,
    #[command(subcommand)]
    command: Top,
}

#[derive(Subcommand)]
enum Top {
    /// Run a controller: alone, or as a member of a group
    Serve(app::ServeArgs),
    /// Run one controller on loopback for trying things out; no token needed
    Dev(app::DevArgs),
    #[command(flatten)]
    Other(cli::Command),
}

fn main() -> ExitCode {
    let Arguments { global, command } = Arguments::parse();
    match command {
        Top::Serve(args) => app::serve(args),
        Top::Dev(args) => app::dev(args),
        Top::Other(command) => cli::run(&global, command, Arguments::command()),
    }
}

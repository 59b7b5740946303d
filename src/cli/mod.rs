//! The command line: arguments, one file per group of commands, rendering. Talks to a controller only through `client`.

mod api;
mod audit;
mod cluster;
mod compare;
mod config;
mod fault;
mod input;
mod member;
mod node;
mod output;
mod pick;
mod plan;
mod policy;
mod prompt;
mod proposed;
mod reason;
mod rollout;
mod settings;
mod shard;
mod slot;
mod snapshot;
mod status;
mod table;
mod tls;
mod token;
mod topology;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::Shell;

pub use self::settings::GlobalArgs;
pub use self::snapshot::{Refusal, SaveArgs, StatusArgs, save as save_snapshot, show_made, status as snapshot_status};

use self::fault::Fault;
use self::settings::Settings;

/// Commands that talk to a controller, or need none.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Show the controller that answers, its group and its clusters
    Status,
    /// Clusters: named slot tables
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Nodes of a cluster
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Shards of a cluster
    #[command(subcommand)]
    Shard(shard::ShardCommand),
    /// Plans: what is to change, reviewed before it does
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Rollouts: plans being carried out
    #[command(subcommand)]
    Rollout(rollout::RolloutCommand),
    /// What clients see of a cluster
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    /// Single slots and keys
    #[command(subcommand)]
    Slot(slot::SlotCommand),
    /// Compare what a scale event costs under each hash family; works without any controller
    Compare(Box<compare::CompareArgs>),
    /// Members of the raft group
    #[command(subcommand)]
    Member(member::MemberCommand),
    /// Bearer tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Who did what, when and why
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Settings of this command line
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a completion script
    Completions {
        /// For which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write a manual page of every command
    Man {
        /// The folder to write them to; made when it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print the version
    Version,
}

/// Carries out a command and gives the process's exit code. `program` is the whole command line, for completions and manual pages.
#[must_use]
pub fn run(global: &GlobalArgs, command: Command, program: clap::Command) -> ExitCode {
    let outcome = Settings::resolve(global).and_then(|settings| dispatch(command, &settings, program));
    outcome.map_or_else(Fault::report, |()| ExitCode::SUCCESS)
}

fn dispatch(command: Command, settings: &Settings, program: clap::Command) -> Result<(), Fault> {
    match command {
        Command::Status => status::run(settings),
        Command::Cluster(command) => cluster::run(command, settings),
        Command::Node(command) => node::run(command, settings),
        Command::Shard(command) => shard::run(command, settings),
        Command::Plan(command) => plan::run(command, settings),
        Command::Rollout(command) => rollout::run(command, settings),
        Command::Topology(command) => topology::run(&command, settings),
        Command::Slot(command) => slot::run(&command, settings),
        Command::Compare(args) => compare::run(&args, settings),
        Command::Member(command) => member::run(command, settings),
        Command::Token(command) => token::run(command, settings),
        Command::Audit(command) => audit::run(&command, settings),
        Command::Config(command) => config::run(&command, settings),
        Command::Completions { shell } => completions(shell, program, settings),
        Command::Man { folder } => man(&folder, program),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            if settings.output.is_for_people() {
                settings.output.text(&format!("slotkeeper {version}"))
            } else {
                settings.output.json(&serde_json::json!({"version": version}))
            }
        }
    }
}

fn completions(shell: Shell, mut program: clap::Command, settings: &Settings) -> Result<(), Fault> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "slotkeeper", &mut script);
    settings.output.text(&String::from_utf8_lossy(&script))
}

fn man(folder: &Path, program: clap::Command) -> Result<(), Fault> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    written.map_err(|fault| Fault::error(fault.to_string()).about(folder.display()))
}

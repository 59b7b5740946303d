//! The `slotkeeper` binary: reads the arguments and hands over to `cli` or `app`.

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use slotkeeper::raft::{Made, OpenError};
use slotkeeper::wire::SnapshotSummary;
use slotkeeper::{app, cli};

// Every request makes and frees small things from two threads; see docs/benchmarks.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Snapshots: backups of a controller, and what is made of them
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Make the stopped member that is left the first of a new group; the old group ends
    ForceNewGroup(app::ForceNewGroupArgs),
    #[command(hide = true)]
    Tether(app::TetherArgs),
    #[command(flatten)]
    Other(cli::Command),
}

#[derive(Subcommand)]
enum Snapshot {
    /// Save a snapshot of a running controller, of everything committed before
    Save(cli::SaveArgs),
    /// Check a snapshot file and show what it holds
    Status(cli::StatusArgs),
    /// Make a data directory from a snapshot: a member of a new group
    Restore(app::RestoreArgs),
}

fn main() -> ExitCode {
    let Arguments { global, command } = Arguments::parse();
    match command {
        Top::Serve(args) => app::serve(args),
        Top::Dev(args) => app::dev(args),
        Top::Snapshot(Snapshot::Save(args)) => cli::save_snapshot(&global, &args, inspect),
        Top::Snapshot(Snapshot::Status(args)) => cli::snapshot_status(&global, &args, inspect),
        Top::Snapshot(Snapshot::Restore(args)) => made(&global, app::restore(args)),
        Top::Tether(args) => app::tether(&args),
        Top::ForceNewGroup(args) => made(&global, app::force_new_group(args)),
        Top::Other(command) => cli::run(&global, command, Arguments::command()),
    }
}

fn inspect(file: &Path) -> Result<SnapshotSummary, cli::Refusal> {
    let found = app::inspect(file).map_err(|error| (error.exit_code(), error.to_string()))?;
    Ok(SnapshotSummary {
        written_by: found.written_by,
        group_id: found.group_id,
        index: found.index,
        term: found.term,
        members: found.members,
        clusters: found.clusters.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect(),
        audit: found.audit,
        state_hash: found.state_hash,
        sha256: found.sha256,
        bytes: found.bytes,
    })
}

fn made(global: &cli::GlobalArgs, outcome: Result<Made, OpenError>) -> ExitCode {
    let made = match outcome {
        Ok(made) => made,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(error.exit_code());
        }
    };
    let members: Vec<String> = made.members.iter().map(|(id, address)| format!("{id}={address}")).collect();
    let mut lines = vec![
        format!(
            "This is member {} of the new group {}, which begins at index {}.",
            made.member_id, made.group_id, made.index
        ),
        format!("Members: {}. Members of the old group {} are refused.", members.join(", "), made.old_group_id),
    ];
    lines.extend(made.clusters.iter().map(|(name, version)| format!("Cluster {name} is at version {version} now.")));
    let clusters: Vec<_> =
        made.clusters.iter().map(|(name, version)| (name.to_string(), version.to_string())).collect();
    let value = serde_json::json!({
        "group_id": made.group_id, "old_group_id": made.old_group_id, "member_id": made.member_id,
        "members": made.members, "index": made.index, "clusters": clusters,
    });
    cli::show_made(global, &lines, &value)
}

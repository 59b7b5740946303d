//! `slotkeeper cluster`: named slot tables.

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::{Exit, Fault};
use super::output::counted;
use super::plan::Driver;
use super::policy::PolicyArgs;
use super::prompt::{can_ask, confirm};
use super::reason::ReasonArgs;
use super::settings::Settings;
use super::table::{left, render, right};
use super::{input, output};
use crate::domain::{ClusterName, Host, Topology, Window};
use crate::nodes_text;
use crate::wire::{ClusterCreate, ClusterPatch, ClusterView, ImportRequest, TopologyBody};

/// Clusters: named slot tables.
#[derive(Subcommand, Clone, Debug)]
pub enum ClusterCommand {
    /// Create a cluster without nodes
    Create(CreateArgs),
    /// List clusters
    List,
    /// Show a cluster
    Show(NameArgs),
    /// Change driver, review or pace of a cluster
    Configure(ConfigureArgs),
    /// Adopt a running cluster from what redis-cli cluster nodes printed
    Import(ImportArgs),
    /// Check that every slot has an owner and none is on its way
    Check(NameArgs),
    /// Print a cluster as the text of CLUSTER NODES
    Export(NameArgs),
    /// Delete a cluster with its history
    Delete(DeleteArgs),
}

/// A cluster.
#[derive(Args, Clone, Debug)]
pub struct NameArgs {
    /// The cluster's name; that of --cluster when absent
    #[arg(value_name = "NAME")]
    pub name: Option<ClusterName>,
}

/// A new cluster.
#[derive(Args, Clone, Debug)]
pub struct CreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: ClusterName,
    /// How its slots move
    #[arg(long, value_enum, default_value_t = Driver::Flip)]
    pub driver: Driver,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
    /// Review and pace.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// What changes of a cluster.
#[derive(Args, Clone, Debug)]
pub struct ConfigureArgs {
    /// The cluster's name; that of --cluster when absent
    #[arg(value_name = "NAME")]
    pub name: Option<ClusterName>,
    /// How its slots move
    #[arg(long, value_enum)]
    pub driver: Option<Driver>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
    /// Review and pace.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// What to adopt.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// The text of CLUSTER NODES (- for stdin)
    #[arg(value_name = "FILE")]
    pub file: String,
    /// The host that was asked: for nodes printed without one
    #[arg(long, value_name = "HOST")]
    pub dialled: Option<String>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// What to delete.
#[derive(Args, Clone, Debug)]
pub struct DeleteArgs {
    /// The cluster's name
    #[arg(value_name = "NAME")]
    pub name: ClusterName,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: ClusterCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let named = |name: Option<ClusterName>| name.map_or_else(|| api.cluster.clone(), |name| api.client.cluster(&name));
    match command {
        ClusterCommand::Create(args) => create(&args, &api, settings),
        ClusterCommand::List => {
            let clusters = api.call(api.client.clusters())?;
            if settings.output.is_for_people() {
                settings.output.text(&list(&clusters))
            } else {
                settings.output.json_list(&clusters)
            }
        }
        ClusterCommand::Show(args) => show(&api.call(named(args.name).show())?, settings),
        ClusterCommand::Configure(args) => {
            let cluster = named(args.name);
            let body = ClusterPatch {
                driver: args.driver.map(Driver::kind),
                policy: args.policy.patch(),
                reason: args.reason.text()?,
            };
            if body.driver.is_none() && body.policy.is_none() {
                return Err(Fault::invalid("nothing to change: see slotkeeper cluster configure --help"));
            }
            let revision = api.call(cluster.show())?.revision;
            let answer = api.call(cluster.configure(revision, &body))?;
            if settings.output.is_for_people() {
                show(&answer.cluster, settings)
            } else {
                settings.output.json(&answer)
            }
        }
        ClusterCommand::Import(args) => import(&args, &api, settings),
        ClusterCommand::Check(args) => check(&api.call(named(args.name).topology_linearizable())?, settings),
        ClusterCommand::Export(args) => export(&api.call(named(args.name).topology_linearizable())?, settings),
        ClusterCommand::Delete(args) => {
            can_ask(settings)?;
            let cluster = api.client.cluster(&args.name);
            let revision = api.call(cluster.show())?.revision;
            confirm(settings, &format!("Delete cluster {} with its plans?", args.name))?;
            let answer = api.call(cluster.delete(revision))?;
            if settings.output.is_for_people() {
                settings.output.text(&format!("Cluster {} is deleted.", args.name))
            } else {
                settings.output.json(&answer)
            }
        }
    }
}

fn create(args: &CreateArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let (name, driver) = (args.name.clone(), args.driver.kind());
    let body = ClusterCreate { name, driver, policy: args.policy.patch(), reason: args.reason.text()? };
    let answer = api.call(api.client.create_cluster(&body))?;
    if settings.output.is_for_people() { show(&answer.cluster, settings) } else { settings.output.json(&answer) }
}

fn import(args: &ImportArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let bytes = input::read(&args.file)?;
    let nodes_text =
        String::from_utf8(bytes).map_err(|fault| Fault::invalid(format!("{}: not UTF-8: {fault}", args.file)))?;
    let dialled = args.dialled.as_deref().map(Host::new).transpose()?;
    let body = ImportRequest { nodes_text, dialled, reason: args.reason.text()? };
    let answer = api.call(api.cluster.import(&body))?;
    if !settings.output.is_for_people() {
        return settings.output.json(&answer);
    }
    let cluster = &answer.cluster;
    let mut text = format!(
        "Cluster {} is adopted: {} in {}, {} without an owner; epoch {}.\n",
        cluster.name,
        counted(cluster.nodes, "node"),
        counted(cluster.shards, "shard"),
        counted(cluster.unassigned, "slot"),
        answer.epoch
    );
    for note in &answer.notes {
        text.push_str("  note: ");
        text.push_str(&output::escape(note));
        text.push('\n');
    }
    settings.output.sentences(&text)
}

/// Clusters as a table.
#[must_use]
pub fn list(clusters: &[ClusterView]) -> String {
    let columns = [
        left("CLUSTER"),
        left("DRIVER"),
        right("EPOCH"),
        right("NODES"),
        right("SHARDS"),
        right("UNASSIGNED"),
        left("ROLLOUT"),
    ];
    let row = |cluster: &ClusterView| {
        vec![
            cluster.name.to_string(),
            cluster.driver.as_str().to_owned(),
            cluster.epoch.to_string(),
            cluster.nodes.to_string(),
            cluster.shards.to_string(),
            cluster.unassigned.to_string(),
            cluster.active_plan.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ]
    };
    render(&columns, &clusters.iter().map(row).collect::<Vec<_>>())
}

fn show(cluster: &ClusterView, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(cluster);
    }
    let (policy, limits) = (&cluster.policy, &cluster.policy.limits);
    let optional = |number: Option<u64>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let rows = [
        ("cluster", format!("{} (id {}, revision {})", cluster.name, cluster.id, cluster.revision)),
        ("version", format!("generation {}, epoch {}", cluster.generation, cluster.epoch)),
        (
            "size",
            format!(
                "{}, {}, {}",
                counted(cluster.nodes, "node"),
                counted(cluster.shards, "shard"),
                counted(cluster.unassigned, "unassigned slot")
            ),
        ),
        ("driver", cluster.driver.as_str().to_owned()),
        (
            "review",
            format!(
                "{}, author may approve: {}, automatic up to slots: {}, expires after {} s",
                counted(policy.approvals, "approval"),
                policy.author_may_approve,
                optional(policy.auto_approve_max_slots.map(u64::from)),
                policy.ttl_ms / 1000
            ),
        ),
        (
            "pace",
            format!(
                "slots/s {}, bytes/s {}, {} a move, {} a source, {} a target, overlap {} ms",
                optional(limits.slots_per_second.map(u64::from)),
                optional(limits.bytes_per_second),
                counted(limits.slots_per_move, "slot"),
                counted(limits.moves_per_source, "move"),
                limits.moves_per_target,
                limits.overlap_ms
            ),
        ),
        ("windows", windows(&limits.windows)),
        ("rollout", cluster.active_plan.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)),
    ];
    let text: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<9}{value}\n")).collect();
    settings.output.text(&text.concat())
}

/// The time windows, or that actions start at any time.
fn windows(windows: &[Window]) -> String {
    let texts: Vec<String> = windows.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "any time".to_owned() } else { format!("{} (UTC)", texts.join(", ")) }
}

fn check(topology: &Topology, settings: &Settings) -> Result<(), Fault> {
    let mut faults = Vec::new();
    let unassigned = topology.table.unassigned();
    if !unassigned.is_empty() {
        faults.push(format!("{} without an owner: {unassigned}", counted(unassigned.len() as u64, "slot")));
    }
    for moving in &topology.moving {
        faults.push(format!("slots {} are on their way from {} to {}", moving.range, moving.from, moving.to));
    }
    if settings.output.is_for_people() {
        let mut text = format!(
            "epoch {}: {}, {}, {} of 16384 slots owned\n",
            topology.version.epoch,
            counted(topology.shards.len() as u64, "shard"),
            counted(topology.table.range_count() as u64, "range"),
            16384 - unassigned.len()
        );
        for fault in &faults {
            text.extend(["FAIL  ", &output::escape(fault), "\n"]);
        }
        settings.output.sentences(&text)?;
    } else {
        settings.output.json(&serde_json::json!({"ok": faults.is_empty(), "faults": faults}))?;
    }
    if faults.is_empty() { Ok(()) } else { Err(Fault::Exit(Exit::Error, String::new())) }
}

fn export(topology: &Topology, settings: &Settings) -> Result<(), Fault> {
    if settings.output.is_for_people() {
        settings.output.text(&nodes_text::print(topology))
    } else {
        settings.output.json(&TopologyBody::from(topology))
    }
}

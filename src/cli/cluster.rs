//! `slotkeeper cluster`: named slot tables.

mod check;
mod import;
mod stats;

use clap::{Args, Subcommand};

use self::import::ImportArgs;
use self::stats::StatsArgs;
use super::api::Api;
use super::fault::Fault;
use super::output::counted;
use super::plan::Driver;
use super::policy::PolicyArgs;
use super::prompt::{can_ask, confirm};
use super::reason::ReasonArgs;
use super::settings::Settings;
use super::table::{left, render, right};
use crate::domain::{ClusterName, DriverKind, Topology, Window};
use crate::nodes_text;
use crate::wire::{ClusterCreate, ClusterPatch, ClusterView, TopologyBody};

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
    /// Adopt a running cluster: by the address of a node, or from what redis-cli cluster nodes printed
    Import(ImportArgs),
    /// Check that every slot has an owner, none is on its way, and the nodes say the same (exit 3 otherwise)
    Check(NameArgs),
    /// Print what the nodes count of each slot, as CSV that plan create --stats takes
    Stats(StatsArgs),
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
        ClusterCommand::Import(args) => import::import(&args, &api, settings),
        ClusterCommand::Check(args) => {
            let cluster = named(args.name);
            let topology = api.call(cluster.topology_linearizable())?;
            let is_seen = api.call(cluster.show())?.driver == DriverKind::Redis && !topology.shards.is_empty();
            let drift = if is_seen { Some(api.call(cluster.drift())?) } else { None };
            check::check(&topology, drift.as_ref(), settings)
        }
        ClusterCommand::Stats(args) => stats::stats(&args, &named(args.name.clone()), &api, settings),
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

fn export(topology: &Topology, settings: &Settings) -> Result<(), Fault> {
    if settings.output.is_for_people() {
        settings.output.text(&nodes_text::print(topology))
    } else {
        settings.output.json(&TopologyBody::from(topology))
    }
}

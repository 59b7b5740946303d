//! `slotkeeper topology`: what clients see.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Subcommand;

use super::api::Api;
use super::fault::Fault;
use super::output::Format;
use super::plan::Names;
use super::settings::Settings;
use super::table::{left, render, right};
use crate::client::{CacheError, CacheOptions, TopologyCache};
use crate::domain::{ShardState, Topology};
use crate::wire::TopologyBody;

/// What clients see of a cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum TopologyCommand {
    /// Print the topology
    Get,
    /// Print each new epoch as it comes, until Ctrl-C
    Watch,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: &TopologyCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    match command {
        TopologyCommand::Get => {
            if settings.output.is_for_people() {
                let topology = api.call(api.cluster.topology())?;
                settings.output.text(&table(&topology, settings.output.format == Format::Wide))
            } else {
                settings.output.json(&api.call(api.cluster.topology_body())?)
            }
        }
        TopologyCommand::Watch => watch(&api, settings),
    }
}

/// Time between two looks at how the cache fares.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the cluster as a client library does: never back, through changes of leader and restarts.
fn watch(api: &Api, settings: &Settings) -> Result<(), Fault> {
    api.wait(async {
        let cache = TopologyCache::start(&api.client, api.cluster.name(), CacheOptions::default());
        let mut versions = cache.watch();
        cache.ready(settings.timeout).await.map_err(fault)?;
        let mut faring = true;
        loop {
            // Before the map is read: a version that comes in between wakes the wait below, and none is printed twice.
            versions.mark_unchanged();
            let routes = cache.routes().ok_or_else(|| Fault::error("the cache lost its map"))?;
            print(routes.topology(), settings)?;
            loop {
                tokio::select! {
                    changed = versions.changed() => {
                        changed.map_err(|_| Fault::error("the cache ended"))?;
                        break;
                    }
                    () = tokio::time::sleep(LOOK) => {
                        let error = cache.status().error;
                        if let Some(error) = error.as_ref().filter(|_| faring) {
                            settings.output.note(&format!("the last map stays, asking again: {error}"));
                        }
                        faring = error.is_none();
                    }
                }
            }
        }
    })
}

fn fault(error: CacheError) -> Fault {
    match error {
        CacheError::Client(error) => error.into(),
        CacheError::OtherCluster { .. } => Fault::conflict(error.to_string()),
        CacheError::NotNewer { .. } => Fault::error(error.to_string()),
    }
}

fn print(topology: &Topology, settings: &Settings) -> Result<(), Fault> {
    if settings.output.is_for_people() {
        settings.output.text(&one_line(topology))
    } else {
        settings.output.json(&TopologyBody::from(topology))
    }
}

fn one_line(topology: &Topology) -> String {
    let slots_moving: usize = topology.moving.iter().map(|moving| moving.range.count()).sum();
    let counts = topology.table.counts();
    let shards: Vec<String> =
        topology.table.shards().iter().zip(counts).map(|(shard, count)| format!("{shard}:{count}")).collect();
    let ids = Names::of(topology.table.shards().iter().map(crate::domain::ShardId::as_str));
    let shards: Vec<String> = shards
        .iter()
        .map(|entry| entry.split_once(':').map_or(entry.clone(), |(id, count)| format!("{}:{count}", ids.show(id))))
        .collect();
    format!(
        "epoch {} generation {}  {} ranges  {slots_moving} slots moving  {}",
        topology.version.epoch,
        topology.version.generation,
        topology.table.range_count(),
        shards.join(" ")
    )
}

fn table(topology: &Topology, wide: bool) -> String {
    let ids = topology.shards.iter().map(|shard| shard.id.as_str());
    let names = if wide { Names::whole() } else { Names::of(ids) };
    let counts = topology.table.counts();
    let rows: Vec<Vec<String>> = topology
        .shards
        .iter()
        .zip(counts)
        .map(|(shard, count)| {
            let ranges: Vec<String> = topology.table.ranges_of(&shard.id).iter().map(ToString::to_string).collect();
            let shown = if wide { ranges.len() } else { ranges.len().min(3) };
            let more = if shown < ranges.len() { format!(",… {} more", ranges.len() - shown) } else { String::new() };
            let state = if shard.state == ShardState::Draining { "draining" } else { "active" };
            vec![
                names.show(shard.id.as_str()).to_owned(),
                state.to_owned(),
                shard.primary.to_string(),
                shard.replicas.len().to_string(),
                count.to_string(),
                format!("{}{more}", ranges[..shown].join(",")),
            ]
        })
        .collect();
    let columns = [left("SHARD"), left("STATE"), left("PRIMARY"), right("REPLICAS"), right("SLOTS"), left("RANGES")];
    let mut text = format!(
        "cluster {} generation {} epoch {}\n",
        topology.cluster_id, topology.version.generation, topology.version.epoch
    );
    text += &render(&columns, &rows);
    let unassigned = topology.table.unassigned();
    if !unassigned.is_empty() {
        let _ = writeln!(text, "{} slots have no owner", unassigned.len());
    }
    for moving in &topology.moving {
        let (from, to) = (names.show(moving.from.as_str()), names.show(moving.to.as_str()));
        let _ = writeln!(text, "moving {} {from} -> {to}", moving.range);
    }
    text
}

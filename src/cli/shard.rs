//! `slotkeeper shard`: the shards of a cluster.

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::Fault;
use super::node::weight;
use super::plan::Names;
use super::policy::{Bound, number_or_none};
use super::prompt::{can_ask, confirm};
use super::proposed;
use super::reason::ReasonArgs;
use super::settings::Settings;
use super::table::{left, render, right};
use crate::cli::output::Format;
use crate::domain::{ShardState, SlotRange};
use crate::wire::{ShardAnswer, ShardDrainRequest, ShardPatch, ShardView};

/// Shards of a cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum ShardCommand {
    /// List shards
    List,
    /// Show a shard
    Show(ShardArgs),
    /// Change weight, bounds or pins, and propose a plan
    Set(SetArgs),
    /// Drain a shard, and propose a plan that empties it
    Drain(DrainArgs),
    /// Take a drain back
    Undrain(ShardArgs),
}

/// A shard.
#[derive(Args, Clone, Debug)]
pub struct ShardArgs {
    /// Id, or a unique beginning of it
    #[arg(value_name = "SHARD")]
    pub shard: String,
}

/// What changes of a shard.
#[derive(Args, Clone, Debug)]
pub struct SetArgs {
    /// Id, or a unique beginning of it
    #[arg(value_name = "SHARD")]
    pub shard: String,
    /// New weight, 0..=10000
    #[arg(long, value_name = "W")]
    pub weight: Option<String>,
    /// Fewest slots; none lifts the bound
    #[arg(long, value_name = "N|none", value_parser = number_or_none)]
    pub min_slots: Option<Bound>,
    /// Most slots; none lifts the bound
    #[arg(long, value_name = "N|none", value_parser = number_or_none)]
    pub max_slots: Option<Bound>,
    /// Slots that must not leave it, such as 0-99,4000; none lifts all pins
    #[arg(long, value_name = "RANGES|none")]
    pub pin: Option<String>,
    /// Only change it; propose no plan
    #[arg(long)]
    pub no_propose: bool,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A shard to empty.
#[derive(Args, Clone, Debug)]
pub struct DrainArgs {
    /// Id, or a unique beginning of it
    #[arg(value_name = "SHARD")]
    pub shard: String,
    /// Only mark it; propose no plan
    #[arg(long)]
    pub no_propose: bool,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: ShardCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let cluster = &api.cluster;
    match command {
        ShardCommand::List => {
            let shards = api.call(cluster.shards())?;
            if settings.output.is_for_people() {
                settings.output.text(&list(&shards, settings.output.format == Format::Wide))
            } else {
                settings.output.json_list(&shards)
            }
        }
        ShardCommand::Show(args) => {
            let shard = api.call(cluster.shard(&api.shard(&args.shard)?))?;
            if settings.output.is_for_people() {
                settings.output.text(&list(&[shard], true))
            } else {
                settings.output.json(&shard)
            }
        }
        ShardCommand::Set(args) => {
            let body = patch(&args)?;
            let shard = api.call(cluster.shard(&api.shard(&args.shard)?))?;
            answer(&api.call(cluster.set_shard(&shard.id, shard.revision, &body))?, "is changed", settings)
        }
        ShardCommand::Drain(args) => {
            can_ask(settings)?;
            let shard = api.shard(&args.shard)?;
            confirm(settings, &format!("Drain shard {shard} of cluster {}?", settings.cluster))?;
            let propose = if args.no_propose { Some(false) } else { None };
            let body = ShardDrainRequest { propose, reason: args.reason.text()? };
            answer(&api.call(cluster.drain_shard(&shard, &body))?, "is draining", settings)
        }
        ShardCommand::Undrain(args) => {
            let shard = api.shard(&args.shard)?;
            answer(&api.call(cluster.undrain_shard(&shard))?, "is active again", settings)
        }
    }
}

fn patch(args: &SetArgs) -> Result<ShardPatch, Fault> {
    let bound = |name: &str, bound: Option<Bound>| {
        bound
            .map(|Bound(number)| {
                number
                    .map(|number| u16::try_from(number).map_err(|_| Fault::invalid(format!("{name}: above 16384"))))
                    .transpose()
            })
            .transpose()
    };
    let pinned = match args.pin.as_deref() {
        None => None,
        Some("none") => Some(Vec::new()),
        Some(list) => Some(list.split(',').map(str::parse::<SlotRange>).collect::<Result<_, _>>()?),
    };
    let body = ShardPatch {
        weight: args.weight.as_deref().map(weight).transpose()?,
        min_slots: bound("--min-slots", args.min_slots)?,
        max_slots: bound("--max-slots", args.max_slots)?,
        pinned,
        propose: if args.no_propose { Some(false) } else { None },
        reason: args.reason.text()?,
    };
    body.validate().map_err(|fault| Fault::invalid(fault.to_string()))?;
    if body.weight.is_none() && body.min_slots.is_none() && body.max_slots.is_none() && body.pinned.is_none() {
        return Err(Fault::invalid("nothing to change: give --weight, --min-slots, --max-slots or --pin"));
    }
    Ok(body)
}

fn answer(answer: &ShardAnswer, what: &str, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(answer);
    }
    let head = format!("Shard {} {what}; epoch {}.\n", answer.shard.id, answer.epoch);
    settings
        .output
        .sentences(&(head + &proposed::sentence(answer.plan.as_ref(), answer.empty_because.as_deref(), settings)))
}

fn list(shards: &[ShardView], wide: bool) -> String {
    let ids = shards.iter().flat_map(|shard| [shard.id.as_str(), shard.primary.as_str()]);
    let names = if wide { Names::whole() } else { Names::of(ids) };
    let row = |shard: &ShardView| {
        let ranges: Vec<String> = shard.ranges.iter().map(ToString::to_string).collect();
        let shown = if wide { ranges.len() } else { ranges.len().min(3) };
        let more = if shown < ranges.len() { format!(",… {} more", ranges.len() - shown) } else { String::new() };
        let state = if shard.state == ShardState::Draining { "draining" } else { "active" };
        vec![
            names.show(shard.id.as_str()).to_owned(),
            shard.weight.get().to_string(),
            state.to_owned(),
            names.show(shard.primary.as_str()).to_owned(),
            shard.replicas.len().to_string(),
            shard.slots.to_string(),
            format!("{}{more}", ranges[..shown].join(",")),
        ]
    };
    let columns = [
        left("SHARD"),
        right("WEIGHT"),
        left("STATE"),
        left("PRIMARY"),
        right("REPLICAS"),
        right("SLOTS"),
        left("RANGES"),
    ];
    render(&columns, &shards.iter().map(row).collect::<Vec<_>>())
}

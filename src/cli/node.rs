//! `slotkeeper node`: the nodes of a cluster.

use std::num::NonZeroU16;

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::Fault;
use super::output::Format;
use super::plan::Names;
use super::prompt::{can_ask, confirm};
use super::proposed;
use super::reason::ReasonArgs;
use super::settings::Settings;
use super::table::{left, notes, render};
use crate::domain::{Host, Invalid, NodeState, Weight};
use crate::wire::{DrainRequest, NodeAdd, NodeAnswer, NodePatch, NodeRole, NodeSpec, NodeView};

/// Nodes of a cluster.
#[derive(Subcommand, Clone, Debug)]
pub enum NodeCommand {
    /// Add a node, and propose a plan that gives it its share
    Add(AddArgs),
    /// Drain a node, and propose a plan that empties it
    Drain(DrainArgs),
    /// Take a drain back
    Undrain(NodeArgs),
    /// List nodes
    List,
    /// Show a node
    Show(NodeArgs),
    /// Change address or zone of a node
    Set(SetArgs),
    /// Remove a node that owns nothing
    Remove(RemoveArgs),
}

/// A node.
#[derive(Args, Clone, Debug)]
pub struct NodeArgs {
    /// Id, a unique beginning of it, or HOST:PORT
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// A node to remove.
#[derive(Args, Clone, Debug)]
pub struct RemoveArgs {
    /// Id, a unique beginning of it, or HOST:PORT
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A new node.
#[derive(Args, Clone, Debug)]
pub struct AddArgs {
    /// Where clients reach it
    #[arg(value_name = "HOST:PORT")]
    pub address: String,
    /// Its id; a fresh one when absent
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Its failure domain
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Weight of its new shard, 0..=10000 [default: 1]
    #[arg(long, value_name = "W", conflicts_with = "replica_of")]
    pub weight: Option<String>,
    /// Name of its new shard; the node's own when absent
    #[arg(long, value_name = "SHARD", conflicts_with = "replica_of")]
    pub shard: Option<String>,
    /// Make it a replica of this shard
    #[arg(long, value_name = "SHARD")]
    pub replica_of: Option<String>,
    /// Only add it; propose no plan
    #[arg(long)]
    pub no_propose: bool,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// A node to empty.
#[derive(Args, Clone, Debug)]
pub struct DrainArgs {
    /// Id, a unique beginning of it, or HOST:PORT
    #[arg(value_name = "NODE")]
    pub node: String,
    /// It is dead: assign its slots anew without reading them
    #[arg(long)]
    pub lost: bool,
    /// Only mark it; propose no plan
    #[arg(long)]
    pub no_propose: bool,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// What changes of a node.
#[derive(Args, Clone, Debug)]
pub struct SetArgs {
    /// Id, a unique beginning of it, or HOST:PORT
    #[arg(value_name = "NODE")]
    pub node: String,
    /// New host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// New port
    #[arg(long, value_name = "PORT")]
    pub port: Option<NonZeroU16>,
    /// New failure domain; none clears it
    #[arg(long, value_name = "ZONE|none")]
    pub zone: Option<String>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: NodeCommand, settings: &Settings) -> Result<(), Fault> {
    if let NodeCommand::Add(args) = command {
        return add(&args, settings);
    }
    let forgets = matches!(command, NodeCommand::Remove(_));
    let api = if forgets { Api::open(&settings.for_nodes())? } else { Api::open(settings)? };
    let cluster = &api.cluster;
    match command {
        NodeCommand::Add(_) => unreachable!("answered above"),
        NodeCommand::Drain(args) => {
            can_ask(settings)?;
            let node = api.node(&args.node)?;
            confirm(settings, &format!("Drain node {node} of cluster {}?", settings.cluster))?;
            let propose = if args.no_propose { Some(false) } else { None };
            let body = DrainRequest { lost: args.lost, propose, reason: args.reason.text()? };
            answer(&api.call(cluster.drain_node(&node, &body))?, "is draining", settings)
        }
        NodeCommand::Undrain(args) => {
            let node = api.node(&args.node)?;
            answer(&api.call(cluster.undrain_node(&node))?, "is active again", settings)
        }
        NodeCommand::List => list(&api.call(cluster.nodes())?, settings),
        NodeCommand::Show(args) => {
            let node = api.node(&args.node)?;
            let node = api.call(cluster.node(&node))?;
            if settings.output.is_for_people() { list(&[node], settings) } else { settings.output.json(&node) }
        }
        NodeCommand::Set(args) => set(&args, &api, settings),
        NodeCommand::Remove(args) => {
            can_ask(settings)?;
            let node = api.call(cluster.node(&api.node(&args.node)?))?;
            confirm(settings, &format!("Remove node {} from cluster {}?", node.id, settings.cluster))?;
            let because = args.reason.text()?.map(|reason| cluster.because(reason));
            let handle = because.as_ref().unwrap_or(cluster);
            let removed = api.call(handle.remove_node(&node.id, node.revision))?;
            if settings.output.is_for_people() {
                let text = format!("Node {} is removed; epoch {}.\n", removed.removed, removed.epoch);
                settings.output.sentences(&(text + &notes(&removed.notes)))
            } else {
                settings.output.json(&removed)
            }
        }
    }
}

fn add(args: &AddArgs, settings: &Settings) -> Result<(), Fault> {
    let mut body = asked(args)?;
    let api = Api::open(&settings.for_nodes())?;
    body.replica_of = args.replica_of.as_deref().map(|text| api.shard(text)).transpose()?;
    answer(&api.call(api.cluster.add_node(&body))?, "is added", settings)
}

/// The node that is to be added.
fn asked(args: &AddArgs) -> Result<NodeAdd, Fault> {
    if let Some((at, more)) = args.address.split_once(',') {
        let flags = "--name, --zone, --weight, --shard and --replica-of (HOST:PORT,name=N is for plan create --add)";
        return Err(Fault::invalid(format!("{:?}: {at} is the address; say {more:?} with {flags}", args.address)));
    }
    let (host, port) = address(&args.address)?;
    Ok(NodeAdd {
        name: parse(args.name.as_deref())?,
        host,
        port,
        zone: parse(args.zone.as_deref())?,
        weight: args.weight.as_deref().map(weight).transpose()?,
        shard: parse(args.shard.as_deref())?,
        replica_of: parse(args.replica_of.as_deref())?,
        propose: if args.no_propose { Some(false) } else { None },
        reason: args.reason.text()?,
    })
}

fn set(args: &SetArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let zone = match args.zone.as_deref() {
        Some("none") => Some(None),
        other => parse(other)?.map(Some),
    };
    let host = args.host.as_deref().map(Host::new).transpose()?;
    let body = NodePatch { host, port: args.port, zone, reason: args.reason.text()? };
    if body.host.is_none() && body.port.is_none() && body.zone.is_none() {
        return Err(Fault::invalid("nothing to change: give --host, --port or --zone"));
    }
    let node = api.call(api.cluster.node(&api.node(&args.node)?))?;
    answer(&api.call(api.cluster.set_node(&node.id, node.revision, &body))?, "is changed", settings)
}

fn answer(answer: &NodeAnswer, what: &str, settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json(answer);
    }
    let head = format!("Node {} of shard {} {what}; epoch {}.\n", answer.node.id, answer.shard, answer.epoch);
    let plan = proposed::sentence(answer.plan.as_ref(), answer.empty_because.as_deref(), settings);
    settings.output.sentences(&(head + &notes(&answer.notes) + &plan))
}

fn list(nodes: &[NodeView], settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return settings.output.json_list(nodes);
    }
    let ids = nodes.iter().flat_map(|node| [node.id.as_str(), node.shard.as_str()]);
    let names = if settings.output.format == Format::Wide { Names::whole() } else { Names::of(ids) };
    let row = |node: &NodeView| {
        let host = node.host.as_str();
        let state = match node.state {
            NodeState::Active => "active",
            NodeState::Draining => "draining",
            NodeState::Lost => "lost",
        };
        vec![
            names.show(node.id.as_str()).to_owned(),
            if host.contains(':') { format!("[{host}]:{}", node.port) } else { format!("{host}:{}", node.port) },
            names.show(node.shard.as_str()).to_owned(),
            if node.role == NodeRole::Primary { "primary" } else { "replica" }.to_owned(),
            state.to_owned(),
            node.zone.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        ]
    };
    let columns = [left("NODE"), left("ADDRESS"), left("SHARD"), left("ROLE"), left("STATE"), left("ZONE")];
    settings.output.text(&render(&columns, &nodes.iter().map(row).collect::<Vec<_>>()))
}

/// `HOST:PORT[,weight=W][,name=N][,zone=Z][,shard=S][,replica-of=S]`.
///
/// # Errors
/// Invalid input naming the part.
pub fn spec(text: &str) -> Result<NodeSpec, Fault> {
    let mut parts = text.split(',');
    let (host, port) = address(parts.next().unwrap_or_default())?;
    let mut spec = NodeSpec { name: None, host, port, zone: None, weight: None, shard: None, replica_of: None };
    for part in parts {
        let twice = |set: bool| if set { Err(Fault::invalid(format!("{part}: given twice"))) } else { Ok(()) };
        match part.split_once('=') {
            Some(("name", value)) => {
                twice(spec.name.is_some())?;
                spec.name = parse(Some(value))?;
            }
            Some(("zone", value)) => {
                twice(spec.zone.is_some())?;
                spec.zone = parse(Some(value))?;
            }
            Some(("weight", value)) => {
                twice(spec.weight.is_some())?;
                spec.weight = Some(weight(value)?);
            }
            Some(("shard", value)) => {
                twice(spec.shard.is_some())?;
                spec.shard = parse(Some(value))?;
            }
            Some(("replica-of", value)) => {
                twice(spec.replica_of.is_some())?;
                spec.replica_of = parse(Some(value))?;
            }
            _ => return Err(Fault::invalid(format!("{part:?} is not name=, zone=, weight=, shard= or replica-of="))),
        }
    }
    spec.placement("").map_err(|fault| Fault::invalid(fault.to_string()))?;
    Ok(spec)
}

/// Reads a weight.
///
/// # Errors
/// Invalid input.
pub fn weight(text: &str) -> Result<Weight, Fault> {
    let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number
        .and_then(|number| Weight::new(number).ok())
        .ok_or_else(|| Fault::invalid(format!("weight: {text:?} is not a number in 0..=10000")))
}

fn parse<T: std::str::FromStr<Err = Invalid>>(text: Option<&str>) -> Result<Option<T>, Fault> {
    Ok(text.map(str::parse).transpose()?)
}

/// `host:port`; an IPv6 host with or without brackets.
fn address(text: &str) -> Result<(Host, NonZeroU16), Fault> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| Fault::invalid(format!("{text:?} is not HOST:PORT")))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let number = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten();
    let port = number.ok_or_else(|| Fault::invalid(format!("{text:?}: port {port:?} is not in 1..=65535")))?;
    Ok((Host::new(host)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_into_flags_is_told_apart_from_the_address() {
        let reason = ReasonArgs::default();
        let args = AddArgs {
            address: "127.0.0.1:6379,name=x".to_owned(),
            name: None,
            zone: None,
            weight: None,
            shard: None,
            replica_of: None,
            no_propose: false,
            reason,
        };
        let Err(Fault::Exit(_, why)) = asked(&args) else { panic!("it is no address") };
        assert!(why.contains("127.0.0.1:6379 is the address") && why.contains("--name"), "{why}");
    }

    #[test]
    fn nodes_are_told_in_one_word() {
        let node = spec("10.0.0.5:6379,weight=2,name=n5,zone=eu-1").unwrap();
        assert_eq!((node.host.as_str(), node.port.get(), node.weight.unwrap().get()), ("10.0.0.5", 6379, 2));
        assert_eq!(spec("[::1]:6379").unwrap().host.as_str(), "::1");
        assert_eq!(spec("::1:6379").unwrap().host.as_str(), "::1");
        for bad in
            ["", "host", "host:0", "host:65536", "host:+1", "a b:1", "h:1,weight=-1", "h:1,x=2", "h:1,name=a,name=b"]
        {
            assert!(spec(bad).is_err(), "{bad}");
        }
        assert!(spec("h:1,replica-of=a,weight=2").is_err());
    }
}

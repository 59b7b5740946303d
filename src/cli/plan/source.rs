//! A cluster as a file tells it: what `redis-cli cluster nodes` printed, or a topology's JSON.

use crate::cli::fault::Fault;
use crate::cli::input;
use crate::domain::{ClusterId, Host, Node, NodeId, NodeState, Serving, Shard, ShardId, SlotTable, Topology, Version};
use crate::nodes_text::{self, NodesTextError};
use crate::wire::TopologyBody;

/// The cluster id of plans for a cluster known by its `CLUSTER NODES` only.
pub const OFFLINE: &str = "offline";

/// A cluster read from a file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its nodes, ascending by id.
    pub nodes: Vec<Node>,
    /// Its shards, ascending by id.
    pub shards: Vec<Shard>,
    /// Who owns what.
    pub table: SlotTable,
    /// Its identity; [`OFFLINE`] when the file tells none.
    pub cluster_id: ClusterId,
    /// Its version; 0.0 when the file tells none.
    pub version: Version,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Source {
    /// Reads a file, or stdin for `-`.
    ///
    /// # Errors
    /// Invalid input with the line, or a conflict when a slot is open.
    pub fn read(path: &str) -> Result<Self, Fault> {
        let bytes = input::read_text(path)?;
        let shown = if path == "-" { "stdin" } else { path };
        let text = input::without_bom(&bytes);
        let is_json = text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        let source = if is_json { Self::from_topology(text) } else { Self::from_nodes_text(&bytes) };
        source.map_err(|fault| fault.about(shown))
    }

    /// Whether the file told identity and version, weights and states.
    #[must_use]
    pub fn is_topology(&self) -> bool {
        self.cluster_id.as_str() != OFFLINE
    }

    /// From the text of `CLUSTER NODES`.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn from_nodes_text(text: &[u8]) -> Result<Self, Fault> {
        // A node that does not know its own address prints none; for a plan any will do.
        let dialled = Host::new("localhost")?;
        let adopted = nodes_text::adopt(text, Some(&dialled)).map_err(|fault| match &fault {
            NodesTextError::Malformed { .. } => Fault::invalid(fault.to_string()),
            NodesTextError::OpenSlot { .. } => Fault::conflict(fault.to_string()),
        })?;
        Ok(Self {
            nodes: adopted.nodes,
            shards: adopted.shards,
            table: adopted.table,
            cluster_id: ClusterId::new(OFFLINE)?,
            version: Version::default(),
            notes: adopted.notes,
        })
    }

    fn from_topology(text: &[u8]) -> Result<Self, Fault> {
        let body: TopologyBody =
            serde_json::from_slice(text).map_err(|fault| Fault::invalid(format!("not a topology: {fault}")))?;
        let topology = Topology::try_from(body)?;
        if let Some(moving) = topology.moving.iter().find(|moving| moving.serving == Serving::From) {
            let (range, from, to) = (moving.range, &moving.from, &moving.to);
            return Err(Fault::conflict(format!("slots {range} are on their way from {from} to {to}")));
        }
        let mut nodes = Vec::new();
        let mut shards = Vec::new();
        for entry in topology.shards {
            let mut shard = Shard::new(entry.id, entry.primary.id.clone(), entry.weight);
            shard.state = entry.state;
            shard.replicas = entry.replicas.iter().map(|node| node.id.clone()).collect();
            shard.replicas.sort();
            nodes.push(entry.primary);
            nodes.extend(entry.replicas);
            shards.push(shard);
        }
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        let (table, cluster_id, version) = (topology.table, topology.cluster_id, topology.version);
        Ok(Self { nodes, shards, table, cluster_id, version, notes: Vec::new() })
    }

    /// The shard a person means by its id, a unique beginning of it, or one of its nodes.
    ///
    /// # Errors
    /// Invalid input when there is none, or more than one.
    pub fn shard(&self, text: &str) -> Result<ShardId, Fault> {
        let ids = self.shards.iter().map(|shard| &shard.id);
        match pick(text, ids, ShardId::as_str) {
            Pick::One(id) => Ok(id.clone()),
            Pick::Many(ids) => Err(ambiguous("shard", text, &ids)),
            Pick::None => {
                let node = self.node(text).map_err(|_| Fault::invalid(format!("there is no shard {text:?}")))?;
                let shard = self.shards.iter().find(|shard| shard.nodes().any(|member| *member == node));
                shard.map(|shard| shard.id.clone()).ok_or_else(|| Fault::invalid(format!("{text:?} is in no shard")))
            }
        }
    }

    /// The node a person means by its id, a unique beginning of it, or its `host:port`.
    ///
    /// # Errors
    /// Invalid input when there is none, or more than one.
    pub fn node(&self, text: &str) -> Result<NodeId, Fault> {
        if let Some(node) = self.nodes.iter().find(|node| node.to_string() == text) {
            return Ok(node.id.clone());
        }
        match pick(text, self.nodes.iter().map(|node| &node.id), NodeId::as_str) {
            Pick::One(id) => Ok(id.clone()),
            Pick::Many(ids) => Err(ambiguous("node", text, &ids)),
            Pick::None => Err(Fault::invalid(format!("there is no node {text:?}"))),
        }
    }

    /// Whether a node can take over its shard.
    #[must_use]
    pub fn serves(&self, node: &NodeId) -> bool {
        self.nodes.iter().any(|known| known.id == *node && known.state == NodeState::Active)
    }
}

/// What a shortened name stands for.
enum Pick<'a, T> {
    One(&'a T),
    Many(Vec<&'a str>),
    None,
}

fn pick<'a, T>(text: &str, ids: impl Iterator<Item = &'a T>, name: impl Fn(&'a T) -> &'a str) -> Pick<'a, T> {
    let mut found: Vec<&T> = Vec::new();
    for id in ids {
        if name(id) == text {
            return Pick::One(id);
        }
        if !text.is_empty() && name(id).starts_with(text) {
            found.push(id);
        }
    }
    match found.as_slice() {
        [] => Pick::None,
        [one] => Pick::One(one),
        _ => Pick::Many(found.into_iter().map(name).collect()),
    }
}

fn ambiguous(what: &str, text: &str, ids: &[&str]) -> Fault {
    Fault::invalid(format!("{what} {text:?} could be any of {}", ids.join(", ")))
}

//! Strict parser and printer of the text of `CLUSTER NODES`. Pure; works on bytes.
//!
//! The text is one node's view. What it says is taken over as it stands or refused with the line; nothing is guessed.
//! Nodes that cannot serve are never made a target: see [`adopt`].

mod adopt;
mod line;
mod print;

use crate::domain::{Host, Node, NodeId, Shard, Slot, SlotRange, SlotTable};

pub use line::{Flag, Health, Open, Role};
pub use print::print;

/// Longest text that is read: 8 MiB.
pub const TEXT_MAX_BYTES: usize = 8 << 20;

/// A cluster as `CLUSTER NODES` tells it, ready to adopt. Shards are named by their primary's node id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Members only (no handshake entries), ascending by id.
    pub nodes: Vec<Node>,
    /// One per master, ascending by id, weight 1.
    pub shards: Vec<Shard>,
    /// Who owns what.
    pub table: SlotTable,
    /// What a person should know, a sentence each: nodes left out, failing nodes, slots not covered.
    pub notes: Vec<String>,
}

/// Why the text cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesTextError {
    /// Malformed; names the line (from 1) where it is one line's fault.
    #[error("{}{why}", if *line == 0 { String::new() } else { format!("line {line}: ") })]
    Malformed {
        /// Line number from 1; 0 for the text as a whole.
        line: usize,
        /// The fault.
        why: String,
    },
    /// A slot is open (migrating or importing): repair it first. A conflict, not a malformed text.
    #[error("slot {slot} is open at line {line}: {why}")]
    OpenSlot {
        /// Line number from 1.
        line: usize,
        /// The slot.
        slot: u16,
        /// Migrating to, or importing from, which node.
        why: String,
    },
}

/// Parses and checks the whole text. `dialled` is the address the text was asked from: it fills in for the node that
/// printed it (`myself`) when that node does not know its own host.
///
/// Nodes that cannot serve are never a target, and each has a note:
/// - an entry in handshake is no member: left out;
/// - a failing (`fail`, `fail?`) or addressless (`noaddr`) master without slots: left out;
/// - a failing master with slots: adopted, with `max_slots` at what it owns, so that no plan gives it more;
/// - a failing replica: adopted as lost, so that no plan promotes it;
/// - an addressless replica, and a replica of a master that was left out: left out;
/// - an addressless master with slots: refused, its slots cannot be reached.
///
/// # Errors
/// [`NodesTextError`] with the line. An open slot is reported only when the text is sound otherwise.
pub fn adopt(text: &[u8], dialled: Option<&Host>) -> Result<Adopted, NodesTextError> {
    adopt::adopt(text, dialled)
}

/// One node's view of its cluster, as it printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Every line, ascending by id.
    pub nodes: Vec<Seen>,
}

/// A node as another, or itself, sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its id.
    pub id: NodeId,
    /// Where clients reach it; none when it is printed empty.
    pub host: Option<Host>,
    /// Its port for clients; 0 only of a node without address.
    pub port: u16,
    /// Whether it printed the text.
    pub myself: bool,
    /// Master or replica.
    pub role: Role,
    /// What is said against it.
    pub health: Health,
    /// Version of its claim to its slots; a replica shows its master's.
    pub config_epoch: u64,
    /// Whether the node that printed the text has a link to it.
    pub connected: bool,
    /// The slots it owns.
    pub ranges: Vec<SlotRange>,
    /// Open slots; only `myself` tells its own.
    pub open: Vec<Open>,
}

impl View {
    /// The node that printed the text.
    #[must_use]
    pub fn myself(&self) -> Option<&Seen> {
        self.nodes.iter().find(|node| node.myself)
    }

    /// One node.
    #[must_use]
    pub fn node(&self, id: &NodeId) -> Option<&Seen> {
        self.nodes.binary_search_by(|node| node.id.cmp(id)).ok().map(|at| &self.nodes[at])
    }

    /// Who owns a slot.
    #[must_use]
    pub fn owner(&self, slot: Slot) -> Option<&Seen> {
        self.nodes.iter().find(|node| node.ranges.iter().any(|range| range.contains(slot)))
    }

    /// What the node that printed the text has set on a slot.
    #[must_use]
    pub fn flag(&self, slot: Slot) -> Option<&Flag> {
        self.myself()?.open.iter().find(|open| open.slot == slot).map(|open| &open.flag)
    }
}

/// Parses and checks one node's view without judging it: open slots, failing nodes and nodes in handshake are part of it.
/// `dialled` as in [`adopt`].
///
/// # Errors
/// [`NodesTextError::Malformed`] with the line.
pub fn view(text: &[u8], dialled: Option<&Host>) -> Result<View, NodesTextError> {
    adopt::view(text, dialled)
}

#[cfg(test)]
mod tests;

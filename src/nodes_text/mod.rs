//! Strict parser and printer of the text of `CLUSTER NODES`. Pure; works on bytes.

use crate::domain::{Node, Shard, SlotTable};

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
    /// Malformed; names the line (from 1).
    #[error("line {line}: {why}")]
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

/// Parses and checks the whole text. `dialled` fills in for nodes printed with an empty host.
///
/// # Errors
/// [`NodesTextError`] with the line.
pub fn adopt(_text: &[u8], _dialled: Option<&crate::domain::Host>) -> Result<Adopted, NodesTextError> {
    unimplemented!("src/nodes_text")
}

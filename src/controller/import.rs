//! Adopting a running cluster from what one of its nodes tells of it.

use std::sync::Arc;

use super::{Caller, Change, Cluster, ControlError, Controller, Receipt};
use crate::domain::{ClusterName, Host, Rejection};
use crate::nodes_text::{self, Adopted, NodesTextError};

/// A cluster that was adopted.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The receipt.
    pub receipt: Receipt,
    /// The cluster afterwards.
    pub cluster: Arc<Cluster>,
    /// What a person should know of the text, a sentence each.
    pub notes: Vec<String>,
}

impl Controller {
    /// Adopts the nodes, shards and slots that a text of `CLUSTER NODES` tells of, as one new epoch. The cluster must
    /// have no shards yet. `dialled` fills in for a node that does not know its own host.
    ///
    /// # Errors
    /// [`Rejection::Invalid`] naming the line of a malformed text, [`Rejection::Conflict`] while a slot is open, and
    /// what [`Controller::change`] gives.
    pub async fn import_nodes_text(
        &self,
        caller: &Caller,
        cluster: &ClusterName,
        text: &[u8],
        dialled: Option<&Host>,
    ) -> Result<Imported, ControlError> {
        let Adopted { nodes, shards, table, notes } =
            nodes_text::adopt(text, dialled).map_err(|error| match error {
                NodesTextError::Malformed { .. } => Rejection::invalid("nodes_text", &error),
                NodesTextError::OpenSlot { .. } => Rejection::conflict(error.to_string()),
            })?;
        let change = Change::Import { nodes, shards, table };
        let changed = self.change(caller, cluster, vec![change], None, false).await?;
        let receipt = changed.receipt.expect("a change that is no dry run is committed");
        Ok(Imported { receipt, cluster: changed.cluster, notes })
    }
}

//! Changing what is desired of a cluster: all changes or none, then the plan that comes with them.

use std::sync::Arc;

use super::super::cluster::{NODES_MAX, SHARDS_MAX};
use super::super::{Brought, Change, Cluster, Receipt};
use super::{Context, Step, import, nodes, propose};
use crate::domain::{NodeId, Plan, Rejection, SLOT_COUNT, Shard, ShardId, ShardState};

/// What the changes did, for the receipt (of the last one) and the audit.
#[derive(Default)]
pub(super) struct Touched {
    pub node: Option<NodeId>,
    pub shard: Option<ShardId>,
    pub revision: Option<u64>,
    pub sentences: Vec<String>,
}

impl Cluster {
    /// The cluster after these changes of the desired state, as `apply` would leave it; for planning ahead.
    ///
    /// # Errors
    /// The rejection that `apply` would give.
    pub fn with_changes(&self, changes: &[Change]) -> Result<Self, Rejection> {
        let mut after = self.clone();
        carry_out(&mut after, changes)?;
        after.seal(self);
        Ok(after)
    }
}

pub(super) fn change(
    cluster: &mut Cluster,
    context: &Context<'_>,
    changes: &[Change],
    plan: Option<&Arc<Plan>>,
) -> Result<Step, Rejection> {
    if changes.is_empty() && plan.is_none() {
        return Err(Rejection::invalid("changes", &"there is neither a change nor a plan"));
    }
    // The plan is based on the cluster as it is after the changes; without one, the caller sees to the epoch.
    let planned = plan.map(|plan| (plan, cluster.clone()));
    let mut touched = carry_out(cluster, changes)?;
    let mut step = Step::default();
    if let Some((plan, before)) = planned {
        cluster.seal(&before);
        let brought = Brought::of(changes, &before, cluster);
        touched.sentences.push(propose::propose(cluster, context, plan, brought, &mut step.events)?);
        step.subject = Some(plan.id.to_string());
        step.receipt.plan = Some(plan.id.clone());
    }
    step.subject = match (changes, &touched) {
        ([_], Touched { node: Some(node), .. }) => Some(node.to_string()),
        ([_], Touched { shard: Some(shard), .. }) => Some(shard.to_string()),
        _ => step.subject,
    };
    step.summary = touched.sentences.join("; ");
    step.receipt = Receipt { revision: touched.revision, node: touched.node, shard: touched.shard, ..step.receipt };
    Ok(step)
}

fn carry_out(cluster: &mut Cluster, changes: &[Change]) -> Result<Touched, Rejection> {
    let mut touched = Touched::default();
    if changes.is_empty() {
        return Ok(touched);
    }
    cluster.refuse_while_active()?;
    for change in changes {
        match change {
            Change::Import { nodes, shards, table } => import::import(cluster, nodes, shards, table, &mut touched)?,
            Change::AddNode { node, place } => {
                nodes::add(cluster, node, place, &mut touched)?;
                cluster.removed.retain(|removed| *removed != node.id);
            }
            Change::SetNode { node, if_match, host, port, zone } => {
                let (host, zone) = (host.as_ref(), zone.as_ref());
                nodes::set(cluster, node, *if_match, (host, *port, zone), &mut touched)?;
            }
            Change::DrainNode { node, lost } => nodes::drain(cluster, node, *lost, &mut touched)?,
            Change::UndrainNode { node } => nodes::undrain(cluster, node, &mut touched)?,
            Change::RemoveNode { node, if_match } => {
                nodes::remove(cluster, node, *if_match, &mut touched)?;
                nodes::bury(cluster, node);
            }
            Change::SetShard { .. } => nodes::set_shard(cluster, change, &mut touched)?,
            Change::DrainShard { shard } => nodes::drain_shard(cluster, shard, &mut touched)?,
            Change::UndrainShard { shard } => nodes::undrain_shard(cluster, shard, &mut touched)?,
        }
    }
    check_bounds(cluster)?;
    check_weights(cluster, changes)?;
    Ok(touched)
}

fn check_bounds(cluster: &Cluster) -> Result<(), Rejection> {
    let exceeded = |what: &str, most: usize| Err(Rejection::LimitExceeded { what: what.to_owned(), most: most as u64 });
    if cluster.nodes.len() > NODES_MAX {
        return exceeded("nodes of a cluster", NODES_MAX);
    }
    if cluster.shards.len() > SHARDS_MAX {
        return exceeded("shards of a cluster", SHARDS_MAX);
    }
    Ok(())
}

/// The slots must have somewhere to go. Looked at after all changes, so that "drain a, add b" may come in either order,
/// and only when a change could have made it worse: a cluster may be imported with nothing but lost shards.
fn check_weights(cluster: &Cluster, changes: &[Change]) -> Result<(), Rejection> {
    for change in changes {
        match change {
            Change::DrainNode { .. } | Change::DrainShard { .. } | Change::RemoveNode { .. } => {
                check_some_active(cluster)?;
                check_some_weight(cluster)?;
            }
            Change::SetShard { weight: Some(_), .. } | Change::Import { .. } | Change::AddNode { .. } => {
                check_some_weight(cluster)?;
            }
            Change::SetShard { weight: None, .. }
            | Change::SetNode { .. }
            | Change::UndrainNode { .. }
            | Change::UndrainShard { .. } => {}
        }
    }
    Ok(())
}

pub(super) fn check_some_active(cluster: &Cluster) -> Result<(), Rejection> {
    if active(cluster).next().is_some() {
        return Ok(());
    }
    match SLOT_COUNT - cluster.table.unassigned_count() {
        0 => Ok(()),
        owned => {
            Err(Rejection::conflict(format!("no active shard would be left for the {owned} slots that are owned")))
        }
    }
}

pub(super) fn check_some_weight(cluster: &Cluster) -> Result<(), Rejection> {
    let mut weights = active(cluster).map(|shard| shard.weight.get()).peekable();
    if weights.peek().is_some() && weights.all(|weight| weight == 0) {
        return Err(Rejection::invalid("weight", &"the weights of all active shards would be zero"));
    }
    Ok(())
}

fn active(cluster: &Cluster) -> impl Iterator<Item = &Shard> {
    cluster.shards.values().map(|shard| &shard.value).filter(|shard| shard.state == ShardState::Active)
}

//! What the nodes did by themselves and the table follows: another node of a shard has become its primary. No slot moves.

use std::collections::BTreeSet;

use super::super::{Cluster, Failover};
use super::Step;
use super::effect::promote;
use super::roles::nodes_of;
use crate::domain::{DriverKind, NodeId, Rejection};

/// Follows failovers inside shards, all or none, as one epoch; what is so already is accepted and changes nothing. An
/// action in flight about one of the nodes comes first: it ends as it began.
pub(super) fn observe(cluster: &mut Cluster, failovers: &[Failover]) -> Result<Step, Rejection> {
    if cluster.driver != DriverKind::Redis {
        let why = format!("nobody sees the nodes of a cluster with driver {}", cluster.driver.as_str());
        return Err(Rejection::conflict(why));
    }
    let mut sentences = Vec::new();
    let mut shards = BTreeSet::new();
    for Failover { shard: id, from, to } in failovers {
        if !shards.insert(id) {
            return Err(Rejection::invalid("failovers", &format!("shard {id} stands twice")));
        }
        let shard = cluster.shards.get(id).ok_or_else(|| Rejection::not_found("shard", id))?;
        if shard.value.primary == *to {
            continue;
        }
        if shard.value.primary != *from {
            let now = &shard.value.primary;
            return Err(Rejection::conflict(format!("the primary of shard {id} is {now}, not {from}")));
        }
        if !shard.value.replicas.contains(to) {
            return Err(Rejection::conflict(format!("node {to} is no replica of shard {id}: it cannot take it over")));
        }
        if let Some(action) = in_flight_about(cluster, &[from, to]) {
            return Err(Rejection::conflict(format!("{action} is in flight and about a primary of shard {id}")));
        }
        promote(cluster, id, from, to);
        sentences.push(format!("shard {id} failed over from {from} to {to}"));
    }
    let subject = if let [failover] = failovers { Some(failover.shard.to_string()) } else { None };
    Ok(Step { subject, summary: sentences.join("; "), ..Step::default() })
}

/// The action in flight that changes the role of one of the nodes.
fn in_flight_about(cluster: &Cluster, nodes: &[&NodeId]) -> Option<String> {
    let record = cluster.active_plan()?;
    let rollout = record.rollout.as_ref()?;
    let mut actions = rollout.in_flight().filter_map(|id| record.plan.body.action(id));
    let about = actions.find(|action| nodes_of(&action.kind).iter().any(|node| nodes.contains(node)))?;
    Some(format!("action {} of plan {}", about.id, record.plan.id))
}

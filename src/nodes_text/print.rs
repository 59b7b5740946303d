//! A topology as `CLUSTER NODES` would print it.

use std::fmt::Write as _;

use crate::domain::{Node, NodeState, ShardId, Topology};

/// Offset of the cluster bus port, Redis' default.
const BUS_OFFSET: u16 = 10_000;

/// The text of `CLUSTER NODES`: a line per node, each shard's primary first. No node is `myself`; a lost node is
/// `fail`; the bus port is the one Redis takes by default, 0 where that does not exist.
///
/// Weights, zones, shard ids and ranges in flight have no place in the format. Read again, shards are named by their
/// primary.
#[must_use]
pub fn print(topology: &Topology) -> String {
    let mut text = String::new();
    for shard in &topology.shards {
        line(&mut text, topology, &shard.primary, None);
        slots(&mut text, topology, &shard.id);
        text.push('\n');
        for replica in &shard.replicas {
            line(&mut text, topology, replica, Some(&shard.primary));
            text.push('\n');
        }
    }
    text
}

fn line(text: &mut String, topology: &Topology, node: &Node, primary: Option<&Node>) {
    let bus = node.port.checked_add(BUS_OFFSET).unwrap_or(0);
    let role = if primary.is_some() { "slave" } else { "master" };
    let (fail, link) = match node.state {
        NodeState::Active | NodeState::Draining => ("", "connected"),
        NodeState::Lost => (",fail", "disconnected"),
    };
    let master = primary.map_or("-", |primary| primary.id.as_str());
    let (id, host, port, epoch) = (&node.id, &node.host, node.port, topology.version.epoch);
    write!(text, "{id} {host}:{port}@{bus} {role}{fail} {master} 0 0 {epoch} {link}").expect("a String takes all");
}

fn slots(text: &mut String, topology: &Topology, shard: &ShardId) {
    for range in topology.table.ranges_of(shard) {
        write!(text, " {range}").expect("a String takes all");
    }
}

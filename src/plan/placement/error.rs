//! Why copies cannot be placed: every refusal names what is missing and the smallest change that would do.

use crate::domain::NodeId;

/// Why there is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Nothing to place.
    #[error("replicas is 0: a placement is about the copies beside the primary; ask for 1 or more")]
    NoReplicas,
    /// A shard lists a node that is not there.
    #[error("where node {node} stands is not known; copies can be placed when every node has its address")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// Zones are to be spread over, and these nodes have none.
    #[error(
        "the zone of {} is not known ({}); set it with `node set --zone`, or spread over hosts",
        nodes_text(.nodes.len()), list(.nodes)
    )]
    ZonesUnknown {
        /// The active nodes without a zone, ascending.
        nodes: Vec<NodeId>,
    },
    /// Two copies of a shard would share a host.
    #[error(
        "{copies} copies of a shard need as many hosts, and the active nodes are on {hosts}; add {} or ask for {}",
        hosts_text(*.copies as usize - .hosts), replicas_text(.hosts.saturating_sub(1))
    )]
    FewHosts {
        /// Copies of each shard, the primary among them.
        copies: u32,
        /// Hosts there are.
        hosts: usize,
    },
    /// Every node holds one copy.
    #[error(
        "{shards} shards of {copies} copies need {} active nodes, and there are {nodes}; add {} or ask for fewer replicas",
        .shards * *.copies as usize, nodes_text(.shards * *.copies as usize - .nodes)
    )]
    FewNodes {
        /// Active shards.
        shards: usize,
        /// Copies of each.
        copies: u32,
        /// Active nodes.
        nodes: usize,
    },
    /// Zones or hosts are too uneven: there are nodes enough, and some of them can hold no copy.
    #[error(
        "{missing} of {wanted} copies find no place where at most {per_zone} of a shard are in one zone and none share a \
         host ({}); at least {} more in the smaller zones would be needed",
        rooms(.zones), nodes_text(*.missing as usize)
    )]
    Uneven {
        /// Copies beside the primaries that find no place.
        missing: u32,
        /// Copies beside the primaries.
        wanted: u32,
        /// Most copies of a shard in one zone.
        per_zone: u32,
        /// Active nodes of each zone, smallest first.
        zones: Vec<(String, usize)>,
    },
}

fn list(nodes: &[NodeId]) -> String {
    let shown: Vec<&str> = nodes.iter().take(5).map(NodeId::as_str).collect();
    let rest = nodes.len().saturating_sub(5);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}

fn rooms(zones: &[(String, usize)]) -> String {
    let shown: Vec<String> = zones.iter().take(5).map(|(zone, nodes)| format!("{zone} has {nodes}")).collect();
    let rest = zones.len().saturating_sub(5);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} zones more", shown.join(", ")) }
}

fn nodes_text(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

fn hosts_text(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

fn replicas_text(count: usize) -> String {
    match count {
        0 => "no placement".to_owned(),
        1 => "1 replica".to_owned(),
        count => format!("{count} replicas"),
    }
}

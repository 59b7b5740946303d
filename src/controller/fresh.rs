//! Ids, secrets and names that are new, made of the controller's random bits: nothing else in it is random.

use std::collections::BTreeSet;

use crate::domain::{ClusterId, NodeId, PlanId, ShardId, TokenId, hex};
use crate::state::Cluster;

/// 32 characters that are not mistaken for each other.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// 256 random bits.
pub type Bits = [u8; 32];

/// `p-` and 8 characters.
pub fn plan_id(bits: &Bits) -> PlanId {
    PlanId::new(&format!("p-{}", letters(bits, 8))).expect("made of name characters")
}

/// 10 characters.
pub fn token_id(bits: &Bits) -> TokenId {
    TokenId::new(&letters(bits, 10)).expect("made of name characters")
}

/// 32 hex digits.
pub fn cluster_id(bits: &Bits) -> ClusterId {
    ClusterId::new(&hex(&bits[..16])).expect("made of name characters")
}

/// All of them, as 64 hex digits.
pub fn secret(bits: &Bits) -> String {
    hex(bits)
}

/// `node-N` and `shard-N`, so many times, with the lowest numbers that neither a node nor a shard of the cluster uses,
/// nor anybody else who is named.
pub fn names(cluster: &Cluster, count: usize, taken: &[&str]) -> Vec<(NodeId, ShardId)> {
    let nodes = cluster.nodes.keys().map(NodeId::as_str);
    let shards = cluster.shards.keys().map(ShardId::as_str);
    let used: BTreeSet<&str> = nodes.chain(shards).chain(taken.iter().copied()).collect();
    (1..=used.len() + count)
        .map(|n| (format!("node-{n}"), format!("shard-{n}")))
        .filter(|(node, shard)| !used.contains(node.as_str()) && !used.contains(shard.as_str()))
        .map(|(node, shard)| {
            let valid = "made of name characters";
            (NodeId::new(&node).expect(valid), ShardId::new(&shard).expect(valid))
        })
        .take(count)
        .collect()
}

fn letters(bits: &Bits, count: usize) -> String {
    bits[..count].iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

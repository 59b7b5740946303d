//! Public JSON: bodies of requests and answers with their schemas, and conversions to and from domain.

pub mod plan;
pub mod schema;
pub mod timestamp;
mod topology;

pub use topology::{
    HASH_TAG, KEY_HASH, MovingBody, ServingBody, ShardStateBody, TopologyBody, TopologyKind, TopologyNodeBody,
    TopologyShardBody,
};

//! Hash modulo the number of nodes: one node more moves nearly every key.

use super::error::HashingError;
use super::key::Key;
use super::placement::{Member, Placement, bytes_of, one_weight};
use crate::domain::Family;

/// Modulo over the nodes in the order of their list.
#[derive(Clone, Debug)]
pub struct Modulo {
    nodes: Vec<u16>,
}

impl Modulo {
    /// Lists the nodes.
    ///
    /// # Errors
    /// When weights differ.
    pub fn new(members: &[Member]) -> Result<Self, HashingError> {
        one_weight(Family::Modulo, members)?;
        Ok(Self { nodes: members.iter().map(|member| member.id).collect() })
    }
}

impl Placement for Modulo {
    fn owner(&self, key: &Key) -> u16 {
        let count = u64::try_from(self.nodes.len()).expect("few nodes");
        self.nodes[usize::try_from(key.hash % count).expect("below the number of nodes")]
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members)?))
    }

    fn memory_bytes(&self) -> u64 {
        bytes_of(&self.nodes)
    }
}

//! Jump consistent hash (Lamping and Veach 2014): no memory, numbered buckets, only the last can leave. Its doubles are the
//! paper's: IEEE multiplication and division, the same everywhere, and other implementations agree bit for bit.

use super::error::HashingError;
use super::key::Key;
use super::placement::{Member, Placement, bytes_of, one_weight};
use crate::domain::{Family, NodeId};

/// The bucket of a key among `0..buckets`.
#[must_use]
pub fn bucket(mut key: u64, buckets: u32) -> u32 {
    const SCALE: f64 = 2_147_483_648.0;
    let (mut last, mut next) = (0_u32, 0.0_f64);
    while next < f64::from(buckets) {
        last = whole(next);
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let draw = u32::try_from((key >> 33) + 1).expect("31 bits and one");
        next = (f64::from(last) + 1.0) * (SCALE / f64::from(draw));
    }
    last
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounds down, below the number of buckets")]
const fn whole(number: f64) -> u32 {
    number as u32
}

/// The nodes in the order of their buckets.
#[derive(Clone, Debug)]
pub struct Jump {
    nodes: Vec<u16>,
    names: Vec<NodeId>,
}

impl Jump {
    /// Numbers the nodes as they are listed.
    ///
    /// # Errors
    /// When weights differ.
    pub fn new(members: &[Member]) -> Result<Self, HashingError> {
        one_weight(Family::Jump, members)?;
        let (nodes, names) = members.iter().map(|member| (member.id, member.node.name.clone())).unzip();
        Ok(Self { nodes, names })
    }
}

impl Placement for Jump {
    fn owner(&self, key: &Key) -> u16 {
        let buckets = u32::try_from(self.nodes.len()).expect("few nodes");
        self.nodes[bucket(key.hash, buckets) as usize]
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        let common = self.nodes.iter().zip(members).take_while(|(id, member)| **id == member.id).count();
        if let (Some(leaving), Some(last)) = (self.names.get(common), self.names.last())
            && common < members.len()
        {
            return Err(HashingError::OnlyTheLastLeaves { leaving: leaving.clone(), last: last.clone() });
        }
        Ok(Box::new(Self::new(members)?))
    }

    /// A client that knows some nodes only has nothing but their number.
    fn seen(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members)?))
    }

    fn memory_bytes(&self) -> u64 {
        bytes_of(&self.nodes)
    }
}

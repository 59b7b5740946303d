//! Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam 2016): the ring, but a node that holds
//! (1 + ε) of its share sends the next key on.

use super::Tuning;
use super::circle::Circle;
use super::error::HashingError;
use super::key::Key;
use super::placement::{Member, Placement};
use super::ring::weighted_circle;
use crate::domain::{Family, Millionths};

/// A ring with virtual nodes, and how full a node may be.
#[derive(Clone, Debug)]
pub struct BoundedLoad {
    circle: Circle,
    tuning: Tuning,
    weights: Vec<u32>,
}

impl BoundedLoad {
    /// Computes the points.
    ///
    /// # Errors
    /// When there would be too many.
    pub fn new(members: &[Member], tuning: Tuning) -> Result<Self, HashingError> {
        let circle = weighted_circle(Family::BoundedLoad, members, tuning)?;
        let mut weights = vec![0; members.iter().map(|member| usize::from(member.id) + 1).max().unwrap_or(0)];
        for member in members {
            weights[usize::from(member.id)] = member.node.weight;
        }
        Ok(Self { circle, tuning, weights })
    }

    /// Most keys of each node when there are so many: `⌈(1 + ε) · keys · w / Σw⌉`.
    fn capacities(&self, keys: usize) -> Vec<u64> {
        let keys = u128::try_from(keys).expect("fits in memory");
        let total: u128 = self.weights.iter().map(|&weight| u128::from(weight)).sum();
        let factor = u128::from(Millionths::ONE.0 + self.tuning.epsilon.0);
        let most = |&weight: &u32| (factor * keys * u128::from(weight)).div_ceil(total * 1_000_000);
        self.weights.iter().map(|weight| u64::try_from(most(weight)).unwrap_or(u64::MAX)).collect()
    }
}

impl Placement for BoundedLoad {
    fn owner(&self, key: &Key) -> u16 {
        self.circle.owner(key.hash)
    }

    /// Keys come in this order before and after an event: only then few of them move.
    fn place(&self, keys: &[Key]) -> Vec<u16> {
        let mut room = self.capacities(keys.len());
        let place = |key: &Key| {
            let mut index = self.circle.first(key.hash);
            while room[usize::from(self.circle.node(index))] == 0 {
                index = self.circle.next(index);
            }
            let node = self.circle.node(index);
            room[usize::from(node)] -= 1;
            node
        };
        keys.iter().map(place).collect()
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members, self.tuning)?))
    }

    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        let _ = self.circle.clockwise(key.hash).all(visit);
    }

    fn memory_bytes(&self) -> u64 {
        // Beside the ring, who looks up has to know how full each node is.
        self.circle.bytes() + 8 * u64::try_from(self.weights.len()).expect("few nodes")
    }

    fn metadata_bytes(&self) -> u64 {
        8 * u64::try_from(self.weights.len()).expect("few nodes")
    }
}

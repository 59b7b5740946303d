//! The ring as libketama and many clients of memcached make it: MD5, four points a digest.

use md5::{Digest as _, Md5};

use super::POINTS_MAX;
use super::circle::Circle;
use super::error::HashingError;
use super::key::Key;
use super::placement::{Member, Placement};
use crate::domain::Family;

/// Digests of a node of mean weight.
const DIGESTS: u64 = 40;

/// A circle of 32 bits: `⌊40 · n · w / Σw⌋` digests of `name-number` a node, each four little-endian words.
#[derive(Clone, Debug)]
pub struct Ketama {
    circle: Circle,
}

impl Ketama {
    /// Computes the points. Since each node's number depends on all weights, other nodes' points come and go with an
    /// event: weighted ketama is not monotone.
    ///
    /// # Errors
    /// When there would be too many points.
    pub fn new(members: &[Member]) -> Result<Self, HashingError> {
        let node = |member| -> (u16, &str, u32) {
            let m: &Member = member;
            (m.id, m.name(), m.node.weight)
        };
        Self::of(&members.iter().map(node).collect::<Vec<_>>())
    }

    /// The same from numbers, texts and weights.
    pub(super) fn of(nodes: &[(u16, &str, u32)]) -> Result<Self, HashingError> {
        let count = u64::try_from(nodes.len()).expect("few nodes");
        let total: u64 = nodes.iter().map(|(_, _, weight)| u64::from(*weight)).sum();
        let most = count * DIGESTS * 4;
        if most > POINTS_MAX {
            return Err(HashingError::TooManyPoints { family: Family::Ketama, points: most, max: POINTS_MAX });
        }
        let mut points = Vec::new();
        for &(id, name, weight) in nodes {
            for number in 0..DIGESTS * count * u64::from(weight) / total {
                let digest = Md5::digest(format!("{name}-{number}"));
                let (words, _) = digest.as_chunks::<4>();
                points.extend(words.iter().map(|word| (u64::from(u32::from_le_bytes(*word)), id)));
            }
        }
        Ok(Self { circle: Circle::new(points) })
    }
}

impl Placement for Ketama {
    fn owner(&self, key: &Key) -> u16 {
        self.circle.owner(key.ketama.into())
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members)?))
    }

    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        let _ = self.circle.clockwise(key.ketama.into()).all(visit);
    }

    fn memory_bytes(&self) -> u64 {
        self.circle.bytes()
    }
}

//! Rendezvous hashing (Thaler and Ravishankar 1996): the node with the highest score. Weighted by −w / ln(h), the one
//! place beside jump that needs floats: `libm` gives the same logarithm on every machine.

use std::cmp::Ordering;

use super::error::HashingError;
use super::key::{Key, mix, point};
use super::placement::{Member, Placement, bytes_of};

/// A node and its hash.
#[derive(Clone, Copy, Debug)]
struct Contender {
    hash: u64,
    weight: u32,
    id: u16,
}

/// The nodes with a weight, lowest number first: it wins a draw.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    contenders: Vec<Contender>,
    one_weight: bool,
}

impl Rendezvous {
    /// Hashes the names.
    #[must_use]
    pub fn new(members: &[Member]) -> Self {
        let contender =
            |member: &Member| Contender { hash: point(member.name(), 0), weight: member.node.weight, id: member.id };
        let mut contenders: Vec<Contender> = members.iter().map(contender).filter(|node| node.weight > 0).collect();
        contenders.sort_unstable_by_key(|node| node.id);
        let one_weight = contenders.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        Self { contenders, one_weight }
    }
}

/// `−w / ln(h)`, h the hash as a number strictly between 0 and 1.
#[must_use]
pub fn score(hash: u64, weight: u32) -> f64 {
    const STEPS: f64 = 9_007_199_254_740_992.0;
    let unit = ((hash >> 11) as f64 + 0.5) / STEPS;
    -f64::from(weight) / libm::log(unit)
}

impl Contender {
    fn hash_of(&self, key: &Key) -> u64 {
        mix(self.hash ^ key.hash)
    }

    fn score_of(&self, key: &Key) -> f64 {
        score(self.hash_of(key), self.weight)
    }
}

impl Placement for Rendezvous {
    fn owner(&self, key: &Key) -> u16 {
        let mut nodes = self.contenders.iter();
        let mut best = nodes.next().expect("some node has a weight");
        if self.one_weight {
            // The score rises with the hash: the logarithm decides nothing.
            let mut highest = best.hash_of(key);
            for node in nodes {
                let hash = node.hash_of(key);
                if hash > highest {
                    (best, highest) = (node, hash);
                }
            }
        } else {
            let mut highest = best.score_of(key);
            for node in nodes {
                let score = node.score_of(key);
                if score > highest {
                    (best, highest) = (node, score);
                }
            }
        }
        best.id
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members)))
    }

    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        let mut ranked: Vec<(f64, u64, u16)> =
            self.contenders.iter().map(|node| (node.score_of(key), node.hash_of(key), node.id)).collect();
        let by_hash =
            |a: &(f64, u64, u16), b: &(f64, u64, u16)| if self.one_weight { b.1.cmp(&a.1) } else { Ordering::Equal };
        ranked.sort_by(|a, b| by_hash(a, b).then_with(|| b.0.total_cmp(&a.0)).then_with(|| a.2.cmp(&b.2)));
        let _ = ranked.into_iter().map(|(_, _, id)| id).all(visit);
    }

    fn memory_bytes(&self) -> u64 {
        bytes_of(&self.contenders)
    }
}

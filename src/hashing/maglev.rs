//! Maglev hashing (Eisenbud et al. 2016): the nodes fill a table of prime size by turns, each along its own permutation.

use super::error::HashingError;
use super::key::{Key, point, scale};
use super::placement::{Member, Placement, bytes_of};
use crate::domain::Family;

/// The table size of the paper's small table.
pub const SMALL_TABLE: u32 = 65_537;
/// The table size of the paper's large table, for more than 655 nodes.
pub const LARGE_TABLE: u32 = 655_373;

/// The look-up table.
#[derive(Clone, Debug)]
pub struct Maglev {
    entries: Vec<u16>,
}

/// A node's permutation and weight.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Where it starts, below the table's size.
    pub offset: u32,
    /// How far it steps, from 1 and below the table's size.
    pub skip: u32,
    /// Turns relative to the others.
    pub weight: u32,
    /// The node.
    pub id: u16,
}

impl Maglev {
    /// Fills the table. Its size is the paper's.
    ///
    /// # Errors
    /// When there are more nodes than a table of that size can serve evenly.
    pub fn new(members: &[Member]) -> Result<Self, HashingError> {
        let size = if members.len() * 100 <= SMALL_TABLE as usize { SMALL_TABLE } else { LARGE_TABLE };
        if members.len() * 100 > size as usize {
            let room = size as usize / 100;
            return Err(HashingError::NoRoom { family: Family::Maglev, room, nodes: members.len() });
        }
        let turn = |member: &Member| Turn {
            offset: below(point(member.name(), 0), size),
            skip: below(point(member.name(), 1), size - 1) + 1,
            weight: member.node.weight,
            id: member.id,
        };
        // By name, so that the order of the list decides nothing.
        let mut turns: Vec<Turn> = members.iter().map(turn).filter(|turn| turn.weight > 0).collect();
        turns.sort_unstable_by_key(|turn| turn.id);
        Ok(Self { entries: fill(&turns, size) })
    }
}

fn below(hash: u64, bound: u32) -> u32 {
    u32::try_from(scale(hash, bound.into())).expect("below the bound")
}

/// Fills a table of prime size: in each round every node takes its next free entry, a lighter one in its share of the
/// rounds. Some turn has a weight.
#[must_use]
pub fn fill(turns: &[Turn], size: u32) -> Vec<u16> {
    const FREE: u16 = u16::MAX;
    let mut entries = vec![FREE; size as usize];
    let mut next: Vec<u32> = turns.iter().map(|turn| turn.offset).collect();
    let mut taken = vec![0_u64; turns.len()];
    let heaviest = turns.iter().map(|turn| u64::from(turn.weight)).max().expect("some node has a weight");
    let (mut filled, mut round) = (0, 0_u64);
    loop {
        round += 1;
        for (index, turn) in turns.iter().enumerate() {
            if (taken[index] + 1) * heaviest > round * u64::from(turn.weight) {
                continue;
            }
            let entry = loop {
                let entry = next[index];
                next[index] = (entry + turn.skip) % size;
                if entries[entry as usize] == FREE {
                    break entry;
                }
            };
            entries[entry as usize] = turn.id;
            taken[index] += 1;
            filled += 1;
            if filled == size {
                return entries;
            }
        }
    }
}

impl Placement for Maglev {
    fn owner(&self, key: &Key) -> u16 {
        let size = u64::try_from(self.entries.len()).expect("fits in memory");
        self.entries[usize::try_from(key.hash % size).expect("below the size")]
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::new(members)?))
    }

    fn memory_bytes(&self) -> u64 {
        bytes_of(&self.entries)
    }
}

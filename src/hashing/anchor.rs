//! `AnchorHash` (Mendelson et al. 2020): any bucket can leave, and the last that left is the first to come back. Algorithm 3
//! of the paper, with its names.

use super::error::HashingError;
use super::key::{Key, scale, with};
use super::placement::{Member, Placement, bytes_of, one_weight};
use crate::domain::Family;

/// The anchor: arrays over all buckets that can ever be.
#[derive(Clone, Debug)]
pub struct Anchor {
    /// `A`: 0 for a working bucket, else how many worked just after it left.
    size_after: Vec<u32>,
    /// `W`: the working buckets first.
    working: Vec<u32>,
    /// `L`: where in `W` a bucket is.
    place: Vec<u32>,
    /// `K`: who took the bucket's place in `W`.
    successor: Vec<u32>,
    /// `R`: the removed buckets, the last on top.
    removed: Vec<u32>,
    /// The node of each bucket; of a removed one the last it had.
    nodes: Vec<u16>,
    count: u32,
}

impl Anchor {
    /// Numbers the nodes as they are listed. There is room for twice as many and at least 64, rounded up to a power of 2.
    ///
    /// # Errors
    /// When weights differ.
    pub fn new(members: &[Member]) -> Result<Self, HashingError> {
        one_weight(Family::Anchor, members)?;
        let capacity = u32::try_from((2 * members.len()).next_power_of_two().max(64)).expect("few nodes");
        let count = u32::try_from(members.len()).expect("few nodes");
        let numbers: Vec<u32> = (0..capacity).collect();
        let mut nodes: Vec<u16> = members.iter().map(|member| member.id).collect();
        nodes.resize(capacity as usize, u16::MAX);
        Ok(Self {
            size_after: numbers.iter().map(|&bucket| if bucket < count { 0 } else { bucket }).collect(),
            working: numbers.clone(),
            place: numbers.clone(),
            successor: numbers,
            removed: (count..capacity).rev().collect(),
            nodes,
            count,
        })
    }

    fn add(&mut self, node: u16) -> Result<(), HashingError> {
        let (room, nodes) = (self.nodes.len(), self.nodes.len() + 1);
        let bucket = self.removed.pop().ok_or(HashingError::NoRoom { family: Family::Anchor, room, nodes })?;
        let b = bucket as usize;
        self.size_after[b] = 0;
        let last = self.working[self.count as usize];
        self.place[last as usize] = self.count;
        self.working[self.place[b] as usize] = bucket;
        self.successor[b] = bucket;
        self.nodes[b] = node;
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, bucket: u32) {
        let b = bucket as usize;
        self.removed.push(bucket);
        self.count -= 1;
        self.size_after[b] = self.count;
        let last = self.working[self.count as usize];
        self.working[self.place[b] as usize] = last;
        self.successor[b] = last;
        self.place[last as usize] = self.place[b];
    }
}

impl Placement for Anchor {
    fn owner(&self, key: &Key) -> u16 {
        let capacity = self.nodes.len() as u64;
        let index = |hash, bound: u64| usize::try_from(scale(hash, bound)).expect("below the capacity");
        let mut bucket = index(key.hash, capacity);
        while self.size_after[bucket] > 0 {
            let after = self.size_after[bucket];
            let mut next = index(with(key.hash, bucket as u64), after.into());
            while self.size_after[next] >= after {
                next = self.successor[next] as usize;
            }
            bucket = next;
        }
        self.nodes[bucket]
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        one_weight(Family::Anchor, members)?;
        let mut after = self.clone();
        let stays = |bucket: u32| members.iter().any(|member| member.id == self.nodes[bucket as usize]);
        let working = &self.working[..self.count as usize];
        let mut leaving: Vec<u32> = working.iter().copied().filter(|&bucket| !stays(bucket)).collect();
        leaving.sort_unstable();
        let is_there = |id: u16| working.iter().any(|&bucket| self.nodes[bucket as usize] == id);
        // Who comes first: an anchor must never be empty.
        members.iter().filter(|member| !is_there(member.id)).try_for_each(|member| after.add(member.id))?;
        leaving.into_iter().rev().for_each(|bucket| after.remove(bucket));
        Ok(Box::new(after))
    }

    fn memory_bytes(&self) -> u64 {
        [&self.size_after, &self.working, &self.place, &self.successor, &self.removed]
            .map(|array| bytes_of(array))
            .iter()
            .sum::<u64>()
            + bytes_of(&self.nodes)
    }

    fn metadata_bytes(&self) -> u64 {
        // Who left in which order is part of what clients must agree on.
        bytes_of(&self.removed)
    }
}

//! Points on a circle of hashes: the part that the rings share.

use super::placement::bytes_of;

/// Sorted points and whose they are. The owner of a hash is the first point at or after it, clockwise, wrapping.
#[derive(Clone, Debug, Default)]
pub struct Circle {
    points: Vec<u64>,
    owners: Vec<u16>,
}

impl Circle {
    /// Sorts the points. Of equal points the one of the lower node comes first, and so wins.
    #[must_use]
    pub fn new(mut points: Vec<(u64, u16)>) -> Self {
        points.sort_unstable();
        let (points, owners) = points.into_iter().unzip();
        Self { points, owners }
    }

    /// The index of the first point at or after a hash.
    #[must_use]
    pub fn first(&self, hash: u64) -> usize {
        let index = self.points.partition_point(|&point| point < hash);
        if index == self.points.len() { 0 } else { index }
    }

    /// The node of the point with this index.
    #[must_use]
    pub fn node(&self, index: usize) -> u16 {
        self.owners[index]
    }

    /// The node of a hash.
    #[must_use]
    pub fn owner(&self, hash: u64) -> u16 {
        self.owners[self.first(hash)]
    }

    /// How far the first point at or after a hash is, clockwise, and its node.
    #[must_use]
    pub fn distance(&self, hash: u64) -> (u64, u16) {
        let index = self.first(hash);
        (self.points[index].wrapping_sub(hash), self.owners[index])
    }

    /// The nodes of all points clockwise from a hash.
    pub fn clockwise(&self, hash: u64) -> impl Iterator<Item = u16> + '_ {
        let first = self.first(hash);
        self.owners[first..].iter().chain(&self.owners[..first]).copied()
    }

    /// The point after this one, wrapping.
    #[must_use]
    pub fn next(&self, index: usize) -> usize {
        if index + 1 == self.points.len() { 0 } else { index + 1 }
    }

    /// Bytes of the points.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes_of(&self.points) + bytes_of(&self.owners)
    }
}

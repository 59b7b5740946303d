//! The random tree of a hot key (Karger et al. 1997): copies of the key on a tree of slots, so that many nodes serve it.
//!
//! Position 0 is the key's own slot, position i a slot of its own for every key; a reader asks a random leaf, and who has
//! no copy asks its parent. Everybody computes the same tree from the key alone.

use twox_hash::XxHash3_64;

use super::{Invalid, Slot};

/// The shape of every key's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    positions: u32,
    arity: u32,
}

impl Tree {
    /// Children of a position where nothing else is agreed on.
    pub const ARITY: u32 = 4;

    /// A tree with so many positions, usually the number of shards, and so many children of each.
    ///
    /// # Errors
    /// [`Invalid`] without a position, with more than there are slots, or with fewer than 2 children.
    pub fn new(positions: u32, arity: u32) -> Result<Self, Invalid> {
        if !(1..=16_384).contains(&positions) {
            return Err(Invalid::new("positions", format!("{positions} is not in 1..=16384")));
        }
        if !(2..=16_384).contains(&arity) {
            return Err(Invalid::new("arity", format!("{arity} is not in 2..=16384")));
        }
        Ok(Self { positions, arity })
    }

    /// Number of leaves; at least 1.
    #[must_use]
    pub const fn leaves(self) -> u32 {
        self.positions - self.first_leaf()
    }

    /// The position of a leaf, `number` below [`Self::leaves`].
    #[must_use]
    pub const fn leaf(self, number: u32) -> u32 {
        self.first_leaf() + number
    }

    const fn first_leaf(self) -> u32 {
        (self.positions - 1).div_ceil(self.arity)
    }

    /// The positions from this one up to the root, both included.
    pub fn path(self, position: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(position), move |&position| (position > 0).then(|| (position - 1) / self.arity))
    }

    /// The slot at a position of a key's tree: the key's own at 0, else by XXH3 of the whole key with the position as seed.
    #[must_use]
    pub fn slot(key: &[u8], position: u32) -> Slot {
        if position == 0 {
            return Slot::of_key(key);
        }
        let hash = XxHash3_64::oneshot_with_seed(position.into(), key);
        Slot::at(usize::try_from(hash >> 50).expect("14 bits"))
    }
}

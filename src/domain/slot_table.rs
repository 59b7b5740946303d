//! Who owns each of the 16384 slots.
//!
//! Owners are indexes into a sorted list of shard ids, so a table is one small array, comparing and
//! copying it is cheap, and the order of indexes is the order of ids.

use serde::{Deserialize, Serialize};

use super::slot_set::ranges_of;
use super::{Invalid, SLOT_COUNT, ShardId, Slot, SlotRange, SlotSet};

/// Index of "nobody" in [`SlotTable::owners`].
pub const UNASSIGNED: u16 = u16::MAX;

/// The owner of every slot: one shard of [`SlotTable::shards`], or nobody.
///
/// Every shard of the cluster is listed, also one that owns nothing. Serialised as the shards and the
/// maximal runs `[first, last, index]` of owned slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Encoded", into = "Encoded")]
pub struct SlotTable {
    shards: Vec<ShardId>,
    owners: Box<[u16]>,
}

impl SlotTable {
    /// A table without shards: every slot is unassigned.
    #[must_use]
    pub fn new() -> Self {
        Self { shards: Vec::new(), owners: vec![UNASSIGNED; SLOT_COUNT].into_boxed_slice() }
    }

    /// A table of these shards, in any order, in which every slot is unassigned.
    ///
    /// # Errors
    /// [`Invalid`] when a shard is listed twice, or there are more shards than slots.
    pub fn with_shards(mut shards: Vec<ShardId>) -> Result<Self, Invalid> {
        shards.sort_unstable();
        if let Some((_, twice)) = shards.iter().zip(shards.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(Invalid::new("shard", format!("{twice} is listed twice")));
        }
        if shards.len() > SLOT_COUNT {
            return Err(Invalid::new("shards", format!("{} are more than there are slots", shards.len())));
        }
        Ok(Self { shards, ..Self::new() })
    }

    /// The shards, ascending by id.
    #[must_use]
    pub fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// The owner of each slot as an index into [`SlotTable::shards`], or [`UNASSIGNED`]; 16384 entries.
    #[must_use]
    pub fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// The index of a shard in [`SlotTable::shards`].
    #[must_use]
    pub fn index_of(&self, shard: &ShardId) -> Option<u16> {
        let index = self.shards.binary_search(shard).ok()?;
        Some(u16::try_from(index).expect("insert_shard bounds the number of shards"))
    }

    /// The shard that owns the slot.
    #[must_use]
    pub fn owner(&self, slot: Slot) -> Option<&ShardId> {
        self.shards.get(usize::from(self.owners[slot.index()]))
    }

    /// Lists a shard that owns nothing yet; false when it is listed already.
    ///
    /// # Panics
    /// Above 16384 shards, which `state` refuses long before.
    pub fn insert_shard(&mut self, shard: ShardId) -> bool {
        let Err(position) = self.shards.binary_search(&shard) else { return false };
        assert!(self.shards.len() < SLOT_COUNT, "more shards than slots");
        self.shards.insert(position, shard);
        for owner in self.owners.iter_mut().filter(|o| **o != UNASSIGNED && usize::from(**o) >= position) {
            *owner += 1;
        }
        true
    }

    /// Strikes a shard off the list.
    ///
    /// # Errors
    /// [`Invalid`] when it is not listed or still owns a slot.
    pub fn remove_shard(&mut self, shard: &ShardId) -> Result<(), Invalid> {
        let index =
            self.index_of(shard).ok_or_else(|| Invalid::new("shard", format!("{shard} is not in the table")))?;
        let owned = self.owners.iter().filter(|&&o| o == index).count();
        if owned > 0 {
            return Err(Invalid::new("shard", format!("{shard} still owns {owned} slots")));
        }
        self.shards.remove(usize::from(index));
        for owner in self.owners.iter_mut().filter(|o| **o != UNASSIGNED && **o > index) {
            *owner -= 1;
        }
        Ok(())
    }

    /// Gives every slot of the range to a listed shard, or to nobody.
    ///
    /// # Errors
    /// [`Invalid`] when the shard is not listed.
    pub fn assign(&mut self, range: SlotRange, shard: Option<&ShardId>) -> Result<(), Invalid> {
        let index = match shard {
            None => UNASSIGNED,
            Some(id) => self.index_of(id).ok_or_else(|| Invalid::new("shard", format!("{id} is not in the table")))?,
        };
        self.owners[range.first().index()..=range.last().index()].fill(index);
        Ok(())
    }

    /// The maximal runs of slots with one owner (or none), ascending; together they cover the table.
    pub fn runs(&self) -> impl Iterator<Item = (SlotRange, Option<&ShardId>)> + '_ {
        self.owners.chunk_by(|a, b| a == b).scan(0, |start, run| {
            let range = SlotRange::new(Slot::at(*start), Slot::at(*start + run.len() - 1)).expect("runs are not empty");
            *start += run.len();
            Some((range, self.shards.get(usize::from(run[0]))))
        })
    }

    /// Number of maximal ranges that have an owner: the size of the topology.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.owners.chunk_by(|a, b| a == b).filter(|run| run[0] != UNASSIGNED).count()
    }

    /// Number of slots of each shard, in the order of [`SlotTable::shards`].
    #[must_use]
    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.shards.len()];
        for &owner in self.owners.iter().filter(|&&o| o != UNASSIGNED) {
            counts[usize::from(owner)] += 1;
        }
        counts
    }

    /// Number of slots of one shard; 0 when it is not listed.
    #[must_use]
    pub fn count_of(&self, shard: &ShardId) -> u32 {
        let Some(index) = self.index_of(shard) else { return 0 };
        u32::try_from(self.owners.iter().filter(|&&o| o == index).count()).expect("at most 16384")
    }

    /// The maximal ranges of one shard, ascending.
    #[must_use]
    pub fn ranges_of(&self, shard: &ShardId) -> Vec<SlotRange> {
        let Some(index) = self.index_of(shard) else { return Vec::new() };
        ranges_of(Slot::all().filter(|slot| self.owners[slot.index()] == index))
    }

    /// The slots that nobody owns.
    #[must_use]
    pub fn unassigned(&self) -> SlotSet {
        Slot::all().filter(|slot| self.owners[slot.index()] == UNASSIGNED).collect()
    }
}

impl Default for SlotTable {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    shards: Vec<ShardId>,
    runs: Vec<(Slot, Slot, u16)>,
}

impl From<SlotTable> for Encoded {
    fn from(table: SlotTable) -> Self {
        let runs = table
            .runs()
            .filter_map(|(range, shard)| Some((range.first(), range.last(), table.index_of(shard?)?)))
            .collect();
        Self { shards: table.shards, runs }
    }
}

impl TryFrom<Encoded> for SlotTable {
    type Error = Invalid;
    fn try_from(encoded: Encoded) -> Result<Self, Invalid> {
        if !encoded.shards.is_sorted_by(|a, b| a < b) || encoded.shards.len() > SLOT_COUNT {
            return Err(Invalid::new("slot table", "the shards are not ascending and distinct".to_owned()));
        }
        let mut table = Self { shards: encoded.shards, ..Self::new() };
        let mut seen = SlotSet::new();
        for (first, last, index) in encoded.runs {
            let range = SlotRange::new(first, last)?;
            if usize::from(index) >= table.shards.len() || !range.slots().all(|slot| seen.insert(slot)) {
                return Err(Invalid::new(
                    "slot table",
                    format!("run {range} of shard {index}: no such shard, or a slot twice"),
                ));
            }
            table.owners[first.index()..=last.index()].fill(index);
        }
        Ok(table)
    }
}

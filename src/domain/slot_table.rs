//! Who owns each of the 16384 slots.
//!
//! Owners are indexes into a sorted list of shard ids, so a table is one small array, comparing it is cheap, and the
//! order of indexes is the order of ids. Copies share what they hold until one of them is changed.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::{Invalid, SLOT_COUNT, ShardId, Slot, SlotRange, SlotSet};

/// Index of "nobody" in [`SlotTable::owners`].
pub const UNASSIGNED: u16 = u16::MAX;

/// The owner of every slot: one shard of [`SlotTable::shards`], or nobody.
///
/// Every shard of the cluster is listed, also one that owns nothing. Serialised as the shards and the
/// maximal runs `[first, last, index]` of owned slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Encoded", into = "Encoded")]
pub struct SlotTable {
    shards: Arc<Vec<ShardId>>,
    owners: Arc<[u16]>,
    /// Computed when it is first asked for, for all copies that are not changed since.
    by_shard: Arc<OnceLock<ByShard>>,
}

/// The maximal ranges of every shard.
#[derive(Debug)]
struct ByShard {
    /// Where the ranges of each shard begin, and the end of the last.
    starts: Vec<usize>,
    /// The ranges, ascending within a shard.
    ranges: Vec<SlotRange>,
}

impl ByShard {
    fn of(&self, shard: u16) -> &[SlotRange] {
        let shard = usize::from(shard);
        &self.ranges[self.starts[shard]..self.starts[shard + 1]]
    }
}

impl SlotTable {
    /// A table without shards: every slot is unassigned.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Vec::new())
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
        Ok(Self::of(shards))
    }

    fn of(shards: Vec<ShardId>) -> Self {
        let owners = std::iter::repeat_n(UNASSIGNED, SLOT_COUNT).collect();
        Self { shards: Arc::new(shards), owners, by_shard: Arc::default() }
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
        Arc::make_mut(&mut self.shards).insert(position, shard);
        for owner in self.owners_mut().iter_mut().filter(|o| **o != UNASSIGNED && usize::from(**o) >= position) {
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
        Arc::make_mut(&mut self.shards).remove(usize::from(index));
        for owner in self.owners_mut().iter_mut().filter(|o| **o != UNASSIGNED && **o > index) {
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
        self.owners_mut()[range.first().index()..=range.last().index()].fill(index);
        Ok(())
    }

    /// The owners, to be changed.
    fn owners_mut(&mut self) -> &mut [u16] {
        match Arc::get_mut(&mut self.by_shard) {
            Some(mine) => drop(mine.take()),
            None => self.by_shard = Arc::default(),
        }
        Arc::make_mut(&mut self.owners)
    }

    /// The maximal runs of slots with one owner (or none), ascending; together they cover the table.
    pub fn runs(&self) -> impl Iterator<Item = (SlotRange, Option<&ShardId>)> + '_ {
        self.all_runs().map(|(index, range)| (range, self.shards.get(usize::from(index))))
    }

    fn owned_runs(&self) -> impl Iterator<Item = (u16, SlotRange)> + '_ {
        self.all_runs().filter(|(index, _)| *index != UNASSIGNED)
    }

    /// The maximal runs of slots with one owner (or none), and its index.
    fn all_runs(&self) -> impl Iterator<Item = (u16, SlotRange)> + '_ {
        self.owners.chunk_by(|a, b| a == b).scan(0, |start, run| {
            let range = SlotRange::new(Slot::at(*start), Slot::at(*start + run.len() - 1)).expect("runs are not empty");
            *start += run.len();
            Some((run[0], range))
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
        let count = match self.by_shard.get() {
            Some(by_shard) => by_shard.of(index).iter().map(|range| range.count()).sum(),
            None => self.owners.iter().filter(|&&owner| owner == index).count(),
        };
        u32::try_from(count).expect("at most 16384")
    }

    /// The maximal ranges of one shard, ascending.
    #[must_use]
    pub fn ranges_of(&self, shard: &ShardId) -> Vec<SlotRange> {
        let Some(index) = self.index_of(shard) else { return Vec::new() };
        self.by_shard.get_or_init(|| self.by_shard()).of(index).to_vec()
    }

    fn by_shard(&self) -> ByShard {
        let mut runs: Vec<(u16, SlotRange)> = self.owned_runs().collect();
        runs.sort_by_key(|(index, _)| *index);
        let starts = (0..=self.shards.len()).map(|index| runs.partition_point(|run| usize::from(run.0) < index));
        ByShard { starts: starts.collect(), ranges: runs.into_iter().map(|(_, range)| range).collect() }
    }

    /// The slots whose owners another table of the same shards has otherwise, ascending.
    pub fn differing_slots<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Slot> + 'a {
        const PIECE: usize = 64;
        let shared = Arc::ptr_eq(&self.owners, &other.owners);
        let pieces = self.owners.chunks(PIECE).zip(other.owners.chunks(PIECE)).enumerate();
        let differing = pieces.take_while(move |_| !shared).filter(|(_, (mine, theirs))| mine != theirs);
        differing.flat_map(|(piece, (mine, theirs))| {
            let pairs = mine.iter().zip(theirs).enumerate().filter(|(_, (a, b))| a != b);
            pairs.map(move |(at, _)| Slot::at(piece * PIECE + at))
        })
    }

    /// Whether this table lists the same shards as another one; at once for copies.
    #[must_use]
    pub fn has_shards_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shards, &other.shards) || self.shards == other.shards
    }

    /// Number of slots that nobody owns.
    #[must_use]
    pub fn unassigned_count(&self) -> usize {
        self.owners.iter().filter(|&&owner| owner == UNASSIGNED).count()
    }

    /// The slots that nobody owns.
    #[must_use]
    pub fn unassigned(&self) -> SlotSet {
        Slot::all().filter(|slot| self.owners[slot.index()] == UNASSIGNED).collect()
    }
}

impl PartialEq for SlotTable {
    fn eq(&self, other: &Self) -> bool {
        self.has_shards_of(other) && (Arc::ptr_eq(&self.owners, &other.owners) || self.owners == other.owners)
    }
}

impl Eq for SlotTable {}

impl Default for SlotTable {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    shards: Arc<Vec<ShardId>>,
    runs: Vec<(Slot, Slot, u16)>,
}

impl From<SlotTable> for Encoded {
    fn from(table: SlotTable) -> Self {
        let runs = table.owned_runs().map(|(index, range)| (range.first(), range.last(), index)).collect();
        Self { shards: table.shards, runs }
    }
}

impl TryFrom<Encoded> for SlotTable {
    type Error = Invalid;
    fn try_from(encoded: Encoded) -> Result<Self, Invalid> {
        if !encoded.shards.is_sorted_by(|a, b| a < b) || encoded.shards.len() > SLOT_COUNT {
            return Err(Invalid::new("slot table", "the shards are not ascending and distinct".to_owned()));
        }
        let listed = encoded.shards.len();
        let mut table = Self { shards: encoded.shards, ..Self::new() };
        let owners = table.owners_mut();
        let mut seen = SlotSet::new();
        for (first, last, index) in encoded.runs {
            let range = SlotRange::new(first, last)?;
            if usize::from(index) >= listed || !range.slots().all(|slot| seen.insert(slot)) {
                return Err(Invalid::new(
                    "slot table",
                    format!("run {range} of shard {index}: no such shard, or a slot twice"),
                ));
            }
            owners[first.index()..=last.index()].fill(index);
        }
        Ok(table)
    }
}

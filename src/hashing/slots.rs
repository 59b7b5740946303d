//! Fixed slots: a key has its slot for ever, a table says whose the slot is, and this project's planner changes the table
//! with the fewest moves.

use std::collections::BTreeSet;

use super::error::HashingError;
use super::key::Key;
use super::placement::{Member, Placement, bytes_of};
use crate::domain::{
    DriverKind, Goal, NodeId, SLOT_COUNT, Shard, ShardId, ShardState, Slot, SlotTable, Tolerance, Weight,
};
use crate::plan::{Input, plan};

/// A slot table and the numbers of its owners.
#[derive(Clone, Debug)]
pub struct Slots {
    table: SlotTable,
    owners: Vec<u16>,
    /// The members that own a slot, ascending.
    bearing: Vec<u16>,
    moved: Vec<u16>,
}

impl Slots {
    /// A table that the planner fills, or the one of a cluster whose shards have the members' names.
    ///
    /// # Errors
    /// When the planner refuses the weights, or the table's shards are not the members.
    pub fn new(members: &[Member], table: Option<&SlotTable>) -> Result<Self, HashingError> {
        match table {
            None => Self::from(&SlotTable::new(), members),
            Some(table) => Ok(Self::of(table.clone(), members, Vec::new())),
        }
    }

    /// The table after a plan that brings it to these members.
    fn from(table: &SlotTable, members: &[Member]) -> Result<Self, HashingError> {
        let mut after = table.clone();
        let mut shards = Vec::new();
        for member in members {
            let id = ShardId::new(member.name())?;
            after.insert_shard(id.clone());
            shards.push(Shard::new(id, NodeId::new(member.name())?, Weight::new(member.node.weight)?));
        }
        for id in table.shards().iter().filter(|id| members.iter().all(|member| member.name() != id.as_str())) {
            let mut shard = Shard::new(id.clone(), NodeId::new(id.as_str())?, Weight::ONE);
            shard.state = ShardState::Draining;
            shards.push(shard);
        }
        shards.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let lost = BTreeSet::new();
        let input = Input { table: &after, shards: &shards, lost: &lost, statistics: None };
        let body = plan(&input, Goal::Balance { tolerance: Tolerance(0) }, &DriverKind::Flip.default_limits())?;
        let mut moved = Vec::new();
        let mut applied = after.clone();
        for action in &body.actions {
            for &range in action.kind.ranges() {
                applied.assign(range, action.kind.target()).expect("the planner names shards of the table");
                if action.kind.source().is_some() {
                    moved.extend(range.slots().map(Slot::get));
                }
            }
        }
        for shard in shards.iter().filter(|shard| shard.state == ShardState::Draining) {
            applied.remove_shard(&shard.id)?;
        }
        Ok(Self::of(applied, members, moved))
    }

    fn of(table: SlotTable, members: &[Member], moved: Vec<u16>) -> Self {
        let owners = numbers(&table, members);
        let mut bearing = owners.clone();
        bearing.sort_unstable();
        bearing.dedup();
        Self { table, owners, bearing, moved }
    }
}

/// The member of each slot.
fn numbers(table: &SlotTable, members: &[Member]) -> Vec<u16> {
    let number_of = |id: &ShardId| {
        let member = members.iter().find(|member| member.name() == id.as_str());
        member.expect("the table has the members' shards").id
    };
    let by_index: Vec<u16> = table.shards().iter().map(number_of).collect();
    table.owners().iter().map(|&owner| by_index[usize::from(owner)]).collect()
}

impl Placement for Slots {
    fn owner(&self, key: &Key) -> u16 {
        self.owners[usize::from(key.slot)]
    }

    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        Ok(Box::new(Self::from(&self.table, members)?))
    }

    /// The owner's shard, then those that follow it by id: copies belong to shards, not to slots.
    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        let owner = self.owner(key);
        let first = self.bearing.partition_point(|&id| id < owner);
        let (before, from) = self.bearing.split_at(first);
        let _ = from.iter().chain(before).copied().all(visit);
    }

    fn moved_slots(&self) -> &[u16] {
        &self.moved
    }

    fn memory_bytes(&self) -> u64 {
        bytes_of(&self.owners)
    }

    /// First, last and owner of each range.
    fn metadata_bytes(&self) -> u64 {
        6 * u64::try_from(self.table.range_count()).expect("at most one range a slot")
    }
}

const _: () = assert!(SLOT_COUNT == 1 << 14, "the mask of `Key::again`");

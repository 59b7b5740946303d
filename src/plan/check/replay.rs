//! Carries the actions out on a copy of the table, and notes what they must not do.

use super::{Faults, Input};
use crate::domain::{ActionKind, Limits, PlanBody, ShardId, Slot, SlotSet, SlotTable};

/// What the actions do.
pub(super) struct Replay {
    /// The table afterwards.
    pub after: SlotTable,
    /// Slots of each shard now.
    pub count_before: Vec<u32>,
    /// Slots of each shard afterwards.
    pub count_after: Vec<u32>,
    /// Slots that each shard gives.
    pub gave: Vec<u32>,
    /// Slots that change their owner.
    pub moved: u32,
    /// Slots that get one.
    pub assigned: u32,
    /// Shards that both give and take slots, which only balancing load can need.
    pub both: Vec<ShardId>,
}

/// Whether a slot must stay where it is.
pub(super) fn pinned(input: &Input<'_>, slot: Slot) -> bool {
    let Some(shard) = input.shards.get(usize::from(input.table.owners()[slot.index()])) else { return false };
    shard.pinned.contains(slot) && !input.lost.contains(&shard.id)
}

impl Replay {
    pub fn of(input: &Input<'_>, limits: &Limits, body: &PlanBody, faults: &mut Faults) -> Self {
        let mut replay = Self {
            after: input.table.clone(),
            count_before: input.table.counts(),
            count_after: Vec::new(),
            gave: vec![0; input.shards.len()],
            moved: 0,
            assigned: 0,
            both: Vec::new(),
        };
        let mut seen = SlotSet::new();
        let mut received = vec![false; input.shards.len()];
        for (number, action) in (1..).zip(&body.actions) {
            let id = action.id;
            faults.differ("the number of an action", id.0, number);
            let Some(to) = action.kind.target() else { continue };
            let Some(target) = input.table.index_of(to) else {
                faults.add(format_args!("{id} moves slots to {to}, which is no shard of the cluster"));
                continue;
            };
            received[usize::from(target)] = true;
            let (slots, ranges) = (action.kind.slots(), action.kind.ranges());
            if slots == 0 || slots > limits.slots_per_move as usize {
                faults.add(format_args!("{id} moves {slots} slots; 1..={} are allowed", limits.slots_per_move));
            }
            if !ranges.is_sorted_by(|a, b| a.last() < b.first()) {
                faults.add(format_args!("{id}: its ranges are not ascending and disjoint"));
            }
            for range in ranges {
                for slot in range.slots() {
                    if !seen.insert(slot) {
                        faults.add(format_args!("slot {slot} changes its owner twice, again in {id}"));
                    } else if let Err(why) = replay.step(input, &action.kind, slot) {
                        faults.add(format_args!("{id}: slot {slot} {why}"));
                    }
                }
                replay.after.assign(*range, Some(to)).expect("the shard is listed");
            }
        }
        replay.count_after = replay.after.counts();
        let both =
            input.shards.iter().zip(received).zip(&replay.gave).filter(|((_, received), gave)| *received && **gave > 0);
        replay.both = both.map(|((shard, _), _)| shard.id.clone()).collect();
        replay
    }

    fn step(&mut self, input: &Input<'_>, kind: &ActionKind, slot: Slot) -> Result<(), String> {
        let owner = input.table.owner(slot);
        if owner != kind.source() {
            let name = |shard: Option<&ShardId>| shard.map_or("nobody".to_owned(), ToString::to_string);
            return Err(format!("belongs to {}, not to {}", name(owner), name(kind.source())));
        }
        let Some(from) = owner else {
            self.assigned += 1;
            return Ok(());
        };
        self.moved += 1;
        self.gave[usize::from(input.table.index_of(from).expect("an owner is listed"))] += 1;
        match kind {
            _ if Some(from) == kind.target() => Err(format!("stays with {from}")),
            _ if pinned(input, slot) => Err(format!("is pinned to {from}")),
            ActionKind::MoveSlots { .. } if input.lost.contains(from) => {
                Err(format!("is read from {from}, which is lost"))
            }
            ActionKind::AssignSlots { .. } if !input.lost.contains(from) => {
                Err(format!("is taken without its keys from {from}, which is not lost"))
            }
            _ => Ok(()),
        }
    }
}

//! What the planner sees of its input: counts, pins and bounds by index, with every contradiction refused by name.

use super::quota::{Bounds, Shares, water_fill};
use super::remedy::Remedy;
use super::{Input, PlanError};
use crate::domain::{LoadMetric, SLOT_COUNT, Shard, ShardId, ShardState, Slot, SlotSet, Statistics, UNASSIGNED};

/// The input by index of the slot table. Nobody has the index after the last shard.
pub(super) struct Survey<'a> {
    pub shards: &'a [Shard],
    /// Dead shards.
    pub lost: Vec<bool>,
    /// The owner of each slot; `nobody` when it has none.
    pub owners: Vec<u16>,
    /// The index that stands for nobody.
    pub nobody: u16,
    /// Slots of each shard.
    pub counts: Vec<u32>,
    /// Slots without an owner.
    pub unassigned: u32,
    /// Slots in the table.
    pub total: u32,
    /// Slots that stay with their owner.
    pub pinned: SlotSet,
    /// What limits each shard's share.
    pub bounds: Vec<Bounds>,
    /// The exact share of each shard.
    pub shares: Shares,
    /// What is known of each slot.
    pub statistics: Option<&'a Statistics>,
}

impl<'a> Survey<'a> {
    /// Reads the input.
    pub fn new(input: &Input<'a>) -> Result<Self, PlanError> {
        let lost = check_shards(input)?;
        let nobody = u16::try_from(input.shards.len()).expect("a slot table bounds the number of shards");
        let mut counts = vec![0_u32; input.shards.len() + 1];
        let owners: Vec<u16> = input.table.owners().iter().map(|&o| if o == UNASSIGNED { nobody } else { o }).collect();
        for &owner in &owners {
            counts[usize::from(owner)] += 1;
        }
        let unassigned = counts.pop().expect("one entry stands for nobody");
        let mut pinned = SlotSet::new();
        let mut bounds = Vec::with_capacity(input.shards.len());
        let mut pins_of = Vec::with_capacity(input.shards.len());
        for (index, shard) in (0_u16..).zip(input.shards) {
            let mut pins = 0;
            // A dead shard serves nothing, so a pin to it protects nothing.
            if !lost[usize::from(index)] && !shard.pinned.is_empty() {
                for slot in shard.pinned.iter().filter(|slot| owners[slot.index()] == index) {
                    pinned.insert(slot);
                    pins += 1;
                }
            }
            bounds.push(bounds_of(shard, pins)?);
            pins_of.push(pins);
        }
        let total = u32::try_from(SLOT_COUNT).expect("16384");
        check_feasible(input.shards, &bounds, &pins_of, total)?;
        let shares = water_fill(&bounds, total);
        Ok(Self {
            shards: input.shards,
            lost,
            owners,
            nobody,
            counts,
            unassigned,
            total,
            pinned,
            bounds,
            shares,
            statistics: input.statistics,
        })
    }

    /// One figure of every slot, for what needs it. Every slot with an owner must be listed.
    pub fn figures_of(&self, metric: LoadMetric, needed_by: &'static str) -> Result<&'a [u64], PlanError> {
        let Some(statistics) = self.statistics else {
            return Err(PlanError::StatisticsMissing { metric, needed_by });
        };
        let Some(figures) = statistics.of(metric) else {
            return Err(PlanError::ColumnMissing { metric, needed_by });
        };
        let is_missing = |slot: &Slot| self.owners[slot.index()] != self.nobody && !statistics.listed().contains(*slot);
        match Slot::all().find(is_missing) {
            Some(first) => {
                let listed = statistics.listed().len();
                Err(PlanError::SlotsMissing { missing: Slot::all().filter(is_missing).count(), listed, first })
            }
            None => Ok(figures),
        }
    }

    /// Whether the shard is to be emptied.
    pub fn draining(&self, shard: usize) -> bool {
        self.shards[shard].state == ShardState::Draining
    }
}

/// The shards must be those of the table; lost ones must be draining.
fn check_shards(input: &Input<'_>) -> Result<Vec<bool>, PlanError> {
    let listed = input.table.shards();
    let differ = |shard: &ShardId, fault| Err(PlanError::ShardsDiffer { shard: shard.clone(), fault });
    for (index, shard) in input.shards.iter().enumerate() {
        match listed.get(index) {
            Some(id) if *id == shard.id => {}
            Some(id) if input.shards.iter().all(|s| s.id != *id) => {
                return differ(id, "is in the table but not among the shards");
            }
            _ if listed.contains(&shard.id) => return differ(&shard.id, "is listed twice or out of order"),
            _ => return differ(&shard.id, "is not in the table"),
        }
    }
    if let Some(id) = listed.get(input.shards.len()) {
        return differ(id, "is in the table but not among the shards");
    }
    let mut lost = vec![false; listed.len()];
    for id in input.lost {
        let mismatch = |fault| PlanError::LostMismatch { shard: id.clone(), fault };
        let index = input.table.index_of(id).ok_or_else(|| mismatch("is not a shard of the cluster"))?;
        if input.shards[usize::from(index)].state != ShardState::Draining {
            return Err(mismatch("is not draining"));
        }
        lost[usize::from(index)] = true;
    }
    Ok(lost)
}

fn bounds_of(shard: &Shard, pins: u32) -> Result<Bounds, PlanError> {
    let total = u32::try_from(SLOT_COUNT).expect("16384");
    let max = shard.max_slots.map(u32::from);
    if let Some(max) = max.filter(|&max| pins > max) {
        return Err(PlanError::PinsAboveMax { shard: shard.id.clone(), pinned: pins, max });
    }
    if shard.state == ShardState::Draining {
        return Ok(Bounds { weight: 0, lb: pins, ub: pins });
    }
    let min = shard.min_slots.map_or(0, u32::from);
    if let Some(max) = max.filter(|&max| min > max) {
        return Err(PlanError::MinAboveMax { shard: shard.id.clone(), min, max });
    }
    let lb = pins.max(min);
    let ub = if shard.weight.get() == 0 { lb } else { max.unwrap_or(total).min(total).max(lb) };
    Ok(Bounds { weight: shard.weight.get(), lb, ub })
}

fn check_feasible(shards: &[Shard], bounds: &[Bounds], pins: &[u32], total: u32) -> Result<(), PlanError> {
    let required: u32 = bounds.iter().map(|b| b.lb).sum();
    let named = |of: fn(&Bounds) -> u32| shards.iter().zip(bounds).map(move |(s, b)| (s.id.clone(), of(b)));
    if required > total {
        let remedy = Remedy::less_required(shards, bounds, pins, required - total);
        let mut bounds: Vec<_> = named(|b| b.lb).filter(|(_, lb)| *lb > 0).collect();
        bounds.sort_by_key(|(_, lb)| std::cmp::Reverse(*lb));
        return Err(PlanError::TooManyRequired { required, total, bounds, remedy });
    }
    let room: u32 = bounds.iter().map(|b| b.ub).sum();
    if room >= total {
        return Ok(());
    }
    if bounds.iter().all(|b| b.weight == 0) {
        let homeless = total - required;
        let remedy = Remedy::somebody(shards, |i| bounds[i].lb, homeless);
        return Err(PlanError::NoActiveShard { shards: shards.len(), homeless, remedy });
    }
    let remedy = Remedy::more_room(shards, |i| bounds[i].ub, total - room);
    let active = |(i, _): &(usize, _)| shards[*i].state == ShardState::Active;
    let mut bounds: Vec<_> = named(|b| b.ub).enumerate().filter(active).map(|(_, bound)| bound).collect();
    bounds.sort_by_key(|(_, ub)| *ub);
    Err(PlanError::TooLittleRoom { room, total, bounds, remedy })
}

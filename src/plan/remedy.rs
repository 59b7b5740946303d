//! What would make an infeasible goal feasible: the smallest change, shard by shard.

use std::fmt;

use super::quota::Bounds;
use crate::domain::{Shard, ShardId, ShardState};

/// A setting of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Its `min_slots`.
    MinSlots,
    /// Its `max_slots`.
    MaxSlots,
    /// Its weight.
    Weight,
    /// How many of its slots are pinned.
    Pins,
}

/// One setting and what it would have to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The shard.
    pub shard: ShardId,
    /// Which setting.
    pub setting: Setting,
    /// Its value.
    pub to: u32,
}

/// Changes that together make the goal feasible, and of which none can be less. Empty when only another shard helps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy(pub Vec<Change>);

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Change { shard, setting, to }) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { " and " } else { "" })?;
            match setting {
                Setting::MinSlots => write!(f, "lower min_slots of {shard} to {to}")?,
                Setting::MaxSlots => write!(f, "raise max_slots of {shard} to {to}")?,
                Setting::Weight => write!(f, "raise the weight of {shard} to {to}")?,
                Setting::Pins => write!(f, "leave only {to} slots of {shard} pinned")?,
            }
        }
        Ok(())
    }
}

impl Remedy {
    /// One setting of one shard.
    pub(super) fn one(shard: &ShardId, setting: Setting, to: u32) -> Self {
        Self(vec![Change { shard: shard.clone(), setting, to }])
    }

    /// Lowers what `min_slots` asks for by so much in all, where it asks for most first. Pins alone never ask for too much:
    /// they are owned already.
    pub(super) fn less_required(shards: &[Shard], bounds: &[Bounds], pins: &[u32], excess: u32) -> Self {
        let free = |i: usize| match shards[i].min_slots {
            Some(min) if shards[i].state == ShardState::Active => {
                u32::from(min).saturating_sub(pins[i]).min(bounds[i].lb)
            }
            _ => 0,
        };
        let mut order: Vec<usize> = (0..shards.len()).filter(|&i| free(i) > 0).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(free(i)), i));
        let (mut left, mut changes) = (excess, Vec::new());
        for i in order {
            let less = free(i).min(left);
            if less > 0 {
                left -= less;
                changes.push(Change {
                    shard: shards[i].id.clone(),
                    setting: Setting::MinSlots,
                    to: bounds[i].lb - less,
                });
            }
        }
        Self(changes)
    }

    /// Raises the `max_slots` of one shard that grows: what is missing always fits into one. `ub` is what each may own now.
    pub(super) fn more_room(shards: &[Shard], ub: impl Fn(usize) -> u32, missing: u32) -> Self {
        let grows = |i: &usize| shards[*i].state == ShardState::Active && shards[*i].weight.get() > 0;
        let heaviest = (0..shards.len()).filter(grows).max_by_key(|&i| (shards[i].weight.get(), std::cmp::Reverse(i)));
        heaviest.map_or_else(Self::default, |i| Self::one(&shards[i].id, Setting::MaxSlots, ub(i) + missing))
    }

    /// Gives an active shard of weight 0 a weight, and the room it needs for slots that have no home.
    pub(super) fn somebody(shards: &[Shard], owned: impl Fn(usize) -> u32, homeless: u32) -> Self {
        let active = (0..shards.len()).filter(|&i| shards[i].state == ShardState::Active);
        let roomiest = active.max_by_key(|&i| (shards[i].max_slots.unwrap_or(u16::MAX), std::cmp::Reverse(i)));
        let Some(i) = roomiest else { return Self::default() };
        let mut remedy = Self::one(&shards[i].id, Setting::Weight, 1);
        let needed = owned(i) + homeless;
        if shards[i].max_slots.is_some_and(|max| u32::from(max) < needed) {
            remedy.0.push(Change { shard: shards[i].id.clone(), setting: Setting::MaxSlots, to: needed });
        }
        remedy
    }
}

//! The lower bound on moves: an overloaded shard gives at least so many of its own largest slots, an underloaded one takes
//! at least so many of the largest there are.

use super::bands::LoadBands;
use crate::domain::Slot;
use crate::plan::survey::Survey;

/// The slots, hottest first, then by number.
pub(super) struct Ranking {
    pub slots: Vec<u16>,
}

impl Ranking {
    pub fn new(survey: &Survey<'_>, loads: &[u64]) -> Self {
        let mut ranked: Vec<(std::cmp::Reverse<u64>, u16)> =
            (0_u16..).zip(&loads[..survey.owners.len()]).map(|(slot, &load)| (std::cmp::Reverse(load), slot)).collect();
        ranked.sort_unstable();
        Self { slots: ranked.into_iter().map(|(_, slot)| slot).collect() }
    }
}

/// The bound and its parts.
pub(super) struct Bound {
    /// Slots that each shard gives at least.
    pub shed: Vec<u32>,
    /// Slots that each shard takes at least.
    pub fill: Vec<u32>,
    /// `max(Σ shed, Σ fill − unassigned)`.
    pub moves: u32,
}

impl Bound {
    pub fn of(survey: &Survey<'_>, loads: &[u64], ranking: &Ranking, bands: &LoadBands) -> Self {
        let shards = survey.shards.len();
        let mut load = vec![0_u64; shards + 1];
        survey.owners.iter().zip(loads).for_each(|(&owner, load_of)| load[usize::from(owner)] += load_of);
        let mut home = vec![None; survey.owners.len()];
        bands.hot.iter().for_each(|&(slot, shard)| home[usize::from(slot)] = Some(shard));
        let movable = |slot: u16| !survey.pinned.contains(Slot::at(usize::from(slot)));
        let mut shed = vec![0_u32; shards];
        let mut excess: Vec<u64> = (0..shards).map(|i| load[i].saturating_sub(bands.hi[i])).collect();
        for &slot in &ranking.slots {
            let owner = usize::from(survey.owners[usize::from(slot)]);
            let stays = home[usize::from(slot)] == Some(survey.owners[usize::from(slot)]);
            if owner < shards && excess[owner] > 0 && movable(slot) && !stays {
                excess[owner] = excess[owner].saturating_sub(loads[usize::from(slot)]);
                shed[owner] += 1;
            }
        }
        let mut fill = vec![0_u32; shards];
        for (shard, fill) in fill.iter_mut().enumerate() {
            let mut deficit = bands.lo[shard].saturating_sub(load[shard]);
            let mut hottest = ranking.slots.iter();
            while deficit > 0
                && let Some(&slot) = hottest.next()
            {
                let elsewhere = home[usize::from(slot)].is_some_and(|home| usize::from(home) != shard);
                if usize::from(survey.owners[usize::from(slot)]) != shard && movable(slot) && !elsewhere {
                    deficit = deficit.saturating_sub(loads[usize::from(slot)]);
                    *fill += 1;
                }
            }
        }
        for (i, bounds) in survey.bounds.iter().enumerate() {
            shed[i] = shed[i].max(survey.counts[i].saturating_sub(bounds.ub));
            fill[i] = fill[i].max(bounds.lb.saturating_sub(survey.counts[i]));
        }
        let sum = |of: &[u32]| of.iter().sum::<u32>();
        let moves = sum(&shed).max(sum(&fill).saturating_sub(survey.unassigned));
        Self { shed, fill, moves }
    }
}

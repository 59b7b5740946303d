//! Which slots move when bytes count and the number of moves is settled: every donor gives its forced cheapest slots, and
//! the globally cheapest extras fill up what is missing, within the bands.
//!
//! The sets of slots that the donors may give are the independent sets of a laminar matroid (so many of each donor, so many
//! in all), and the forced ones are cheapest in every donor, so that the greedy choice is exact.

use super::aim::Aim;
use super::survey::Survey;
use crate::domain::Slot;

/// Whether each slot moves. The donors' targets become what they give.
pub(super) fn slots(survey: &Survey<'_>, aim: &mut Aim, bytes: &[u64]) -> Vec<bool> {
    let mut moving: Vec<bool> = survey.owners.iter().map(|&owner| owner == survey.nobody).collect();
    let mut owned: Vec<Vec<(u64, usize)>> = vec![Vec::new(); survey.shards.len() + 1];
    for (slot, &owner) in survey.owners.iter().enumerate() {
        if owner != survey.nobody && !survey.pinned.contains(Slot::at(slot)) {
            owned[usize::from(owner)].push((bytes[slot], slot));
        }
    }
    let mut extras: Vec<(u64, usize)> = Vec::new();
    let mut open = 0;
    for (shard, mut slots) in owned.into_iter().take(survey.shards.len()).enumerate() {
        let count = survey.counts[shard];
        let most = count.saturating_sub(aim.bands.lo[shard].min(aim.targets[shard]));
        if most == 0 || aim.targets[shard] > count {
            continue;
        }
        slots.sort_unstable();
        let forced = count.saturating_sub(aim.bands.hi[shard]);
        open += count - aim.targets[shard] - forced;
        slots[..forced as usize].iter().for_each(|&(_, slot)| moving[slot] = true);
        extras.extend(&slots[forced as usize..most as usize]);
        aim.targets[shard] = count - forced;
    }
    extras.sort_unstable();
    for &(_, slot) in &extras[..open as usize] {
        moving[slot] = true;
        aim.targets[usize::from(survey.owners[slot])] -= 1;
    }
    moving
}

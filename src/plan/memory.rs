//! Earlier owners: slots go back to where they were, as far as that costs no move more. A shard that is drained and comes
//! back finds its slots again.
//!
//! How many slots each shard gives and takes is free within the box of targets that the fewest moves can reach. Among
//! those the flow of least cost is chosen: going home costs nothing, anything else a little; being away from the targets
//! that the largest remainders would give comes last. The slots that go home are fixed; the rest is laid out as always.

use std::collections::BTreeMap;

use super::aim::Aim;
use super::flow::Network;
use super::layout::{self, Flow};
use super::survey::Survey;
use crate::domain::{Goal, ShardId, Slot, SlotRange, SlotSet, Tolerance};

/// The shard that owned a slot before it was moved away, for as many slots as are remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    earlier: BTreeMap<ShardId, SlotSet>,
    /// Where the latest move that is noted took each slot.
    came_to: BTreeMap<ShardId, SlotSet>,
    known: SlotSet,
}

impl Memory {
    /// Notes that slots were moved. What was noted first stays: note the latest moves first. A slot that is where it came
    /// from earlier has come home, and the owner in between is forgotten.
    pub fn remember(&mut self, from: &ShardId, to: &ShardId, ranges: &[SlotRange]) {
        for slot in ranges.iter().flat_map(|range| range.slots()) {
            if self.known.insert(slot) {
                self.earlier.entry(from.clone()).or_default().insert(slot);
                self.came_to.entry(to.clone()).or_default().insert(slot);
            } else if self.came_to.get(from).is_some_and(|slots| slots.contains(slot)) {
                self.earlier.values_mut().for_each(|slots| _ = slots.remove(slot));
            }
        }
    }

    /// The earlier owner of a slot.
    #[must_use]
    pub fn earlier(&self, slot: Slot) -> Option<&ShardId> {
        self.known
            .contains(slot)
            .then(|| self.earlier.iter().find(|(_, slots)| slots.contains(slot)))?
            .map(|(id, _)| id)
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.earlier.is_empty()
    }
}

/// The owners that an aim leads to, with as many slots going home as the fewest moves allow, and `aim` with their counts;
/// none where no slot can go home.
pub(super) fn owners(survey: &Survey<'_>, aim: &mut Aim, goal: Goal, memory: &Memory) -> Option<Vec<u16>> {
    let sides = Sides::of(survey, aim, goal);
    let homes = homes(survey, &sides, memory);
    if homes.is_empty() {
        return None;
    }
    let (targets, going) = sides.divide(survey, &homes);
    aim.targets = targets;
    let mut owners = survey.owners.clone();
    for (&(_, to), (slots, count)) in homes.keys().zip(homes.values().zip(going)) {
        for slot in first_of_long_runs(slots, count as usize) {
            owners[slot] = to;
        }
    }
    let mut counts = vec![0_u32; survey.shards.len() + 1];
    for &owner in &owners {
        counts[usize::from(owner)] += 1;
    }
    let left = counts.iter().zip(aim.targets.iter().chain([&aim.left_unassigned]));
    let (give, take): (Vec<u32>, Vec<u32>) =
        left.map(|(count, target)| (count.saturating_sub(*target), target.saturating_sub(*count))).unzip();
    if give.iter().all(|&slots| slots == 0) {
        return Some(owners);
    }
    Some(layout::choose(&owners, |slot| survey.pinned.contains(Slot::at(slot)), &Flow { give, take }))
}

/// How much each shard gives and takes: at least, as aimed at, and at most. Nobody gives too, at the end.
struct Sides {
    give: Vec<[u32; 3]>,
    take: Vec<[u32; 3]>,
}

impl Sides {
    /// With exact balance the whole box of optimal targets; the other goals keep the targets they have.
    fn of(survey: &Survey<'_>, aim: &Aim, goal: Goal) -> Self {
        let fixed = || (aim.targets.clone(), aim.targets.clone());
        let (lo, hi) = match goal {
            Goal::Balance { tolerance: Tolerance(0) } => {
                let bounds = aim.bands.optimal_box(&survey.counts, survey.unassigned);
                (bounds.lo, bounds.hi)
            }
            _ => fixed(),
        };
        let (mut give, mut take) = (Vec::new(), Vec::new());
        for (i, &count) in survey.counts.iter().enumerate() {
            let target = aim.targets[i];
            give.push([hi[i], target, lo[i]].map(|after| count.saturating_sub(after)));
            take.push([lo[i], target, hi[i]].map(|after| after.saturating_sub(count)));
        }
        give.push([survey.unassigned - aim.left_unassigned; 3]);
        take.push([0; 3]);
        Self { give, take }
    }

    /// The targets and how many slots of each pair go home.
    fn divide(&self, survey: &Survey<'_>, homes: &BTreeMap<(u16, u16), Vec<usize>>) -> (Vec<u32>, Vec<u32>) {
        let sides = self.give.len();
        let (source, sink, hub) = (0, 1, 2);
        let (giver, taker) = (|shard: usize| 3 + shard, |shard: usize| 3 + sides + shard);
        let total: u32 = self.give.iter().map(|[_, aimed, _]| aimed).sum();
        // What must be given and taken outweighs everything; going home outweighs where the remainders go.
        let stranger = 2 * (i64::from(total) + 1);
        let optional = stranger * (i64::from(total) + 1);
        let mut network = Network::new(3 + 2 * sides);
        let (mut sources, mut sinks) = (Vec::new(), Vec::new());
        for shard in 0..sides {
            let [least, aimed, most] = self.give[shard];
            let parts = [(least, 0), (aimed - least, optional), (most - aimed, optional + 1)];
            sources.push(parts.map(|(slots, cost)| network.arc(source, giver(shard), slots, cost)));
            if most > 0 {
                network.arc(giver(shard), hub, most, stranger);
            }
            let [least, aimed, most] = self.take[shard];
            let parts = [(least, 0), (aimed - least, optional), (most - aimed, optional + 1)];
            sinks.push(parts.map(|(slots, cost)| network.arc(taker(shard), sink, slots, cost)));
            if most > 0 {
                network.arc(hub, taker(shard), most, 0);
            }
        }
        let pairs: Vec<_> = homes
            .iter()
            .map(|(&(from, to), slots)| {
                let most = u32::try_from(slots.len()).expect("at most 16384");
                network.arc(giver(usize::from(from)), taker(usize::from(to)), most, 0)
            })
            .collect();
        let sent = network.send(source, sink, total);
        assert_eq!(sent, total, "what the aim sources can be given");
        let sum = |arcs: &[super::flow::Arc; 3]| arcs.iter().map(|&arc| network.flow(arc)).sum::<u32>();
        let target = |(i, &count): (usize, &u32)| count - sum(&sources[i]) + sum(&sinks[i]);
        let targets = survey.counts.iter().enumerate().map(target).collect();
        (targets, pairs.into_iter().map(|pair| network.flow(pair)).collect())
    }
}

/// The slots that could go home, by giver and taker.
fn homes(survey: &Survey<'_>, sides: &Sides, memory: &Memory) -> BTreeMap<(u16, u16), Vec<usize>> {
    let mut homes: BTreeMap<(u16, u16), Vec<usize>> = BTreeMap::new();
    for (to, shard) in (0_u16..).zip(survey.shards) {
        let Some(slots) = memory.earlier.get(&shard.id).filter(|_| sides.take[usize::from(to)][2] > 0) else {
            continue;
        };
        for slot in slots.iter().filter(|slot| !survey.pinned.contains(*slot)) {
            let from = survey.owners[slot.index()];
            if sides.give[usize::from(from)][2] > 0 {
                homes.entry((from, to)).or_default().push(slot.index());
            }
        }
    }
    homes
}

/// So many of these slots, which are ascending: the longest runs first.
fn first_of_long_runs(slots: &[usize], count: usize) -> Vec<usize> {
    let mut runs: Vec<&[usize]> = slots.chunk_by(|a, b| a + 1 == *b).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    runs.into_iter().flatten().copied().take(count).collect()
}

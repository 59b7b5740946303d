//! Every assignment of small tables, against the planner's moves and its bound.

use super::bands::LoadBands;
use super::bound::{Bound, Ranking};
use super::solve::{self, Book};
use crate::domain::{NodeId, Shard, ShardId, Slot, SlotSet, Tolerance, Weight};
use crate::plan::quota::{Bounds, water_fill};
use crate::plan::survey::Survey;

/// xorshift*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % u64::from(n)).unwrap()
    }
}

/// A small table; owners up to `shards.len()`, which stands for nobody.
struct Small {
    shards: Vec<Shard>,
    bounds: Vec<Bounds>,
    owners: Vec<u16>,
    loads: Vec<u64>,
    pinned: SlotSet,
    tolerance: Tolerance,
}

impl Small {
    fn random(dice: &mut Dice) -> Self {
        let (slots, shards) = (3 + dice.below(6), 2 + dice.below(2));
        let unowned = u32::from(dice.below(4) == 0);
        let owners = (0..slots).map(|_| u16::try_from(dice.below(shards + unowned)).unwrap()).collect();
        // Some loads far above others, as hot slots are.
        let load = |dice: &mut Dice| match dice.below(4) {
            0 => dice.below(60),
            _ => dice.below(12),
        };
        let loads = (0..slots).map(|_| u64::from(load(dice))).collect();
        let mut small = Self {
            shards: Vec::new(),
            bounds: Vec::new(),
            owners,
            loads,
            pinned: SlotSet::new(),
            tolerance: Tolerance([0, 50_000, 200_000, 500_000][dice.below(4) as usize]),
        };
        for shard in 0..shards {
            let id = format!("s-{shard}");
            let weight = 1 + dice.below(2);
            let (id, node) = (ShardId::new(&id).unwrap(), NodeId::new(&id).unwrap());
            small.shards.push(Shard::new(id, node, Weight::new(weight).unwrap()));
            small.bounds.push(Bounds { weight, lb: 0, ub: slots });
        }
        if dice.below(6) == 0 {
            let slot = dice.below(slots) as usize;
            if let Some(bounds) = small.bounds.get_mut(usize::from(small.owners[slot])) {
                small.pinned.insert(Slot::at(slot));
                bounds.lb = 1;
            }
        }
        if dice.below(6) == 0 {
            small.bounds[0].ub = slots / 2 + 1;
        }
        small
    }

    fn survey(&self) -> Survey<'_> {
        let total = u32::try_from(self.owners.len()).unwrap();
        let mut counts = vec![0; self.shards.len() + 1];
        self.owners.iter().for_each(|&owner| counts[usize::from(owner)] += 1);
        let unassigned = counts.pop().unwrap();
        Survey {
            shards: &self.shards,
            lost: vec![false; self.shards.len()],
            owners: self.owners.clone(),
            nobody: u16::try_from(self.shards.len()).unwrap(),
            counts,
            unassigned,
            total,
            pinned: self.pinned.clone(),
            shares: water_fill(&self.bounds, total),
            bounds: self.bounds.clone(),
            statistics: None,
        }
    }

    fn moves(&self, after: &[u16]) -> u32 {
        let nobody = u16::try_from(self.shards.len()).unwrap();
        let moved = self.owners.iter().zip(after).filter(|(before, after)| before != after && **before != nobody);
        u32::try_from(moved.count()).unwrap()
    }

    /// Whether owners keep to bands, counts and pins.
    fn holds(&self, survey: &Survey<'_>, bands: &LoadBands, after: &[u16]) -> bool {
        let loads = Book::loads(survey, &self.loads, after);
        let count = |shard: usize| u32::try_from(after.iter().filter(|&&o| usize::from(o) == shard).count()).unwrap();
        let all = |shard: usize| {
            let bounds = &self.bounds[shard];
            (bands.lo[shard]..=bands.hi[shard]).contains(&loads[shard])
                && (bounds.lb..=bounds.ub).contains(&count(shard))
        };
        (0..loads.len()).all(all) && self.pinned.iter().all(|slot| after[slot.index()] == self.owners[slot.index()])
    }

    /// The fewest moves of all assignments that hold.
    fn fewest(&self, survey: &Survey<'_>, bands: &LoadBands) -> Option<u32> {
        let shards = u16::try_from(self.shards.len()).unwrap();
        let mut after = vec![0_u16; self.owners.len()];
        let mut fewest: Option<u32> = None;
        loop {
            let moves = self.moves(&after);
            if fewest.is_none_or(|least| moves < least) && self.holds(survey, bands, &after) {
                fewest = Some(moves);
            }
            let Some(slot) = after.iter().position(|owner| owner + 1 < shards) else { return fewest };
            after[slot] += 1;
            after[..slot].fill(0);
        }
    }
}

/// A slot that comes into the gap that a large one leaves is worth its price: without that the bound would be 5 here.
#[test]
fn slots_with_prices_may_come_where_a_large_one_goes() {
    let mut small = Small::random(&mut Dice(1));
    let weights = [1, 2, 1];
    small.owners = vec![2, 2, 1, 1, 0, 2, 0, 2];
    small.loads = vec![37, 16, 40, 39, 8, 6, 6, 3];
    (small.pinned, small.tolerance) = (SlotSet::new(), Tolerance(0));
    small.bounds = weights.map(|weight| Bounds { weight, lb: 0, ub: 8 }).to_vec();
    let shard = |i: usize| {
        let id = format!("s-{i}");
        let (id, node) = (ShardId::new(&id).unwrap(), NodeId::new(&id).unwrap());
        Shard::new(id, node, Weight::new(weights[i]).unwrap())
    };
    small.shards = (0..3).map(shard).collect();
    let survey = small.survey();
    let ranking = Ranking::new(&survey, &small.loads);
    let bands = LoadBands::new(&survey, &small.loads, &ranking, small.tolerance);
    assert_eq!((&bands.lo[..], &bands.hi[..]), (&[38, 77, 38][..], &[39, 78, 39][..]));
    assert_eq!(small.fewest(&survey, &bands), Some(4));
    assert!(Bound::of(&survey, &small.loads, &ranking, &bands).moves <= 4);
}

/// The bound is one on every table, exact on most; what the planner says it reached is within its bands, and it reaches
/// eleven in twelve of those that can be reached, more than 97 in a hundred of these with the fewest moves. The tables and the figures are the same in every run.
#[test]
fn small_tables_against_every_assignment() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut reachable, mut missed, mut fewest, mut worst, mut exact) = (0_u32, 0_u32, 0_u32, 0_u32, 0_u32);
    for _ in 0..4000 {
        let small = Small::random(&mut dice);
        let survey = small.survey();
        let ranking = Ranking::new(&survey, &small.loads);
        let bands = LoadBands::new(&survey, &small.loads, &ranking, small.tolerance);
        let bound = Bound::of(&survey, &small.loads, &ranking, &bands).moves;
        let after = solve::owners(&survey, &small.loads, &bands, bound);
        let told = || format!("{:?} {:?} {:?} {:?}", small.owners, small.loads, small.bounds, small.tolerance);
        let reached = small.holds(&survey, &bands, &after);
        let Some(least) = small.fewest(&survey, &bands) else {
            assert!(!reached, "{}", told());
            continue;
        };
        assert!(bound <= least, "bound {bound}, but {least} moves are enough: {}", told());
        reachable += 1;
        exact += u32::from(bound == least);
        if reached {
            let above = small.moves(&after) - least;
            fewest += u32::from(above == 0);
            worst = worst.max(above);
        } else {
            missed += 1;
        }
    }
    // 3279, 253, 2946, 4 and 2560.
    assert!(reachable > 3000 && missed * 12 < reachable, "{missed} of {reachable} are not reached");
    assert!(
        fewest * 100 > (reachable - missed) * 97 && worst <= 4,
        "{fewest} with the fewest moves, {worst} above at worst"
    );
    assert!(exact * 100 > reachable * 77, "the bound is exact on {exact} of {reachable}");
}

//! Large slots go whole or not at all. The lower bound spreads the charge of a slot with a price over its load; a shard above its
//! band that has such slots is looked at anew here, with each set of them gone and the others kept.
//!
//! None gone: what is left has to cover the excess; taking slots never pays then, as the prices see to it. Some gone: they are
//! charged `1 + price` each. Where they do not cover the excess, parts of what is left cover the rest. Slots with prices may
//! come into the gap that this leaves below the upper edge of the band, and the shard may give more for them: the most that
//! brings, were slots divisible, is taken off. The least charge of all these holds for the shard, whatever it does.

use super::bound::Ground;
use super::price::{Item, Leaving, parts};

/// Most slots of a shard that are looked at whole.
const WHOLE_MAX: usize = 4;

/// All slots with a price, most for their load first.
pub(super) struct Offers(Vec<Item>);

impl Offers {
    pub fn new(leaving: &Leaving) -> Self {
        let mut offers: Vec<Item> = leaving.items.iter().flatten().filter(|item| item.price > 0).copied().collect();
        let worth = |a: &Item, b: &Item| u128::from(a.price) * u128::from(b.load);
        offers.sort_by(|a, b| worth(b, a).cmp(&worth(a, b)));
        Self(offers)
    }

    /// What a shard above its band is charged at least; 0 where this tells nothing.
    pub fn least(&self, leaving: &Leaving, ground: &Ground<'_>, shard: usize) -> u32 {
        let (items, excess) = (&leaving.items[shard], ground.excess[shard]);
        let whole = items.iter().take(WHOLE_MAX).take_while(|item| item.price > 0).count();
        if excess == 0 || whole == 0 {
            return 0;
        }
        let (whole, rest) = items.split_at(whole);
        let rest = parts(rest);
        let charge = |gone: u32| {
            let gone = whole.iter().enumerate().filter(|(at, _)| gone >> at & 1 == 1);
            let (charge, load) =
                gone.fold((0, 0), |(charge, load), (_, item)| (charge + i64::from(item.price) + 1, load + item.load));
            let (covering, gap) = cover(&rest, excess.saturating_sub(load))?;
            let charge = charge + i64::try_from(covering).expect("at most 16384 slots");
            if load == 0 {
                return Some(charge);
            }
            let (profit, rounded) = self.profit(shard, gap.max(load.saturating_sub(excess)), &rest[covering..]);
            // The last part that covers is not counted whole until the gap beside it is full.
            Some(charge - profit - i64::from(rounded && covering > 0))
        };
        let least = (0..1_u32 << whole.len()).filter_map(charge).min();
        u32::try_from(least.unwrap_or(0)).unwrap_or(0)
    }

    /// The most that slots of others bring beyond the parts that have to go for them, rounded down; whether it was.
    fn profit(&self, shard: usize, gap: u64, parts: &[u64]) -> (i64, bool) {
        let mut offers = self.0.iter().filter(|item| usize::from(item.owner) != shard);
        let mut steps = (gap > 0).then_some((gap, 0_u32)).into_iter().chain(parts.iter().map(|&part| (part, 1)));
        let (mut offer, mut step) = (offers.next(), steps.next());
        let (mut left, mut space) = (offer.map_or(0, |item| item.load), step.map_or(0, |step| step.0));
        let mut whole = 0_i64;
        while let (Some(item), Some((size, cost))) = (offer, step) {
            if u128::from(item.price) * u128::from(size) <= u128::from(item.load) * u128::from(cost) {
                break;
            }
            let amount = left.min(space);
            (left, space) = (left - amount, space - amount);
            if left == 0 {
                whole += i64::from(item.price);
                offer = offers.next();
                left = offer.map_or(0, |item| item.load);
            }
            if space == 0 {
                whole -= i64::from(cost);
                step = steps.next();
                space = step.map_or(0, |step| step.0);
            }
        }
        // One of the two is at its beginning: there is one fraction at most.
        let (taken, load) =
            offer.map_or((0, 1), |item| (u128::from(item.price) * u128::from(item.load - left), item.load));
        let (given, size) = step.map_or((0, 1), |(size, cost)| (u128::from(cost) * u128::from(size - space), size));
        let (load, size) = (u128::from(load), u128::from(size.max(1)));
        let number = |amount: u128| i64::try_from(amount).expect("at most a price");
        let profit = whole + number(taken / load) - number(given.div_ceil(size));
        (profit, taken % load > 0 || given % size > 0)
    }
}

/// The fewest parts that cover a load, and what they have beyond it; none when all do not.
fn cover(parts: &[u64], load: u64) -> Option<(usize, u64)> {
    let (mut sum, mut count) = (0, 0);
    while sum < load {
        sum += parts.get(count)?;
        count += 1;
    }
    Some((count, sum - load))
}

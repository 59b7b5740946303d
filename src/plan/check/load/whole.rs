//! What a shard above its band is charged at least when its large slots go whole or stay (`plan/load/whole.rs` says why this
//! is a bound): the same definition, with the best of the slots that may come in found among all corners of the two
//! concave lines instead of by one walk along them.

/// Most slots of a shard that are looked at whole.
const WHOLE_MAX: usize = 4;

/// A slot with its price.
#[derive(Clone, Copy)]
pub(super) struct Priced {
    pub load: u64,
    pub price: usize,
}

/// A shard above its band: its slots hottest first, and the slots of others that have prices, dearest for their load first.
pub(super) struct Giver<'a> {
    pub excess: u64,
    pub slots: &'a [Priced],
    pub offers: &'a [Priced],
}

/// Sorts slots by price for their load.
pub(super) fn by_worth(slots: &mut [usize], priced: impl Fn(&usize) -> Priced) {
    let worth = |a: Priced, b: Priced| a.price as u128 * u128::from(b.load);
    slots.sort_by(|a, b| worth(priced(b), priced(a)).cmp(&worth(priced(a), priced(b))));
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("at most 16384 slots and prices")
}

pub(super) fn least(giver: &Giver<'_>, parts: impl Fn(&[Priced]) -> Vec<u64>) -> u32 {
    let dear = giver.slots.iter().take(WHOLE_MAX).filter(|slot| slot.price > 0).count();
    if giver.excess == 0 || dear == 0 {
        return 0;
    }
    let rest = parts(&giver.slots[dear..]);
    let mut least = None;
    // Each slot gone or kept: (moves and prices, load) of those gone.
    let mut gone = vec![(0_i64, 0_u64)];
    for slot in &giver.slots[..dear] {
        gone.extend(gone.clone().into_iter().map(|(charge, load)| (charge + 1 + number(slot.price), load + slot.load)));
    }
    for (charge, load) in gone {
        let lacking = giver.excess.saturating_sub(load);
        let mut sums = std::iter::once(0).chain(rest.iter().scan(0, |sum, part| {
            *sum += part;
            Some(*sum)
        }));
        let Some(covering) = sums.position(|sum| sum >= lacking) else { continue };
        let mut charge = charge + number(covering);
        if load > 0 {
            let covered: u64 = rest[..covering].iter().sum::<u64>() + load;
            let (num, den) = best(giver.offers, covered - giver.excess, &rest[covering..]);
            let whole = num / den + i128::from(covering > 0 && num % den > 0);
            charge -= i64::try_from(whole).expect("at most the prices of all slots");
        }
        if least.is_none_or(|least| charge < least) {
            least = Some(charge);
        }
    }
    u32::try_from(least.unwrap_or(0)).unwrap_or(0)
}

/// The largest difference between what offers are worth and what making room costs, at any corner of either line.
fn best(offers: &[Priced], free: u64, parts: &[u64]) -> (i128, i128) {
    let worth: Vec<(u64, i128)> = offers.iter().map(|offer| (offer.load, offer.price as i128)).collect();
    let cost: Vec<(u64, i128)> = std::iter::once((free, 0)).chain(parts.iter().map(|&part| (part, 1))).collect();
    let total = |line: &[(u64, i128)]| line.iter().map(|(width, _)| width).sum::<u64>();
    let end = total(&worth).min(total(&cost));
    let corners = |line: &[(u64, i128)]| {
        let mut at = 0;
        line.iter().map(|(width, _)| (at += width, at).1).collect::<Vec<u64>>()
    };
    let mut all = [corners(&worth), corners(&cost)].concat();
    all.sort_unstable();
    let (mut left, mut right) = (Line::new(&worth), Line::new(&cost));
    let mut best = (0, 1);
    for at in all.into_iter().take_while(|at| *at <= end) {
        let ((a, b), (c, d)) = (left.at(at), right.at(at));
        let found = (a * d - c * b, b * d);
        if found.0 * best.1 > best.0 * found.1 {
            best = found;
        }
    }
    best
}

/// A line of pieces, each as wide and as high as it says, walked from left to right.
struct Line<'a> {
    pieces: &'a [(u64, i128)],
    from: u64,
    height: i128,
}

impl<'a> Line<'a> {
    fn new(pieces: &'a [(u64, i128)]) -> Self {
        Self { pieces, from: 0, height: 0 }
    }

    /// Its height, as a fraction.
    fn at(&mut self, at: u64) -> (i128, i128) {
        while let [(width, height), rest @ ..] = self.pieces
            && self.from + width <= at
        {
            self.from += width;
            self.height += height;
            self.pieces = rest;
        }
        match self.pieces.first() {
            Some(&(width, height)) => {
                let width = i128::from(width);
                (self.height * width + height * i128::from(at - self.from), width)
            }
            None => (self.height, 1),
        }
    }
}

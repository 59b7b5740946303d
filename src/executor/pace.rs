//! How many slots may begin now: a token bucket that starts empty, so that a new leader never adds a burst to what its
//! predecessor did, and that holds at most one second's worth, so that a pause is never made up for.

/// The bucket. Times are milliseconds of a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Thousandths of a slot.
    tokens: u64,
    filled_at_ms: u64,
}

/// Most slots that may begin at once when there is no limit.
const UNLIMITED: u64 = u64::MAX;

impl Pace {
    /// An empty bucket.
    pub const fn new(now_ms: u64) -> Self {
        Self { tokens: 0, filled_at_ms: now_ms }
    }

    /// Fills the bucket for the time since the last call. `largest` is the size of the largest action that waits: the
    /// bucket holds at least that, or it could never begin.
    pub fn fill(&mut self, now_ms: u64, per_second: Option<u32>, largest: usize) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_at_ms);
        self.filled_at_ms = now_ms;
        let per_second = per_second.map_or(0, u64::from);
        let most = per_second.max(largest as u64) * 1000;
        self.tokens = self.tokens.saturating_add(elapsed_ms.saturating_mul(per_second)).min(most);
    }

    /// Slots that may begin now.
    pub const fn allowance(&self, per_second: Option<u32>) -> u64 {
        if per_second.is_some() { self.tokens / 1000 } else { UNLIMITED }
    }

    /// Slots were begun.
    pub fn take(&mut self, slots: usize) {
        self.tokens = self.tokens.saturating_sub(slots as u64 * 1000);
    }

    /// Milliseconds until this many slots may begin.
    pub fn wait_ms(&self, per_second: Option<u32>, slots: usize) -> u64 {
        let missing = (slots as u64 * 1000).saturating_sub(self.tokens);
        per_second.map_or(0, |per_second| missing.div_ceil(u64::from(per_second.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks again when told to, late by up to so many milliseconds.
    #[test]
    fn never_more_than_the_rate_allows_and_hardly_less() {
        for (rate, action, late_ms) in [(64_u32, 16_usize, 7_u64), (1, 16, 0), (3, 1, 50), (1000, 64, 1), (10, 10, 3)] {
            let mut pace = Pace::new(0);
            let (mut begun, mut now, mut times) = (0_u64, 0, 0);
            while begun < 20 * u64::from(rate) {
                pace.fill(now, Some(rate), action);
                if pace.allowance(Some(rate)) >= action as u64 {
                    pace.take(action);
                    begun += action as u64;
                    times += 1;
                }
                assert!(begun * 1000 <= u64::from(rate) * now, "{begun} slots at {now} ms with {rate}/s");
                now += pace.wait_ms(Some(rate), action).max(1) + late_ms;
            }
            let ideal = begun * 1000 / u64::from(rate);
            assert!(
                now <= ideal + (late_ms + 1) * (times + 2) + pace.wait_ms(Some(rate), action),
                "{begun} slots took {now} ms, not {ideal}"
            );
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(0);
        pace.fill(3_600_000, Some(64), 16);
        assert_eq!(pace.allowance(Some(64)), 64);
        pace.take(64);
        assert_eq!(pace.wait_ms(Some(64), 16), 250);
        assert_eq!(pace.allowance(None), UNLIMITED);
    }
}

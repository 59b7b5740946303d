//! How fast keys are moved: as many at a time as the source can send without its clients noticing, and no more bytes a
//! second than the plan allows.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Bytes of a value that cost about as much as one more key.
const BYTES_PER_WEIGHT: u64 = 2048;
/// Bounds of what is learned: nanoseconds for one key.
const COST_MIN_NS: u64 = 2_000;
const COST_MAX_NS: u64 = 50_000_000;
/// A portion that weighs so little takes what every portion takes.
const SMALL: u64 = 2;
/// Waiting for a disk takes no longer: who is kept for more than that is kept by something else.
const FLOOR_MAX: Duration = Duration::from_millis(50);
/// Most that is sent in one go.
const WEIGHT_MAX: u64 = 1000;

/// How many commands that take so long each keep a server busy no longer than that.
pub(super) fn at_once(busy: Duration, each: Duration) -> usize {
    usize::try_from(busy.as_nanos() / each.as_nanos()).unwrap_or(usize::MAX).max(1)
}

/// What a key weighs: itself, and its bytes.
pub(super) const fn weight(bytes: u64) -> u64 {
    1 + bytes / BYTES_PER_WEIGHT
}

/// Learns how long the source needs for a key, and for a portion however small: servers that write their log first
/// (`appendfsync always`) wait for the disks of both ends in each. Smaller portions would not keep clients for less time then,
/// only more often.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    busy: Duration,
    cost_ns: u64,
    /// What the smallest portions take, once one was sent.
    floor: Option<Duration>,
    /// How much takes hardly longer than they do.
    grown: u64,
}

impl Pace {
    /// Careful at first. `busy`: how long the source may be kept from its clients at a time; `MIGRATE` blocks it.
    pub(super) const fn new(busy: Duration) -> Self {
        Self { busy, cost_ns: 100_000, floor: None, grown: 1 }
    }

    /// How much may be sent in one go.
    pub(super) fn weight_max(&self) -> u64 {
        let by_cost = u64::try_from(self.busy.as_nanos()).unwrap_or(u64::MAX) / self.cost_ns;
        let by_floor = if self.limit().is_some() { self.grown } else { 1 };
        by_cost.max(by_floor).clamp(1, WEIGHT_MAX)
    }

    /// How long a portion may take where the smallest take too long.
    fn limit(&self) -> Option<Duration> {
        let floor = self.floor.filter(|floor| *floor > self.busy && *floor <= FLOOR_MAX)?;
        Some(floor + floor.min(20 * self.busy))
    }

    /// So much took so long.
    pub(super) fn learn(&mut self, weight: u64, took: Duration) {
        let each = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / weight.max(1);
        // Slower at once, faster by and by: one slow batch more is what clients notice.
        let mixed = if each > self.cost_ns { self.cost_ns.midpoint(each) } else { (self.cost_ns * 3 + each) / 4 };
        self.cost_ns = mixed.clamp(COST_MIN_NS, COST_MAX_NS);
        self.floor = match self.floor {
            Some(floor) if weight <= SMALL => Some((3 * floor + took) / 4),
            Some(floor) => Some(floor.min(took)),
            None => Some(took).filter(|_| weight <= SMALL),
        };
        match self.limit() {
            Some(limit) if took > limit => self.grown = (weight.min(self.grown) * 3 / 4).max(1),
            Some(_) if weight >= self.grown => self.grown = (self.grown * 5 / 4 + 1).min(WEIGHT_MAX),
            Some(_) => {}
            None => self.grown = 1,
        }
    }
}

/// Bytes per second, shared by the jobs of a plan.
#[derive(Debug)]
pub(super) struct Bucket {
    free_at: Mutex<Instant>,
}

impl Bucket {
    /// Nothing was sent yet.
    pub(super) fn new() -> Self {
        Self { free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes may be sent.
    pub(super) async fn take(&self, bytes: u64, per_second: Option<u64>) {
        if let Some(starts) = self.reserve(bytes, per_second) {
            sleep_until(starts).await;
        }
    }

    /// When so many bytes may be sent; what is reserved later goes after them. Who comes first goes first, also with more
    /// than a second's worth. None without a limit.
    pub(super) fn reserve(&self, bytes: u64, per_second: Option<u64>) -> Option<Instant> {
        let per_second = per_second.filter(|limit| *limit > 0)?;
        let costs = Duration::from_nanos(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(per_second)).unwrap_or(u64::MAX),
        );
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = (*free_at).max(Instant::now());
        *free_at = starts + costs;
        Some(starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_stays_below_what_clients_notice() {
        let mut pace = Pace::new(Duration::from_millis(1));
        assert_eq!(pace.weight_max(), 10);
        assert_eq!(Pace::new(Duration::from_micros(300)).weight_max(), 3);
        assert_eq!(Pace::new(Duration::from_micros(50)).weight_max(), 1, "never none");
        for _ in 0..50 {
            pace.learn(100, Duration::from_millis(1));
        }
        assert!((90..=100).contains(&pace.weight_max()), "10 microseconds a key: {}", pace.weight_max());
        pace.learn(100, Duration::from_millis(100));
        assert!(pace.weight_max() < 5, "{}", pace.weight_max());
        for _ in 0..50 {
            pace.learn(1, Duration::from_secs(3600));
        }
        assert_eq!(pace.weight_max(), 1, "never none");
        for _ in 0..100 {
            pace.learn(u64::MAX, Duration::ZERO);
        }
        assert_eq!(pace.weight_max(), 500, "never all");
    }

    #[test]
    fn what_every_portion_takes_is_no_reason_for_small_ones() {
        let ms = Duration::from_millis;
        let mut pace = Pace::new(ms(1));
        // Two disks of three milliseconds, and twenty microseconds a key.
        let takes = |weight: u64| ms(6) + Duration::from_micros(20 * weight);
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            let weight = pace.weight_max();
            longest = longest.max(takes(weight));
            pace.learn(weight, takes(weight));
        }
        assert!(pace.weight_max() >= 200, "{}", pace.weight_max());
        assert!(longest <= ms(14), "{longest:?}: about twice what the smallest takes");
        // The disks become slow, then quick.
        for _ in 0..100 {
            pace.learn(pace.weight_max(), ms(200));
        }
        assert_eq!(pace.weight_max(), 1, "something else is the matter");
        for _ in 0..200 {
            let weight = pace.weight_max();
            pace.learn(weight, Duration::from_micros(100 + 50 * weight));
        }
        assert!((10..=25).contains(&pace.weight_max()), "{}", pace.weight_max());
    }

    #[test]
    fn commands_in_one_go_follow_from_what_each_takes() {
        let (busy, each) = (Duration::from_micros(300), Duration::from_micros(60));
        assert_eq!((at_once(busy, each), at_once(each, busy), at_once(each, each)), (5, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_bytes_a_second_than_allowed() {
        let bucket = Bucket::new();
        let start = Instant::now();
        for _ in 0..11 {
            bucket.take(100, Some(1000)).await;
        }
        assert_eq!(start.elapsed().as_millis(), 1000, "eleven at 100 ms, the first at once");
        bucket.take(1 << 40, None).await;
        assert_eq!(start.elapsed().as_millis(), 1000);
    }
}

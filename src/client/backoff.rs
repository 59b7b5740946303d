//! Pauses between attempts: exponential, with jitter, so that clients that failed together do not come back together.

use std::time::Duration;

/// The shortest pause.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that grow from 100 ms to 10 s, each between half and the whole of its step.
#[derive(Debug)]
pub(super) struct Backoff {
    step: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { step: FIRST }
    }

    /// The next pause.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.step.mul_f64(rand::random_range(0.5..=1.0));
        self.step = (self.step * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_ten_seconds() {
        let mut backoff = Backoff::new();
        for step_ms in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            let pause = backoff.next();
            assert!((step_ms / 2..=step_ms).contains(&pause.as_millis()), "{pause:?} of {step_ms} ms");
        }
    }
}

//! The timer of a connection: the HTTP library wants a time limit for every head it waits for and drops it when the head
//! is there. One timer that moves on costs less than one that is entered with the runtime and taken out for every request.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// One timer of the runtime, for limits of which only the newest counts.
#[derive(Clone)]
pub struct OneTimer {
    shared: Shared,
}

type Shared = Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>;

struct Limit {
    end: Instant,
    shared: Shared,
}

impl OneTimer {
    /// A timer that has not begun.
    pub fn new() -> Self {
        Self { shared: Shared::default() }
    }
}

impl Timer for OneTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, end: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Limit { end, shared: Arc::clone(&self.shared) })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Sleep for Limit {}

impl Future for Limit {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let end = tokio::time::Instant::from_std(self.end);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = shared.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if sleep.deadline() > end {
            sleep.as_mut().reset(end);
        }
        // What was begun for an earlier limit ends before this one, and then goes on to it.
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= end {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(end);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_ends_at_its_time_whatever_was_limited_before() {
        let (timer, short, hour) = (OneTimer::new(), Duration::from_millis(30), Duration::from_secs(3600));
        let mut first = timer.sleep(short);
        assert!(futures::poll!(&mut first).is_pending());
        drop(first);
        let started = Instant::now();
        timer.sleep(3 * short).await;
        assert!(started.elapsed() >= 3 * short, "not when the first would have ended");
        let mut long = timer.sleep(hour);
        assert!(futures::poll!(&mut long).is_pending());
        drop(long);
        let started = Instant::now();
        tokio::time::timeout(hour / 60, timer.sleep(short)).await.expect("not as late as the one before");
        timer.sleep(short).await;
        assert!(started.elapsed() >= 2 * short);
    }
}

//! Elections among slow disks. A voter answers once its vote is on its disk, and raft gives its request up after the
//! shortest election timeout: among disks that are slower no candidate would ever hear of the votes it was given. So a
//! request may ask, while raft waits for it, to be waited for longer, and an answer counts as long as the candidate keeps its
//! term. It keeps it for as long as votes take here, and by chance longer: members whose disks are slow alike would
//! otherwise stand for election at the same moment, again and again.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use openraft::AsyncRuntime;
use rand::RngExt;
use tokio::time::{Instant, Sleep, sleep_until};

use super::runtime::Runtime;

/// The longest pause between elections, however slow the disk is.
const PAUSE_MAX: Duration = Duration::from_secs(5);

thread_local! {
    /// What the future asks for that is polled on this thread.
    static ASKED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Asks raft, from inside of a future that it waits for, to wait so long from when it began.
pub(super) fn wait_for_me(within: Duration) {
    ASKED.set(Some(within));
}

/// A future that is waited for until a time, or longer if it asks.
pub(super) struct Timeout<F> {
    future: Pin<Box<F>>,
    began: Instant,
    over: Pin<Box<Sleep>>,
}

/// It took too long.
#[derive(Debug, thiserror::Error)]
#[error("the time is over")]
pub(super) struct TimeIsOver;

impl<F> Timeout<F> {
    pub(super) fn new(within: Duration, future: F) -> Self {
        let began = Instant::now();
        Self { future: Box::pin(future), began, over: Box::pin(sleep_until(began + within)) }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimeIsOver>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { future, began, over } = self.get_mut();
        ASKED.set(None);
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        if let Some(within) = ASKED.take() {
            over.as_mut().reset(*began + within);
        }
        over.as_mut().poll(context).map(|()| Err(TimeIsOver))
    }
}

/// Until when this member does not ask for votes. With a disk that syncs in time it is over long before an election
/// timeout is.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Option<Instant>>);

impl Pause {
    /// A vote, given or asked for, has become durable, and that took so long. The votes of others take about as long, and
    /// then whoever won makes durable that it leads before it can say so.
    pub(super) fn after(&self, took: Duration) {
        let most = took.saturating_mul(4).min(PAUSE_MAX);
        let least = (took * 3 / 2).min(most);
        let pause = Runtime::thread_rng().random_range(least..=most);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
    }

    /// Returns when it is over.
    pub(super) async fn over(&self) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{sleep, timeout};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    async fn waited(future: impl Future<Output = ()> + Send) -> (bool, Duration) {
        let began = Instant::now();
        let done = Runtime::timeout(Duration::from_millis(300), future).await.is_ok();
        (done, began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_is_waited_for_longer_if_it_asks_and_no_other_is() {
        let ms = |ms| Duration::from_millis(ms);
        let close = |took: Duration, to: u64| took >= ms(to) && took < ms(to + 5);
        let asking = |then: Duration| async move {
            wait_for_me(ms(2000));
            sleep(then).await;
        };
        let (done, took) = waited(asking(ms(1500))).await;
        assert!(done && close(took, 1500), "{took:?}");
        let (done, took) = waited(asking(LONG)).await;
        assert!(!done && close(took, 2000), "{took:?}");
        // What one asked for is not there for the next, nor for the one beside it on the same thread.
        wait_for_me(LONG);
        let ((first, _), (second, took)) = tokio::join!(waited(asking(ms(1500))), waited(pending()));
        assert!(first && !second && close(took, 300), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_pauses_for_as_long_as_votes_take_and_not_the_same_each_time() {
        let pause = Pause::default();
        timeout(LONG, pause.over()).await.expect("nothing was slow yet");
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            pause.after(Duration::from_millis(400));
            pause.over().await;
            pauses.push(began.elapsed());
        }
        assert!(pauses.iter().all(|pause| (600..1_605).contains(&pause.as_millis())), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "by chance");
        let began = Instant::now();
        pause.after(LONG);
        pause.over().await;
        assert!(began.elapsed() < PAUSE_MAX + Duration::from_millis(5));
    }
}

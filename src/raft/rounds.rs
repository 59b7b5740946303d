//! Read indexes shared by many readers, so that a member asks for one at a time whatever the number of its readers.
//! Who comes while one is asked for waits for the next: the one under way may have been confirmed before he came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::RaftError;
use super::leader::ReadIndex;

/// What a round comes to.
pub(super) type Outcome = Result<ReadIndex, RaftError>;
type Reader = oneshot::Sender<Outcome>;

/// The readers of one kind of read index.
#[derive(Default)]
pub(super) struct Rounds(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    readers: Vec<Reader>,
    running: bool,
}

impl Rounds {
    /// The outcome of the next round. `ask` asks for one read index; who comes first has it run, in a task of its own,
    /// since he may give up while others still wait.
    pub(super) async fn next<F>(self: &Arc<Self>, ask: impl Fn() -> F + Send + Sync + 'static) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let first = {
            let mut waiting = self.waiting();
            waiting.readers.push(tell);
            !std::mem::replace(&mut waiting.running, true)
        };
        if first {
            tokio::spawn(run(Running(Arc::clone(self)), ask));
        }
        told.await.unwrap_or(Err(RaftError::NoLeader))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the task that asks. However it ends, nobody is left waiting for it.
struct Running(Arc<Rounds>);

impl Running {
    /// Those for whom the next round is; without any the task is over.
    fn readers(&self) -> Option<Vec<Reader>> {
        let mut waiting = self.0.waiting();
        waiting.running = !waiting.readers.is_empty();
        waiting.running.then(|| std::mem::take(&mut waiting.readers))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After an orderly end another task may be running already.
        if std::thread::panicking() {
            let mut waiting = self.0.waiting();
            waiting.running = false;
            waiting.readers.clear();
        }
    }
}

async fn run<F: Future<Output = Outcome>>(running: Running, ask: impl Fn() -> F) {
    while let Some(readers) = running.readers() {
        let outcome = ask().await;
        for reader in readers {
            // A reader that gave up has nothing to be told.
            let _ = reader.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Rounds that answer with their own number, each once it is let through.
    struct Scene {
        rounds: Arc<Rounds>,
        begun: Arc<AtomicU64>,
        gate: Arc<Semaphore>,
    }

    impl Scene {
        fn new() -> Self {
            Self { rounds: Arc::default(), begun: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
        }

        fn read(&self) -> tokio::task::JoinHandle<u64> {
            let (rounds, begun, gate) = (Arc::clone(&self.rounds), Arc::clone(&self.begun), Arc::clone(&self.gate));
            tokio::spawn(async move {
                let ask = move || {
                    let (begun, gate) = (Arc::clone(&begun), Arc::clone(&gate));
                    async move {
                        let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                        gate.acquire().await.unwrap().forget();
                        Ok(ReadIndex::From(number))
                    }
                };
                match rounds.next(ask).await {
                    Ok(ReadIndex::From(number)) => number,
                    other => panic!("{other:?}"),
                }
            })
        }

        async fn settle(&self) {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn who_comes_while_one_is_asked_for_shares_the_next_and_never_that_one() {
        let scene = Scene::new();
        let first = scene.read();
        scene.settle().await;
        let later: Vec<_> = (0..50).map(|_| scene.read()).collect();
        scene.settle().await;
        assert_eq!(scene.begun.load(Ordering::SeqCst), 1, "one at a time");
        scene.gate.add_permits(2);
        assert_eq!(first.await.unwrap(), 1);
        assert!(join_all(later).await.into_iter().all(|number| number.unwrap() == 2));
        scene.gate.add_permits(1);
        assert_eq!(scene.read().await.unwrap(), 3, "after a pause it goes on");
    }

    #[tokio::test]
    async fn readers_that_give_up_take_nobody_with_them() {
        let scene = Scene::new();
        let first = scene.read();
        scene.settle().await;
        let (second, third) = (scene.read(), scene.read());
        scene.settle().await;
        first.abort();
        second.abort();
        scene.gate.add_permits(2);
        assert_eq!(third.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_round_that_panics_leaves_nobody_waiting() {
        let rounds: Arc<Rounds> = Arc::default();
        let panics = || async { panic!("on purpose") };
        assert!(matches!(rounds.next(panics).await, Err(RaftError::NoLeader)));
        let good = || async { Ok(ReadIndex::From(7)) };
        assert!(matches!(rounds.next(good).await, Ok(ReadIndex::From(7))));
    }
}

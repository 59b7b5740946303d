//! The runtime that openraft runs on: tokio, with a source of random numbers that a simulation can fix. Election
//! timeouts are drawn from it; with them fixed, and the network and the clock simulated, a run can be repeated.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt::{self, Debug};
use std::future::Future;
use std::io;
use std::time::Duration;

use openraft::{AsyncRuntime, Instant as _, OptionalSend, TokioRuntime};
use rand::rngs::{SmallRng, ThreadRng};
use rand::{Rng as _, SeedableRng, TryRng};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::spawn_blocking;
use tokio::task_local;

use super::patience::{TimeIsOver, Timeout};

task_local! {
    /// Seed of the next draw of this task; tasks of other processes than simulations have none.
    static SEED: Cell<u64>;
}

/// Runs a future, and what raft spawns in it, with random numbers that follow from a seed.
pub async fn seeded<F: Future>(seed: u64, future: F) -> F::Output {
    SEED.scope(Cell::new(seed), future).await
}

/// Takes this task's seed and leaves the next one; none outside simulations.
fn take_seed() -> Option<u64> {
    SEED.try_with(|cell| {
        let seed = cell.get();
        cell.set(mixed(seed, 0x6a09_e667_f3bc_c908));
        seed
    })
    .ok()
}

/// `SplitMix64`: a bijection, so different seeds stay different; another `gamma` is another sequence.
fn mixed(seed: u64, gamma: u64) -> u64 {
    let z = seed.wrapping_add(gamma);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 128 random bits: identities are made of them.
pub(super) fn random_bits() -> [u8; 16] {
    let mut bits = [0; 16];
    Runtime::thread_rng().fill_bytes(&mut bits);
    bits
}

/// Carries out work that takes long away from the threads that answer. On a runtime of one thread, as a simulation's
/// is, it is done in place: a thread of its own would be done at a time of its own.
///
/// # Errors
/// When the work panics.
pub async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    spawn_blocking(work).await.map_err(io::Error::other)
}

/// Tokio, with [`Rng`] and [`Timeout`].
#[derive(Debug)]
pub(super) struct Runtime(TokioRuntime);

/// The thread's generator, or one from the task's seed.
pub(super) enum Rng {
    Thread(ThreadRng),
    Seeded(SmallRng),
}

impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        match self {
            Self::Thread(rng) => rng.try_next_u32(),
            Self::Seeded(rng) => rng.try_next_u32(),
        }
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        match self {
            Self::Thread(rng) => rng.try_next_u64(),
            Self::Seeded(rng) => rng.try_next_u64(),
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self {
            Self::Thread(rng) => rng.try_fill_bytes(bytes),
            Self::Seeded(rng) => rng.try_fill_bytes(bytes),
        }
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng")
    }
}

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = TimeIsOver;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = Rng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        match take_seed() {
            None => TokioRuntime::spawn(future),
            Some(seed) => TokioRuntime::spawn(SEED.scope(Cell::new(mixed(seed, 0x9e37_79b9_7f4a_7c15)), future)),
        }
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        Timeout::new(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        Timeout::new(deadline.saturating_duration_since(Self::Instant::now()), future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Rng {
        match take_seed() {
            None => Rng::Thread(rand::rng()),
            Some(seed) => Rng::Seeded(SmallRng::seed_from_u64(seed)),
        }
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn draws() -> (Vec<[u8; 16]>, [u8; 16]) {
        let own = (0..3).map(|_| random_bits()).collect();
        (own, Runtime::spawn(async { random_bits() }).await.unwrap())
    }

    #[tokio::test]
    async fn a_seed_fixes_what_is_drawn_also_in_tasks_and_without_one_nothing_is() {
        let (first, second) = (seeded(7, draws()).await, seeded(7, draws()).await);
        assert_eq!(first, second);
        assert!(!first.0.contains(&first.1), "a task draws numbers of its own");
        assert_ne!(first, seeded(8, draws()).await);
        assert_ne!(draws().await, draws().await);
    }
}

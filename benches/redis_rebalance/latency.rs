//! A client at work while slots move: how long it waits for its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::client::{Client, Outcome};
use super::cluster::Cluster;

/// Waits in microseconds, sorted.
#[derive(Clone)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The wait that this share of all did not exceed.
    pub fn at(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list, rounded")]
        let place = ((self.0.len() - 1) as f64 * share).round() as usize;
        self.0[place]
    }
}

/// The client: one GET or SET after another, redirects included in the wait.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl Watch {
    pub fn start(cluster: &Cluster, keys: u32, name_of: fn(u32) -> Vec<u8>) -> Self {
        let mut client = Client::new(cluster.addresses(), &cluster.options.access);
        for key in 0..keys.min(20_000) {
            let name = name_of(key);
            // It knows the owners of the slots before it counts.
            client.read(&name, &[b"GET".to_vec(), name.clone()]);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut waits, mut random) = (Vec::new(), 1_u64);
            while !stopped.load(Ordering::Relaxed) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let name = name_of(u32::try_from((random >> 33) % u64::from(keys)).expect("below keys"));
                let command = if random & 1 << 32 == 0 {
                    vec![b"GET".to_vec(), name.clone()]
                } else {
                    vec![b"SET".to_vec(), name.clone(), vec![b'y'; 64]]
                };
                let begun = Instant::now();
                let outcome = client.call(&name, &command);
                assert!(matches!(outcome, Outcome::Done(_)), "no answer");
                waits.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            waits
        });
        Self { stop, thread }
    }

    pub fn stop(self) -> Latencies {
        self.stop.store(true, Ordering::Relaxed);
        let mut waits = self.thread.join().expect("the client goes on to the end");
        waits.sort_by(f64::total_cmp);
        Latencies(waits)
    }
}

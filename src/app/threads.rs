//! The threads of a controller. Raft has one for itself, with the listener of the other members: a leader's signs of life do
//! not wait behind requests of clients, and a write that wakes ten tasks one after the other wakes one thread. (With two,
//! each task that became ready woke the other thread as well: a write on three members cost a fifth more CPU time.) Clients,
//! the executor and the drivers share the rest of the cores.

use std::io;
use std::num::NonZero;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

/// Two runtimes; dropping them ends their tasks.
pub(super) struct Threads {
    /// Everything but raft.
    pub serving: Runtime,
    /// Raft and its peer listener.
    pub raft: Runtime,
}

impl Threads {
    pub fn start() -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let runtime = |name: &str, threads: usize| {
            Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
        };
        Ok(Self { serving: runtime("serving", (cores - 1).max(1))?, raft: runtime("raft", 1)? })
    }
}

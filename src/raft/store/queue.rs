//! The way to the one writer. What is not worth a wait for the disk is not worth waking the writer for either: it stays here
//! until something comes that is, or until there is much of it.

use std::io;
use std::mem::take;
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use tokio::sync::mpsc::UnboundedSender;

use super::writer::{BATCH_MAX, Job};

/// Jobs in their order; who drops it sends what is left.
pub(super) struct Queue {
    waiting: Mutex<Vec<Job>>,
    way: Way,
}

/// To a thread, or to a task of a simulation.
pub(super) enum Way {
    Thread(Sender<Vec<Job>>),
    Task(UnboundedSender<Vec<Job>>),
}

impl Queue {
    pub fn new(way: Way) -> Self {
        Self { waiting: Mutex::default(), way }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// When the writer has ended and this is the first job since then that does not wait.
    pub fn send(&self, job: Job) -> io::Result<()> {
        let mut waiting = self.waiting.lock().expect("held for a moment only");
        let goes = !job.can_wait() || waiting.len() + 1 >= BATCH_MAX;
        waiting.push(job);
        // Sent while it is held, so that the order stays.
        if goes { self.way.send(take(&mut waiting)) } else { Ok(()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Ok(waiting) = self.waiting.get_mut() {
            // A writer that has ended has told why.
            drop(self.way.send(take(waiting)));
        }
    }
}

impl Way {
    fn send(&self, jobs: Vec<Job>) -> io::Result<()> {
        let sent = match self {
            Self::Thread(way) => way.send(jobs).is_ok(),
            Self::Task(way) => way.send(jobs).is_ok(),
        };
        if sent { Ok(()) } else { Err(io::Error::other("the store is closed")) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::sync::oneshot;

    use super::*;

    fn waits(n: u64) -> Job {
        Job::AuditFrom(n)
    }

    fn numbers(jobs: &[Job]) -> Vec<u64> {
        let number = |job: &Job| if let Job::AuditFrom(n) = job { *n } else { 0 };
        jobs.iter().map(number).collect()
    }

    #[test]
    fn what_can_wait_goes_before_what_cannot() {
        let (way, jobs) = channel();
        let queue = Queue::new(Way::Thread(way));
        queue.send(waits(1)).unwrap();
        queue.send(waits(2)).unwrap();
        assert!(jobs.try_recv().is_err(), "nothing woke the writer");
        queue.send(Job::Flush(oneshot::channel().0)).unwrap();
        queue.send(waits(3)).unwrap();
        assert_eq!(numbers(&jobs.recv().unwrap()), [1, 2, 0]);
        assert!(jobs.try_recv().is_err());
    }

    #[test]
    fn what_can_wait_goes_when_there_is_much_of_it_and_at_the_end() {
        let (way, jobs) = channel();
        let queue = Queue::new(Way::Thread(way));
        (0..1025).for_each(|n| queue.send(waits(n)).unwrap());
        assert_eq!(numbers(&jobs.recv().unwrap()), (0..1024).collect::<Vec<_>>());
        assert!(jobs.try_recv().is_err());
        drop(queue);
        assert_eq!(numbers(&jobs.recv().unwrap()), [1024]);
    }

    #[test]
    fn a_writer_that_has_ended_is_an_error_for_who_waits() {
        let queue = Queue::new(Way::Thread(channel().0));
        queue.send(waits(1)).unwrap();
        let error = queue.send(Job::Flush(oneshot::channel().0)).unwrap_err();
        assert_eq!(error.to_string(), "the store is closed");
    }
}

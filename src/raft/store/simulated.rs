//! A disk for simulations. The files are real and the code that writes them is that of every member, but it runs in a
//! task, a sync takes as long as the simulation says, and a member that crashes before its end loses what it wrote.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::super::FatalHook;
use super::writer::{BATCH_MAX, Job, WriteError, Writer};

/// A disk that outlives the member that writes on it. Cheap to clone; clones are the same disk.
#[derive(Clone)]
pub struct Disk {
    dir: Arc<Path>,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    rng: SmallRng,
    sync_ms: RangeInclusive<u64>,
    failing: bool,
    lying: bool,
}

impl Disk {
    /// A disk that keeps its files in a directory. What it does by chance follows from the seed.
    #[must_use]
    pub fn new(dir: PathBuf, seed: u64) -> Self {
        let inner = Inner { rng: SmallRng::seed_from_u64(seed), sync_ms: 0..=2, failing: false, lying: false };
        Self { dir: dir.into(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// How long a sync takes from now on.
    pub fn set_sync_ms(&self, sync_ms: RangeInclusive<u64>) {
        self.lock().sync_ms = sync_ms;
    }

    /// Whether syncs fail from now on.
    pub fn set_failing(&self, failing: bool) {
        self.lock().failing = failing;
    }

    /// Whether the disk reports a sync before it has done it: a broken promise that a simulation has to notice.
    pub fn set_lying(&self, lying: bool) {
        self.lock().lying = lying;
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes until it is told to close or every sender is gone.
    pub(super) async fn write(self, mut writer: Writer, mut jobs: UnboundedReceiver<Vec<Job>>) {
        let mut batch: Vec<Job> = Vec::new();
        while let Some(first) = jobs.recv().await {
            batch.extend(first);
            while batch.len() < BATCH_MAX
                && let Ok(more) = jobs.try_recv()
            {
                batch.extend(more);
            }
            if batch.iter().all(Job::can_wait) && batch.len() < BATCH_MAX {
                continue;
            }
            let closing = batch.iter().any(|job| matches!(job, Job::Close(_)));
            if let Err(why) = self.commit(&mut writer, &mut batch).await {
                return fail(writer.on_fatal, batch, jobs, &why).await;
            }
            if closing {
                writer.close();
                return report(&mut batch);
            }
            report(&mut batch);
        }
        writer.close();
    }

    /// Makes a batch durable. A crash during the sync may come before or after the disk has done it.
    async fn commit(&self, writer: &mut Writer, batch: &mut Vec<Job>) -> Result<(), String> {
        let (sync, early, failing, lying) = {
            let mut inner = self.lock();
            let range = inner.sync_ms.clone();
            let sync = Duration::from_millis(inner.rng.random_range(range));
            (sync, inner.rng.random_bool(0.5), inner.failing, inner.lying)
        };
        if failing {
            return Err("the disk does not sync".to_owned());
        }
        let failed = |error: WriteError| error.to_string();
        if lying {
            writer.begin(batch).map_err(failed)?;
            report(batch);
            sleep(sync).await;
            writer.end().map_err(failed)?;
        } else if early {
            writer.commit(batch).map_err(failed)?;
            sleep(sync).await;
        } else {
            sleep(sync).await;
            writer.commit(batch).map_err(failed)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics while it holds the disk")
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn report(batch: &mut Vec<Job>) {
    for job in batch.drain(..) {
        job.report(Ok(()));
    }
}

async fn fail(on_fatal: FatalHook, batch: Vec<Job>, mut jobs: UnboundedReceiver<Vec<Job>>, why: &str) {
    let reason = format!("the store cannot be written: {why}");
    let refuse = |job: Job| job.report(Err(io::Error::other(reason.clone())));
    batch.into_iter().for_each(refuse);
    on_fatal.call(&reason);
    while let Some(jobs) = jobs.recv().await {
        jobs.into_iter().for_each(refuse);
    }
}

//! Errands: what only the leader may do outside the group, for itself and for members that were asked for it. The group
//! carries them there, and knows nothing of what they are.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::handle::{FIND_LEADER_WITHIN, Raft};
use super::network::PeerError;
use super::{ErrandRunner, RaftError};

/// What runs errands on this member, once it is known.
#[derive(Clone, Default)]
pub(super) struct Errands(Arc<OnceLock<ErrandRunner>>);

/// What became of an errand.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ran {
    /// It was run; the answer.
    Done(String),
    /// This member does not lead, or not any more.
    NotLeader,
}

impl Errands {
    /// Runs one here.
    pub(super) async fn run(&self, errand: String) -> Ran {
        let Some(runner) = self.0.get() else { return Ran::NotLeader };
        runner(errand).await.map_or(Ran::NotLeader, Ran::Done)
    }
}

impl fmt::Debug for Errands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errands").field("runs", &self.0.get().is_some()).finish()
    }
}

impl Raft {
    /// Sets what runs errands here, once; it answers none where this member does not lead.
    pub fn run_errands(&self, runner: ErrandRunner) {
        // A second one would be the same.
        drop(self.inner.errands.0.set(runner));
    }

    /// Has the leader run an errand that takes so long at most.
    ///
    /// # Errors
    /// [`RaftError::NoLeader`] when nobody has run it to its end, [`RaftError::Timeout`] when that is not known.
    pub async fn errand(&self, errand: String, within: Duration) -> Result<String, RaftError> {
        let deadline = Instant::now() + FIND_LEADER_WITHIN;
        loop {
            let ran = match self.leader()? {
                Some((id, _)) if id == self.id() => self.inner.errands.run(errand.clone()).await,
                Some((id, address)) => {
                    match self.inner.peers.forward((id, &address), "errand", &errand, within).await {
                        Ok(ran) => ran,
                        Err(PeerError::Connect(_) | PeerError::Refused { .. }) => Ran::NotLeader,
                        Err(PeerError::Unknown(why)) => {
                            tracing::warn!("no answer from leader {id} to an errand: {why}");
                            return Err(RaftError::Timeout);
                        }
                    }
                }
                None => Ran::NotLeader,
            };
            match ran {
                Ran::Done(answer) => return Ok(answer),
                Ran::NotLeader => self.retry_until(deadline).await?,
            }
        }
    }
}

//! Which entries a member gives up. What its newest snapshot has it does not need itself, but for a tail that others may
//! have missed. A leader keeps more than that tail for those that are on their way: a snapshot that takes longer to arrive
//! than the tail takes to be written would be followed by another one, and that by another, for ever. But not without
//! bound: one that the group outruns whatever is kept must not cost the leader its memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::{Instant as _, RaftMetrics};
use tokio::time::sleep;

use super::transfer::Outgoing;
use super::types::{Core, LogId, Types};
use crate::domain::MemberId;

/// How often is looked what may go.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Nothing is kept for a member that was not heard for so long.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// Most entries that are kept for others, as a multiple of those that are always kept.
const KEPT_MAX_TIMES: u64 = 20;
/// Entries go when there are so many of them, or an eighth of those that are kept.
const BATCH_MAX: u64 = 256;

/// Gives up entries as long as the member runs. `kept` are those before its snapshot that it keeps for whoever may come.
pub(super) async fn tend(core: Core, outgoing: Arc<Outgoing>, kept: u64) {
    let batch = (kept / 8).clamp(1, BATCH_MAX);
    let mut asked = 0;
    loop {
        sleep(LOOK_EVERY).await;
        let log = {
            let metrics = core.metrics();
            let now = metrics.borrow_watched();
            if now.running_state.is_err() {
                return;
            }
            Log { snapshot: index(now.snapshot.as_ref()), purged: index(now.purged.as_ref()), kept }
        };
        if log.snapshot.saturating_sub(kept) < log.purged.max(asked) + batch {
            continue;
        }
        let others = followers(&core.metrics().borrow_watched(), &outgoing);
        let upto = log.expendable(&others);
        if upto < log.purged.max(asked) + batch {
            continue;
        }
        for (id, has) in others.iter().filter(|(_, has)| (log.purged..upto).contains(has)) {
            let behind = log.snapshot - has;
            tracing::warn!(
                "member {id} is {behind} entries behind, more than are kept for it: it is sent a snapshot; its disk or the way to it is slower than what is written"
            );
        }
        asked = upto;
        outgoing.give_up(upto);
        if core.trigger().purge_log(upto).await.is_err() {
            return;
        }
    }
}

/// How far the others are that this member, when it leads, hears: what they have, or will have when the snapshot on its way
/// is there.
fn followers(metrics: &RaftMetrics<Types>, outgoing: &Outgoing) -> BTreeMap<MemberId, u64> {
    let heard = |id: &MemberId| {
        let last = metrics.heartbeat.as_ref().and_then(|heard| heard.get(id)?.as_ref());
        last.is_some_and(|last| last.elapsed() < HEARD_WITHIN)
    };
    let all = metrics.replication.iter().flatten();
    let others = all.filter(|(id, _)| **id != metrics.id && heard(id));
    others.map(|(&id, matching)| (id, index(matching.as_ref()).max(outgoing.sent_upto(id)))).collect()
}

fn index(id: Option<&LogId>) -> u64 {
    id.map_or(0, |id| id.index)
}

/// Where a log stands, by indexes.
struct Log {
    snapshot: u64,
    purged: u64,
    kept: u64,
}

impl Log {
    /// The last entry that may go. One who lacks what is gone already needs a snapshot anyway, and nothing is kept for it
    /// until that is on its way.
    fn expendable(&self, others: &BTreeMap<MemberId, u64>) -> u64 {
        let most = self.kept.saturating_mul(KEPT_MAX_TIMES);
        let waited_for = |has: &u64| *has >= self.purged && self.snapshot.saturating_sub(*has) <= most;
        let slowest = others.values().copied().filter(waited_for).min();
        self.snapshot.saturating_sub(self.kept).min(slowest.unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_kept_and_more_for_those_that_are_on_their_way() {
        let log = Log { snapshot: 1000, purged: 300, kept: 100 };
        let upto = |others: &[(MemberId, u64)]| log.expendable(&others.iter().copied().collect());
        assert_eq!(upto(&[]), 900);
        assert_eq!(upto(&[(2, 950), (3, 1200)]), 900, "they are in the tail");
        assert_eq!(upto(&[(2, 950), (3, 700)]), 700);
        assert_eq!(upto(&[(2, 400), (3, 700)]), 400);
        assert_eq!(upto(&[(2, 300)]), 300);
        assert_eq!(upto(&[(2, 299), (3, 0)]), 900, "what they need is gone: they get a snapshot");
    }

    #[test]
    fn nobody_is_waited_for_without_bound() {
        let log = Log { snapshot: 5000, purged: 0, kept: 100 };
        let upto = |others: &[(MemberId, u64)]| log.expendable(&others.iter().copied().collect());
        assert_eq!(upto(&[(2, 3000)]), 3000);
        assert_eq!(upto(&[(2, 2999)]), 4900);
        assert_eq!(upto(&[(2, 2999), (3, 4000)]), 4000);
    }
}

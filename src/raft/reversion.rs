//! Notices that a follower lost entries it had acknowledged: an old copy of its store was put in the place of the newer
//! one. raft's own answer to that is to end the leader; here the leader lives, and the follower is heard no more.

use std::collections::BTreeMap;
use std::sync::Mutex;

use openraft::entry::RaftEntry;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};

use super::types::{LogId, Types, Vote};
use crate::domain::MemberId;

/// The last entry that each follower acknowledged to this leader.
#[derive(Default)]
pub(super) struct Acknowledged(Mutex<BTreeMap<MemberId, (Vote, LogId)>>);

/// What a request asks of a follower and what it had acknowledged before it was sent: an answer that was on its way
/// before an acknowledgement may well not know of it.
pub(super) struct Asked {
    vote: Vote,
    previous: Option<LogId>,
    last: Option<LogId>,
    acknowledged: Option<LogId>,
}

impl Acknowledged {
    /// To be called before the request is sent.
    pub(super) fn asked(&self, target: MemberId, request: &AppendEntriesRequest<Types>) -> Asked {
        let known = self.0.lock().expect("held for a moment only");
        let acknowledged = known.get(&target).filter(|(vote, _)| *vote == request.vote).map(|(_, id)| *id);
        let last = request.entries.last().map(RaftEntry::log_id).or(request.prev_log_id);
        Asked { vote: request.vote, previous: request.prev_log_id, last, acknowledged }
    }

    /// Takes the answer in; whether it denies what was acknowledged before.
    pub(super) fn denied(&self, target: MemberId, asked: &Asked, answer: &AppendEntriesResponse<Types>) -> bool {
        let matching = match answer {
            AppendEntriesResponse::Success => asked.last,
            AppendEntriesResponse::PartialSuccess(matching) => *matching,
            AppendEntriesResponse::Conflict => {
                return matches!((asked.previous, asked.acknowledged), (Some(lacks), Some(had)) if lacks <= had);
            }
            AppendEntriesResponse::HigherVote(_) => None,
        };
        if let Some(matching) = matching {
            let mut known = self.0.lock().expect("held for a moment only");
            let entry = known.entry(target).or_insert((asked.vote, matching));
            if entry.0 != asked.vote || entry.1 < matching {
                *entry = (asked.vote, matching);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use openraft::testing::log_id;

    use super::super::types::Entry;
    use super::*;

    fn request(term: u64, previous: u64, entries: std::ops::RangeInclusive<u64>) -> AppendEntriesRequest<Types> {
        let id = |index| log_id::<Types>(term, 1, index);
        let entries = entries.map(|index| Entry { log_id: id(index), payload: EntryPayload::Blank });
        AppendEntriesRequest {
            vote: Vote::new_committed(term, 1),
            prev_log_id: Some(id(previous)),
            entries: entries.collect(),
            leader_commit: None,
        }
    }

    #[expect(clippy::reversed_empty_ranges, reason = "no entries: a heartbeat")]
    const NONE: std::ops::RangeInclusive<u64> = 1..=0;

    #[test]
    fn a_follower_that_lost_what_it_acknowledged_is_noticed() {
        let acknowledged = Acknowledged::default();
        let append = request(2, 4, 5..=9);
        let asked = acknowledged.asked(7, &append);
        assert!(!acknowledged.denied(7, &asked, &AppendEntriesResponse::Success));
        for (previous, denies) in [(9, true), (3, true), (10, false)] {
            let asked = acknowledged.asked(7, &request(2, previous, NONE));
            assert_eq!(acknowledged.denied(7, &asked, &AppendEntriesResponse::Conflict), denies, "{previous}");
        }
        let other = acknowledged.asked(8, &request(2, 3, NONE));
        assert!(!acknowledged.denied(8, &other, &AppendEntriesResponse::Conflict), "another follower");
    }

    #[test]
    fn an_answer_older_than_the_acknowledgement_denies_nothing() {
        let acknowledged = Acknowledged::default();
        let heartbeat = acknowledged.asked(7, &request(2, 5, NONE));
        let append = acknowledged.asked(7, &request(2, 4, 5..=5));
        assert!(!acknowledged.denied(7, &append, &AppendEntriesResponse::Success));
        assert!(!acknowledged.denied(7, &heartbeat, &AppendEntriesResponse::Conflict));
    }

    #[test]
    fn what_was_acknowledged_in_an_earlier_term_may_be_gone() {
        let acknowledged = Acknowledged::default();
        let asked = acknowledged.asked(7, &request(2, 4, 5..=9));
        acknowledged.denied(7, &asked, &AppendEntriesResponse::Success);
        let later = acknowledged.asked(7, &request(4, 9, NONE));
        assert!(!acknowledged.denied(7, &later, &AppendEntriesResponse::Conflict));
        let partly = acknowledged.asked(7, &request(4, 4, 5..=9));
        let answer = AppendEntriesResponse::PartialSuccess(Some(log_id::<Types>(4, 1, 6)));
        acknowledged.denied(7, &partly, &answer);
        let again = acknowledged.asked(7, &request(4, 6, NONE));
        assert!(acknowledged.denied(7, &again, &AppendEntriesResponse::Conflict));
    }
}

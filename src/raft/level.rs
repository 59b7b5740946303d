//! Which commands the members of a group understand. A new version may bring new kinds of commands; one that a member
//! does not know would be refused by it, or, worse, applied otherwise than by the others. So each member tells its
//! feature level with every request and answer, and a leader proposes only what every member of the group has been
//! heard to know: during an upgrade the group keeps to the level of its oldest member.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;
use openraft::EntryPayload;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::AppendEntriesRequest;
use serde::Deserialize;

use super::types::{Core, Entry, Types};
use crate::domain::MemberId;

/// The level of whoever speaks. A member of the first version did not send it.
pub(super) const LEVEL_HEADER: &str = "x-slotkeeper-level";
/// The level of those who tell none.
const FIRST: u16 = 1;

/// What this member knows of the others' levels.
pub(super) struct Levels {
    own: u16,
    heard: Mutex<BTreeMap<MemberId, u16>>,
}

impl Levels {
    pub(super) fn new(own: u16) -> Self {
        Self { own, heard: Mutex::default() }
    }

    /// This member's.
    pub(super) const fn own(&self) -> u16 {
        self.own
    }

    /// Keeps what came with an answer. A member that was started again in another version tells so with the next one.
    pub(super) fn learn(&self, member: MemberId, headers: &HeaderMap) {
        let told = headers.get(LEVEL_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(member, told.unwrap_or(FIRST));
    }

    /// The level of the group, voters and learners alike. One that was not heard yet holds it at the first.
    pub(super) fn of_group(&self, core: &Core) -> u16 {
        let metrics = core.metrics();
        let metrics = metrics.borrow_watched();
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let own_id = metrics.id;
        let members = metrics.membership_config.membership().nodes().map(|(id, _)| *id);
        let levels = members.map(|id| if id == own_id { self.own } else { heard.get(&id).copied().unwrap_or(FIRST) });
        levels.min().unwrap_or(self.own)
    }
}

/// The level that an entry needs.
pub(super) fn of_entry(entry: &Entry) -> u16 {
    match &entry.payload {
        EntryPayload::Normal(request) => request.0.version.max(FIRST),
        EntryPayload::Blank | EntryPayload::Membership(_) => FIRST,
    }
}

/// Reads entries from a leader; those of a newer version are refused by name, also when their kind is unknown here.
pub(super) fn read_entries(body: &[u8], own: u16) -> Result<AppendEntriesRequest<Types>, String> {
    let newer = |found: u16| {
        format!("the leader sent an entry of version {found}; this member knows up to {own}: upgrade it to take part")
    };
    match serde_json::from_slice::<AppendEntriesRequest<Types>>(body) {
        Ok(request) => match request.entries.iter().map(of_entry).find(|&needs| needs > own) {
            Some(found) => Err(newer(found)),
            None => Ok(request),
        },
        Err(error) => match newest(body).filter(|&found| found > own) {
            Some(found) => Err(newer(found)),
            None => Err(error.to_string()),
        },
    }
}

/// The highest version of a command in entries that cannot be read otherwise.
fn newest(body: &[u8]) -> Option<u16> {
    #[derive(Deserialize)]
    struct Request {
        entries: Vec<OfEntry>,
    }
    #[derive(Deserialize)]
    struct OfEntry {
        payload: serde_json::Value,
    }
    let request: Request = serde_json::from_slice(body).ok()?;
    let version = |entry: &OfEntry| entry.payload.get("Normal")?.get("version")?.as_u64();
    request.entries.iter().filter_map(version).max().map(|version| u16::try_from(version).unwrap_or(u16::MAX))
}

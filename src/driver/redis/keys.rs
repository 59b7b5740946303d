//! The keys of slots on one server: which there are, and how large.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::advice;
use super::link::Link;
use super::pace::at_once;
use super::sight::Fault;
use super::value::{bytes, command, list, number, shown};
use crate::domain::{Slot, advised};

/// Keys that one round asks for, of all slots together: what is in hand is memory here and time there.
const LISTED: usize = 2_000;
/// Keys of one slot that one round asks for, at most and at least.
const LISTED_PER_SLOT: (usize, usize) = (10, 500);
/// About what one `CLUSTER GETKEYSINSLOT` of a few keys and one `MEMORY USAGE` take, with their replies.
const LISTING: Duration = Duration::from_micros(60);
const MEASURING: Duration = Duration::from_micros(20);
/// Elements of a nested value that are looked at to estimate its size.
const SAMPLES: u32 = 5;
/// Taken for the size of what the server does not tell.
const UNKNOWN_BYTES: u64 = 512;

/// A key and about how many bytes it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: Vec<u8>,
    pub(super) bytes: u64,
}

/// What was listed of a slot and is still to be moved.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) keys: VecDeque<Key>,
    /// Whether it was all of them at that moment.
    pub(super) complete: bool,
}

/// The listings of slots.
pub(super) type Listings = BTreeMap<Slot, Listing>;

/// Lists keys of slots with their sizes. `busy`: how long the server may be kept from its clients at a time. `asking`: it does
/// not own the slots, but imports them.
pub(super) async fn list_keys(link: &Link, slots: &[Slot], busy: Duration, asking: bool) -> Result<Listings, Fault> {
    let each = (LISTED / slots.len().max(1)).clamp(LISTED_PER_SLOT.0, LISTED_PER_SLOT.1);
    let mut replies = Vec::with_capacity(slots.len());
    for few in slots.chunks(at_once(busy, LISTING)) {
        let commands = few.iter().map(|slot| {
            let mut get = command(&["CLUSTER", "GETKEYSINSLOT"]);
            get.arg(slot.get()).arg(each);
            get
        });
        replies.extend(link.pipeline(commands.collect(), link.timeout()).await?);
    }
    let mut listings = Listings::new();
    for (slot, reply) in slots.iter().zip(replies) {
        let value = reply.map_err(|refusal| link.answered(refusal))?;
        let names = list(&value).ok_or_else(|| link.unexpected("list of keys"))?;
        let names: Option<Vec<&[u8]>> = names.iter().map(bytes).collect();
        let names = names.ok_or_else(|| link.unexpected("names of keys"))?;
        // One that belongs elsewhere would be moved with the wrong slot.
        if let Some(stranger) = names.iter().find(|name| Slot::of_key(name) != *slot) {
            let why = format!("{} lists the key {} in slot {slot}", link.at(), shown(stranger));
            return Err(Fault::Lasting(why));
        }
        let complete = names.len() < each;
        let keys = names.into_iter().map(|name| Key { name: name.to_vec(), bytes: UNKNOWN_BYTES }).collect();
        listings.insert(*slot, Listing { keys, complete });
    }
    measure(link, &mut listings, busy, asking).await?;
    Ok(listings)
}

async fn measure(link: &Link, listings: &mut Listings, busy: Duration, asking: bool) -> Result<(), Fault> {
    let mut keys: Vec<&mut Key> = listings.values_mut().flat_map(|listing| listing.keys.iter_mut()).collect();
    for chunk in keys.chunks_mut(at_once(busy, MEASURING)) {
        let mut commands = Vec::with_capacity(2 * chunk.len());
        for key in chunk.iter() {
            if asking {
                commands.push(command(&["ASKING"]));
            }
            let mut usage = command(&["MEMORY", "USAGE"]);
            usage.arg(key.name.as_slice()).arg("SAMPLES").arg(SAMPLES);
            commands.push(usage);
        }
        let replies = link.pipeline(commands, link.timeout()).await?;
        let step = if asking { 2 } else { 1 };
        for (key, reply) in chunk.iter_mut().zip(replies.into_iter().skip(step - 1).step_by(step)) {
            // A key that is gone has no size; nor has any where the command is not allowed.
            if let Ok(value) = reply
                && let Some(bytes) = number(&value)
            {
                key.bytes = bytes;
            }
        }
    }
    Ok(())
}

/// The first key that must not be moved without a person's word.
pub(super) fn too_big(listing: &Listing, limit: u64) -> Option<String> {
    let key = listing.keys.iter().find(|key| key.bytes > limit)?;
    let why = format!(
        "the key {} takes {} bytes, more than {limit}: its move blocks both servers, and needs the acknowledgement big-key",
        shown(&key.name),
        key.bytes
    );
    Some(advised(&why, advice::BIG_KEY))
}

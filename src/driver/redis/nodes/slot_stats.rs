//! What servers count of each slot: `CLUSTER SLOT-STATS` of Valkey 8 and Redis 8.2, and `CLUSTER COUNTKEYSINSLOT` of all.

use std::collections::BTreeMap;

use redis::Value;

use super::super::value::{command, fields, list, number};
use super::ask::Server;
use crate::domain::Slot;
use crate::driver::nodes::NodesError;

/// Commands sent in one go.
const PIPELINED: usize = 512;
/// Slots that are told of in one reply.
const TOLD: u16 = 4096;

/// What a server counts of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotStats {
    pub keys: u64,
    /// Where it counts them: Redis, with `cluster-slot-stats-enabled yes`.
    pub bytes: Option<u64>,
    /// Microseconds of processor time since it counts, with `cluster-slot-stats-enabled yes`.
    pub busy_us: Option<u64>,
}

/// The statistics of slots at one server; a slot of which it says nothing is left out.
pub(super) async fn slot_stats(server: &Server<'_>, slots: &[Slot]) -> Result<BTreeMap<u16, SlotStats>, NodesError> {
    let mut found = told(server, slots).await?;
    let missing: Vec<&Slot> = slots.iter().filter(|slot| !found.contains_key(&slot.get())).collect();
    for slots in missing.chunks(PIPELINED) {
        let count = |slot: &&Slot| command(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
        let replies = server.pipeline(slots.iter().map(count).collect()).await?;
        let counted = slots.iter().zip(replies).filter_map(|(slot, reply)| Some((slot.get(), number(&reply.ok()?)?)));
        found.extend(counted.map(|(slot, keys)| (slot, SlotStats { keys, ..SlotStats::default() })));
    }
    Ok(found)
}

/// What `CLUSTER SLOT-STATS` tells of the slots; nothing where the server does not know it.
async fn told(server: &Server<'_>, slots: &[Slot]) -> Result<BTreeMap<u16, SlotStats>, NodesError> {
    let mut found = BTreeMap::new();
    let ask = |first: u16| {
        let last = first + TOLD - 1;
        command(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", &first.to_string(), &last.to_string()])
    };
    let mut firsts: Vec<u16> = slots.iter().map(|slot| slot.get() / TOLD * TOLD).collect();
    firsts.dedup();
    for first in firsts {
        // One after the other: each reply is about a third of a megabyte.
        let replies = server.pipeline(vec![ask(first)]).await?;
        let Some(Ok(reply)) = replies.first() else { break };
        found.extend(list(reply).into_iter().flatten().filter_map(one));
    }
    let wanted: std::collections::BTreeSet<u16> = slots.iter().map(|slot| slot.get()).collect();
    found.retain(|slot, _| wanted.contains(slot));
    Ok(found)
}

/// A slot and its figures: `[slot, {key-count: …}]`.
fn one(entry: &Value) -> Option<(u16, SlotStats)> {
    let [slot, figures] = list(entry)? else { return None };
    let figures = fields(figures);
    let figure = |name: &str| figures.get(name).and_then(|value| number(value));
    let stats = SlotStats { keys: figure("key-count")?, bytes: figure("memory-bytes"), busy_us: figure("cpu-usec") };
    Some((u16::try_from(number(slot)?).ok()?, stats))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_in_both_protocols_and_what_is_none_is_left_out() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = || vec![(text("key-count"), Value::Int(3)), (text("cpu-usec"), Value::Int(70))];
        let flat = pairs().into_iter().flat_map(|(name, value)| [name, value]).collect();
        let expected = Some((7, SlotStats { keys: 3, bytes: None, busy_us: Some(70) }));
        assert_eq!(one(&Value::Array(vec![Value::Int(7), Value::Array(flat)])), expected);
        assert_eq!(one(&Value::Array(vec![Value::Int(7), Value::Map(pairs())])), expected);
        for odd in [
            Value::Nil,
            Value::Array(vec![Value::Int(7)]),
            Value::Array(vec![Value::Int(70_000), Value::Map(pairs())]),
            Value::Array(vec![Value::Int(7), Value::Map(Vec::new())]),
        ] {
            assert_eq!(one(&odd), None, "{odd:?}");
        }
    }
}

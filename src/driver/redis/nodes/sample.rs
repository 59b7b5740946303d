//! The keys of slots that are to move: how many there are, and how large some of them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::timeout;

use super::super::value::{bytes, command, list, number};
use super::ask::Server;
use super::slot_stats::slot_stats;
use super::{Servers, TOGETHER};
use crate::domain::{Address, Slot, SlotSet, Topology};
use crate::driver::nodes::{LargeKey, NodesError, Sample};

/// How long one server may be sampled.
const SAMPLE_TIME: Duration = Duration::from_secs(4);
/// Commands sent in one go.
const PIPELINED: usize = 512;
/// Keys of one server whose size is asked, and slots that they are taken from.
const KEYS_MAX: usize = 2_000;
const SLOTS_MAX: usize = 512;
/// Elements of a collection that the server looks at to tell its size.
const ELEMENTS: &str = "5";
/// Most large keys that are told, and most bytes of a name.
const LARGEST_MAX: usize = 16;
const NAME_MAX: usize = 64;

/// Keys measured of each slot, and their bytes.
type Sizes = BTreeMap<u16, (u64, u64)>;

/// Counts the keys of these slots at the primaries that own them by the table, and measures some.
pub(super) async fn sample(servers: &Servers, topology: &Topology, slots: &SlotSet) -> Sample {
    let mut wanted: Vec<(Address, Vec<Slot>)> = Vec::new();
    for shard in &topology.shards {
        let mine: Vec<Slot> = slots.iter().filter(|slot| topology.table.owner(*slot) == Some(&shard.id)).collect();
        if !mine.is_empty() {
            wanted.push((Address::from(&shard.primary), mine));
        }
    }
    let asked = wanted.into_iter().map(|(address, slots)| async move {
        let sampled = timeout(SAMPLE_TIME, one(&servers.at(&address), &slots)).await;
        let late = || Err(NodesError::Unavailable(format!("{address} was not sampled within {SAMPLE_TIME:?}")));
        sampled.unwrap_or_else(|_| late()).map_err(|error| error.to_string())
    });
    let found: Vec<Result<Sample, String>> = stream::iter(asked).buffer_unordered(TOGETHER).collect().await;
    let mut sample = Sample::default();
    for one in found {
        match one {
            Ok(one) => {
                sample.keys.extend(one.keys);
                sample.slot_bytes.extend(one.slot_bytes);
                sample.slot_busy_us.extend(one.slot_busy_us);
                sample.measured += one.measured;
                sample.bytes += one.bytes;
                sample.largest.extend(one.largest);
            }
            Err(why) => sample.faults.push(why),
        }
    }
    keep_largest(&mut sample.largest);
    sample.faults.sort();
    sample
}

async fn one(server: &Server<'_>, slots: &[Slot]) -> Result<Sample, NodesError> {
    let mut sample = Sample::default();
    let stats = slot_stats(server, slots).await?;
    sample.keys = stats.iter().map(|(slot, stats)| (*slot, stats.keys)).collect();
    sample.slot_busy_us = stats.iter().filter_map(|(slot, stats)| Some((*slot, stats.busy_us?))).collect();
    let filled: Vec<u16> = sample.keys.iter().filter(|(_, keys)| **keys > 0).map(|(slot, _)| *slot).collect();
    // Evenly over all of them, where there are too many.
    let step = filled.len().div_ceil(SLOTS_MAX).max(1);
    let chosen: Vec<u16> = filled.into_iter().step_by(step).collect();
    let mut sizes = Sizes::new();
    let each = (KEYS_MAX / chosen.len().max(1)).max(1).to_string();
    for slots in chosen.chunks(PIPELINED) {
        let names = |slot: &u16| command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &each]);
        let replies = server.pipeline(slots.iter().map(names).collect()).await?;
        let mut keys: Vec<(u16, Vec<u8>)> = Vec::new();
        for (slot, reply) in slots.iter().zip(replies) {
            let names = reply.ok();
            let names = names.as_ref().and_then(list).into_iter().flatten().filter_map(bytes);
            keys.extend(names.map(|name| (*slot, name.to_vec())));
        }
        measure(server, &keys, &mut sample, &mut sizes).await?;
    }
    keep_largest(&mut sample.largest);
    sample.slot_bytes = slot_bytes(&sample, &sizes);
    // What the server counts itself is better than a sample.
    sample.slot_bytes.extend(stats.iter().filter_map(|(slot, stats)| Some((*slot, stats.bytes?))));
    Ok(sample)
}

/// The bytes of each slot: by its own keys, where some were measured, else by those of the whole server.
fn slot_bytes(sample: &Sample, sizes: &Sizes) -> BTreeMap<u16, u64> {
    let all = (sample.measured, sample.bytes);
    let of = |(slot, keys): (&u16, &u64)| {
        let (measured, bytes) = sizes.get(slot).copied().unwrap_or(all);
        let bytes = u128::from(*keys) * u128::from(bytes) / u128::from(measured.max(1));
        (measured > 0 || *keys == 0).then(|| (*slot, u64::try_from(bytes).unwrap_or(u64::MAX)))
    };
    sample.keys.iter().filter_map(of).collect()
}

async fn measure(
    server: &Server<'_>,
    keys: &[(u16, Vec<u8>)],
    sample: &mut Sample,
    sizes: &mut Sizes,
) -> Result<(), NodesError> {
    for keys in keys.chunks(PIPELINED) {
        let size = |(_, name): &(u16, Vec<u8>)| {
            let mut usage = command(&["MEMORY", "USAGE"]);
            usage.arg(name.as_slice()).arg("SAMPLES").arg(ELEMENTS);
            usage
        };
        let replies = server.pipeline(keys.iter().map(size).collect()).await?;
        for ((slot, name), reply) in keys.iter().zip(replies) {
            // A key that is gone has no size.
            let Some(bytes) = reply.ok().as_ref().and_then(number) else { continue };
            let of_slot = sizes.entry(*slot).or_default();
            *of_slot = (of_slot.0 + 1, of_slot.1 + bytes);
            sample.measured += 1;
            sample.bytes += bytes;
            let cut = &name[..name.len().min(NAME_MAX)];
            let more = if cut.len() < name.len() { "…" } else { "" };
            sample.largest.push(LargeKey { slot: *slot, name: format!("{}{more}", cut.escape_ascii()), bytes });
        }
        keep_largest(&mut sample.largest);
    }
    Ok(())
}

fn keep_largest(keys: &mut Vec<LargeKey>) {
    keys.sort_by(|a, b| (b.bytes, a.slot, &a.name).cmp(&(a.bytes, b.slot, &b.name)));
    keys.truncate(LARGEST_MAX);
}

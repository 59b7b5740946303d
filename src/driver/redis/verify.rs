//! Whether the servers agree with the table.

use super::links::Links;
use super::sight::{Fault, Sight, member_ids, primaries, primary};
use crate::domain::{Node, NodeId, SLOT_COUNT, Slot, SlotSet, Topology, advised, ranges_of};
use crate::nodes_text::Flag;

/// Every primary owns what the table gives to its shard, by the view of each, and none has a slot open.
pub(super) async fn verify(links: &Links, topology: &Topology) -> Result<(), Fault> {
    let mut sights = Vec::new();
    let looks = primaries(links, None, &topology.shards, &[]).await;
    for (shard, sight) in topology.shards.iter().zip(looks) {
        match sight {
            Ok(sight) => sights.push(sight),
            // Whoever owns nothing may be gone, or copy another by now.
            Err(_) if topology.table.count_of(&shard.id) == 0 => {}
            Err(fault) => return Err(fault),
        }
    }
    let members: Vec<Vec<NodeId>> = topology.shards.iter().map(member_ids).collect();
    for sight in &sights {
        if let Some(open) = sight.view.myself().and_then(|myself| myself.open.first()) {
            return Err(Fault::Passing(format!("{} has slot {} open: {}", sight.node, open.slot, open.flag)));
        }
        if let Some(why) = disagreement(sight, topology, &members) {
            return Err(Fault::Passing(why));
        }
    }
    Ok(())
}

/// None of these slots is open at a primary that answers. Nothing is known of one that does not: what it has open is told as
/// drift when it is back.
pub(super) async fn closed(links: &Links, topology: &Topology, slots: &SlotSet) -> Result<(), Fault> {
    let looks = primaries(links, None, &topology.shards, &[]).await;
    for (shard, sight) in topology.shards.iter().zip(looks).filter_map(|(shard, look)| Some((shard, look.ok()?))) {
        let flags = sight.view.myself().into_iter().flat_map(|myself| &myself.open);
        let open: Vec<_> = flags.filter(|open| slots.contains(open.slot)).collect();
        let Some(first) = open.first() else { continue };
        let numbers: Vec<Slot> = open.iter().map(|open| open.slot).collect();
        let counted = primary(links, None, shard, &sight.id, &numbers).await?;
        let keys: u64 = numbers.iter().map(|slot| counted.end(*slot).keys).sum();
        let imports = matches!(first.flag, Flag::Importing(_));
        let advice = if imports && keys > 0 {
            format!("redis-cli --cluster fix {}, and afterwards plan create --repair", sight.node)
        } else {
            let Node { host, port, .. } = &sight.node;
            let close = format!("redis-cli -h {host} -p {port} CLUSTER SETSLOT {} STABLE", first.slot);
            if numbers.len() > 1 { format!("{close} (the same for each of them)") } else { close }
        };
        let ranges: Vec<String> = ranges_of(numbers).iter().take(4).map(ToString::to_string).collect();
        let why = format!("{} has slots {} of the plan open ({})", sight.node, ranges.join(","), first.flag);
        return Err(Fault::Passing(advised(&why, &advice)));
    }
    Ok(())
}

/// What a server says of the owners that the table does not.
fn disagreement(sight: &Sight, topology: &Topology, members: &[Vec<NodeId>]) -> Option<String> {
    let mut said: Vec<Option<&NodeId>> = vec![None; SLOT_COUNT];
    for node in &sight.view.nodes {
        for slot in node.ranges.iter().flat_map(|range| range.slots()) {
            said[slot.index()] = Some(&node.id);
        }
    }
    let owner_in_table = |slot: Slot| topology.table.owner(slot).and_then(|shard| topology.table.index_of(shard));
    let agrees = |slot: &Slot| match (owner_in_table(*slot), said[slot.index()]) {
        (Some(shard), Some(node)) => members[usize::from(shard)].contains(node),
        (None, None) => true,
        _ => false,
    };
    let wrong: Vec<Slot> = Slot::all().filter(|slot| !agrees(slot)).collect();
    let first = *wrong.first()?;
    let alike: Vec<Slot> = wrong.into_iter().filter(|slot| said[slot.index()] == said[first.index()]).collect();
    let ranges: Vec<String> = ranges_of(alike).iter().take(4).map(ToString::to_string).collect();
    let named = |owner: Option<&str>| owner.unwrap_or("nobody").to_owned();
    Some(format!(
        "{} says that {} owns slot {}, and the table gives it to {}",
        sight.node,
        named(said[first.index()].map(NodeId::as_str)),
        ranges.join(","),
        named(topology.table.owner(first).map(crate::domain::ShardId::as_str)),
    ))
}

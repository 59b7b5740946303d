//! What every family can do, and the nodes as the families see them.

use super::error::HashingError;
use super::key::Key;
use crate::domain::{Family, PlacedNode, Zone};

/// A node of one comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number among all nodes before or after the event, in the order of their names.
    pub id: u16,
    /// What it is called and how much it bears.
    pub node: PlacedNode,
}

impl Member {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.name.as_str()
    }
}

/// Keys placed on nodes by one family.
pub trait Placement: Send + Sync {
    /// The node of a key. Of the family that bounds loads: as long as no node is full.
    fn owner(&self, key: &Key) -> u16;

    /// The nodes of keys that come in this order.
    fn place(&self, keys: &[Key]) -> Vec<u16> {
        keys.iter().map(|key| self.owner(key)).collect()
    }

    /// The same family after an event.
    ///
    /// # Errors
    /// When the family cannot carry it.
    fn changed(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError>;

    /// The same family as a client sees it that knows these nodes only.
    ///
    /// # Errors
    /// When the family cannot work with them.
    fn seen(&self, members: &[Member]) -> Result<Box<dyn Placement>, HashingError> {
        self.changed(members)
    }

    /// Shows the nodes of a key in order of preference, until `visit` has enough; nodes may come again.
    fn walk(&self, key: &Key, visit: &mut dyn FnMut(u16) -> bool) {
        const TRIES: u64 = 4096;
        for number in 0..TRIES {
            if !visit(self.owner(&key.again(number))) {
                return;
            }
        }
    }

    /// The slots whose owner the last event changed, in the order of the moves; families without slots change at once.
    fn moved_slots(&self) -> &[u16] {
        &[]
    }

    /// Bytes of what a client holds to look keys up.
    fn memory_bytes(&self) -> u64;

    /// Bytes that clients have to be told beside the list of nodes.
    fn metadata_bytes(&self) -> u64 {
        0
    }
}

/// The first nodes of a key's preference list (Dynamo): distinct nodes, distinct zones as long as there are some.
/// `zones` gives each node's zone by its number, `zone_count` how many zones the members have.
#[must_use]
pub fn preference(
    placement: &dyn Placement,
    key: &Key,
    copies: usize,
    zones: &[Option<Zone>],
    zone_count: usize,
) -> Vec<u16> {
    let (mut chosen, mut used, mut left_over) = (Vec::<u16>::new(), Vec::<&Zone>::new(), Vec::<u16>::new());
    let wanted_zones = copies.min(zone_count);
    placement.walk(key, &mut |node| {
        if chosen.contains(&node) || left_over.contains(&node) {
            return true;
        }
        match &zones[usize::from(node)] {
            Some(zone) if used.contains(&zone) => left_over.push(node),
            zone => {
                used.extend(zone);
                chosen.push(node);
            }
        }
        let enough = chosen.len() >= copies || (used.len() >= wanted_zones && chosen.len() + left_over.len() >= copies);
        !enough
    });
    chosen.extend(left_over);
    chosen.truncate(copies);
    chosen
}

/// Refuses weights that are not all the same.
pub fn one_weight(family: Family, members: &[Member]) -> Result<(), HashingError> {
    let first = &members[0].node;
    let Some(other) = members.iter().map(|member| &member.node).find(|node| node.weight != first.weight) else {
        return Ok(());
    };
    let (heavier, lighter) = if first.weight > other.weight { (first, other) } else { (other, first) };
    Err(HashingError::NoWeights {
        family,
        heavier: heavier.name.clone(),
        heaviest: heavier.weight,
        lighter: lighter.name.clone(),
        lightest: lighter.weight,
    })
}

/// Bytes of a slice.
pub fn bytes_of<T>(slice: &[T]) -> u64 {
    u64::try_from(size_of_val(slice)).expect("fits in memory")
}

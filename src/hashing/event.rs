//! A scale event: nodes join, leave or change their weight.

use crate::domain::{Invalid, NodeId, PlacedNode, Weight};

/// What changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Nodes that join, after those in the list.
    pub add: Vec<PlacedNode>,
    /// Nodes that leave.
    pub drain: Vec<NodeId>,
    /// Nodes with another weight.
    pub reweight: Vec<(NodeId, Weight)>,
}

impl Event {
    /// The nodes after the event.
    ///
    /// # Errors
    /// [`Invalid`] for `add`, `drain` or `weights`, naming the node.
    pub fn apply(&self, before: &[PlacedNode]) -> Result<Vec<PlacedNode>, Invalid> {
        let mut after = before.to_vec();
        for (name, weight) in &self.reweight {
            let node = after.iter_mut().find(|node| node.name == *name);
            let node = node.ok_or_else(|| unknown("weights", name))?;
            if self.reweight.iter().filter(|(other, _)| other == name).count() > 1 {
                return Err(Invalid::new("weights", format!("{name} is given twice")));
            }
            node.weight = weight.get();
        }
        for name in &self.drain {
            let index = after.iter().position(|node| node.name == *name);
            after.remove(index.ok_or_else(|| {
                if before.iter().any(|node| node.name == *name) {
                    Invalid::new("drain", format!("{name} is given twice"))
                } else {
                    unknown("drain", name)
                }
            })?);
        }
        for node in &self.add {
            if before.iter().chain(&after).any(|other| other.name == node.name) {
                return Err(Invalid::new("add", format!("{} is there already", node.name)));
            }
            after.push(node.clone());
        }
        Ok(after)
    }
}

fn unknown(what: &'static str, name: &NodeId) -> Invalid {
    Invalid::new(what, format!("{name} is not one of the nodes"))
}

/// So many nodes of weight 1, named by number: `node-01` and on, all with as many digits as `widest` has.
///
/// # Errors
/// [`Invalid`] above [`super::NODES_MAX`].
pub fn numbered(count: usize, widest: usize) -> Result<Vec<PlacedNode>, Invalid> {
    if count > super::NODES_MAX {
        return Err(Invalid::new("nodes", format!("{count} are more than {}", super::NODES_MAX)));
    }
    let digits = widest.max(count).to_string().len();
    let node = |number| {
        let name = NodeId::new(&format!("node-{number:0digits$}"))?;
        Ok(PlacedNode { name, weight: 1, zone: None })
    };
    (1..=count).map(node).collect()
}

/// The event in words: what differs between two lists.
#[must_use]
pub fn describe(before: &[PlacedNode], after: &[PlacedNode]) -> String {
    let names = |nodes: Vec<&PlacedNode>| -> String {
        let shown: Vec<&str> = nodes.iter().take(4).map(|node| node.name.as_str()).collect();
        let rest = nodes.len().saturating_sub(4);
        if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
    };
    let is_in = |nodes: &[PlacedNode], name: &NodeId| nodes.iter().any(|node| node.name == *name);
    let joined: Vec<&PlacedNode> = after.iter().filter(|node| !is_in(before, &node.name)).collect();
    let left: Vec<&PlacedNode> = before.iter().filter(|node| !is_in(after, &node.name)).collect();
    let weight = |node: &PlacedNode| before.iter().find(|other| other.name == node.name).map(|other| other.weight);
    let changed: Vec<String> = after
        .iter()
        .filter_map(|node| Some((node, weight(node)?)))
        .filter(|(node, weight)| node.weight != *weight)
        .map(|(node, weight)| format!("{} {weight} -> {}", node.name, node.weight))
        .collect();
    let mut parts = vec![format!("{} -> {} nodes", before.len(), after.len())];
    if !joined.is_empty() {
        parts.push(format!("add {}", names(joined)));
    }
    if !left.is_empty() {
        parts.push(format!("drain {}", names(left)));
    }
    if !changed.is_empty() {
        let rest = changed.len().saturating_sub(4);
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        parts.push(format!("weight {}{more}", changed[..changed.len().min(4)].join(", ")));
    }
    parts.join("; ")
}

/// The list with so many nodes: the last leave, or nodes of weight 1 join, named by number.
///
/// # Errors
/// [`Invalid`] when a name is taken, or above [`super::NODES_MAX`].
pub fn resized(before: &[PlacedNode], to: usize) -> Result<Vec<PlacedNode>, Invalid> {
    let more = numbered(to, before.len())?.split_off(before.len().min(to));
    let add = Event { add: more, ..Event::default() };
    add.apply(&before[..before.len().min(to)])
}

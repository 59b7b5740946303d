//! From lines to a cluster: members, shards and the slot table, checked against each other.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{self, Health, Line, Role, shown};
use super::{Adopted, NodesTextError, Seen, TEXT_MAX_BYTES, View};
use crate::domain::{Host, Node, NodeId, NodeState, Shard, ShardId, Slot, SlotTable, Weight};

/// Lines with their numbers, by id.
type Lines = BTreeMap<NodeId, (usize, Line)>;

pub(super) fn adopt(text: &[u8], dialled: Option<&Host>) -> Result<Adopted, NodesTextError> {
    let lines = read(text, dialled)?;
    check_roles(&lines)?;
    let owners = owners(&lines)?;
    let (members, mut notes) = members(&lines)?;
    check_addresses(&members)?;
    let open = lines.values().filter_map(|(number, line)| Some((*number, line.open.first()?)));
    if let Some((line, open)) = open.min_by_key(|(number, _)| *number) {
        return Err(NodesTextError::OpenSlot { line, slot: open.slot.get(), why: open.flag.to_string() });
    }
    let shards = shards(&members);
    if shards.is_empty() {
        return Err(malformed(0, "there is no master that could be adopted"));
    }
    let table = table(&shards, &members).map_err(|why| malformed(0, why))?;
    let uncovered = owners.iter().filter(|owner| owner.is_none()).count();
    if uncovered > 0 {
        notes.push(format!("{uncovered} slots are owned by no master: {}", table.unassigned()));
    }
    Ok(Adopted { nodes: members.into_values().map(|member| member.node).collect(), shards, table, notes })
}

/// One node's view, as it stands: no slot has two owners, replicas follow masters.
pub(super) fn view(text: &[u8], dialled: Option<&Host>) -> Result<View, NodesTextError> {
    let lines = read(text, dialled)?;
    check_roles(&lines)?;
    owners(&lines)?;
    Ok(View { nodes: lines.into_values().map(|(_, line)| line.into()).collect() })
}

impl From<Line> for Seen {
    fn from(line: Line) -> Self {
        let Line { id, host, port, myself, role, health, config_epoch, connected, ranges, open } = line;
        Self { id, host, port, myself, role, health, config_epoch, connected, ranges, open }
    }
}

/// A node that is adopted.
struct Member<'a> {
    node: Node,
    number: usize,
    line: &'a Line,
}

fn malformed(line: usize, why: impl Into<String>) -> NodesTextError {
    NodesTextError::Malformed { line, why: why.into() }
}

/// Every line by itself; ids are distinct, and at most one line is `myself`.
fn read(text: &[u8], dialled: Option<&Host>) -> Result<Lines, NodesTextError> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(malformed(0, format!("the text is longer than {TEXT_MAX_BYTES} bytes")));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let (mut lines, mut myself) = (Lines::new(), None);
    for (number, bytes) in (1..).zip(text.split(|&b| b == b'\n')) {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.contains(&0) {
            return Err(malformed(number, format!("a NUL byte in {}", shown(bytes))));
        }
        if bytes.is_empty() {
            continue;
        }
        let line = line::parse(bytes, dialled).map_err(|why| malformed(number, why))?;
        if line.myself
            && let Some(first) = myself.replace(number)
        {
            return Err(malformed(number, format!("a second node is myself; line {first} is the first")));
        }
        let id = line.id.clone();
        if let Some((first, _)) = lines.insert(id.clone(), (number, line)) {
            return Err(malformed(number, format!("node {id} is listed twice; line {first} is the first")));
        }
    }
    if lines.is_empty() {
        return Err(malformed(0, "the text is empty"));
    }
    Ok(lines)
}

/// Replicas name a master of the text and own nothing; nor does what is no member.
fn check_roles(lines: &Lines) -> Result<(), NodesTextError> {
    for (id, (number, line)) in lines {
        if !matches!(line.role, Role::Master)
            && let Some(range) = line.ranges.first()
        {
            return Err(malformed(*number, format!("node {id} is no master but lists the slots {range}")));
        }
        if let Role::ReplicaOf(master) = &line.role {
            match lines.get(master) {
                Some((_, Line { role: Role::Master, .. })) => {}
                Some((other, _)) => {
                    let why = format!("replica {id} follows {master}, which is no master (line {other})");
                    return Err(malformed(*number, why));
                }
                None => {
                    return Err(malformed(*number, format!("replica {id} of an unknown master {master}")));
                }
            }
        }
    }
    Ok(())
}

/// The owner of every slot; no slot has two.
fn owners(lines: &Lines) -> Result<Vec<Option<&NodeId>>, NodesTextError> {
    let mut owners: Vec<Option<&NodeId>> = vec![None; crate::domain::SLOT_COUNT];
    for (id, (number, line)) in lines {
        for slot in line.ranges.iter().flat_map(|range| range.slots()) {
            match owners[slot.index()].replace(id) {
                None => {}
                Some(other) if other == id => {
                    return Err(malformed(*number, format!("slot {slot} is listed twice by {id}")));
                }
                Some(other) => return Err(two_owners(lines, slot, other, id)),
            }
        }
    }
    Ok(owners)
}

fn two_owners(lines: &Lines, slot: Slot, a: &NodeId, b: &NodeId) -> NodesTextError {
    let ((line_a, _), (line_b, _)) = (&lines[a], &lines[b]);
    let (first, later) = if line_a < line_b { ((line_a, a), (line_b, b)) } else { ((line_b, b), (line_a, a)) };
    let why = format!("slot {slot} is owned by two masters: {} (line {}) and {}", first.1, first.0, later.1);
    malformed(*later.0, why)
}

/// Where the healthy nodes are. A node that died and came back with another id leaves its old entry behind.
fn healthy_addresses(lines: &Lines) -> BTreeSet<(&Host, u16)> {
    let is_member = |line: &&Line| matches!(line.role, Role::Master | Role::ReplicaOf(_));
    let healthy = lines.values().map(|(_, line)| line).filter(is_member).filter(|line| line.health == Health::Good);
    healthy.filter_map(|line| Some((line.host.as_ref()?, line.port))).collect()
}

/// Who is adopted and in which state, and a note on everyone who is not, or not as healthy.
fn members(lines: &Lines) -> Result<(BTreeMap<&NodeId, Member<'_>>, Vec<String>), NodesTextError> {
    let (mut members, mut notes) = (BTreeMap::new(), Vec::new());
    let healthy = healthy_addresses(lines);
    for (id, (number, line)) in lines {
        let owned: usize = line.ranges.iter().map(|range| range.count()).sum();
        let flag = line.health.flag();
        let state = match (&line.role, line.health) {
            (Role::Handshake, _) => {
                notes.push(format!("node {id} is in handshake, no member yet: left out"));
                continue;
            }
            (Role::Unknown, _) => {
                notes.push(format!("node {id} has no role yet: left out"));
                continue;
            }
            (Role::Master, Health::Good) => NodeState::Active,
            (Role::Master, Health::Addressless) if owned > 0 => {
                let why = format!("master {id} has no address (noaddr) but owns {owned} slots");
                return Err(malformed(*number, why));
            }
            (Role::Master, _) if owned == 0 => {
                notes.push(format!("master {id} is marked {flag} and owns no slots: left out"));
                continue;
            }
            (Role::Master, _) => {
                notes.push(format!(
                    "master {id} is marked {flag} and owns {owned} slots: adopted with max_slots {owned}, so that it \
                     gets no more; lift that when it is back"
                ));
                NodeState::Active
            }
            (Role::ReplicaOf(master), _) if is_left_out(&lines[master].1) => {
                notes.push(format!("replica {id} follows {master}, which was left out: left out too"));
                continue;
            }
            (Role::ReplicaOf(_), Health::Good) => NodeState::Active,
            (Role::ReplicaOf(_), Health::Addressless) => {
                notes.push(format!("replica {id} has no address (noaddr): left out"));
                continue;
            }
            (Role::ReplicaOf(_), _) if line.host.as_ref().is_some_and(|host| healthy.contains(&(host, line.port))) => {
                notes.push(format!("replica {id} is marked {flag} and its address belongs to another node: left out"));
                continue;
            }
            (Role::ReplicaOf(master), Health::Suspected | Health::Failed) => {
                notes.push(format!(
                    "replica {id} of {master} is marked {flag}: adopted as lost; undrain it when it is back"
                ));
                NodeState::Lost
            }
        };
        let host = line.host.clone().expect("only a node without address has no host");
        let node = Node { id: id.clone(), host, port: line.port, zone: None, state };
        members.insert(id, Member { node, number: *number, line });
    }
    Ok((members, notes))
}

fn is_left_out(master: &Line) -> bool {
    master.health != Health::Good && master.ranges.is_empty()
}

/// No two members have one address.
fn check_addresses(members: &BTreeMap<&NodeId, Member<'_>>) -> Result<(), NodesTextError> {
    let mut seen: BTreeMap<(&Host, u16), &Member<'_>> = BTreeMap::new();
    let mut in_order: Vec<_> = members.values().collect();
    in_order.sort_by_key(|member| member.number);
    for member in in_order {
        let Node { id, host, port, .. } = &member.node;
        if let Some(other) = seen.insert((host, *port), member) {
            let why =
                format!("nodes {} (line {}) and {id} have one address, {}", other.node.id, other.number, member.node);
            return Err(malformed(member.number, why));
        }
    }
    Ok(())
}

fn shards(members: &BTreeMap<&NodeId, Member<'_>>) -> Vec<Shard> {
    let mut shards: BTreeMap<&NodeId, Shard> = BTreeMap::new();
    for (&id, member) in members {
        if matches!(member.line.role, Role::Master) {
            let mut shard = Shard::new(shard_id(id), id.clone(), Weight::ONE);
            if member.line.health != Health::Good {
                let owned: usize = member.line.ranges.iter().map(|range| range.count()).sum();
                shard.max_slots = Some(u16::try_from(owned).expect("at most 16384 slots, none twice"));
            }
            shards.insert(id, shard);
        }
    }
    for (&id, member) in members {
        if let Role::ReplicaOf(master) = &member.line.role {
            shards.get_mut(master).expect("replicas of masters left out are left out").replicas.push(id.clone());
        }
    }
    shards.into_values().collect()
}

fn shard_id(primary: &NodeId) -> ShardId {
    ShardId::new(primary.as_str()).expect("node ids and shard ids are names alike")
}

fn table(shards: &[Shard], members: &BTreeMap<&NodeId, Member<'_>>) -> Result<SlotTable, String> {
    let mut table =
        SlotTable::with_shards(shards.iter().map(|shard| shard.id.clone()).collect()).map_err(|e| e.to_string())?;
    for shard in shards {
        for &range in &members[&shard.primary].line.ranges {
            table.assign(range, Some(&shard.id)).expect("the shard was listed above");
        }
    }
    Ok(table)
}

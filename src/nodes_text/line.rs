//! One line of `CLUSTER NODES`: `id host:port@bus[,hostname[,aux=value…]] flags master ping pong epoch link slots…`.

use crate::domain::{Host, Invalid, NodeId, Slot, SlotRange};

/// Fields before the slots.
const FIELDS: usize = 8;
/// Digits of the id of a Redis node.
const ID_DIGITS: usize = 40;

/// A line as it stands, each field checked by itself.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: NodeId,
    /// None when it is printed empty.
    pub(super) host: Option<Host>,
    /// 0 only of a node without address.
    pub(super) port: u16,
    pub(super) myself: bool,
    pub(super) role: Role,
    pub(super) health: Health,
    /// Version of its claim to its slots; a replica shows its master's.
    pub(super) config_epoch: u64,
    /// Whether the node that printed the text has a link to it.
    pub(super) connected: bool,
    pub(super) ranges: Vec<SlotRange>,
    /// Open slots; only the node that printed the text tells its own.
    pub(super) open: Vec<Open>,
}

/// A slot between two nodes, as one of them says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The slot.
    pub slot: Slot,
    /// Which way.
    pub flag: Flag,
}

/// What is set on an open slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag<N = NodeId> {
    /// `[slot->-node]`: keys leave for this node, and who asks for one that is not there is sent to it.
    Migrating(N),
    /// `[slot-<-node]`: keys come from this node.
    Importing(N),
}

impl std::fmt::Display for Flag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Migrating(node) => write!(f, "migrating to {node}"),
            Self::Importing(node) => write!(f, "importing from {node}"),
        }
    }
}

/// What a node is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It may own slots.
    Master,
    /// It copies this node.
    ReplicaOf(NodeId),
    /// On its way into the cluster: no member yet.
    Handshake,
    /// `noflags`: the role is not known yet.
    Unknown,
}

/// From good to bad: of several flags the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing is said against it.
    Good,
    /// `fail?`: the node that printed the text cannot reach it.
    Suspected,
    /// `fail`: the cluster agreed.
    Failed,
    /// `noaddr`: nobody knows where it is.
    Addressless,
}

impl Health {
    /// The flag that says so.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Good => "noflags",
            Self::Suspected => "fail?",
            Self::Failed => "fail",
            Self::Addressless => "noaddr",
        }
    }
}

/// Reads one line without its end.
pub(super) fn parse(line: &[u8], dialled: Option<&Host>) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|_| format!("{} is not UTF-8", shown(line)))?;
    let mut fields: Vec<&str> = text.trim_end_matches(' ').split(' ').collect();
    if fields[0] == "vars" {
        return Err("this is a nodes.conf file, not the answer to CLUSTER NODES".to_owned());
    }
    if fields.len() < FIELDS {
        return Err(format!("{} fields where at least {FIELDS} belong: {}", fields.len(), shown(line)));
    }
    let slots = fields.split_off(FIELDS);
    let id = node_id(fields[0])?;
    let (myself, flagged, health) = flags(fields[2])?;
    let role = role(flagged, fields[3])?;
    let (host, port) = address(fields[1], health, if myself { dialled } else { None })?;
    for (what, digits) in [("ping", fields[4]), ("pong", fields[5]), ("epoch", fields[6])] {
        if !is_number(digits) {
            return Err(format!("the {what} field {} is not a number", shown(digits.as_bytes())));
        }
    }
    if !matches!(fields[7], "connected" | "disconnected") {
        return Err(format!("the link state {} is not known", shown(fields[7].as_bytes())));
    }
    let (ranges, open) = slot_fields(&slots)?;
    let config_epoch = fields[6].parse().expect("a number, checked above");
    let connected = fields[7] == "connected";
    Ok(Line { id, host, port, myself, role, health, config_epoch, connected, ranges, open })
}

/// Text for an error message: escaped and cut.
pub(super) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(64)];
    format!("\"{}{}\"", cut.escape_ascii(), if cut.len() < bytes.len() { "…" } else { "" })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

/// A Redis id, or a name this controller gave; an id that lost or gained digits on its way here is refused.
fn node_id(text: &str) -> Result<NodeId, String> {
    let hexadecimal = text.bytes().all(|b| b.is_ascii_hexdigit());
    if hexadecimal && text.len() >= 32 && text.len() != ID_DIGITS {
        return Err(format!("the node id {text:.64} has {} digits, not {ID_DIGITS}", text.len()));
    }
    NodeId::new(text).map_err(told)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn told(invalid: Invalid) -> String {
    invalid.to_string()
}

/// `host:port[@bus][,hostname[,aux=value…]]`. An IPv6 host has no brackets: the last colon divides. Without a host it
/// is the address dialled, else the hostname.
fn address(text: &str, health: Health, dialled: Option<&Host>) -> Result<(Option<Host>, u16), String> {
    let (endpoint, extras) = text.split_once(',').unwrap_or((text, ""));
    let (client, bus) = endpoint.split_once('@').unwrap_or((endpoint, "0"));
    let (host, port) = client.rsplit_once(':').ok_or_else(|| format!("{} is not host:port", shown(text.as_bytes())))?;
    let number = |digits: &str| {
        digits.parse::<u16>().ok().filter(|_| is_number(digits)).ok_or_else(|| {
            format!("{} is not a port of the address {}", shown(digits.as_bytes()), shown(text.as_bytes()))
        })
    };
    number(bus)?;
    let port = number(port)?;
    let hostname = extras.split(',').next().filter(|name| !name.is_empty() && !name.contains('='));
    let hostname = hostname.map(|name| Host::new(name).map_err(told)).transpose()?;
    let host = if host.is_empty() { None } else { Some(Host::new(host).map_err(told)?) };
    let host = host.or_else(|| dialled.cloned()).or(hostname);
    if health == Health::Addressless {
        return Ok((host, port));
    }
    if host.is_none() {
        return Err(format!(
            "the node's host is printed empty ({}): give the address that was dialled",
            shown(text.as_bytes())
        ));
    }
    if port == 0 {
        return Err(format!("port 0 in the address {}: the node has none for clients", shown(text.as_bytes())));
    }
    Ok((host, port))
}

/// What the flags say of the role; the field after them says whose replica it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flagged {
    Master,
    Replica,
    Handshake,
    Unknown,
}

fn flags(text: &str) -> Result<(bool, Flagged, Health), String> {
    let (mut myself, mut role, mut health) = (false, Flagged::Unknown, Health::Good);
    for flag in text.split(',') {
        let mut becomes = |new: Flagged| {
            // A handshake may carry a role that was told, not proved.
            if role == Flagged::Handshake || new == Flagged::Handshake {
                role = Flagged::Handshake;
            } else if role == Flagged::Unknown || role == new {
                role = new;
            } else {
                return Err(format!("the flags {} name two roles", shown(text.as_bytes())));
            }
            Ok(())
        };
        match flag {
            "myself" => myself = true,
            "master" => becomes(Flagged::Master)?,
            "slave" => becomes(Flagged::Replica)?,
            "handshake" => becomes(Flagged::Handshake)?,
            "fail?" => health = health.max(Health::Suspected),
            "fail" => health = health.max(Health::Failed),
            "noaddr" => health = health.max(Health::Addressless),
            "nofailover" | "noflags" => {}
            _ => return Err(format!("the flag {} is not known", shown(flag.as_bytes()))),
        }
    }
    Ok((myself, role, health))
}

fn role(flagged: Flagged, master: &str) -> Result<Role, String> {
    match (flagged, master) {
        (Flagged::Handshake, _) => Ok(Role::Handshake),
        (Flagged::Unknown, _) => Ok(Role::Unknown),
        (Flagged::Master, "-") => Ok(Role::Master),
        (Flagged::Master, _) => Err(format!("a master has the master {}", shown(master.as_bytes()))),
        (Flagged::Replica, "-") => Err("a replica does not say whose".to_owned()),
        (Flagged::Replica, _) => Ok(Role::ReplicaOf(node_id(master)?)),
    }
}

/// `n`, `a-b`, `[n->-id]` (migrating) and `[n-<-id]` (importing); the bracketed are flags, not ranges.
fn slot_fields(fields: &[&str]) -> Result<(Vec<SlotRange>, Vec<Open>), String> {
    let (mut ranges, mut open) = (Vec::new(), Vec::new());
    for field in fields {
        if let Some(inner) = field.strip_prefix('[') {
            let fault = || format!("{} is not an open slot [n->-id] or [n-<-id]", shown(field.as_bytes()));
            let inner = inner.strip_suffix(']').ok_or_else(fault)?;
            let (slot, flag) = if let Some((slot, id)) = inner.split_once("->-") {
                (slot, Flag::Migrating(node_id(id)?))
            } else if let Some((slot, id)) = inner.split_once("-<-") {
                (slot, Flag::Importing(node_id(id)?))
            } else {
                return Err(fault());
            };
            let slot = slot.parse::<SlotRange>().map_err(told)?;
            if slot.count() != 1 {
                return Err(fault());
            }
            open.push(Open { slot: slot.first(), flag });
        } else {
            ranges.push(field.parse::<SlotRange>().map_err(told)?);
        }
    }
    Ok((ranges, open))
}

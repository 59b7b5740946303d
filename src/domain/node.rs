//! A node: an address that serves slots, and the zone it stands in.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Invalid, NodeId, Zone};

/// A host name or IP address without port or brackets, at most 253 bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(Arc<str>);

impl Host {
    /// Checks a host name, an IPv4 or an IPv6 address.
    ///
    /// # Errors
    /// [`Invalid`] naming the fault.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let label = |l: &str| {
            !l.is_empty()
                && l.len() <= 63
                && !l.starts_with('-')
                && !l.ends_with('-')
                && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let is_name = text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label);
        if text.parse::<IpAddr>().is_ok() || is_name {
            Ok(Self(text.into()))
        } else {
            let shown: String = text.chars().take(64).collect();
            Err(Invalid::new("host", format!("{shown:?} is neither a host name nor an IP address")))
        }
    }

    /// The host as text, an IPv6 address without brackets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Host {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.0.as_ref().to_owned()
    }
}

/// What the operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Serves.
    Active,
    /// To be emptied, so that it can be removed.
    Draining,
    /// To be emptied without reading from it: it is dead.
    Lost,
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    /// Its id, unique in the cluster.
    pub id: NodeId,
    /// Where clients reach it.
    pub host: Host,
    /// Port for clients, 1..=65535.
    pub port: u16,
    /// Failure domain.
    pub zone: Option<Zone>,
    /// Desired state.
    pub state: NodeState,
}

/// `host:port`, an IPv6 host in brackets.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.as_str().contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

//! Names and identifiers, valid by construction.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Longest name of a cluster, shard, node or zone, in bytes.
pub const NAME_MAX_BYTES: usize = 64;

/// `[A-Za-z0-9]` first, then `[A-Za-z0-9._-]`, at most [`NAME_MAX_BYTES`]: no control, space, slash
/// or bidi character can hide in a name.
fn check_name(what: &'static str, text: &str) -> Result<(), Invalid> {
    let fault = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > NAME_MAX_BYTES {
        format!("is longer than {NAME_MAX_BYTES} bytes")
    } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        "does not start with a letter or digit".to_owned()
    } else if let Some(bad) = text.chars().find(|&c| !(c.is_ascii_alphanumeric() || "._-".contains(c))) {
        format!("has the character {bad:?}; only letters, digits, '.', '_' and '-' are allowed")
    } else {
        return Ok(());
    };
    let shown: String = text.chars().take(NAME_MAX_BYTES).collect();
    Err(Invalid::new(what, format!("{shown:?} {fault}")))
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name.
            ///
            /// # Errors
            /// [`Invalid`] naming the fault.
            pub fn new(text: &str) -> Result<Self, Invalid> {
                check_name($what, text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name_type!(
    /// The name of a cluster within one controller.
    ClusterName, "cluster name");
name_type!(
    /// The identity of a cluster for clients: it survives a rename, not a deletion.
    ClusterId, "cluster id");
name_type!(
    /// A shard: one primary node and its replicas. Slots belong to shards.
    ShardId, "shard id");
name_type!(
    /// A node. Of an imported Redis cluster: its 40 hex digits.
    NodeId, "node id");
name_type!(
    /// A failure domain of nodes.
    Zone, "zone");
name_type!(
    /// A plan: `p-` and 8 characters.
    PlanId, "plan id");
name_type!(
    /// A token, without its secret.
    TokenId, "token id");
name_type!(
    /// Who acts: the name of a token, or of a part of the controller such as `executor`.
    PrincipalName, "principal name");

/// Whether a text is a number as it is written here: decimal digits, no sign, no leading zeros. Otherwise one thing would
/// have many names.
#[must_use]
pub fn is_plain_number(text: &str) -> bool {
    let plain = text == "0" || !text.starts_with('0');
    plain && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Number of an action within its plan, from 1; shown as `a-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActionId(pub u32);

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a-{}", self.0)
    }
}

impl FromStr for ActionId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        text.strip_prefix("a-")
            .filter(|digits| super::is_plain_number(digits))
            .and_then(|digits| digits.parse().ok())
            .map(Self)
            .ok_or_else(|| Invalid::new("action id", format!("{text:?} is not a-N")))
    }
}

/// Most bytes of a peer's address: a host name, a colon, a port.
const PEER_ADDRESS_MAX_BYTES: usize = 261;

/// Whether a text is `HOST:PORT`, as members of the raft group dial each other.
#[must_use]
pub fn is_peer_address(text: &str) -> bool {
    let port = text.rsplit_once(':').filter(|(_, port)| is_plain_number(port));
    let port = port.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    text.len() <= PEER_ADDRESS_MAX_BYTES && port.is_some_and(|(host, port)| !host.is_empty() && port > 0)
}

/// A member of the raft group.
pub type MemberId = u64;

//! Revisions of resources: `r<n>` in bodies, quoted in `ETag` and `If-Match`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Invalid;

/// A revision of a cluster, node, shard or plan, from 1, +1 per change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^r(0|[1-9][0-9]{0,19})$", example = "r3")]
pub struct Revision(pub u64);

impl Revision {
    /// The entity tag, with its quotes.
    #[must_use]
    pub fn etag(self) -> String {
        format!("\"{self}\"")
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Reads `r<n>`, with or without quotes around it.
impl FromStr for Revision {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        bare.strip_prefix('r')
            .filter(|digits| crate::domain::is_plain_number(digits))
            .and_then(|digits| digits.parse().ok())
            .map(Self)
            .ok_or_else(|| {
                let shown: String = text.chars().take(40).collect();
                Invalid::new("revision", format!("{shown:?} is not \"r<n>\""))
            })
    }
}

impl TryFrom<String> for Revision {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        assert_eq!("\"r17\"", Revision(17).etag());
        assert_eq!(Ok(Revision(17)), "\"r17\"".parse());
        assert_eq!(Ok(Revision(17)), "r17".parse());
        for bad in ["", "r", "17", "r-1", "r01", "r+1", "r1 ", "\"r1", "W/\"r1\"", "r18446744073709551616", "*"] {
            assert!(bad.parse::<Revision>().is_err(), "{bad}");
        }
    }
}

//! The zone of a node by its host name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Host, Invalid, Zone};

/// What stands for the zone.
const CAPTURE: &str = "{zone}";

/// A host name with one `{zone}` in the place of the zone, and `*` for any characters: `*.{zone}.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ZonePattern {
    before: String,
    after: String,
}

impl ZonePattern {
    /// The zone that a host's name tells; none when it is of another form. A zone has no dot, and is as long as it can be.
    #[must_use]
    pub fn zone_of(&self, host: &Host) -> Option<Zone> {
        let host = host.as_str();
        // What stands before the zone takes as much as it can.
        for start in host.char_indices().map(|(at, _)| at).rev() {
            if !matches(&self.before, &host[..start]) {
                continue;
            }
            let label = host[start..].find('.').map_or(host.len(), |dot| start + dot);
            // The longest first: a pattern may end the zone within a label.
            for end in (start + 1..=label).rev() {
                if matches(&self.after, &host[end..]) {
                    return Zone::new(&host[start..end]).ok();
                }
            }
        }
        None
    }
}

/// Whether a text is of a form in which `*` stands for any characters, also none.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

impl FromStr for ZonePattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let shown: String = text.chars().take(80).collect();
        let fault = |why: &str| Err(Invalid::new("zone pattern", format!("{shown:?} {why}")));
        if text.len() > 253 {
            return fault("is longer than a host name");
        }
        let Some((before, after)) = text.split_once(CAPTURE) else { return fault("has no {zone}") };
        if after.contains(CAPTURE) {
            return fault("has more than one {zone}");
        }
        if before.ends_with('*') || after.starts_with('*') {
            return fault("has a * beside {zone}: where the zone ends cannot be told");
        }
        let known = |c: char| c.is_ascii_alphanumeric() || "-_.*:".contains(c);
        if let Some(bad) = before.chars().chain(after.chars()).find(|c| !known(*c)) {
            return fault(&format!("has the character {bad:?}, which no host name has"));
        }
        Ok(Self { before: before.to_owned(), after: after.to_owned() })
    }
}

impl fmt::Display for ZonePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{CAPTURE}{}", self.before, self.after)
    }
}

impl TryFrom<String> for ZonePattern {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<ZonePattern> for String {
    fn from(value: ZonePattern) -> Self {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_told_by_host_names() {
        for (pattern, host, zone) in [
            ("*.{zone}.example.com", "redis-1.eu-1.example.com", Some("eu-1")),
            ("*.{zone}.example.com", "a.b.eu-1.example.com", Some("eu-1")),
            ("*.{zone}.example.com", "eu-1.example.com", None),
            ("*.{zone}.example.com", "redis-1.eu-1.example.org", None),
            ("{zone}-*", "eu1-redis-7", Some("eu1-redis")),
            ("redis-{zone}.*", "redis-b.internal.test", Some("b")),
            ("{zone}", "eu", Some("eu")),
            ("{zone}", "eu.example", None),
            ("*-{zone}", "n-1-west", Some("west")),
            ("10.{zone}.*", "10.7.0.1", Some("7")),
        ] {
            let pattern: ZonePattern = pattern.parse().unwrap();
            let found = pattern.zone_of(&Host::new(host).unwrap());
            assert_eq!(found.as_ref().map(Zone::as_str), zone, "{pattern} on {host}");
            assert_eq!(pattern.to_string().parse::<ZonePattern>().unwrap(), pattern);
        }
    }

    #[test]
    fn patterns_that_tell_no_zone_are_refused() {
        for (bad, words) in [
            ("*.example", "has no {zone}"),
            ("{zone}.{zone}", "more than one"),
            ("*{zone}.a", "beside"),
            ("{zone}*", "beside"),
            ("a b.{zone}", "' '"),
            (&"x".repeat(300), "longer"),
        ] {
            assert!(bad.parse::<ZonePattern>().unwrap_err().why.contains(words), "{bad}");
        }
    }
}

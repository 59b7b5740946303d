//! Where a server is reached: a host and a port.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Host, Invalid, Node};

/// `host:port`, an IPv6 host in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// The host.
    pub host: Host,
    /// The port, 1..=65535.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        if host.as_str().contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The last colon divides; the brackets of an IPv6 host may be left out.
impl FromStr for Address {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let shown: String = text.chars().take(80).collect();
        let fault = |why: &str| Invalid::new("address", format!("{shown:?} {why}"));
        let (host, port) = text.rsplit_once(':').ok_or_else(|| fault("is not HOST:PORT"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|port| digits && *port > 0);
        let port = port.ok_or_else(|| fault("has no port in 1..=65535"))?;
        Ok(Self { host: Host::new(host)?, port })
    }
}

impl From<&Node> for Address {
    fn from(node: &Node) -> Self {
        Self { host: node.host.clone(), port: node.port }
    }
}

impl TryFrom<String> for Address {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(value: Address) -> Self {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, host, port, shown) in [
            ("10.0.0.1:6379", "10.0.0.1", 6379, "10.0.0.1:6379"),
            ("[::1]:1", "::1", 1, "[::1]:1"),
            ("2001:db8::7:65535", "2001:db8::7", 65535, "[2001:db8::7]:65535"),
            ("n-1.example.test:7", "n-1.example.test", 7, "n-1.example.test:7"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse::<Address>().unwrap(), address);
        }
        for bad in ["", "host", "host:", "host:0", "host:65536", "host:+1", ":1", "a b:1", "http://h:1", "u@h:1"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}

//! How servers are reached: with which credentials, over TLS or not, and which addresses are dialled at all.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::failpoints::Failpoints;

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, for the server that it is meant for.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Who the driver is to the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The ACL user; none for servers that know a password only (`requirepass`).
    pub username: Option<String>,
    /// Its password.
    pub password: Secret,
}

/// Certificates, as the PEM text of files.
#[derive(Clone)]
pub struct Tls {
    /// Authorities that the servers' certificates are checked against.
    pub ca: Vec<u8>,
    /// The driver's own certificate and key, where the servers ask for one.
    pub identity: Option<(Vec<u8>, Secret)>,
    /// The name that the servers' certificates carry; the node's host when absent.
    pub server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is; the default user without a password when absent.
    pub credentials: Option<Credentials>,
    /// TLS, where the servers speak it.
    pub tls: Option<Tls>,
    /// Which addresses may be dialled.
    pub networks: Networks,
    /// Larger keys are moved only when the warning `big-key` was acknowledged: their move blocks both servers.
    pub big_key_bytes: u64,
    /// How long a server may be kept from its clients at a time: what is sent to it in one go is cut to that.
    pub busy: Duration,
    /// One ACL user per term: what a deposed leader still sends is refused. For servers whose users are kept by nothing
    /// else, and where [`Self::credentials`] may change them.
    pub fence_with_acl: bool,
    /// How many bytes an answer may have, where more are not asked for.
    pub reply_bytes: u64,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a reply may take, where the call names no other time.
    pub call_timeout: Duration,
    /// What tests do between the steps of a move.
    pub failpoints: Failpoints,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            credentials: None,
            tls: None,
            networks: Networks::default(),
            big_key_bytes: 64 << 20,
            busy: Duration::from_millis(1),
            fence_with_acl: false,
            reply_bytes: 32 << 20,
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_secs(5),
            failpoints: Failpoints::default(),
        }
    }
}

/// A network, as `10.0.0.0/8`; one address without the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is part of it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (mine.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (mine.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not a network such as 10.0.0.0/8 or fd00::/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| fault()))?;
        if bits > most {
            return Err(fault());
        }
        Ok(Self { address, bits })
    }
}

/// Which addresses the driver dials. Nodes are named by whoever may write to the controller, so that without this a
/// node's address would be a way to reach what only the controller can.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    /// Only these; any when empty, but for what [`Self::check`] refuses always.
    pub allowed: Vec<Network>,
    /// Where the controller itself listens.
    pub own: Vec<SocketAddr>,
}

impl Networks {
    /// Whether an address may be dialled.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        let ip = address.ip().to_canonical();
        let refused = match ip {
            _ if ip.is_unspecified() => "is no address of a server",
            _ if ip.is_multicast() => "is a multicast address",
            IpAddr::V4(ip) if ip.is_link_local() || ip == Ipv4Addr::BROADCAST => "is link-local",
            // Where clouds keep the credentials of their machines.
            IpAddr::V4(ip) if ip == Ipv4Addr::new(100, 100, 100, 200) => "is a metadata service",
            IpAddr::V6(ip) if ip.is_unicast_link_local() => "is link-local",
            IpAddr::V6(ip) if ip == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254) => "is a metadata service",
            _ if self.is_own(SocketAddr::new(ip, address.port())) => "is the controller itself",
            _ if !self.allowed.is_empty() && !self.allowed.iter().any(|network| network.contains(ip)) => {
                "is in none of the allowed networks"
            }
            _ => return Ok(()),
        };
        Err(format!("{address} {refused}"))
    }

    fn is_own(&self, address: SocketAddr) -> bool {
        self.own.iter().any(|own| {
            let ip = own.ip().to_canonical();
            own.port() == address.port()
                && (ip == address.ip()
                    || ip.is_unspecified() && address.ip().is_loopback()
                    || ip.is_loopback() && address.ip().is_loopback())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_nothing_serves_are_refused_always() {
        let networks = Networks { allowed: Vec::new(), own: vec!["127.0.0.1:7373".parse().unwrap()] };
        let refused = [
            ("169.254.169.254:80", "link-local"),
            ("[fe80::1]:6379", "link-local"),
            ("[::ffff:169.254.169.254]:80", "link-local"),
            ("0.0.0.0:6379", "no address"),
            ("[::]:6379", "no address"),
            ("224.0.0.1:6379", "multicast"),
            ("[ff02::1]:6379", "multicast"),
            ("[fd00:ec2::254]:80", "metadata"),
            ("100.100.100.200:80", "metadata"),
            ("127.0.0.1:7373", "itself"),
            ("[::ffff:127.0.0.1]:7373", "itself"),
            ("127.0.0.2:7373", "itself"),
        ];
        for (address, why) in refused {
            let told = networks.check(address.parse().unwrap()).unwrap_err();
            assert!(told.contains(why), "{address}: {told}");
        }
        for address in ["127.0.0.1:6379", "10.1.2.3:7373", "[fd00::1]:6379"] {
            assert_eq!(networks.check(address.parse().unwrap()), Ok(()));
        }
    }

    #[test]
    fn only_what_is_in_a_named_network_is_dialled() {
        let networks =
            Networks { allowed: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/16".parse().unwrap()], own: vec![] };
        for (address, allowed) in [
            ("10.255.0.1:1", true),
            ("11.0.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", true),
            ("[fd00::9]:1", true),
            ("[fd01::9]:1", false),
            ("127.0.0.1:1", false),
        ] {
            assert_eq!(networks.check(address.parse().unwrap()).is_ok(), allowed, "{address}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains("1.2.3.4".parse().unwrap()));
        for bad in ["10.0.0.0/33", "10.0.0/8", "", "::/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Network>().unwrap_err().contains("network"), "{bad}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let credentials = Credentials { username: Some("mover".into()), password: Secret::new("canary") };
        let tls = Tls { ca: b"canary".to_vec(), identity: Some((vec![], Secret::new("canary"))), server_name: None };
        let settings = Settings { credentials: Some(credentials), tls: Some(tls), ..Settings::default() };
        let shown = format!("{settings:?}");
        assert!(!shown.contains("canary") && shown.contains("mover"), "{shown}");
    }
}

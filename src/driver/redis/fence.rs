//! Shuts the leaders of earlier terms out: each term has an ACL user of its own on every server, and its first act is to
//! delete those of the terms before it. That ends their connections, and refuses what they still send.

use std::fmt::Write as _;

use futures::future::{BoxFuture, join_all};
use rand::Rng as _;
use tracing::warn;

use super::link::{Link, LinkError};
use super::links::Links;
use super::settings::{Credentials, Secret};
use super::sight::{Fault, members};
use super::value::{command, list, text};
use crate::domain::{ClusterName, Host, Topology, advised};
use crate::driver::{DriverError, Lease};

/// What the driver does with servers, and what `MIGRATE` does at the other end in its name.
const COMMANDS: [&str; 13] = [
    "+cluster",
    "+migrate",
    "+restore-asking",
    "+select",
    "+info",
    "+role",
    "+ping",
    "+asking",
    "+memory|usage",
    "+dump",
    "+pexpiretime",
    "+config|get",
    "+command",
];

/// The user of a term.
#[derive(Clone, Debug)]
pub(super) struct TermUser {
    pub(super) credentials: Credentials,
    prefix: String,
    term: u64,
}

impl TermUser {
    pub(super) fn new(cluster: &ClusterName, term: u64) -> Self {
        let prefix = format!("slotkeeper-{cluster}-t");
        let mut secret = [0_u8; 32];
        rand::rng().fill_bytes(&mut secret);
        let mut password = String::new();
        for byte in secret {
            write!(password, "{byte:02x}").expect("a text takes what is written");
        }
        let credentials = Credentials { username: Some(format!("{prefix}{term}")), password: Secret::new(&password) };
        Self { credentials, prefix, term }
    }

    /// Whether it is the user of this term.
    pub(super) const fn is_of(&self, term: u64) -> bool {
        self.term == term
    }

    /// The term of a user of the same cluster.
    fn term_of(&self, user: &str) -> Option<u64> {
        user.strip_prefix(&self.prefix)?.parse().ok()
    }
}

/// Makes the user of this term on every node and deletes those of earlier ones. A node that cannot be reached is fenced
/// when it is reached: before that nobody of this term commands it.
pub(super) async fn fence(
    links: &Links,
    cluster: &ClusterName,
    topology: &Topology,
    lease: &Lease,
) -> Result<(), DriverError> {
    if !links.settings().fence_with_acl {
        return Ok(());
    }
    lease.held().await;
    // The same in the whole term: what moves slots need not let those go who come and go, nor the other way round.
    let user = links.user_in_the_making(cluster, lease.term());
    let mut asked: Vec<BoxFuture<'_, Result<(), LinkError>>> = Vec::new();
    for node in topology.shards.iter().flat_map(members) {
        let user = user.clone();
        asked.push(Box::pin(async move { admit(links, &user, &node.host, node.port).await }));
    }
    for answer in join_all(asked).await {
        match answer {
            Ok(()) => {}
            Err(error @ LinkError::Unreachable { .. }) => {
                warn!(%cluster, term = lease.term(), %error, "fenced when it is reached");
            }
            Err(error) if error.passes() || error == LinkError::SteppedDown => {
                return Err(DriverError::Retry(error.to_string()));
            }
            Err(error) => {
                let why = format!("earlier leaders cannot be shut out: {error}");
                let advice =
                    "let the user of [redis] change users (+acl), or set fence_with_acl = false on all members";
                return Err(DriverError::Pause(advised(&why, &format!("{advice}; then rollout resume"))));
            }
        }
    }
    links.become_user(cluster, user);
    Ok(())
}

/// Makes the user on one server, unless a later term has been there.
pub(super) async fn admit(links: &Links, user: &TermUser, host: &Host, port: u16) -> Result<(), LinkError> {
    let link = links.dial_as_configured(host, port).await?;
    if later(&link, user).await? {
        return Err(LinkError::SteppedDown);
    }
    let mut make = command(&["ACL", "SETUSER"]);
    let name = user.credentials.username.as_deref().unwrap_or_default();
    make.arg(name);
    make.arg("reset").arg("on").arg("~*").arg(format!(">{}", user.credentials.password.expose())).arg(&COMMANDS);
    link.call(&make).await?;
    // Looked at only now: of two terms that come at the same time, whichever comes second sees both.
    if later(&link, user).await? {
        link.call(command(&["ACL", "DELUSER"]).arg(name)).await?;
        return Err(LinkError::SteppedDown);
    }
    Ok(())
}

/// Whether a later term has been at a server; else those of earlier terms are deleted there.
async fn later(link: &Link, user: &TermUser) -> Result<bool, LinkError> {
    let users = link.call(&command(&["ACL", "USERS"])).await?;
    let users: Vec<&str> =
        list(&users).ok_or_else(|| link.unexpected("list of users"))?.iter().filter_map(text).collect();
    if users.iter().filter_map(|name| user.term_of(name)).any(|term| term > user.term) {
        return Ok(true);
    }
    let earlier: Vec<&str> =
        users.into_iter().filter(|name| user.term_of(name).is_some_and(|term| term < user.term)).collect();
    if !earlier.is_empty() {
        link.call(command(&["ACL", "DELUSER"]).arg(&earlier)).await?;
    }
    Ok(false)
}

impl From<Fault> for DriverError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Passing(why) => Self::Retry(why),
            Fault::Lasting(why) => Self::Pause(why),
        }
    }
}

//! The connections of a controller to the servers: kept between calls, and dropped all at once when a term is over.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::fence::{TermUser, admit};
use super::link::{Link, LinkError, printed};
use super::settings::{Credentials, Settings};
use crate::domain::{ClusterName, Host, Node};

/// Whose connections, and to where.
type Key = (Option<ClusterName>, String);

/// Connections, by cluster and address.
#[derive(Debug)]
pub struct Links {
    settings: Settings,
    term: Mutex<Term>,
}

/// What belongs to one term of leadership.
#[derive(Debug)]
struct Term {
    over: watch::Sender<bool>,
    shared: BTreeMap<Key, Arc<Link>>,
    idle: BTreeMap<Key, Vec<Link>>,
    /// Users that a fence made, by cluster: from then on who the driver is there.
    users: BTreeMap<ClusterName, TermUser>,
    /// Those that a fence makes, or has made.
    making: BTreeMap<ClusterName, TermUser>,
}

impl Term {
    fn new() -> Self {
        Self {
            over: watch::Sender::new(false),
            shared: BTreeMap::new(),
            idle: BTreeMap::new(),
            users: BTreeMap::new(),
            making: BTreeMap::new(),
        }
    }
}

/// Idle connections kept to one server.
const IDLE_MAX: usize = 8;

impl Links {
    /// None yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, term: Mutex::new(Term::new()) }
    }

    /// How servers are reached.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection that is shared with everybody who looks at the same node: for commands that take no time.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn shared(&self, cluster: &ClusterName, node: &Node) -> Result<Arc<Link>, LinkError> {
        self.shared_at(Some(cluster), &node.host, node.port).await
    }

    /// As [`Self::shared`], to a server that need not be a member of a cluster.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn shared_at(
        &self,
        cluster: Option<&ClusterName>,
        host: &Host,
        port: u16,
    ) -> Result<Arc<Link>, LinkError> {
        let key = (cluster.cloned(), printed(host, port));
        if let Some(link) = self.locked(|term| term.shared.get(&key).filter(|link| !link.is_broken()).cloned()) {
            return Ok(link);
        }
        let link = Arc::new(self.dial(cluster, host, port).await?);
        self.locked(|term| {
            // Dialled before the term ended: it gives nothing but errors, and is not kept.
            if !link.is_broken() {
                term.shared.insert(key, Arc::clone(&link));
            }
        });
        Ok(link)
    }

    /// A connection of one's own, for as long as it is held: `MIGRATE` keeps everything behind it waiting.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn own(self: &Arc<Self>, cluster: &ClusterName, node: &Node) -> Result<Own, LinkError> {
        let key = (Some(cluster.clone()), printed(&node.host, node.port));
        let kept = self.locked(|term| {
            let idle = term.idle.get_mut(&key)?;
            while let Some(link) = idle.pop() {
                if !link.is_broken() {
                    return Some(link);
                }
            }
            None
        });
        let link = match kept {
            Some(link) => link,
            None => self.dial(Some(cluster), &node.host, node.port).await?,
        };
        Ok(Own { link: Some(link), key, links: Arc::clone(self) })
    }

    /// Who the driver is to a cluster's servers.
    #[must_use]
    pub fn credentials(&self, cluster: Option<&ClusterName>) -> Option<Credentials> {
        let user = cluster.and_then(|cluster| self.user(cluster));
        user.map(|user| user.credentials).or_else(|| self.settings.credentials.clone())
    }

    /// Whether the driver has a user of its own there, for this term.
    pub(super) fn is_fenced(&self, cluster: &ClusterName) -> bool {
        self.user(cluster).is_some()
    }

    /// The user that a fence makes for a cluster in a term: always the same.
    pub(super) fn user_in_the_making(&self, cluster: &ClusterName, in_term: u64) -> TermUser {
        self.locked(|term| {
            let made = term.making.get(cluster).filter(|user| user.is_of(in_term)).cloned();
            made.unwrap_or_else(|| {
                let user = TermUser::new(cluster, in_term);
                term.making.insert(cluster.clone(), user.clone());
                user
            })
        })
    }

    /// Connects to a cluster's servers as this user from now on, until the term is over.
    pub(super) fn become_user(&self, cluster: &ClusterName, user: TermUser) {
        self.locked(|term| {
            let name = user.credentials.username.clone();
            let before = term.users.insert(cluster.clone(), user);
            if before.is_some_and(|before| before.credentials.username == name) {
                return;
            }
            term.shared.retain(|(of, _), _| of.as_ref() != Some(cluster));
            term.idle.retain(|(of, _), _| of.as_ref() != Some(cluster));
        });
    }

    /// Connects with the credentials of the settings, whoever the driver has become; kept by nobody.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn dial_as_configured(&self, host: &Host, port: u16) -> Result<Link, LinkError> {
        let over = self.locked(|term| term.over.subscribe());
        Link::dial(&self.settings, self.settings.credentials.as_ref(), (host, port), over).await
    }

    /// Drops every connection; what is waiting for a reply ends with [`LinkError::SteppedDown`].
    pub fn step_down(&self) {
        let ended = self.locked(|term| std::mem::replace(term, Term::new()));
        ended.over.send_replace(true);
    }

    async fn dial(&self, cluster: Option<&ClusterName>, host: &Host, port: u16) -> Result<Link, LinkError> {
        let over = self.locked(|term| term.over.subscribe());
        let Some(user) = cluster.and_then(|cluster| self.user(cluster)) else {
            return Link::dial(&self.settings, self.settings.credentials.as_ref(), (host, port), over).await;
        };
        match Link::dial(&self.settings, Some(&user.credentials), (host, port), over.clone()).await {
            // It could not be reached when this term began, or lost its users with a restart.
            Err(LinkError::Denied { .. }) => {
                admit(self, &user, host, port).await?;
                Link::dial(&self.settings, Some(&user.credentials), (host, port), over).await
            }
            dialled => dialled,
        }
    }

    fn user(&self, cluster: &ClusterName) -> Option<TermUser> {
        self.locked(|term| term.users.get(cluster).cloned())
    }

    fn locked<T>(&self, f: impl FnOnce(&mut Term) -> T) -> T {
        f(&mut self.term.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection that nobody else uses; given back when it is dropped whole, closed when a call was given up midway.
#[derive(Debug)]
pub struct Own {
    link: Option<Link>,
    key: Key,
    links: Arc<Links>,
}

impl Deref for Own {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("only dropping takes it")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let Some(link) = self.link.take() else { return };
        if link.is_broken() || link.is_waiting() {
            return;
        }
        let key = std::mem::take(&mut self.key);
        self.links.locked(|term| {
            let idle = term.idle.entry(key).or_default();
            if idle.len() < IDLE_MAX {
                idle.push(link);
            }
        });
    }
}

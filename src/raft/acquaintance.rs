//! What this member knows of the others' identities, and tells them of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError, RwLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::watch;

use super::FatalHook;
use super::identity::{Known, Reach, Starts, Verdict, judge};
use super::store::{Identity, Store};
use crate::domain::MemberId;

/// Who a request or an answer is from.
pub(super) const GROUP_HEADER: &str = "x-slotkeeper-group";
/// See [`GROUP_HEADER`].
pub(super) const MEMBER_HEADER: &str = "x-slotkeeper-member";
/// See [`Identity::incarnation`].
pub(super) const INCARNATION_HEADER: &str = "x-slotkeeper-incarnation";
/// See [`Starts`]. A member of an earlier version does not send it.
pub(super) const STARTS_HEADER: &str = "x-slotkeeper-starts";

/// See [`Reach`]. A member of an earlier version does not send it.
pub(super) const REACH_HEADER: &str = "x-slotkeeper-reach";

/// HTTP status of the answer to one who is outside the group.
pub(super) const FOREIGN: u16 = 403;
/// HTTP status of the answer to a member that comes back with another store, an old one or a copy.
pub(super) const OTHER_STORE: u16 = 409;
/// HTTP status of the answer to a member that was removed from the group.
pub(super) const REMOVED: u16 = 410;

/// Why a request or an answer is not heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stranger {
    /// It is from no member of this group.
    #[error("{0}")]
    Outside(String),
    /// It is from a member with another store than before.
    #[error(
        "member {0} has another store than before: a member that lost its data has forgotten its votes and what it \
         acknowledged, and comes back under a new id"
    )]
    OtherStore(MemberId),
    /// It is from a copy of a member's store, or from an older one.
    #[error(
        "member {0} was met with a later start of its store, or further: this is an old store or a copy, which lacks \
         what the member acknowledged since"
    )]
    Copy(MemberId),
    /// It is from a later start of a member's store: that is heard where the member can be reached.
    #[error("member {0} was started again, and was not found at its address yet")]
    Unmet(MemberId),
    /// Who it is from cannot be made durable.
    #[error(transparent)]
    Store(#[from] io::Error),
}

/// Which way somebody's identity came here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With an answer: we asked at the member's own address.
    Answer,
    /// With a request, from anywhere.
    Request,
}

/// See the head of this file.
pub(super) struct Acquaintance {
    pub(super) identity: Identity,
    pub(super) store: Store,
    own: RwLock<(HeaderMap, Reach)>,
    peers: Mutex<BTreeMap<MemberId, String>>,
    /// What is stored of the peers.
    kept: Mutex<BTreeMap<MemberId, String>>,
    removed: watch::Sender<Option<String>>,
    on_fatal: FatalHook,
}

impl Acquaintance {
    pub(super) fn new(
        identity: Identity,
        starts: &Starts,
        at_start: u64,
        store: Store,
        peers: BTreeMap<MemberId, String>,
        on_fatal: FatalHook,
    ) -> Self {
        let reach = Reach { at_start, durable: 0 };
        let value = |text: &str| HeaderValue::from_str(text).expect("identities are printable");
        let own = [
            (GROUP_HEADER, value(&identity.group_id)),
            (MEMBER_HEADER, value(&identity.member_id.to_string())),
            (INCARNATION_HEADER, value(&identity.incarnation)),
            (STARTS_HEADER, value(&starts.header())),
            (REACH_HEADER, value(&reach.header())),
        ];
        let own = own.map(|(name, value)| (HeaderName::from_static(name), value)).into_iter().collect();
        Self {
            identity,
            store,
            own: RwLock::new((own, reach)),
            kept: Mutex::new(peers.clone()),
            peers: Mutex::new(peers),
            removed: watch::Sender::new(None),
            on_fatal,
        }
    }

    /// Tells the others, from now on, that everything up to this applied index is committed and on this member's disk:
    /// that is made so first.
    pub(super) async fn tell_reach(&self, applied: u64) -> io::Result<()> {
        if applied <= self.own.read().unwrap_or_else(PoisonError::into_inner).1.durable {
            return Ok(());
        }
        self.store.flush().await?;
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        own.1.durable = applied;
        let value = HeaderValue::from_str(&own.1.header()).expect("numbers are printable");
        own.0.insert(HeaderName::from_static(REACH_HEADER), value);
        Ok(())
    }

    /// Makes durable how far the others said that they are.
    pub(super) async fn keep_reaches(&self) -> io::Result<()> {
        let peers = self.peers.lock().expect("held for a moment only").clone();
        if peers == *self.kept.lock().expect("held for a moment only") {
            return Ok(());
        }
        self.save(peers).await
    }

    async fn save(&self, peers: BTreeMap<MemberId, String>) -> io::Result<()> {
        self.store.save_peers(&peers).await?;
        *self.kept.lock().expect("held for a moment only") = peers;
        Ok(())
    }

    /// The headers of every request and answer.
    pub(super) fn headers(&self) -> HeaderMap {
        self.own.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Checks that it is from this group.
    pub(super) fn check_group(&self, headers: &HeaderMap) -> Result<(), Stranger> {
        let (group, ours) = (text(headers, GROUP_HEADER), &self.identity.group_id);
        if group == ours {
            return Ok(());
        }
        Err(Stranger::Outside(format!("this is a member of group {ours}, not {group:?}")))
    }

    /// Checks that a request or answer comes from the group, and from the store that its member had from the first, at
    /// the latest start of it.
    pub(super) async fn check(&self, headers: &HeaderMap, way: Way) -> Result<MemberId, Stranger> {
        self.check_group(headers)?;
        let outside = |why: String| Stranger::Outside(why);
        let member: MemberId =
            text(headers, MEMBER_HEADER).parse().map_err(|_| outside(format!("{MEMBER_HEADER} is no member id")))?;
        let incarnation = text(headers, INCARNATION_HEADER);
        if incarnation.is_empty() {
            return Err(outside(format!("{INCARNATION_HEADER} is missing")));
        }
        let starts = match text(headers, STARTS_HEADER) {
            "" => None,
            text => {
                Some(Starts::parse(text).ok_or_else(|| outside(format!("{STARTS_HEADER} cannot be read: {text:?}")))?)
            }
        };
        let reach = match text(headers, REACH_HEADER) {
            "" => None,
            text => {
                Some(Reach::parse(text).ok_or_else(|| outside(format!("{REACH_HEADER} cannot be read: {text:?}")))?)
            }
        };
        let learned = {
            let mut peers = self.peers.lock().expect("held for a moment only");
            let known = peers.get(&member);
            match judge(known.map(String::as_str), incarnation, starts.as_ref(), reach) {
                Verdict::Same => {
                    if let Some(text) = known.zip(reach).and_then(|(known, reach)| Known::reached(known, reach)) {
                        peers.insert(member, text);
                    }
                    return Ok(member);
                }
                Verdict::OtherStore => return Err(Stranger::OtherStore(member)),
                Verdict::Copy => return Err(Stranger::Copy(member)),
                Verdict::Later(_) if known.is_some() && way == Way::Request => return Err(Stranger::Unmet(member)),
                Verdict::Later(text) => {
                    peers.insert(member, text);
                    peers.clone()
                }
            }
        };
        self.save(learned).await?;
        Ok(member)
    }

    /// A member's store went back behind what it acknowledged: it is not heard again.
    pub(super) async fn bar(&self, member: MemberId) -> io::Result<()> {
        let barred = {
            let mut peers = self.peers.lock().expect("held for a moment only");
            let known = Known::barred(peers.get(&member).map_or("", String::as_str));
            peers.insert(member, known);
            peers.clone()
        };
        self.save(barred).await
    }

    /// A peer refuses this store for good: nothing is served from it again, also after another start.
    pub(super) async fn refused(&self, by: MemberId, why: &str) {
        let reason = format!("member {by} refuses this member: {why}");
        self.keep_refusal(&reason).await;
        self.on_fatal.call(&reason);
    }

    /// This member was removed from the group: it ends, but in order.
    pub(super) async fn left(&self, why: &str) {
        if self.removed.borrow().is_none() {
            self.keep_refusal(why).await;
            self.removed.send_replace(Some(why.to_owned()));
        }
    }

    /// Why this member was removed, once it knows.
    pub(super) fn removed(&self) -> watch::Receiver<Option<String>> {
        self.removed.subscribe()
    }

    async fn keep_refusal(&self, why: &str) {
        if let Err(error) = self.store.save_refusal(why).await {
            tracing::warn!("the refusal cannot be kept: {error}");
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

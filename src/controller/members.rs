//! The members of the raft group: who they are, and how one comes, gets a vote and goes.

use std::collections::BTreeMap;

use super::{Caller, ControlError, Controller, Op, fresh, tokens};
use crate::domain::{Instant, MemberId, Principal, Rejection, TokenId};
use crate::raft::{GroupChange, GroupError};
use crate::state::{Invited, MemberChange, Noted};

/// How long a join token works.
const JOIN_WITHIN_MS: u64 = 24 * 3600 * 1000;

/// What a member is to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It has a vote.
    Voter,
    /// It receives everything and has no vote.
    Learner,
    /// It may join, and has not yet.
    Invited,
}

/// A member of the group, or one that may become it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Where the others reach it.
    pub address: String,
    /// What it is.
    pub standing: Membership,
    /// Whether it leads.
    pub leader: bool,
    /// Index of the last entry it is known to have; none where no leader says.
    pub matched: Option<u64>,
    /// Entries it lacks.
    pub lag: Option<u64>,
    /// Milliseconds since it last answered the leader.
    pub last_contact_ms: Option<u64>,
}

/// A member that may join, and what it joins with.
pub struct Invitation {
    /// Its number.
    pub member: MemberId,
    /// `sk_<id>_<secret>`; shown this once.
    pub token: String,
    /// When the token stops working.
    pub expires_at: Instant,
}

/// How far a removal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The member is out of the group.
    Done,
    /// It was asked for by force, and those that would have to agree do not answer: it is done when they do, and the
    /// group may take no writes until then.
    Pending,
}

/// What a process is told that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The group.
    pub group_id: String,
    /// Its own number.
    pub member: MemberId,
    /// Where the others will reach it.
    pub address: String,
    /// Every member's peer address.
    pub members: BTreeMap<MemberId, String>,
}

impl From<GroupError> for ControlError {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::NotFound(member) => Rejection::not_found("member", &member).into(),
            GroupError::Refused(why) => Rejection::conflict(why).into(),
            // Only a removal by force waits, and says so itself.
            GroupError::Pending(_) => Self::Timeout,
            GroupError::Raft(error) => error.into(),
        }
    }
}

impl Controller {
    /// Every member, ascending, as the leader knows them; the answering member's knowledge where there is none.
    pub async fn members(&self) -> Vec<Member> {
        let invited = self.invited();
        let known = self.group().members().await;
        // One that was not heard of for long is none, here as everywhere.
        let led = self.status().leader.is_some();
        let (mut members, mut known_ids) = (Vec::new(), Vec::new());
        for status in known {
            known_ids.push(status.id);
            members.push(Member {
                id: status.id,
                address: status.address,
                standing: if status.voter { Membership::Voter } else { Membership::Learner },
                leader: status.leader && led,
                matched: status.matched,
                lag: status.lag,
                last_contact_ms: status.last_contact_ms,
            });
        }
        let waiting = invited.into_iter().filter(|(id, _)| !known_ids.contains(id));
        members.extend(waiting.map(|(id, invited)| Member {
            id,
            address: invited.address,
            standing: Membership::Invited,
            leader: false,
            matched: None,
            lag: None,
            last_contact_ms: None,
        }));
        members.sort_by_key(|member| member.id);
        members
    }

    /// Makes a number and a token for a new member. It is a member once it has joined.
    ///
    /// # Errors
    /// [`ControlError`]; a repeated request is refused, since the token cannot be shown again.
    pub async fn add_member(&self, caller: &Caller, address: &str) -> Result<Invitation, ControlError> {
        self.linearize().await?;
        let members = self.group().members().await;
        if let Some(member) = members.iter().find(|member| member.address == address) {
            return Err(Rejection::conflict(format!("member {} is at {address} already", member.id)).into());
        }
        if let [alone] = members.as_slice()
            && alone.address.ends_with(":0")
        {
            let why = "this group's one member has no address for others: start it again with --peer-listen HOST:PORT";
            return Err(Rejection::conflict(why).into());
        }
        let above = members.iter().map(|member| member.id).max().unwrap_or_default();
        let token = TokenId::new(&format!("join{}", fresh::token_id(&self.random()))).expect("made of name characters");
        let (secret, expires_at) = (fresh::secret(&self.random()), self.now().plus_ms(JOIN_WITHIN_MS));
        let change = MemberChange::Add {
            address: address.to_owned(),
            above,
            token: token.clone(),
            secret_sha256: tokens::sha256(&secret),
            expires_at,
        };
        let receipt = self.submit(caller, Op::Member { change }).await?;
        let member = receipt.member.unwrap_or_default();
        if receipt.repeated {
            let why = format!(
                "member {member} was added by an earlier request with this idempotency key, and its token was shown \
                 then: remove it and add another"
            );
            return Err(Rejection::conflict(why).into());
        }
        Ok(Invitation { member, token: format!("sk_{token}_{secret}"), expires_at })
    }

    /// Takes the member in whose join token the principal has: as a learner. Safe to repeat.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn join(&self, by: &Principal) -> Result<Joined, ControlError> {
        self.linearize().await?;
        let invited = self.invited().into_iter().find(|(_, invited)| by.token.as_ref() == Some(&invited.token));
        let Some((id, Invited { address, .. })) = invited else {
            return Err(Rejection::conflict("this token is for no member that may still join").into());
        };
        self.group().change_group(GroupChange::AddLearner { id, address: address.clone() }).await?;
        let members = self.group().members().await.into_iter().map(|member| (member.id, member.address)).collect();
        Ok(Joined { group_id: self.status().group_id, member: id, address, members })
    }

    /// Gives a learner that has caught up a vote.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn promote_member(&self, caller: &Caller, member: MemberId) -> Result<(), ControlError> {
        self.group().change_group(GroupChange::Promote { id: member }).await?;
        let invited = self.invited().contains_key(&member);
        if invited {
            let change = MemberChange::Promote { member };
            self.submit(caller, Op::Member { change }).await?;
        }
        Ok(())
    }

    /// Takes a member out of the group for good, dead or alive; a leader hands the lead over first.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn remove_member(&self, caller: &Caller, member: MemberId, force: bool) -> Result<Removal, ControlError> {
        self.linearize().await?;
        let remove = |dry_run| GroupChange::Remove { id: member, force, dry_run };
        let counted = match self.group().change_group(remove(true)).await {
            Ok(()) => true,
            Err(GroupError::NotFound(_)) if self.invited().contains_key(&member) || self.was_removed(member) => false,
            Err(error) => return Err(error.into()),
        };
        // First, so that the member learns why nobody hears it any more.
        let change = MemberChange::Remove { member, forced: force };
        self.submit(caller, Op::Member { change }).await?;
        if counted {
            match self.group().change_group(remove(false)).await {
                // A repetition of what has happened.
                Ok(()) | Err(GroupError::NotFound(_)) => {}
                Err(GroupError::Pending(why)) => {
                    tracing::warn!("{why}");
                    return Ok(Removal::Pending);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Removal::Done)
    }

    /// Hands the lead to a voter. Who asked for it is in the audit before it is tried.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn transfer_leadership(&self, caller: &Caller, to: MemberId) -> Result<(), ControlError> {
        let members = self.members().await;
        let Some(member) = members.iter().find(|member| member.id == to) else {
            return Err(Rejection::not_found("member", &to).into());
        };
        if member.standing == Membership::Voter && !member.leader {
            self.submit(caller, Op::Note { what: Noted::Transfer { member: to } }).await?;
        }
        Ok(self.group().change_group(GroupChange::Transfer { to }).await?)
    }

    /// Hands the lead to another member before this one stops, when there is one to take it.
    pub async fn hand_over(&self) {
        self.group().hand_over().await;
    }

    fn invited(&self) -> BTreeMap<MemberId, Invited> {
        self.read(|state| state.members.invited.clone())
    }

    fn was_removed(&self, member: MemberId) -> bool {
        self.read(|state| state.members.removed.contains(&member))
    }
}

/// The token is not shown.
impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation").field("member", &self.member).finish_non_exhaustive()
    }
}

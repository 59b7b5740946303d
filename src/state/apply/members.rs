//! Numbers for new members of the raft group, and the fence between the executors of two terms.

use super::super::{Invited, MemberChange, Noted, Receipt, State, Token};
use super::Step;
use crate::domain::{MemberId, PrincipalName, Rejection, Role, is_peer_address};

/// Most members ever: bounds what is remembered of those that left.
const MEMBERS_EVER_MAX: u64 = 10_000;

impl State {
    pub(super) fn change_members(&mut self, change: &MemberChange) -> Result<Step, Rejection> {
        match change {
            MemberChange::Add { .. } => self.add_member(change),
            MemberChange::Promote { member } => {
                if self.members.removed.contains(member) {
                    return Err(Rejection::conflict(format!("member {member} was removed")));
                }
                self.end_invitation(*member);
                Ok(step(*member, format!("member {member} has a vote")))
            }
            MemberChange::Remove { member, .. } if self.members.removed.contains(member) => {
                Ok(step(*member, String::new()))
            }
            MemberChange::Remove { member, forced } => {
                self.end_invitation(*member);
                self.members.highest = self.members.highest.max(*member);
                self.members.removed.insert(*member);
                let how = if *forced { ", whether or not enough of the others answer" } else { "" };
                Ok(step(*member, format!("member {member} is to leave the group{how}")))
            }
        }
    }

    fn add_member(&mut self, change: &MemberChange) -> Result<Step, Rejection> {
        let MemberChange::Add { address, above, token, secret_sha256, expires_at } = change else {
            unreachable!("called for an addition")
        };
        if !is_peer_address(address) {
            return Err(Rejection::invalid("peer_address", &"is not HOST:PORT"));
        }
        if let Some((id, _)) = self.members.invited.iter().find(|(_, invited)| invited.address == *address) {
            return Err(Rejection::conflict(format!("member {id} was added with the address {address}")));
        }
        let member = self.members.highest.max(*above) + 1;
        if member > MEMBERS_EVER_MAX {
            return Err(Rejection::LimitExceeded { what: "members ever".to_owned(), most: MEMBERS_EVER_MAX });
        }
        let name = PrincipalName::new(&format!("member-{member}")).expect("a valid name");
        self.insert_token(Token {
            id: token.clone(),
            name,
            role: Role::Joiner,
            secret_sha256: secret_sha256.clone(),
            created_at: self.now,
            expires_at: Some(*expires_at),
        })?;
        self.members.highest = member;
        self.members.invited.insert(member, Invited { address: address.clone(), token: token.clone() });
        Ok(step(member, format!("member {member} at {address} may join")))
    }

    fn end_invitation(&mut self, member: MemberId) {
        if let Some(invited) = self.members.invited.remove(&member) {
            self.tokens.remove(&invited.token);
        }
    }

    /// A new leader's executor begins: those before it are fenced off.
    pub(super) fn lead(&mut self, term: u64) -> Result<Step, Rejection> {
        self.refuse_deposed(term)?;
        self.executor_term = term;
        Ok(Step::default())
    }

    /// What an executor submitted while it led may arrive after its successor began, through that successor.
    pub(super) fn refuse_deposed(&self, term: u64) -> Result<(), Rejection> {
        if term < self.executor_term {
            let newest = self.executor_term;
            return Err(Rejection::conflict(format!("the executor of term {term} is deposed: {newest} leads now")));
        }
        Ok(())
    }
}

/// What is asked of the group and changes nothing here.
pub(super) fn note(what: &Noted) -> Step {
    match what {
        Noted::Transfer { member } => step(*member, format!("member {member} is to lead")),
        Noted::Backup => Step { summary: "a snapshot of everything is carried away".to_owned(), ..Step::default() },
    }
}

fn step(member: MemberId, summary: String) -> Step {
    let receipt = Receipt { member: Some(member), ..Receipt::default() };
    Step { subject: Some(member.to_string()), summary, receipt, ..Step::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Instant, TokenId};
    use crate::state::fixture::command;
    use crate::state::{Applied, Op};

    fn submit(state: &mut State, op: Op) -> Applied {
        state.apply(&command(0, op))
    }

    fn change(state: &mut State, change: MemberChange) -> Result<MemberId, Rejection> {
        submit(state, Op::Member { change }).outcome.map(|receipt| receipt.member.expect("a member"))
    }

    fn add(port: u16, above: MemberId) -> MemberChange {
        MemberChange::Add {
            address: format!("127.0.0.1:{port}"),
            above,
            token: TokenId::new(&format!("join-{port}")).unwrap(),
            secret_sha256: "0".repeat(64),
            expires_at: Instant(u64::MAX),
        }
    }

    fn remove(member: MemberId) -> MemberChange {
        MemberChange::Remove { member, forced: false }
    }

    #[test]
    fn what_is_asked_of_the_group_is_in_the_audit_and_changes_nothing_else() {
        let mut state = State::default();
        for (what, action, subject) in
            [(Noted::Transfer { member: 2 }, "member.transfer", Some("2")), (Noted::Backup, "snapshot.save", None)]
        {
            let mut before = state.clone();
            let applied = submit(&mut state, Op::Note { what });
            let record = applied.audit.expect("a record");
            assert_eq!((record.action.as_str(), record.subject.as_deref()), (action, subject));
            before.audit_head = state.audit_head.clone();
            before.now = state.now;
            assert_eq!(before, state);
        }
        let forced = submit(&mut state, Op::Member { change: MemberChange::Remove { member: 3, forced: true } });
        assert!(forced.audit.unwrap().summary.contains("whether or not enough"));
    }

    #[test]
    fn a_number_is_given_once_whatever_becomes_of_its_member() {
        let mut state = State::default();
        // First members 1 to 3 are known to raft alone.
        assert_eq!(change(&mut state, remove(3)), Ok(3));
        assert_eq!(change(&mut state, add(1, 2)), Ok(4), "3 was used");
        assert_eq!(change(&mut state, remove(4)), Ok(4));
        assert_eq!(change(&mut state, add(1, 2)), Ok(5), "4 was used");
        assert_eq!(change(&mut state, add(2, 8)), Ok(9), "raft knows 8");
        assert_eq!(state.members.removed, [3, 4].into());
        assert!(change(&mut state, MemberChange::Promote { member: 4 }).is_err());
        assert_eq!(change(&mut state, remove(4)), Ok(4), "safe to repeat");
    }

    #[test]
    fn a_join_token_ends_with_the_invitation() {
        let mut state = State::default();
        for (port, member) in [(1, 2), (2, 3)] {
            assert_eq!(change(&mut state, add(port, 1)), Ok(member));
        }
        let roles: Vec<Role> = state.tokens.values().map(|token| token.role).collect();
        assert_eq!(roles, [Role::Joiner, Role::Joiner]);
        assert!(change(&mut state, add(2, 1)).is_err(), "the address is taken");
        change(&mut state, MemberChange::Promote { member: 2 }).unwrap();
        change(&mut state, remove(3)).unwrap();
        assert!(state.tokens.is_empty() && state.members.invited.is_empty());
        for address in ["nowhere", ":1", "a:0", "a:70000"] {
            let MemberChange::Add { above, token, secret_sha256, expires_at, .. } = add(1, 1) else { unreachable!() };
            let bad = MemberChange::Add { address: address.to_owned(), above, token, secret_sha256, expires_at };
            assert!(matches!(change(&mut state, bad), Err(Rejection::Invalid { .. })), "{address}");
        }
    }

    #[test]
    fn what_an_executor_of_an_earlier_term_submits_is_refused() {
        let mut state = State::default();
        let system = |op| crate::state::Command { by: crate::domain::Principal::system("executor"), ..command(0, op) };
        let in_term = |term| system(Op::InTerm { term, what: Box::new(Op::Expire) });
        assert!(state.apply(&in_term(3)).outcome.is_ok());
        let fenced = state.apply(&system(Op::Lead { term: 5 }));
        assert!(fenced.outcome.is_ok() && fenced.audit.is_none());
        assert!(state.apply(&in_term(5)).outcome.is_ok());
        let late = state.apply(&in_term(4)).outcome.unwrap_err();
        assert!(late.to_string().contains("term 4 is deposed"), "{late}");
        assert!(state.apply(&system(Op::Lead { term: 4 })).outcome.is_err(), "a fence does not go back");
        assert!(submit(&mut state, Op::Lead { term: 9 }).outcome.is_err(), "an admin is no executor");
    }
}

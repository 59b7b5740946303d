//! Creating and revoking tokens. A secret never comes here, only its hash.

use super::super::cluster::TOKENS_MAX;
use super::super::{Receipt, State, Token};
use super::Step;
use crate::domain::{Instant, PrincipalName, Rejection, Role, TokenId};

impl State {
    pub(super) fn create_token(
        &mut self,
        id: &TokenId,
        name: &PrincipalName,
        role: Role,
        secret_sha256: &str,
        expires_at: Option<Instant>,
    ) -> Result<Step, Rejection> {
        if self.tokens.contains_key(id) {
            return Err(Rejection::Exists { what: "token".to_owned(), id: id.to_string() });
        }
        if !Role::OF_TOKENS.contains(&role) {
            return Err(Rejection::invalid("role", &format!("{role} is not a role of tokens")));
        }
        if expires_at.is_some_and(|end| end <= self.now) {
            return Err(Rejection::invalid("expires_at", &"is over already"));
        }
        self.insert_token(Token {
            id: id.clone(),
            name: name.clone(),
            role,
            secret_sha256: secret_sha256.to_owned(),
            created_at: self.now,
            expires_at,
        })?;
        Ok(step(id, format!("token created for {name}, role {role}")))
    }

    /// Puts a token in whose role was looked at.
    pub(super) fn insert_token(&mut self, token: Token) -> Result<(), Rejection> {
        let secret_sha256 = &token.secret_sha256;
        if self.tokens.contains_key(&token.id) {
            return Err(Rejection::Exists { what: "token".to_owned(), id: token.id.to_string() });
        }
        if secret_sha256.len() != 64 || !secret_sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Rejection::invalid("secret_sha256", &"is not 64 lower-case hex digits"));
        }
        if self.tokens.len() >= TOKENS_MAX {
            return Err(Rejection::LimitExceeded { what: "tokens".to_owned(), most: TOKENS_MAX as u64 });
        }
        self.tokens.insert(token.id.clone(), token);
        Ok(())
    }

    pub(super) fn revoke_token(&mut self, id: &TokenId, may_be_last: bool) -> Result<Step, Rejection> {
        let token = self.tokens.get(id).cloned().ok_or_else(|| Rejection::not_found("token", id))?;
        let opens = |token: &Token| token.role == Role::Admin && token.expires_at.is_none_or(|end| self.now < end);
        let stays = |token: &Token| opens(token) && token.expires_at.is_none();
        let others = |kind: &dyn Fn(&Token) -> bool| self.tokens.values().any(|other| other.id != *id && kind(other));
        // One that expires takes nobody's place: when its time is over there would be none.
        let is_last = (stays(&token) && !others(&stays)) || (opens(&token) && !others(&opens));
        if !may_be_last && is_last {
            return Err(Rejection::LastAdminToken { token: id.to_string() });
        }
        self.tokens.remove(id);
        Ok(step(id, format!("token of {}, role {}, revoked", token.name, token.role)))
    }
}

fn step(id: &TokenId, summary: String) -> Step {
    let receipt = Receipt { token: Some(id.clone()), ..Receipt::default() };
    Step { subject: Some(id.to_string()), summary, receipt, ..Step::default() }
}

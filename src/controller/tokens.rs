//! Bearer tokens `sk_<id>_<secret>`: made, shown once, and recognised.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{Caller, ControlError, Controller, Op, Receipt, fresh};
use crate::domain::{Instant, Principal, PrincipalName, Rejection, Role, TokenId, hex};
use crate::state::Token;

/// What a bearer token says of itself: who it claims to be, and the hash of the secret that would prove it.
#[derive(Clone)]
pub struct Bearer {
    id: TokenId,
    secret_sha256: String,
}

impl Bearer {
    /// Reads `sk_<id>_<secret>`; none when it has another form.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix("sk_")?.rsplit_once('_')?;
        Some(Self { id: TokenId::new(id).ok()?, secret_sha256: sha256(secret) })
    }
}

impl Controller {
    /// Every token, ascending by id.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        self.read(|state| state.tokens.values().cloned().collect())
    }

    /// One token.
    #[must_use]
    pub fn token(&self, id: &TokenId) -> Option<Token> {
        self.read(|state| state.tokens.get(id).cloned())
    }

    /// The principal of a bearer token `sk_<id>_<secret>`; none when it is unknown, revoked, expired or malformed.
    #[must_use]
    pub fn authenticate(&self, bearer: &str) -> Option<Principal> {
        self.principal(&Bearer::read(bearer)?)
    }

    /// The principal of a token that was read; none when it is unknown, revoked or expired. Compares in constant time.
    #[must_use]
    pub fn principal(&self, bearer: &Bearer) -> Option<Principal> {
        self.read(|state| {
            let token = state.tokens.get(&bearer.id);
            let known = token.map_or("", |token| &token.secret_sha256);
            let same = bool::from(bearer.secret_sha256.as_bytes().ct_eq(known.as_bytes()));
            let now = || state.now.max((self.inner.clock)());
            let token = token.filter(|token| same && token.expires_at.is_none_or(|end| now() < end))?;
            Some(Principal { name: token.name.clone(), role: token.role, token: Some(token.id.clone()) })
        })
    }

    /// Returns when the token is revoked or has expired: at once when it is so already.
    pub async fn token_gone(&self, id: &TokenId) {
        let mut changed = self.inner.tokens.subscribe();
        loop {
            let Some(token) = self.read(|state| state.tokens.get(id).cloned()) else { return };
            let left = token.expires_at.map(|end| end.0.saturating_sub(self.now().0));
            let over = async {
                match left {
                    Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
                    None => std::future::pending().await,
                }
            };
            if left == Some(0) {
                return;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = over => {}
            }
        }
    }

    /// Wakes whoever waits for a token to go, when the set of tokens is not what it was.
    pub(super) fn notice_tokens(&self) {
        self.inner.tokens.send_if_modified(|known| {
            let same = self.read(|state| state.tokens.keys().eq(known.iter()));
            if !same {
                *known = self.read(|state| state.tokens.keys().cloned().collect());
            }
            !same
        });
    }

    /// Creates a token; the secret (`sk_<id>_<secret>`) is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`ControlError`]; a repeated request is refused, since the secret cannot be shown again.
    pub async fn create_token(
        &self,
        caller: &Caller,
        name: PrincipalName,
        role: Role,
        expires_at: Option<Instant>,
    ) -> Result<(Receipt, String), ControlError> {
        self.create_token_as(caller, fresh::token_id(&self.random()), name, role, expires_at).await
    }

    pub(super) async fn create_token_as(
        &self,
        caller: &Caller,
        id: TokenId,
        name: PrincipalName,
        role: Role,
        expires_at: Option<Instant>,
    ) -> Result<(Receipt, String), ControlError> {
        let secret = fresh::secret(&self.random());
        let bearer = format!("sk_{id}_{secret}");
        let op = Op::CreateToken { id, name, role, secret_sha256: sha256(&secret), expires_at };
        let receipt = self.submit(caller, op).await?;
        if receipt.repeated {
            let id = receipt.token.map_or_else(String::new, |id| format!(" {id}"));
            let why = format!(
                "token{id} was created by an earlier request with this idempotency key, and its secret was shown then: revoke it and create another"
            );
            return Err(Rejection::conflict(why).into());
        }
        Ok((receipt, bearer))
    }
}

pub(super) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

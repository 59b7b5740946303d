//! What travels with a request, as one extension of it: every further one costs a place in a map of them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderValue;
use tokio::sync::watch;

use super::framing::HeadBytes;
use super::routes::Route;
use crate::controller::Bearer;
use crate::domain::Principal;

/// What is known of a request.
#[derive(Clone, Default)]
pub struct Context {
    /// The connection it came on; none where a test brings it in.
    pub connection: Option<Arc<Connection>>,
    /// Who asks, once that is known.
    pub principal: Option<Principal>,
    /// Its row of the table of routes, once it may take it.
    pub route: Option<&'static Route>,
}

/// What the requests of a connection share.
pub struct Connection {
    head: HeadBytes,
    stopping: watch::Receiver<bool>,
    /// The last `Authorization` that was read, and what it says: clients send the same one with every request.
    bearer: Mutex<Option<(Vec<u8>, Bearer)>>,
}

impl Connection {
    /// A connection whose head bytes are noted, and that is told when the server stops.
    pub const fn new(head: HeadBytes, stopping: watch::Receiver<bool>) -> Self {
        Self { head, stopping, bearer: Mutex::new(None) }
    }

    /// The bytes of the request's head.
    pub const fn head(&self) -> &HeadBytes {
        &self.head
    }

    /// Returns when the server stops.
    pub async fn stopped(&self) {
        // An error means that the listener is gone, which is a stop as well.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// What an `Authorization` says: as last time when it is the same, otherwise as `read` finds. Whether the token is
    /// good is not kept.
    pub fn bearer(&self, value: &HeaderValue, read: impl FnOnce(&HeaderValue) -> Option<Bearer>) -> Option<Bearer> {
        let mut last = self.bearer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((bytes, bearer)) if bytes == value.as_bytes() => Some(bearer.clone()),
            _ => {
                let bearer = read(value)?;
                *last = Some((value.as_bytes().to_vec(), bearer.clone()));
                Some(bearer)
            }
        }
    }
}

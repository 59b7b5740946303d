//! What actions in flight wait for, by their driver's word: told to a person long before the driver gives up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};

use crate::domain::ActionId;

/// What the actions of one rollout wait for. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Waits(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    said: Mutex<BTreeMap<ActionId, String>>,
    news: Notify,
    ends: watch::Sender<bool>,
}

impl Waits {
    /// An action waits for something, or goes on.
    pub fn say(&self, action: ActionId, why: Option<String>) {
        let mut said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match why {
            Some(why) => said.insert(action, why),
            None => said.remove(&action),
        };
        if before.is_some() != said.contains_key(&action) {
            self.0.news.notify_one();
        }
    }

    /// The first of the actions that wait, and for what.
    #[must_use]
    pub fn first(&self) -> Option<(ActionId, String)> {
        let said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().next().map(|(action, why)| (*action, why.clone()))
    }

    /// Returns when an action has begun to wait, or has gone on.
    pub async fn changed(&self) {
        self.0.news.notified().await;
    }

    /// The rollout is being aborted or rolled back: what has not begun at the nodes need not begin.
    pub fn end(&self) {
        self.0.ends.send_if_modified(|ends| !std::mem::replace(ends, true));
    }

    /// Returns when the rollout is being aborted or rolled back.
    pub async fn ended(&self) {
        // The sender lives as long as this.
        drop(self.0.ends.subscribe().wait_for(|ends| *ends).await);
    }
}

//! Whether a member still leads, as the drivers ask it before every batch of commands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

/// Pause between two looks at a lease that is not held.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A leader's lease in one term.
#[derive(Clone)]
pub struct Lease {
    term: u64,
    holds: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Lease {
    /// The lease of a term; `holds` tells whether it is held at this moment.
    pub fn new(term: u64, holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { term, holds: Arc::new(holds) }
    }

    /// The term of the leader.
    #[must_use]
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// Whether it is held at this moment.
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.holds)()
    }

    /// Returns when it is held. A leader that lost it for good is dropped while it waits.
    pub async fn held(&self) {
        while !self.holds() {
            sleep(LOOK_EVERY).await;
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("term", &self.term).field("holds", &self.holds()).finish()
    }
}

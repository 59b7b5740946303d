//! Places in a move at which tests stop, to kill whatever they want to see killed there.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

type Hook = Arc<dyn Fn(&'static str) -> BoxFuture<'static, ()> + Send + Sync>;

/// What happens at each place: nothing, but in tests. The places are `before-` and `after-` one of `import`, `migrate`,
/// `drain`, `own`, `release`, `announce`, `close-source`, `close-target`, and `in-drain` after each batch of keys; where
/// servers move slots by themselves `before-` and `after-ask`, `in-task` at every look at what is under way, `after-task`.
#[derive(Clone, Default)]
pub struct Failpoints(Option<Hook>);

impl Failpoints {
    /// Calls the hook at every place and waits for it.
    pub fn new(hook: impl Fn(&'static str) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// A place is reached.
    pub(super) async fn reach(&self, place: &'static str) {
        if let Some(hook) = &self.0 {
            hook(place).await;
        }
    }
}

impl fmt::Debug for Failpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Failpoints(set)" } else { "Failpoints(none)" })
    }
}

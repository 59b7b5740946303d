//! The background task: long polls, one endpoint after another when they fail.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::held::{CacheError, Offer};
use crate::client::PollAnswer;
use crate::client::backoff::Backoff;

/// An answer without news that came sooner than this is no long poll: pause before the next.
const TOO_SOON: Duration = Duration::from_millis(100);

/// Follows the cluster until it is aborted.
pub(super) async fn follow(shared: Arc<Shared>, wait: Duration) {
    let (mut endpoint, mut failed_in_a_row) = (0, 0);
    let mut backoff = Backoff::new();
    loop {
        let begun = Instant::now();
        let outcome = poll(&shared, endpoint, wait).await;
        let well = outcome.is_ok();
        let news = matches!(outcome, Ok(true));
        shared.note(&shared.endpoints[endpoint], outcome.map(drop));
        if well && (news || begun.elapsed() >= TOO_SOON) {
            (failed_in_a_row, backoff) = (0, Backoff::new());
            continue;
        }
        if !well {
            endpoint = (endpoint + 1) % shared.endpoints.len();
            failed_in_a_row += 1;
        }
        // Every endpoint is asked once before the first pause.
        if well || failed_in_a_row % shared.endpoints.len() == 0 {
            tokio::time::sleep(backoff.next()).await;
        }
    }
}

/// One long poll; whether it brought a newer map.
async fn poll(shared: &Shared, endpoint: usize, wait: Duration) -> Result<bool, CacheError> {
    let after = shared.held.with(|routes| Some(routes.version()));
    match shared.cluster.poll(endpoint, after, wait).await {
        Err(failure) => Err(failure.into_error().into()),
        Ok(PollAnswer::Unchanged(_)) => Ok(false),
        Ok(PollAnswer::Newer(topology)) => {
            let offered = topology.version;
            match shared.held.offer(*topology)? {
                Offer::Taken(_) => Ok(true),
                // A refresh was faster: that is news as well.
                Offer::Ignored(held) if Some(held) != after => Ok(true),
                Offer::Ignored(held) => {
                    let endpoint = shared.endpoints[endpoint].clone();
                    Err(CacheError::NotNewer { endpoint, held, offered })
                }
            }
        }
    }
}

//! File descriptors: every connection takes one, and raft and the store must never be left without.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Kept for the store, the other members and everything else that is no client.
const KEPT: u64 = 512;
/// Fewer connections than this are no service; then it is clients that find no descriptor first.
const CONNECTIONS_MIN: u64 = 64;

/// Raises the limit of this process as far as the system lets it; how many clients may be connected at one time, of the
/// number wanted.
pub fn connections(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        warn!(%error, "the limit of open files stays as it is");
    }
    let limit = getrlimit(Resource::Nofile).current;
    let connections = within(limit, wanted);
    if connections < wanted {
        info!(limit, connections, "the limit of open files allows fewer connections than usual");
    }
    connections
}

/// What is left of the limit (none: unlimited) for clients.
fn within(limit: Option<u64>, wanted: usize) -> usize {
    let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(KEPT).max(CONNECTIONS_MIN));
    usize::try_from(left).map_or(wanted, |left| left.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_raft_does_not_need() {
        assert_eq!(within(None, 12_000), 12_000);
        assert_eq!(within(Some(1 << 20), 12_000), 12_000);
        assert_eq!(within(Some(4096), 12_000), 4096 - 512);
        assert_eq!(within(Some(256), 12_000), 64);
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        connections(1);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}

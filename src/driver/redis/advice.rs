//! What a person can do about what keeps a server or a slot: the part of a reason after `do:`. Each begins with a verb and
//! ends before what then becomes of the rollout, which [`and_then`] adds.

use tokio::time::{Duration, Instant};

use super::link::{LinkError, Refusal};
use super::protocol::Obstacle;
use crate::domain::{Node, NodeId, Slot, advised, split_advice};
use crate::driver::drift::give_back;
use crate::driver::{DriverError, Job};

/// Stands for the slot in an advice about many: see [`for_slots`].
const SLOT: &str = "<slot>";

/// For a server that does not answer as it should.
pub(super) const fn of_link(error: &LinkError) -> &'static str {
    match error {
        LinkError::Unreachable { .. } | LinkError::Lost { .. } | LinkError::Timeout { .. } => {
            "start it and see that this controller can reach it, or let its replica take over"
        }
        LinkError::Denied { .. } => {
            "let the user of [redis] in and let it do what a move takes (the check acl-permissions lists it)"
        }
        LinkError::Address { .. } => "change allow_networks in [redis], or the node's address with node set",
        LinkError::Answered { .. } | LinkError::SteppedDown => "",
    }
}

/// For an error that a server answered.
pub(super) fn of_refusal(refusal: &Refusal) -> &'static str {
    let says = |word: &str| refusal.text().contains(word);
    if refusal.denies() || says("NOAUTH") || says("WRONGPASS") || says("NOPERM") {
        "let the user of [redis] do what a move takes, at both servers (the check acl-permissions lists it)"
    } else if says("OOM") {
        "make room at the target (its maxmemory)"
    } else if says("CLUSTERDOWN") {
        "bring back the nodes whose slots nobody serves, or set cluster-require-full-coverage no"
    } else if says("LOADING") {
        "wait until it has loaded its data"
    } else if refusal.code() == "IOERR" {
        "see that the servers can reach each other"
    } else {
        ""
    }
}

/// For a slot that somebody else did something with. `home`: the primary that the table gives it to.
pub(super) fn of_obstacle(obstacle: &Obstacle<NodeId>, node: impl Fn(&NodeId) -> String, home: &Node) -> String {
    match obstacle {
        Obstacle::OwnedElsewhere { .. } | Obstacle::Imported { .. } => {
            let back = give_back(Slot::at(0), false, home, &home.id).replace("SETSLOT 0", "SETSLOT <slot>");
            format!("{back}, then rollout resume; or rollout abort, then plan create --repair")
        }
        Obstacle::Unowned { .. } => "rollout abort, then plan create --repair".to_owned(),
        Obstacle::OpenElsewhere { at, .. } => format!(
            "end the tool that moves it, and where it holds no key of the slot close it: redis-cli {} CLUSTER SETSLOT <slot> STABLE",
            dialled(&node(at))
        ),
        Obstacle::Stray { .. } => "rollout abort: that takes the slot home with them".to_owned(),
    }
}

/// For a key with two values.
pub(super) fn of_two_values(key: &[u8], source: &Node, target: &Node) -> String {
    let plain = key.iter().all(|byte| byte.is_ascii_graphic() && !b"'\"\\".contains(byte));
    let name = if plain { String::from_utf8_lossy(key).into_owned() } else { "KEY".to_owned() };
    let look = |node: &Node| format!("printf '%s\\n' ASKING 'GET {name}' | redis-cli {}", dialled(&node.to_string()));
    format!("look at both values ({} and {}), DEL the wrong one in the same way", look(source), look(target))
}

/// For a key that is too large to be moved without a word.
pub(super) const BIG_KEY: &str =
    "delete it or make it smaller, then rollout resume; or rollout abort, and approve a new plan with --ack big-key";

/// The slot's number where an advice stands for it.
pub(super) fn for_slots(advice: &str, slots: &[Slot]) -> String {
    let Some(first) = slots.first().filter(|_| advice.contains(SLOT)) else { return advice.to_owned() };
    let told = advice.replace(SLOT, &first.to_string());
    if slots.len() > 1 { format!("{told} (the same for each of the slots)") } else { told }
}

/// `-h HOST -p PORT` of a server as it is printed.
fn dialled(at: &str) -> String {
    let (host, port) = at.rsplit_once(':').unwrap_or((at, "PORT"));
    format!("-h {} -p {port}", host.trim_matches(['[', ']']))
}

/// How long nothing may come of an action before it is said what it waits for.
pub(super) const TOLD_AFTER: Duration = Duration::from_secs(4);

/// Says what an action waits for, if it has done so for a while.
pub(super) fn tell(job: &Job, since: Instant, why: impl FnOnce() -> String) {
    if since.elapsed() >= TOLD_AFTER {
        let next = if job.ending { "; the rollout ends by itself then" } else { "; it goes on by itself" };
        let why = with(&why(), Some(LOOK), next);
        job.waits.say(job.action.id, Some(why));
    }
}

/// What then becomes of the rollout.
pub(super) fn and_then(job: &Job, error: DriverError) -> DriverError {
    let next = if job.ending { "; the rollout ends by itself then" } else { ", then rollout resume" };
    match error {
        DriverError::Open(why) => DriverError::Open(with(&why, Some(LOOK), next)),
        DriverError::Pause(why) => DriverError::Pause(with(&why, Some(LOOK), next)),
        DriverError::Halt(why) if !job.ending => DriverError::Halt(with(&why, None, next)),
        error @ (DriverError::Halt(_) | DriverError::Retry(_) | DriverError::Abort(_)) => error,
    }
}

/// Where no other advice is known.
const LOOK: &str = "cluster check tells how the nodes stand";

/// A reason with its advice, or another one, and what then becomes of the rollout where that is not said.
fn with(why: &str, or_else: Option<&str>, next: &str) -> String {
    let (reason, advice) = split_advice(why);
    match advice.or(or_else) {
        Some(advice) if advice.contains("rollout ") => advised(reason, advice),
        Some(advice) => advised(reason, &format!("{advice}{next}")),
        None => reason.to_owned(),
    }
}

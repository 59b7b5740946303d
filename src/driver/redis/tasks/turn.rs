//! When a task may start. The servers know no bytes per second: a task sends as fast as they can, and the next one of the plan
//! starts when what the earlier ones sent would have taken so long.

use tokio::time::{Instant, sleep_until};

use super::super::advice::TOLD_AFTER;
use super::super::keys::list_keys;
use super::super::link::Link;
use super::super::sight::Fault;
use super::super::value::{command, number};
use super::{Course, Ended, Look, Whole, given_up};
use crate::domain::{Slot, SlotSet};
use crate::driver::Direction;

/// Why an action is given up whose turn had not come.
const ENDED: &str = "the rollout was ended before its turn came (bytes_per_second)";

impl Whole<'_> {
    /// Whether the task that is to be asked for may start now. It waits until it may; then both ends are looked at again.
    pub(super) async fn turn(&self, look: &Look, slots: &SlotSet, course: &mut Course) -> Result<bool, Ended> {
        let Some(per_second) = self.job.limits.bytes_per_second else { return Ok(true) };
        if course.turn.is_none() {
            let bytes = self.bytes_left(look).await?;
            course.turn = self.bucket.reserve(bytes, Some(per_second));
            course.counted = true;
        }
        let now = Instant::now();
        let Some(turn) = course.turn.filter(|turn| *turn > now) else { return Ok(true) };
        if turn - now >= TOLD_AFTER {
            let seconds = (turn - now).as_secs();
            let why = format!("it starts in about {seconds} s: the plan allows {per_second} bytes a second");
            self.job.waits.say(self.job.action.id, Some(why));
        }
        // What is being taken back has its turn too.
        let forward = self.job.direction == Direction::Forward;
        tokio::select! {
            () = sleep_until(turn) => {}
            () = self.job.waits.ended(), if forward => {
                if look.at.left == *slots {
                    return Err(given_up(look, slots, ENDED.to_owned()));
                }
                course.turn = Some(Instant::now());
            }
        }
        self.job.waits.say(self.job.action.id, None);
        course.quiet = Instant::now();
        Ok(false)
    }

    /// Counts the bytes of a task that an earlier leader asked for: those that follow wait for them.
    pub(super) async fn count(&self, look: &Look, course: &mut Course) {
        let limit = self.job.limits.bytes_per_second;
        if course.counted || limit.is_none() {
            return;
        }
        // What cannot be told now is not worth another look: it is under way.
        course.counted = true;
        if let Ok(bytes) = self.bytes_left(look).await {
            self.bucket.reserve(bytes, limit);
        }
    }

    async fn bytes_left(&self, look: &Look) -> Result<u64, Fault> {
        let link = self.links.own(&self.job.cluster, &look.source.node).await?;
        let slots: Vec<Slot> = look.at.left.iter().collect();
        let listings = list_keys(&link, &slots, self.links.settings().busy, false).await?;
        let mut bytes = 0_u64;
        for (slot, listing) in listings {
            let listed: u64 = listing.keys.iter().map(|key| key.bytes).sum();
            let all =
                if listing.complete { listed } else { estimated(&link, slot, listed, listing.keys.len()).await? };
            bytes = bytes.saturating_add(all);
        }
        Ok(bytes)
    }
}

/// Bytes of a slot with more keys than were listed.
async fn estimated(link: &Link, slot: Slot, bytes: u64, listed: usize) -> Result<u64, Fault> {
    let mut count = command(&["CLUSTER", "COUNTKEYSINSLOT"]);
    count.arg(slot.get());
    let keys = number(&link.call(&count).await?).ok_or_else(|| link.unexpected("count of keys"))?;
    let all = u128::from(bytes) * u128::from(keys) / (listed.max(1) as u128);
    Ok(u64::try_from(all).unwrap_or(u64::MAX))
}

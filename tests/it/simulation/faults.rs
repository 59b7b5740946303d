//! What goes wrong in a run, when and for how long: drawn from its seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use slotkeeper::domain::MemberId;
use turmoil::Sim;

use super::member::{Ask, Seat, host};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What is wrong now, and until when.
pub struct Faults {
    rng: SmallRng,
    seats: Vec<Arc<Seat>>,
    /// What is to be done at a time.
    due: Vec<(u64, Act)>,
    down: BTreeSet<MemberId>,
    next_ms: u64,
}

#[derive(Clone, Debug)]
enum Act {
    Mend(Vec<(String, String)>),
    Restart(MemberId),
    CalmNetwork,
    CalmDisk(MemberId),
}

impl Faults {
    pub fn new(rng: SmallRng, seats: Vec<Arc<Seat>>) -> Self {
        Self { rng, seats, due: Vec::new(), down: BTreeSet::new(), next_ms: 0 }
    }

    /// Does what is due, and now and then something new; says what.
    pub fn step(&mut self, sim: &mut Sim<'_>, now_ms: u64) -> Vec<String> {
        let mut did = Vec::new();
        let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|(at, _)| *at <= now_ms);
        self.due = later;
        let due: Vec<(u64, Act)> = due;
        for (_, act) in due {
            did.push(format!("{act:?}"));
            self.act(sim, act);
        }
        for seat in self.seats.clone() {
            if let Some(reason) = seat.fatal.lock().unwrap().take() {
                did.push(format!("member {} ends: {reason}", seat.id));
                self.crash(sim, seat.id, now_ms, 1000);
            }
        }
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + self.rng.random_range(50..600);
            did.push(self.something(sim, now_ms));
        }
        did
    }

    /// Ends everything that is wrong.
    pub fn heal(&mut self, sim: &mut Sim<'_>) {
        for (_, act) in std::mem::take(&mut self.due) {
            self.act(sim, act);
        }
        self.act(sim, Act::CalmNetwork);
        for seat in &self.seats {
            seat.disk.set_failing(false);
            seat.disk.set_sync_ms(0..=2);
        }
        for id in std::mem::take(&mut self.down) {
            sim.bounce(host(id));
        }
    }

    fn something(&mut self, sim: &mut Sim<'_>, now_ms: u64) -> String {
        let until = now_ms + self.rng.random_range(100..1500);
        let who = self.anybody();
        match self.rng.random_range(0..100) {
            0..25 => {
                let (left, right) = self.split();
                self.cut(sim, &left, &right, until);
                format!("{left:?} and {right:?} do not hear each other")
            }
            25..40 => {
                let (from, to) = self.split();
                for (a, b) in pairs(&from, &to) {
                    sim.partition_oneway(a, b);
                }
                self.due.push((until, Act::Mend(pairs(&from, &to))));
                format!("{to:?} do not hear {from:?}")
            }
            40..58 => {
                self.crash(sim, who, now_ms, until - now_ms);
                format!("member {who} crashes")
            }
            58..64 => {
                for id in self.ids() {
                    self.crash(sim, id, now_ms, until - now_ms);
                }
                "all members crash".to_owned()
            }
            64..70 => {
                let most = self.rng.random_range(10..150);
                sim.set_max_message_latency(Duration::from_millis(most));
                self.due.push((until, Act::CalmNetwork));
                format!("messages take up to {most} ms")
            }
            70..76 => {
                sim.set_fail_rate(0.003);
                self.due.push((until, Act::CalmNetwork));
                "messages are lost".to_owned()
            }
            76..84 => {
                let most = self.rng.random_range(10..300);
                self.seat(who).disk.set_sync_ms(0..=most);
                self.due.push((until, Act::CalmDisk(who)));
                format!("the disk of member {who} takes up to {most} ms")
            }
            84..88 => {
                self.seat(who).disk.set_failing(true);
                self.due.push((now_ms + 200, Act::CalmDisk(who)));
                format!("the disk of member {who} does not sync")
            }
            88..93 => {
                let skew = self.rng.random_range(-DAY_MS..DAY_MS);
                self.seat(who).skew_ms.store(skew, Ordering::Relaxed);
                format!("the clock of member {who} is {skew} ms off")
            }
            _ => {
                let to = self.anybody();
                for seat in &self.seats {
                    seat.ask(Ask::TransferLeader(to));
                }
                format!("the lead is to go to member {to}")
            }
        }
    }

    fn act(&mut self, sim: &mut Sim<'_>, act: Act) {
        match act {
            Act::Mend(links) => {
                for (a, b) in links {
                    sim.repair_oneway(a.as_str(), b.as_str());
                }
            }
            Act::Restart(id) => {
                if self.down.remove(&id) {
                    sim.bounce(host(id));
                }
            }
            Act::CalmNetwork => {
                sim.set_max_message_latency(Duration::from_millis(5));
                sim.set_fail_rate(0.0);
            }
            Act::CalmDisk(id) => {
                let disk = &self.seat(id).disk;
                disk.set_failing(false);
                disk.set_sync_ms(0..=2);
            }
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, id: MemberId, now_ms: u64, for_ms: u64) {
        if self.down.insert(id) {
            *self.seat(id).running.lock().unwrap() = None;
            sim.crash(host(id));
            self.due.push((now_ms + for_ms, Act::Restart(id)));
        }
    }

    fn cut(&mut self, sim: &mut Sim<'_>, left: &[String], right: &[String], until: u64) {
        let links: Vec<_> = pairs(left, right).into_iter().chain(pairs(right, left)).collect();
        for (a, b) in &links {
            sim.partition_oneway(a.as_str(), b.as_str());
        }
        self.due.push((until, Act::Mend(links)));
    }

    /// The hosts in two halves, neither empty; clients are on one side.
    fn split(&mut self) -> (Vec<String>, Vec<String>) {
        let mut hosts: Vec<String> = self.ids().into_iter().map(host).collect();
        hosts.shuffle(&mut self.rng);
        let right = hosts.split_off(self.rng.random_range(1..hosts.len()));
        let (mut left, mut right) = (hosts, right);
        match self.rng.random_range(0..4) {
            0 => left.push("clients".to_owned()),
            1 => right.push("clients".to_owned()),
            _ => {}
        }
        (left, right)
    }

    fn ids(&self) -> Vec<MemberId> {
        self.seats.iter().map(|seat| seat.id).collect()
    }

    fn anybody(&mut self) -> MemberId {
        self.seats[self.rng.random_range(0..self.seats.len())].id
    }

    fn seat(&self, id: MemberId) -> Arc<Seat> {
        Arc::clone(self.seats.iter().find(|seat| seat.id == id).expect("a member"))
    }
}

fn pairs(from: &[String], to: &[String]) -> Vec<(String, String)> {
    from.iter().flat_map(|a| to.iter().map(|b| (a.clone(), b.clone()))).collect()
}

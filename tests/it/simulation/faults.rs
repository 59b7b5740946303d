//! What goes wrong in a run, when and for how long: drawn from its seed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use turmoil::Sim;

use super::member::{Ask, Seat, host};
use super::oracle::Oracle;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What is wrong now, and until when.
pub struct Faults {
    rng: SmallRng,
    seats: Vec<Arc<Seat>>,
    /// What is to be done at a time.
    due: Vec<(u64, Act)>,
    down: BTreeSet<u64>,
    next_ms: u64,
    /// Crash when more was acknowledged or published than so much: what is lost then shows.
    armed: Option<(u64, Crash)>,
    /// Until then clients ask more often: somebody comes back whose answers may be old.
    pub hurry_until_ms: u64,
}

/// Who crashes.
#[derive(Clone, Copy, Debug)]
enum Crash {
    All,
    One(u64),
}

#[derive(Clone, Debug)]
enum Act {
    Mend(Vec<(String, String)>),
    Restart(u64),
    CalmNetwork,
    CalmDisk(u64),
}

impl Faults {
    pub fn new(rng: SmallRng, seats: Vec<Arc<Seat>>) -> Self {
        Self { rng, seats, due: Vec::new(), down: BTreeSet::new(), next_ms: 0, armed: None, hurry_until_ms: 0 }
    }

    /// Does what is due, and now and then something new; says what.
    pub fn step(&mut self, sim: &mut Sim<'_>, now_ms: u64, oracle: &Oracle) -> Vec<String> {
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
                did.push(format!("member {} ends: {reason}", seat.number));
                self.crash(sim, seat.number, now_ms, 1000);
            }
        }
        if let Some((_, who)) = self.armed.take_if(|(seen, _)| oracle.news() > *seen) {
            did.push(format!("{who:?} crash with the news"));
            self.crash_with_news(sim, who, now_ms);
        }
        if now_ms >= self.next_ms {
            self.next_ms = now_ms + self.rng.random_range(50..600);
            did.push(self.something(sim, now_ms, oracle));
        }
        did
    }

    /// Ends everything that is wrong.
    pub fn heal(&mut self, sim: &mut Sim<'_>) {
        self.armed = None;
        for (_, act) in std::mem::take(&mut self.due) {
            self.act(sim, act);
        }
        self.act(sim, Act::CalmNetwork);
        for seat in &self.seats {
            seat.disk.set_failing(false);
            seat.disk.set_sync_ms(0..=2);
        }
        for id in std::mem::take(&mut self.down) {
            self.start(sim, id);
        }
    }

    fn something(&mut self, sim: &mut Sim<'_>, now_ms: u64, oracle: &Oracle) -> String {
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
            58..61 => {
                for id in self.ids() {
                    self.crash(sim, id, now_ms, until - now_ms);
                }
                "all members crash".to_owned()
            }
            61..70 => {
                let crash = if self.rng.random_bool(0.6) { Crash::All } else { Crash::One(who) };
                self.armed = Some((oracle.news(), crash));
                format!("{crash:?} are to crash with the next news")
            }
            70..75 => {
                let most = self.rng.random_range(10..150);
                sim.set_max_message_latency(Duration::from_millis(most));
                self.due.push((until, Act::CalmNetwork));
                format!("messages take up to {most} ms")
            }
            75..79 => {
                sim.set_fail_rate(0.003);
                self.due.push((until, Act::CalmNetwork));
                "messages are lost".to_owned()
            }
            79..85 => {
                let most = self.rng.random_range(10..300);
                self.seat(who).disk.set_sync_ms(0..=most);
                self.due.push((until, Act::CalmDisk(who)));
                format!("the disk of member {who} takes up to {most} ms")
            }
            85..89 => {
                self.seat(who).disk.set_failing(true);
                self.due.push((now_ms + 200, Act::CalmDisk(who)));
                format!("the disk of member {who} does not sync")
            }
            89..93 => {
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
                    self.start(sim, id);
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

    /// Starts a host, for the first time or again.
    pub fn start(&self, sim: &mut Sim<'_>, id: u64) {
        if self.seat(id).in_play() {
            sim.bounce(host(id));
        }
    }

    /// Ends a member for good.
    pub fn kill(&mut self, sim: &mut Sim<'_>, id: u64) {
        let seat = self.seat(id);
        seat.dead.store(true, Ordering::Relaxed);
        *seat.running.lock().unwrap() = None;
        sim.crash(host(id));
    }

    /// Who comes back is asked at once, and before it has heard of anybody who knows more.
    fn crash_with_news(&mut self, sim: &mut Sim<'_>, who: Crash, now_ms: u64) {
        self.hurry_until_ms = now_ms + 1000;
        match who {
            Crash::All => {
                for id in self.ids() {
                    let for_ms = self.rng.random_range(5..80);
                    self.crash(sim, id, now_ms, for_ms);
                }
            }
            Crash::One(id) => {
                let for_ms = self.rng.random_range(5..40);
                self.crash(sim, id, now_ms, for_ms);
                let others: Vec<String> = self.ids().into_iter().filter(|other| *other != id).map(host).collect();
                self.cut(sim, &[host(id)], &others, now_ms + for_ms + 300);
            }
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, id: u64, now_ms: u64, for_ms: u64) {
        if self.seat(id).in_play() && self.down.insert(id) {
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

    fn ids(&self) -> Vec<u64> {
        self.seats.iter().filter(|seat| seat.in_play()).map(|seat| seat.number).collect()
    }

    fn anybody(&mut self) -> u64 {
        let ids = self.ids();
        ids[self.rng.random_range(0..ids.len())]
    }

    fn seat(&self, id: u64) -> Arc<Seat> {
        Arc::clone(self.seats.iter().find(|seat| seat.number == id).expect("a host"))
    }
}

fn pairs(from: &[String], to: &[String]) -> Vec<(String, String)> {
    from.iter().flat_map(|a| to.iter().map(|b| (a.clone(), b.clone()))).collect()
}

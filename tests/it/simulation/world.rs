//! One run: the members, the clients and what goes wrong, step by step, and what must hold at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use slotkeeper::domain::MemberId;
use slotkeeper::raft::Status;
use turmoil::{Builder, Sim};

use super::Options;
use super::clients::{self, Clients};
use super::faults::Faults;
use super::member::{self, Ask, Seat, host, is, peer_address};
use super::oracle::Oracle;

/// Simulated time of one step of the network.
const TICK_MS: u64 = 5;
/// From the end of the faults to a write that is acknowledged.
const WRITES_AGAIN_WITHIN_MS: u64 = 10_000;
/// From the end of the faults to the end of the rollout, and to equal members.
const SETTLED_WITHIN_MS: u64 = 40_000;

/// One run.
pub struct World<'a> {
    sim: Sim<'a>,
    pub seats: Vec<Arc<Seat>>,
    faults: Faults,
    clients: Arc<Clients>,
    pub oracle: Arc<Mutex<Oracle>>,
    pub now_ms: u64,
    keys: u64,
    /// Hosts whose software was started.
    started: BTreeSet<u64>,
}

impl World<'_> {
    pub fn new(seed: u64, dir: &Path, options: Options) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut sim = Builder::new()
            .rng_seed(seed)
            .epoch(UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .simulation_duration(Duration::from_secs(3600))
            .tick_duration(Duration::from_millis(TICK_MS))
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(5))
            .repair_rate(0.2)
            .tcp_capacity(4096)
            .enable_random_order()
            .build();
        let oracle = Arc::new(Mutex::new(Oracle::logging(options.logging)));
        let count: u64 = if rng.random_bool(0.85) { 3 } else { 5 };
        let regrouping = rng.random_bool(0.5);
        let spare = if regrouping { (7 - count) / 2 } else { 0 };
        let initial: BTreeMap<MemberId, String> = (1..=count).map(|id| (id, peer_address(id))).collect();
        let mut seats = Vec::new();
        for number in 1..=count + spare {
            let first = if number <= count { initial.clone() } else { BTreeMap::new() };
            let dir = dir.join(host(number));
            let seat = Arc::new(Seat::new(number, (seed, rng.random()), dir, first, Arc::clone(&oracle)));
            seat.disk.set_lying(options.lying);
            seats.push(Arc::clone(&seat));
            sim.host(host(number), move || member::run(Arc::clone(&seat)));
            if number > count {
                // Switched off until it is invited.
                sim.crash(host(number));
            }
        }
        let clients = Arc::new(Clients::new(Arc::clone(&oracle), seats.clone(), regrouping, rng.random()));
        sim.client("clients", clients::run(Arc::clone(&clients)));
        let faults = Faults::new(SmallRng::seed_from_u64(rng.random()), seats.clone());
        let started = (1..=count).collect();
        Self { sim, seats, faults, clients, oracle, now_ms: 0, keys: 0, started }
    }

    /// Lets time go by; whether the clients have ended.
    fn step(&mut self) -> Result<bool, String> {
        let ended = self.sim.step().map_err(|error| format!("at {} ms: {error}", self.now_ms))?;
        self.now_ms += TICK_MS;
        for seat in &self.seats {
            if seat.in_play() && self.started.insert(seat.number) {
                self.faults.start(&mut self.sim, seat.number);
            }
        }
        self.kill_the_doomed();
        self.clients.hurry.store(self.now_ms < self.faults.hurry_until_ms, Ordering::Relaxed);
        let mut oracle = self.oracle.lock().unwrap();
        oracle.now_ms = self.now_ms;
        for seat in &self.seats {
            let leading = seat.running.lock().unwrap().as_ref().and_then(|running| *running.leading.borrow());
            oracle.stands(seat.number, leading);
        }
        if self.now_ms.is_multiple_of(20) {
            self.keys += 1;
            oracle.nodes.write(self.keys);
        }
        match oracle.first_violation() {
            Some(violation) => Err(violation.to_owned()),
            None => Ok(ended),
        }
    }

    /// Ends a member for good, with its disk, if what it acknowledged is kept by others whatever else happens: three
    /// voters, all there, and no change of them on its way.
    fn kill_the_doomed(&mut self) {
        let Some(doomed) = *self.clients.doomed.lock().unwrap() else { return };
        if self.seats.iter().any(|seat| seat.number == doomed && is(&seat.dead)) {
            return;
        }
        let statuses: Option<Vec<Status>> =
            self.seats.iter().filter(|seat| seat.in_play()).map(|seat| status(seat)).collect();
        let Some(statuses) = statuses else { return };
        let first = &statuses[0];
        let agreed = statuses.iter().all(|status| status.voters == first.voters && status.members == first.members);
        if agreed && first.voters.len() >= 3 && self.joint().is_none() {
            let mut oracle = self.oracle.lock().unwrap();
            oracle.event(&format!("member {doomed} is lost with its disk"));
            oracle.counts.lost += 1;
            drop(oracle);
            self.faults.kill(&mut self.sim, doomed);
        }
    }

    /// A member whose voters are two sets: a change is half-way.
    fn joint(&self) -> Option<u64> {
        let joint = |seat: &&Arc<Seat>| {
            seat.running.lock().unwrap().as_ref().is_some_and(|running| running.raft.voter_sets().len() > 1)
        };
        self.seats.iter().find(joint).map(|seat| seat.number)
    }

    /// Compares the members' states.
    fn look(&self) {
        let mut oracle = self.oracle.lock().unwrap();
        for seat in &self.seats {
            if let Some(running) = &*seat.running.lock().unwrap() {
                let (index, hash) = running.controller.state_hash();
                oracle.event(&format!("member {} is at {index}", seat.number));
                oracle.state_hash(seat.number, index, &hash);
                oracle.group(seat.number, &running.raft.status());
                running.raft.read(|state| oracle.state(seat.number, state));
            }
        }
    }

    /// The whole run: faults, healing, and what must hold then.
    pub fn run(&mut self, faults_ms: u64) -> Result<(), String> {
        while self.now_ms < faults_ms {
            self.step()?;
            // A group forms before anything goes wrong.
            if self.now_ms > 600 {
                let mut oracle = self.oracle.lock().unwrap();
                for did in self.faults.step(&mut self.sim, self.now_ms, &oracle) {
                    oracle.event(&did);
                }
            }
            if self.now_ms.is_multiple_of(500) {
                self.look();
            }
        }
        self.faults.heal(&mut self.sim);
        self.oracle.lock().unwrap().event("healed");
        let healed_ms = self.now_ms;
        self.clients.healed.store(true, Ordering::Relaxed);
        let clients = Arc::clone(&self.clients);
        while !(is(&clients.wrote_healed) && is(&clients.rolled_out) && is(&clients.regrouped)) {
            self.step()?;
            self.no_fatal()?;
            let since = self.now_ms - healed_ms;
            if since > WRITES_AGAIN_WITHIN_MS && !is(&clients.wrote_healed) {
                return Err(format!("no write was acknowledged within {since} ms of the healing"));
            }
            if since > SETTLED_WITHIN_MS {
                return Err(format!("a rollout or the group is not at rest {since} ms after the healing"));
            }
        }
        self.clients.stop.store(true, Ordering::Relaxed);
        self.settle(healed_ms)
    }

    /// Clients end, members come to the same state, their audits are whole.
    fn settle(&mut self, healed_ms: u64) -> Result<(), String> {
        let mut ended = false;
        loop {
            ended |= self.step()?;
            self.no_fatal()?;
            if self.now_ms.is_multiple_of(50) && ended && self.equal() {
                break;
            }
            if self.now_ms - healed_ms > SETTLED_WITHIN_MS {
                return Err(format!("the members are not equal {} ms after the healing", self.now_ms - healed_ms));
            }
        }
        self.look();
        let members: Vec<Arc<Seat>> = self.seats.iter().filter(|seat| status(seat).is_some()).cloned().collect();
        if let Some(running) = &*members[0].running.lock().unwrap() {
            let mut oracle = self.oracle.lock().unwrap();
            running.raft.read(|state| oracle.settled(state));
        }
        for seat in &members {
            seat.ask(Ask::Audit);
        }
        let deadline = self.now_ms + 5000;
        while self.oracle.lock().unwrap().audited() < members.len() {
            self.step()?;
            if self.now_ms > deadline {
                return Err("a member did not report its audit".to_owned());
            }
        }
        self.step().map(drop)
    }

    /// Every member of the group, and nobody else, runs, has recovered and is at the same index; no change of the group is
    /// half-way.
    fn equal(&self) -> bool {
        let statuses: Vec<Status> = self.seats.iter().filter_map(|seat| status(seat)).collect();
        let Some(first) = statuses.iter().find(|status| status.role == "leader") else { return false };
        let there: BTreeSet<MemberId> = statuses.iter().map(|status| status.id).collect();
        let members: BTreeSet<MemberId> = first.members.iter().map(|(id, _)| *id).collect();
        let same = |status: &Status| {
            status.recovered
                && status.applied == first.applied
                && status.leader == first.leader
                && status.voters == first.voters
        };
        there == members && statuses.iter().all(same) && self.joint().is_none()
    }

    fn no_fatal(&self) -> Result<(), String> {
        for seat in &self.seats {
            if let Some(reason) = &*seat.fatal.lock().unwrap() {
                return Err(format!(
                    "at {} ms: member {} ends though nothing is wrong: {reason}",
                    self.now_ms, seat.number
                ));
            }
        }
        Ok(())
    }
}

fn status(seat: &Seat) -> Option<Status> {
    seat.running.lock().unwrap().as_ref().map(|running| running.raft.status())
}

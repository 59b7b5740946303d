//! The protocol under every interleaving: two coordinators one after the other, a client that writes, gossip, servers that
//! die and come back or fail over, between any two steps. One slot with two keys tells all that a key can suffer.
//!
//! What the servers do with each command is that of `cluster.c` in Redis 7.0. They are durable (`appendfsync always`), and
//! a replica has what its primary acknowledged; it has no flags of open slots, for those are not replicated.

use stateright::{Model, Property};

use super::{End, Ends, Flag, Step, back, forward};

type Id = usize;
/// One key may have moved while the other has not.
const KEYS: usize = 2;

const SOURCE: Id = 0;
const SOURCE_REPLICA: Id = 1;
const TARGET: Id = 2;
const TARGET_REPLICA: Id = 3;
const FROM: [Id; 2] = [SOURCE, SOURCE_REPLICA];
const TO: [Id; 2] = [TARGET, TARGET_REPLICA];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    up: bool,
    master: bool,
    /// The owner of the slot by what it knows, and the config epoch of that claim.
    owner: Id,
    claim: u8,
    /// Its own config epoch.
    epoch: u8,
    flag: Option<Flag<Id>>,
    /// Version of each key's value.
    values: [Option<u8>; KEYS],
}

impl Server {
    fn owns(&self, me: Id) -> bool {
        self.owner == me
    }

    /// Whether a client that was sent here by `ASK` is answered.
    fn answers_asking(&self, me: Id) -> bool {
        self.up && (self.owns(me) || matches!(self.flag, Some(Flag::Importing(_))))
    }
}

/// A controller in its term: what it saw, and the command it is about to send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Coordinator {
    ending: bool,
    source: Option<(Id, End<Id>)>,
    hand: Option<(Step, Id, Id)>,
    done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    servers: [Server; 4],
    /// The newest acknowledged version of each key.
    acknowledged: [u8; KEYS],
    current_epoch: u8,
    /// The leader of the second term comes after that of the first, whose command may still be on its way.
    coordinators: [Coordinator; 2],
    leader: usize,
    writes: u8,
    crashes: u8,
    failovers: u8,
    /// What was lost of itself: the model says so where it happens.
    looked_wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Happens {
    /// The coordinator reads the source, and then the target and decides.
    LookAtSource(usize),
    LookAtTarget(usize),
    /// Its command reaches the server.
    Send(usize),
    /// `MIGRATE` has copied the key, and the server dies before it deletes its own.
    SendAndDie(usize),
    /// The leader is deposed; the next one goes on, or takes back.
    Depose {
        ending: bool,
    },
    Write(usize),
    Gossip(Id, Id),
    Crash(Id),
    Restart(Id),
    FailOver(Id),
}

/// What is wrong with the protocol, to see that the model finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flaw {
    #[default]
    None,
    EarlyFinalise,
    SourceFirst,
    DirtyAbort,
    NoFence,
}

#[derive(Clone, Debug, Default)]
struct Move {
    flaw: Flaw,
    writes: u8,
    crashes: u8,
    failovers: u8,
    aborts: bool,
}

impl Move {
    /// The primary of a shard: the one that says it is.
    fn primary(state: &State, shard: [Id; 2]) -> Option<Id> {
        shard.into_iter().find(|&id| state.servers[id].master && state.servers[id].up)
    }

    fn end(state: &State, me: Id) -> End<Id> {
        let Server { owner, flag, values, .. } = &state.servers[me];
        End { me, owner: Some(*owner), flag: flag.clone(), keys: values.iter().flatten().count() as u64 }
    }

    /// What the coordinator is to do after both looks: the step, the server it goes to, and its peer.
    fn decide(&self, coordinator: &Coordinator, source: &End<Id>, target: &End<Id>) -> Option<(Step, Id, Id)> {
        let (source, target, from, to) = if coordinator.ending && target.owner == Some(target.me) {
            (target, source, &TO, &FROM)
        } else {
            (source, target, &FROM, &TO)
        };
        let handed_over = target.owner == Some(target.me);
        let ends = Ends { source, target, from, to };
        let taken_back = coordinator.ending && std::ptr::eq(from, &FROM);
        let step = match self.flaw {
            Flaw::DirtyAbort if taken_back && source.flag.is_none() => {
                if target.flag.is_some() {
                    Step::CloseTarget
                } else {
                    Step::Done
                }
            }
            _ if taken_back => back(&ends).ok()?,
            Flaw::EarlyFinalise if forward(&ends) == Ok(Step::Drain) && !handed_over => Step::Own,
            Flaw::SourceFirst if forward(&ends) == Ok(Step::Own) && source.owner == Some(source.me) => Step::Release,
            _ => forward(&ends).ok()?,
        };
        Some(match step {
            Step::Drain if taken_back => (step, target.me, source.me),
            Step::Import | Step::Own | Step::CloseTarget => (step, target.me, source.me),
            Step::Migrate | Step::Drain | Step::Release | Step::CloseSource | Step::Done => {
                (step, source.me, target.me)
            }
        })
    }

    /// The server carries a command out, or refuses it.
    fn obey(state: &mut State, step: Step, at: Id, peer: Id, dies: bool) {
        if !state.servers[at].up || !state.servers[at].master {
            return;
        }
        let owns = state.servers[at].owns(at);
        let holds = state.servers[at].values.iter().any(Option::is_some);
        match step {
            Step::Import if !owns => state.servers[at].flag = Some(Flag::Importing(peer)),
            Step::Migrate if owns => state.servers[at].flag = Some(Flag::Migrating(peer)),
            Step::Own => {
                if matches!(state.servers[at].flag, Some(Flag::Importing(_))) {
                    state.current_epoch += 1;
                    state.servers[at].epoch = state.current_epoch;
                    state.servers[at].flag = None;
                }
                state.servers[at].owner = at;
                state.servers[at].claim = state.servers[at].epoch;
            }
            Step::Release if !(owns && holds) => {
                if matches!(state.servers[at].flag, Some(Flag::Migrating(_))) && !holds {
                    state.servers[at].flag = None;
                }
                state.servers[at].owner = peer;
                state.servers[at].claim = state.servers[peer].epoch;
            }
            Step::CloseSource | Step::CloseTarget => state.servers[at].flag = None,
            Step::Drain => Self::migrate(state, at, peer, dies),
            Step::Import | Step::Migrate | Step::Release | Step::Done => {}
        }
    }

    /// `MIGRATE` of one key, with `REPLACE` while the sender is where clients write.
    fn migrate(state: &mut State, at: Id, peer: Id, dies: bool) {
        let open = state.servers[at].flag.is_some() || state.servers[at].owns(at);
        let Some(key) = (0..KEYS).find(|&key| state.servers[at].values[key].is_some()) else { return };
        let receives = state.servers[peer].answers_asking(peer)
            // A server that is migrating the slot away answers `ASK` for a key that it does not have.
            && !(state.servers[peer].values[key].is_none()
                && matches!(state.servers[peer].flag, Some(Flag::Migrating(_))));
        let Some(value) = state.servers[at].values[key].filter(|_| open && receives) else { return };
        let authoritative = matches!(state.servers[at].flag, Some(Flag::Migrating(_)));
        match state.servers[peer].values[key] {
            // Two values, and nothing to tell which is right: halted for a person, unless they are the same.
            Some(other) if other != value && !authoritative => return,
            _ => state.servers[peer].values[key] = Some(value),
        }
        if dies {
            state.servers[at].up = false;
        } else {
            state.servers[at].values[key] = None;
        }
    }

    /// Where a client's command on the key ends up, by the rules of redirection.
    fn route(state: &State, key: usize) -> Route {
        let Some(mut at) = Self::primary(state, FROM) else { return Route::Down };
        for _ in 0..4 {
            let server = &state.servers[at];
            if !server.up {
                return Route::Down;
            }
            if !server.owns(at) {
                at = server.owner;
                continue;
            }
            return match &server.flag {
                Some(Flag::Migrating(to)) if server.values[key].is_none() => {
                    if !state.servers[*to].up {
                        Route::Down
                    } else if state.servers[*to].answers_asking(*to) {
                        Route::Served(*to)
                    } else {
                        Route::Nobody
                    }
                }
                _ => Route::Served(at),
            };
        }
        Route::Nobody
    }

    /// The replica takes over what its primary owned, by what the replica knows. A server that takes a slot tells everybody
    /// at once, and a replica takes over only after the node timeout: it has heard of every hand-over by then. (One that
    /// has not would win the slot back with its newer epoch, and the keys with it: what no coordinator can prevent.)
    fn fail_over(state: &mut State, id: Id) {
        // What a look allowed is sent within a fraction of the node timeout, or looked at anew.
        for coordinator in &mut state.coordinators {
            (coordinator.hand, coordinator.source) = (None, None);
        }
        let Server { values, .. } = state.servers[id].clone();
        let claims = |at: &Id| state.servers[*at].master && state.servers[*at].owns(*at);
        let heard = (0..4).filter(claims).max_by_key(|&at| state.servers[at].epoch);
        let owner = heard.unwrap_or(state.servers[id].owner);
        state.failovers -= 1;
        state.current_epoch += 1;
        let epoch = state.current_epoch;
        let (owner, claim) = if owner == id { (id + 1, epoch) } else { (owner, state.servers[owner].epoch) };
        state.servers[id].master = false;
        state.servers[id + 1] = Server { up: true, master: true, owner, claim, epoch, flag: None, values };
    }

    fn gossip(state: &mut State, from: Id, to: Id) {
        let epoch = state.servers[from].epoch;
        let hearer = &mut state.servers[to];
        // A slot that is being imported is changed by commands only.
        if matches!(hearer.flag, Some(Flag::Importing(_))) || hearer.claim >= epoch {
            return;
        }
        if hearer.owns(to) {
            // What it held of the slot is deleted; its flag stays.
            hearer.values = [None; KEYS];
        }
        hearer.owner = from;
        hearer.claim = epoch;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Served(Id),
    /// Redirected in a circle, or sent to who refuses.
    Nobody,
    Down,
}

impl Model for Move {
    type State = State;
    type Action = Happens;

    fn init_states(&self) -> Vec<State> {
        let server = |master, epoch, value| Server {
            up: true,
            master,
            owner: SOURCE,
            claim: 2,
            epoch,
            flag: None,
            values: [value; KEYS],
        };
        let servers = [server(true, 2, Some(1)), server(false, 2, None), server(true, 1, None), server(false, 1, None)];
        vec![State {
            servers,
            acknowledged: [1; KEYS],
            current_epoch: 2,
            coordinators: Default::default(),
            leader: 0,
            writes: self.writes,
            crashes: self.crashes,
            failovers: self.failovers,
            looked_wrong: false,
        }]
    }

    fn actions(&self, state: &State, happens: &mut Vec<Happens>) {
        for (n, coordinator) in state.coordinators.iter().enumerate().take(state.leader + 1) {
            let leads = n == state.leader;
            match (&coordinator.hand, &coordinator.source) {
                (Some((step, ..)), _) => {
                    happens.push(Happens::Send(n));
                    if *step == Step::Drain && state.crashes > 0 {
                        happens.push(Happens::SendAndDie(n));
                    }
                }
                (None, None) if leads && !coordinator.done => happens.push(Happens::LookAtSource(n)),
                (None, Some(_)) if leads => happens.push(Happens::LookAtTarget(n)),
                _ => {}
            }
        }
        if state.leader == 0 {
            happens.push(Happens::Depose { ending: false });
            if self.aborts {
                happens.push(Happens::Depose { ending: true });
            }
        }
        if state.writes > 0 {
            happens.extend((0..KEYS).map(Happens::Write));
        }
        for (id, server) in state.servers.iter().enumerate() {
            if server.up && server.master && server.owns(id) {
                let others =
                    (0..4).filter(|&other| other != id && state.servers[other].up && state.servers[other].master);
                happens.extend(others.map(|other| Happens::Gossip(id, other)));
            }
            if server.up && server.master && state.crashes > 0 {
                happens.push(Happens::Crash(id));
            }
            if !server.up && server.master {
                happens.push(Happens::Restart(id));
                if state.failovers > 0 && id % 2 == 0 {
                    happens.push(Happens::FailOver(id));
                }
            }
        }
    }

    fn next_state(&self, last: &State, happens: Happens) -> Option<State> {
        let mut state = last.clone();
        match happens {
            Happens::LookAtSource(n) => {
                let source = Self::primary(&state, FROM)?;
                state.coordinators[n].source = Some((source, Self::end(&state, source)));
            }
            Happens::LookAtTarget(n) => {
                let target = Self::primary(&state, TO)?;
                let target = Self::end(&state, target);
                let (_, source) = state.coordinators[n].source.take()?;
                let decided = self.decide(&state.coordinators[n], &source, &target)?;
                if decided.0 == Step::Done {
                    state.coordinators[n].done = true;
                    let ending = state.coordinators[n].ending;
                    state.looked_wrong |= !is_complete(&state, ending);
                } else {
                    state.coordinators[n].hand = Some(decided);
                }
            }
            Happens::Send(n) | Happens::SendAndDie(n) => {
                let (step, at, peer) = state.coordinators[n].hand.take()?;
                let dies = matches!(happens, Happens::SendAndDie(_));
                state.crashes -= u8::from(dies);
                Self::obey(&mut state, step, at, peer, dies);
            }
            Happens::Depose { ending } => {
                state.leader = 1;
                state.coordinators[1].ending = ending;
                state.coordinators[0].source = None;
                // The fence: what the deposed one had in hand reaches nobody.
                if self.flaw != Flaw::NoFence {
                    state.coordinators[0].hand = None;
                }
            }
            Happens::Write(key) => {
                let Route::Served(at) = Self::route(&state, key) else { return None };
                state.writes -= 1;
                state.acknowledged[key] += 1;
                state.servers[at].values[key] = Some(state.acknowledged[key]);
            }
            Happens::Gossip(from, to) => Self::gossip(&mut state, from, to),
            Happens::Crash(id) => {
                state.crashes -= 1;
                state.servers[id].up = false;
            }
            Happens::Restart(id) => state.servers[id].up = true,
            Happens::FailOver(id) => Self::fail_over(&mut state, id),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("an acknowledged write is held", |_, state: &State| {
                let masters = || state.servers.iter().filter(|server| server.master);
                (0..KEYS)
                    .all(|key| masters().filter_map(|server| server.values[key]).max() == Some(state.acknowledged[key]))
            }),
            Property::always("who serves has the newest value", |model: &Self, state: &State| {
                // While a move is taken back, keys that had left are missed until they are home; a replica that takes
                // over without the flags of its primary misses those that had left.
                if model.failovers > 0 || state.coordinators[1].ending {
                    return true;
                }
                (0..KEYS).all(|key| match Self::route(state, key) {
                    Route::Served(at) => state.servers[at].values[key] == Some(state.acknowledged[key]),
                    Route::Nobody | Route::Down => true,
                })
            }),
            Property::always("somebody serves", |model: &Self, state: &State| {
                model.failovers > 0 || (0..KEYS).all(|key| Self::route(state, key) != Route::Nobody)
            }),
            Property::always("done is done", |_, state: &State| !state.looked_wrong),
            Property::sometimes("a move comes to its end", |_, state: &State| state.coordinators[0].done),
            Property::sometimes("a successor brings it to its end", |_, state: &State| {
                state.coordinators[1].done && !state.coordinators[1].ending && state.acknowledged != [1; KEYS]
            }),
        ]
    }
}

/// The slot is where it belongs, closed, with its key, and nowhere else.
fn is_complete(state: &State, ending: bool) -> bool {
    let (home, other) = if ending { (FROM, TO) } else { (TO, FROM) };
    let [home, other] = [home, other].map(|shard| Move::primary(state, shard));
    let (Some(home), Some(other)) = (home, other) else { return true };
    let (at, away) = (&state.servers[home], &state.servers[other]);
    at.owns(home)
        && at.flag.is_none()
        && at.values == state.acknowledged.map(Some)
        && away.flag.is_none()
        && away.values == [None; KEYS]
        && !away.owns(other)
}

mod tests;

//! A client of the cluster that follows MOVED and ASK and waits out CLUSTERDOWN and TRYAGAIN, and tells for each command
//! whether it was answered or whether nobody knows.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::resp::{Access, Connection, Reply};

/// How long a command may go without any server taking it.
const GIVE_UP: Duration = Duration::from_secs(90);

/// What became of a command.
#[derive(Debug)]
pub enum Outcome {
    /// Carried out, with this answer.
    Done(Reply),
    /// Sent, and no answer came: it was carried out, will be, or will not.
    Unknown,
}

/// Where the slot of a key is: CRC16 (XMODEM) of the tag, as the specification of Redis Cluster says.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0).map(|length| &rest[..length])
    });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % 16384
}

/// A client.
pub struct Client {
    seeds: Vec<SocketAddr>,
    access: Access,
    owners: Vec<Option<SocketAddr>>,
    connections: HashMap<SocketAddr, Connection>,
    turn: usize,
    timeout: Duration,
    /// The longest time a command took until it was answered.
    pub longest: Duration,
}

impl Client {
    /// A client that knows these servers.
    pub fn new(seeds: Vec<SocketAddr>, access: &Access) -> Self {
        Self {
            seeds,
            access: access.clone(),
            owners: vec![None; 16384],
            connections: HashMap::new(),
            turn: 0,
            timeout: Duration::from_secs(10),
            longest: Duration::ZERO,
        }
    }

    /// One command about one key, sent until a server takes it. Panics when none does.
    pub fn call<A: AsRef<[u8]>>(&mut self, key: &[u8], command: &[A]) -> Outcome {
        let begun = Instant::now();
        let outcome = self.insist(slot_of(key), command, begun + GIVE_UP);
        self.longest = self.longest.max(begun.elapsed());
        outcome
    }

    /// The same for what may be asked again.
    pub fn read<A: AsRef<[u8]>>(&mut self, key: &[u8], command: &[A]) -> Reply {
        let deadline = Instant::now() + GIVE_UP;
        loop {
            match self.call(key, command) {
                Outcome::Done(reply) => return reply,
                Outcome::Unknown => assert!(Instant::now() < deadline, "no answer to a read of {key:?}"),
            }
        }
    }

    fn insist<A: AsRef<[u8]>>(&mut self, slot: u16, command: &[A], deadline: Instant) -> Outcome {
        let mut asking = None;
        let mut last = String::new();
        loop {
            assert!(Instant::now() < deadline, "slot {slot}: no server took a command in {GIVE_UP:?}: {last}");
            let address = asking.or(self.owners[usize::from(slot)]).unwrap_or_else(|| self.any());
            let reply = match self.send(address, command, asking.is_some()) {
                Ok(reply) => reply,
                Err(Trouble::NotSent(why)) => {
                    last = format!("{address}: {why}");
                    self.owners[usize::from(slot)] = None;
                    asking = None;
                    pause();
                    continue;
                }
                Err(Trouble::Unanswered) => return Outcome::Unknown,
            };
            let Reply::Error(why) = &reply else {
                if asking.is_none() {
                    self.owners[usize::from(slot)] = Some(address);
                }
                return Outcome::Done(reply);
            };
            last = format!("{address}: {why}");
            asking = None;
            let words: Vec<&str> = why.split(' ').collect();
            match words[0] {
                "MOVED" => self.owners[usize::from(slot)] = words[2].parse().ok(),
                "ASK" => asking = words[2].parse().ok(),
                "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "TRYAGAIN" => {
                    self.owners[usize::from(slot)] = None;
                    pause();
                }
                _ => return Outcome::Done(reply),
            }
        }
    }

    fn send<A: AsRef<[u8]>>(&mut self, address: SocketAddr, command: &[A], asking: bool) -> Result<Reply, Trouble> {
        if !self.connections.contains_key(&address) {
            let opened = Connection::open(address, &self.access, self.timeout).map_err(Trouble::NotSent)?;
            self.connections.insert(address, opened);
        }
        let connection = self.connections.get_mut(&address).expect("just opened");
        let answer = (|| {
            if asking {
                // ASKING counts for the next command only; nothing goes astray when it is lost.
                connection.call(&["ASKING"])?;
            }
            connection.call(command)
        })();
        answer.map_err(|_| {
            self.connections.remove(&address);
            Trouble::Unanswered
        })
    }

    fn any(&mut self) -> SocketAddr {
        self.turn += 1;
        self.seeds[self.turn % self.seeds.len()]
    }
}

enum Trouble {
    NotSent(io::Error),
    Unanswered,
}

fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

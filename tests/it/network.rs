//! The network between the members of a group: one proxy in front of each peer listener, at the address by which the
//! others know it. A proxy tells who is calling by the header that every request of a member carries, so that each
//! ordered pair can be cut, slowed down and healed by itself while all members are given the same list of addresses,
//! as `--initial-members` wants, and the binary needs nothing for the tests.
//!
//! What is cut is held back and comes late, after the healing, as on a real network where TCP sends again; a connection
//! that was not yet established then is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::harness::{Setting, free_port};

const MEMBER_HEADER: &str = "x-slotkeeper-member:";

/// What is wrong with the network now; members are named by their index.
#[derive(Clone, Debug, Default)]
struct Faults {
    cut: BTreeSet<(usize, usize)>,
    delays: BTreeMap<(usize, usize), Duration>,
    /// What a tripwire waits for stands still.
    stalled: bool,
}

/// A whole request as one member sent it to another.
#[derive(Clone)]
pub struct Recorded {
    /// The sender.
    pub from: usize,
    /// Whom it was for.
    pub to: usize,
    /// What was asked: `append`, `vote`, `submit`, …
    pub verb: String,
    /// Every byte, head and body.
    pub bytes: Vec<u8>,
}

impl Recorded {
    /// The body.
    pub fn body(&self) -> &[u8] {
        let head = self.bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        &self.bytes[head + 4..]
    }
}

/// Ways that are cut when a member sends something.
struct Tripwire {
    text: String,
    to: Vec<usize>,
    cut: Box<dyn Fn(usize) -> Vec<(usize, usize)> + Send>,
    /// The connection stands still, now and whenever this is to be sent again, and no other does.
    stalls: bool,
    sender: Option<usize>,
}

/// The proxies of a group.
pub struct Network {
    setting: Setting,
    wires: Wires,
    _proxies: JoinSet<()>,
}

/// What every connection shares.
#[derive(Clone)]
struct Wires {
    faults: Arc<watch::Sender<Faults>>,
    tape: Arc<Mutex<Option<Vec<Recorded>>>>,
    tripwire: Arc<Mutex<Option<Tripwire>>>,
    /// How often what a member had sent was lost.
    losses: Arc<Mutex<BTreeMap<usize, u64>>>,
}

impl Network {
    /// Proxies for so many members.
    pub async fn start(count: usize) -> Self {
        let mut setting = Setting::direct(count);
        let faults = Arc::new(watch::Sender::new(Faults::default()));
        let wires = Wires { faults, tape: Arc::default(), tripwire: Arc::default(), losses: Arc::default() };
        let mut proxies = JoinSet::new();
        for (to, &peer) in setting.peers.iter().enumerate() {
            let port = free_port();
            setting.advertised[to] = port;
            let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
            let wires = wires.clone();
            proxies.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    connections.spawn(wires.clone().carry(stream, to, peer));
                    while connections.try_join_next().is_some() {}
                }
            });
        }
        Self { setting, wires, _proxies: proxies }
    }

    /// For [`Group::start_with`](super::harness::Group::start_with).
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Nothing gets from one member to another any more, neither requests nor answers; the way back is open.
    pub fn cut(&self, from: usize, to: usize) {
        self.wires.faults.send_modify(|faults| _ = faults.cut.insert((from, to)));
    }

    /// Cuts both ways between a member and others.
    pub fn cut_off(&self, member: usize, others: impl IntoIterator<Item = usize>) {
        for other in others {
            self.cut(member, other);
            self.cut(other, member);
        }
    }

    /// Everything from one member to another takes so much longer.
    pub fn delay(&self, from: usize, to: usize, by: Duration) {
        self.wires.faults.send_modify(|faults| _ = faults.delays.insert((from, to), by));
    }

    /// Cuts some ways the moment that this text is about to be sent to one of these members, depending on who sends it: it
    /// arrives only where its own way stays open.
    pub fn trip(&self, text: &str, to: Vec<usize>, cut: impl Fn(usize) -> Vec<(usize, usize)> + Send + 'static) {
        let tripwire = Tripwire { text: text.to_owned(), to, cut: Box::new(cut), stalls: false, sender: None };
        *self.wires.tripwire.lock().unwrap() = Some(tripwire);
    }

    /// Holds a connection back, until the network heals, when this text is about to be sent on it to a member. Others between
    /// the same members go on.
    pub fn stall(&self, text: &str, to: usize) {
        let cut = Box::new(|_| Vec::new());
        let tripwire = Tripwire { text: text.to_owned(), to: vec![to], cut, stalls: true, sender: None };
        *self.wires.tripwire.lock().unwrap() = Some(tripwire);
    }

    /// Who was about to send it, once somebody was.
    pub fn tripped(&self) -> Option<usize> {
        self.wires.tripwire.lock().unwrap().as_ref()?.sender
    }

    /// Everything gets through again; what was held back first.
    pub fn heal(&self) {
        self.wires.faults.send_replace(Faults::default());
    }

    /// What is held back of all that a member has sent will not arrive, as when its machine dies with it.
    pub fn lose(&self, from: usize) {
        *self.wires.losses.lock().unwrap().entry(from).or_default() += 1;
    }

    /// Keeps every request from now on.
    pub fn record(&self) {
        *self.wires.tape.lock().unwrap() = Some(Vec::new());
    }

    /// The requests kept so far.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.wires.tape.lock().unwrap().clone().unwrap_or_default()
    }

    /// Sends a recorded request once more, past the proxies; status and body of the answer.
    pub async fn replay(&self, recorded: &Recorded) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.setting.peers[recorded.to])).await.unwrap();
        stream.write_all(&recorded.bytes).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let read = stream.read_buf(&mut answer).await.unwrap();
            let text = String::from_utf8_lossy(&answer);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                if read == 0 || content_length(head).is_some_and(|length| body.len() >= length) {
                    return (status, body.to_owned());
                }
            }
            assert!(read > 0, "no answer: {text}");
        }
    }
}

impl Wires {
    /// One connection from its first byte to its last.
    async fn carry(self, mut dialer: TcpStream, to: usize, peer: u16) {
        let mut head = Vec::new();
        let Some(from) = caller(&mut dialer, &mut head).await else { return };
        let faults = self.faults.borrow().clone();
        if faults.cut.contains(&(from, to)) || faults.cut.contains(&(to, from)) {
            // Not established: nothing of it may ever arrive.
            return self.open(to, from).await;
        }
        let Ok(listener) = TcpStream::connect(("127.0.0.1", peer)).await else { return };
        drop((dialer.set_nodelay(true), listener.set_nodelay(true)));
        let (dialer_read, dialer_write) = dialer.into_split();
        let (listener_read, listener_write) = listener.into_split();
        let tape = Tape { wires: self.clone(), from, to, pending: Vec::new() };
        let there = self.pump((from, to), head, dialer_read, listener_write, Some(tape));
        let back = self.pump((to, from), Vec::new(), listener_read, dialer_write, None);
        // Either end's end is the end of both: HTTP leaves no connection half open.
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }

    async fn pump(
        &self,
        (from, to): (usize, usize),
        mut held: Vec<u8>,
        mut source: impl AsyncRead + Unpin,
        mut sink: impl AsyncWrite + Unpin,
        mut tape: Option<Tape>,
    ) {
        // Room for whole requests: each piece waits for its own delay.
        held.reserve(64 << 10);
        let mut sent = Vec::new();
        let lost = self.lost(from);
        loop {
            if !held.is_empty() {
                if self.watch((from, to), &mut sent, &held) {
                    let mut faults = self.faults.subscribe();
                    let _ = faults.wait_for(|faults| !faults.stalled).await;
                }
                let delay = self.faults.borrow().delays.get(&(from, to)).copied();
                tokio::time::sleep(delay.unwrap_or_default()).await;
                let was_open = self.is_open(from, to);
                self.open(from, to).await;
                if !was_open && self.lost(from) != lost {
                    return;
                }
                if let Some(tape) = &mut tape {
                    tape.keep(&held);
                }
                if sink.write_all(&held).await.is_err() {
                    return;
                }
                held.clear();
            }
            match source.read_buf(&mut held).await {
                Ok(0) | Err(_) => return self.open(from, to).await,
                Ok(_) => {}
            }
        }
    }

    /// Looks whether what is about to be sent is what a tripwire waits for, and whether it is to stand still; `sent` is the
    /// end of what went before.
    fn watch(&self, (from, to): (usize, usize), sent: &mut Vec<u8>, held: &[u8]) -> bool {
        let mut tripwire = self.tripwire.lock().unwrap();
        let again = self.faults.borrow().stalled;
        let waits = |tripwire: &&mut Tripwire| (tripwire.sender.is_none() || again) && tripwire.to.contains(&to);
        let Some(Tripwire { text, cut, stalls, sender, .. }) = tripwire.as_mut().filter(waits) else {
            sent.clear();
            return false;
        };
        sent.extend_from_slice(held);
        if sent.windows(text.len()).any(|window| window == text.as_bytes()) {
            self.faults.send_modify(|faults| {
                faults.cut.extend(cut(from));
                faults.stalled = *stalls;
            });
            *sender = Some(from);
            sent.clear();
            return *stalls;
        }
        sent.drain(..sent.len().saturating_sub(text.len()));
        false
    }

    fn is_open(&self, from: usize, to: usize) -> bool {
        !self.faults.borrow().cut.contains(&(from, to))
    }

    fn lost(&self, from: usize) -> u64 {
        self.losses.lock().unwrap().get(&from).copied().unwrap_or_default()
    }

    /// Waits until there is a way, and for an established connection until its bytes can pass.
    async fn open(&self, from: usize, to: usize) {
        let mut faults = self.faults.subscribe();
        let _ = faults.wait_for(|faults| !faults.cut.contains(&(from, to))).await;
    }
}

/// Reads as far as the header that names the caller; its index.
async fn caller(stream: &mut TcpStream, head: &mut Vec<u8>) -> Option<usize> {
    loop {
        let text = String::from_utf8_lossy(head).to_ascii_lowercase();
        let whole = text.rsplit_once("\r\n").map_or("", |(lines, _)| lines);
        if let Some(id) = whole.split("\r\n").find_map(|line| line.strip_prefix(MEMBER_HEADER)) {
            return id.trim().parse::<usize>().ok()?.checked_sub(1);
        }
        if stream.read_buf(head).await.ok()? == 0 {
            return None;
        }
    }
}

/// Cuts what one member sends on one connection into requests.
struct Tape {
    wires: Wires,
    from: usize,
    to: usize,
    pending: Vec<u8>,
}

impl Tape {
    fn keep(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&self.pending[..end]).into_owned();
            // A body of unknown length goes by unrecorded, with everything after it.
            let Some(length) = content_length(&head) else { return };
            let whole = end + 4 + length;
            if self.pending.len() < whole {
                return;
            }
            let bytes: Vec<u8> = self.pending.drain(..whole).collect();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let verb = path.rsplit('/').next().unwrap_or_default().to_owned();
            if let Some(tape) = self.wires.tape.lock().unwrap().as_mut() {
                tape.push(Recorded { from: self.from, to: self.to, verb, bytes });
            }
        }
    }
}

fn content_length(head: &str) -> Option<usize> {
    let mut lines = head.split("\r\n").map(str::to_ascii_lowercase);
    lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
}

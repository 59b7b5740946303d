//! Writers and readers that go on whatever happens, and a journal of what was acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use super::client::{Client, Outcome, slot_of};
use super::cluster::Cluster;
use super::keys::{Found, Key, Words};
use super::resp::{Access, Reply};

/// What is known of a key's versions.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Acknowledged.
    pub acked: Vec<u32>,
    /// Sent and never answered: there or not there.
    pub unknown: Vec<u32>,
    next: u32,
}

/// Everything that was acknowledged.
pub struct Journal {
    entries: Vec<Mutex<Entry>>,
    /// When the keys that end do so.
    pub end: SystemTime,
    /// Names of keys that ended during the test.
    pub brief: Vec<Vec<u8>>,
    /// The large hash: its name, fields and bytes in each.
    pub big: Option<Big>,
}

/// One key that takes long to move.
#[derive(Clone, Debug)]
pub struct Big {
    pub name: Vec<u8>,
    pub fields: u32,
    pub bytes: usize,
}

impl Big {
    pub fn value(&self, field: u32) -> Vec<u8> {
        (0..self.bytes).map(|at| u8::try_from((at * 13 + field as usize) % 251).unwrap()).collect()
    }
}

impl Journal {
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap()).map(Key)
    }

    pub fn entry(&self, key: Key) -> std::sync::MutexGuard<'_, Entry> {
        self.entries[key.0 as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What to write before anything moves.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub keys: u32,
    pub big_mb: u32,
}

/// Fills an untroubled cluster, each key with its first version.
pub fn fill(cluster: &Cluster, size: Size) -> Arc<Journal> {
    let end = SystemTime::now() + Duration::from_secs(7200);
    let brief = (0..size.keys / 100).map(|n| format!("brief {{{n}}}").into_bytes()).collect();
    let big =
        (size.big_mb > 0).then(|| Big { name: b"the big one".to_vec(), fields: size.big_mb * 10, bytes: 100_000 });
    let entries = (0..size.keys).map(|_| Mutex::new(Entry { acked: vec![1], unknown: Vec::new(), next: 2 }));
    let journal = Journal { entries: entries.collect(), end, brief, big };
    let mut commands: Vec<(Vec<u8>, Words)> = Vec::new();
    for key in journal.keys() {
        commands.push((key.name(), key.write(1)));
        if key.ends() {
            commands.push((key.name(), key.end_at(end)));
        }
    }
    for (turn, name) in journal.brief.iter().enumerate() {
        let life = (500 + turn * 97 % 2500).to_string().into_bytes();
        commands.push((name.clone(), vec![b"SET".to_vec(), name.clone(), b"soon gone".to_vec(), b"PX".to_vec(), life]));
    }
    for (name, reply) in in_batches(cluster, commands) {
        assert!(!matches!(reply, Reply::Error(_)), "{}: {reply:?}", name.escape_ascii());
    }
    if let Some(big) = &journal.big {
        let mut client = Client::new(cluster.addresses(), &cluster.options.access);
        for field in 0..big.fields {
            let command = [b"HSET".to_vec(), big.name.clone(), field.to_string().into_bytes(), big.value(field)];
            let Outcome::Done(Reply::Number(1)) = client.call(&big.name, &command) else { panic!("not written") };
        }
    }
    Arc::new(journal)
}

/// Commands about keys, sent in batches to the owners of their slots in a cluster where nothing moves; with the answers.
pub fn in_batches(cluster: &Cluster, commands: Vec<(Vec<u8>, Words)>) -> Vec<(Vec<u8>, Reply)> {
    let primaries = cluster.primaries();
    let mut owner_of = vec![usize::MAX; 16384];
    for (turn, (_, line)) in primaries.iter().enumerate() {
        line.slots.iter().for_each(|slot| owner_of[usize::from(*slot)] = turn);
    }
    let mut shares: Vec<Vec<(Vec<u8>, Words)>> = primaries.iter().map(|_| Vec::new()).collect();
    for (name, command) in commands {
        shares[owner_of[usize::from(slot_of(&name))]].push((name, command));
    }
    let mut answers = Vec::new();
    for ((index, _), share) in primaries.iter().zip(shares) {
        let mut connection = cluster.servers[*index].connect().unwrap();
        for batch in share.chunks(1000) {
            let sent: Vec<&[Vec<u8>]> = batch.iter().map(|(_, command)| &command[..]).collect();
            connection.send(&sent).unwrap();
            for (name, _) in batch {
                answers.push((name.clone(), connection.receive().unwrap()));
            }
        }
    }
    answers
}

/// What the load did.
#[derive(Debug, Default)]
pub struct Counts {
    pub acked: AtomicU64,
    pub unknown: AtomicU64,
    pub reads: AtomicU64,
    /// The longest time until a command was answered, in milliseconds.
    pub longest_ms: AtomicU64,
}

/// Writers and readers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub counts: Arc<Counts>,
}

impl Load {
    /// Starts two writers and two readers. A read that contradicts the journal ends its reader; [`Self::stop`] tells.
    pub fn start(seeds: &[SocketAddr], access: &Access, journal: &Arc<Journal>) -> Self {
        const EACH: u32 = 2;
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
        let threads = (0..2 * EACH)
            .map(|n| {
                let worker = Worker {
                    client: Client::new(seeds.to_vec(), access),
                    journal: journal.clone(),
                    counts: counts.clone(),
                    stop: stop.clone(),
                    random: Random(u64::from(n) + 1),
                };
                std::thread::spawn(move || if n < EACH { worker.write(n, EACH) } else { worker.read() })
            })
            .collect();
        Self { stop, threads, counts }
    }

    /// Stops it; panics where a reader was told something that cannot be.
    pub fn stop(self) -> Arc<Counts> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(fault) = thread.join() {
                std::panic::resume_unwind(fault);
            }
        }
        self.counts
    }

    /// How many writes were acknowledged so far.
    pub fn acked(&self) -> u64 {
        self.counts.acked.load(Ordering::Relaxed)
    }
}

struct Worker {
    client: Client,
    journal: Arc<Journal>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    random: Random,
}

impl Worker {
    /// Writes versions of the keys whose number is `n` modulo `all`: no other writer has them.
    fn write(mut self, n: u32, all: u32) {
        let count = u32::try_from(self.journal.entries.len()).unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            let key = Key((self.random.below(count) / all * all + n).min(count - count % all - all + n));
            let version = {
                let mut entry = self.journal.entry(key);
                entry.next += 1;
                // Unknown from before it is sent, since a reader may see it before the writer is answered.
                let version = entry.next - 1;
                entry.unknown.push(version);
                version
            };
            match self.client.call(&key.name(), &key.write(version)) {
                Outcome::Done(Reply::Error(why)) => panic!("{key:?} version {version}: {why}"),
                Outcome::Done(_) => {
                    let mut entry = self.journal.entry(key);
                    entry.unknown.retain(|other| *other != version);
                    entry.acked.push(version);
                    self.counts.acked.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Unknown => drop(self.counts.unknown.fetch_add(1, Ordering::Relaxed)),
            }
            self.note();
        }
    }

    /// Reads keys at random: what was acknowledged before the read began must be there.
    fn read(mut self) {
        let count = u32::try_from(self.journal.entries.len()).unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            let key = Key(self.random.below(count));
            let last = *self.journal.entry(key).acked.last().expect("filled");
            let reply = self.client.read(&key.name(), &key.look_for(last));
            let fine = match key.found(&reply) {
                Found::Yes => true,
                Found::No => false,
                // One that nobody was told of may come late and undo a newer one.
                Found::Latest(version) => version >= last || self.journal.entry(key).unknown.contains(&version),
            };
            let name = key.name();
            assert!(fine, "{key:?} \"{}\": version {last} was acknowledged, and then: {reply:?}", name.escape_ascii());
            self.counts.reads.fetch_add(1, Ordering::Relaxed);
            self.note();
        }
    }

    fn note(&self) {
        let longest = u64::try_from(self.client.longest.as_millis()).unwrap();
        self.counts.longest_ms.fetch_max(longest, Ordering::Relaxed);
    }
}

/// Numbers that look random (xorshift): a run differs from the next by its timing anyway.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
    }
}

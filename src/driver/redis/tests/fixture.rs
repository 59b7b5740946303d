//! Clusters of real servers on loopback.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::binaries;
use crate::domain::{
    Action, ActionId, ActionKind, ClusterId, ClusterName, DriverKind, Epoch, Generation, NodeId, PlanId, ShardId, Slot,
    SlotRange, Topology, TopologyShard, Version,
};
use crate::driver::redis::{Links, Redis, Settings};
use crate::driver::{Direction, Driver as _, DriverError, Job, Lease, Waits};
use crate::nodes_text::{self, Role};

pub use self::server::{Server, free_port};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster: masters first, then the replicas of each in turn.
pub struct Cluster {
    pub servers: Vec<Server>,
    masters: usize,
    pub name: ClusterName,
}

impl Cluster {
    /// Masters share all slots evenly; `empty` more of them own none. Each has so many replicas.
    pub fn start(masters: usize, empty: usize, replicas: usize, more: &[&str]) -> Self {
        Self::start_of(&binaries::usual(), (masters, empty, replicas), more)
    }

    /// The same of a certain server.
    pub fn start_of(binary: &Path, (masters, empty, replicas): (usize, usize, usize), more: &[&str]) -> Self {
        let all = masters + empty;
        let servers: Vec<Server> = (0..all * (1 + replicas)).map(|_| Server::start_of(binary, more)).collect();
        for (at, server) in servers.iter().enumerate() {
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < masters {
                let (first, last) = (at * 16384 / masters, (at + 1) * 16384 / masters - 1);
                server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            }
            if at > 0 {
                server.ask(&["CLUSTER", "MEET", "127.0.0.1", &servers[0].port.to_string()]);
            }
        }
        let cluster = Self { servers, masters: all, name: ClusterName::new("live").unwrap() };
        cluster.wait("all know all", || {
            cluster.servers.iter().all(|server| {
                let text = server.text(&["CLUSTER", "NODES"]);
                text.lines().count() == cluster.servers.len() && !text.contains("handshake")
            })
        });
        for at in 0..all * replicas {
            let master = cluster.servers[at % all].id();
            cluster.servers[all + at].ask(&["CLUSTER", "REPLICATE", master.as_str()]);
        }
        cluster.wait("all know who follows whom", || {
            let follow =
                |server: &Server| server.text(&["CLUSTER", "NODES"]).matches("slave").count() == all * replicas;
            cluster.servers.iter().all(follow)
        });
        cluster.settle();
        cluster
    }

    /// Waits until something holds.
    pub fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < deadline, "never: {what}; {}", self.views());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn views(&self) -> String {
        let view = |server: &Server| format!("{}:\n{}", server.port, server.text(&["CLUSTER", "NODES"]));
        self.running().map(view).collect::<Vec<_>>().join("\n")
    }

    /// Waits until every running server calls the cluster whole and every replica follows its master.
    pub fn settle(&self) {
        self.wait("the cluster is whole", || {
            self.running().all(|server| {
                let whole = server.try_ask(&["CLUSTER", "INFO"]).is_ok_and(|info| {
                    matches!(&info, Value::BulkString(text) if String::from_utf8_lossy(text).contains("cluster_state:ok"))
                });
                let in_sync = server.is_master() || server.text(&["INFO", "replication"]).contains("master_link_status:up");
                whole && in_sync
            })
        });
    }

    /// Those that are masters now.
    pub fn masters(&self) -> impl Iterator<Item = &Server> {
        self.running().filter(|server| server.is_master())
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.runs())
    }

    /// Kills a server's process and waits until one of its replicas has taken over; its place in `servers`.
    pub fn fail_over(&mut self, at: usize) -> usize {
        self.servers[at].kill();
        let replicas: Vec<usize> =
            (self.masters..self.servers.len()).filter(|n| (n - self.masters) % self.masters == at).collect();
        let mut took_over = None;
        self.wait("a replica takes over", || replicas.iter().any(|replica| self.servers[*replica].is_master()));
        for replica in replicas {
            if self.servers[replica].is_master() {
                took_over = Some(replica);
            }
        }
        let took_over = took_over.unwrap();
        let new = self.servers[took_over].id();
        self.wait("the others know it", || {
            self.running().all(|server| server.view().node(&new).is_some_and(|seen| seen.role == Role::Master))
        });
        took_over
    }

    /// What the table of a controller holds: by the view of the first server as it is now.
    pub fn topology(&self) -> Topology {
        let text = self.running().next().unwrap().text(&["CLUSTER", "NODES"]);
        let text: String = text.lines().map(|line| line.split(" [").next().unwrap().to_owned() + "\n").collect();
        topology_from(&text)
    }

    /// The shard whose primary is this server.
    pub fn shard(&self, at: usize) -> ShardId {
        ShardId::new(self.servers[at].id().as_str()).unwrap()
    }

    /// A job that moves slots between the shards of two servers.
    pub fn job(&self, topology: &Arc<Topology>, from: usize, to: usize, ranges: &[(u16, u16)]) -> Job {
        let ranges = ranges
            .iter()
            .map(|(first, last)| SlotRange::new(Slot::new(*first).unwrap(), Slot::new(*last).unwrap()).unwrap());
        let kind = ActionKind::MoveSlots { from: self.shard(from), to: self.shard(to), ranges: ranges.collect() };
        self.job_of(topology, kind)
    }

    /// Any job.
    pub fn job_of(&self, topology: &Arc<Topology>, kind: ActionKind) -> Job {
        Job {
            cluster: self.name.clone(),
            plan: PlanId::new("p-test").unwrap(),
            action: Action { id: ActionId(1), kind },
            direction: Direction::Forward,
            topology: Arc::clone(topology),
            limits: DriverKind::Redis.default_limits(),
            acks: Arc::new(BTreeSet::new()),
            came_from: None,
            ending: false,
            lease: Lease::new(1, || true),
            waits: Waits::default(),
        }
    }

    /// Carries a job out with a driver of its own.
    pub async fn execute(&self, job: &Job) -> Result<(), DriverError> {
        driver(Settings::default()).execute(job).await
    }

    /// Every running master's view of who owns a slot, and what it has open.
    pub fn says(&self, slot: u16) -> BTreeMap<u16, (Option<NodeId>, Option<String>)> {
        let slot = Slot::new(slot).unwrap();
        let masters = self.running().filter(|server| server.is_master());
        masters
            .map(|server| {
                let view = server.view();
                let owner = view.owner(slot).map(|owner| owner.id.clone());
                (server.port, (owner, view.flag(slot).map(ToString::to_string)))
            })
            .collect()
    }

    /// Every running master says that this server owns the slot, and none has it open; `redis-cli` finds no fault.
    pub fn assert_owned(&self, slot: u16, at: usize) {
        let owner = self.servers[at].id();
        self.wait(&format!("{slot} belongs to {owner}, and is closed: {:?}", self.says(slot)), || {
            self.says(slot).values().all(|(said, open)| said.as_ref() == Some(&owner) && open.is_none())
        });
    }

    /// `redis-cli --cluster check`.
    pub fn assert_sound(&self) {
        let port = self.running().next().unwrap().port;
        let check =
            || Command::new("redis-cli").args(["--cluster", "check", &format!("127.0.0.1:{port}")]).output().unwrap();
        let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
        self.wait(&format!("redis-cli finds no fault: {}", text(&check())), || {
            let output = check();
            let said = text(&output);
            output.status.success()
                && said.contains("All nodes agree")
                && said.contains("All 16384 slots covered")
                && !said.contains("WARNING")
                && !said.contains("[ERR]")
        });
    }

    /// A connection that follows redirections, as clients do.
    pub fn on_owner<T: redis::FromRedisValue>(&self, key: &[u8], command: &Cmd) -> T {
        let slot = Slot::of_key(key);
        let server = self.running().find(|server| {
            server.is_master() && server.view().owner(slot).is_some_and(|owner| owner.id == server.id())
        });
        let mut connection = server.expect("an owner that runs").connect().unwrap();
        command.query(&mut connection).unwrap()
    }
}

pub fn driver(settings: Settings) -> Redis {
    Redis::new(Arc::new(Links::new(settings)))
}

/// A key of a slot: distinct for each number.
pub fn key_in(slot: u16, number: usize) -> Vec<u8> {
    // The tag is found once for each slot; the rest of the key is free.
    let tag = (0_u32..1 << 20).map(|n| format!("t{n}")).find(|tag| Slot::of_key(tag.as_bytes()).get() == slot).unwrap();
    format!("{{{tag}}}:{number}").into_bytes()
}

/// The cluster that a text of `CLUSTER NODES` tells of; shards are named by their primaries.
pub fn topology_from(text: &str) -> Topology {
    let adopted = nodes_text::adopt(text.as_bytes(), None).unwrap();
    let node = |id: &NodeId| adopted.nodes.iter().find(|node| node.id == *id).unwrap().clone();
    let shards = adopted.shards.iter().map(|shard| TopologyShard {
        id: shard.id.clone(),
        weight: shard.weight,
        state: shard.state,
        primary: node(&shard.primary),
        replicas: shard.replicas.iter().map(node).collect(),
    });
    Topology {
        cluster_id: ClusterId::new("live-1").unwrap(),
        version: Version { generation: Generation(1), epoch: Epoch(1) },
        shards: shards.collect(),
        table: adopted.table,
        moving: Vec::new(),
    }
}

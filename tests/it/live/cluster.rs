//! A Redis cluster of real servers on loopback, formed by the plain commands, and looked at from the outside: what
//! each server says, and what `redis-cli --cluster check` says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::resp::{Access, certificate};
use super::server::{Options, Server, until};

/// A cluster.
pub struct Cluster {
    pub servers: Vec<Server>,
    folder: PathBuf,
    pub options: Options,
}

/// What one server says of another, or of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    pub id: String,
    pub flags: Vec<String>,
    pub primary: Option<String>,
    pub slots: BTreeSet<u16>,
    /// Open slots, as printed: `[5->-id]`, `[5-<-id]`.
    pub open: Vec<String>,
}

impl NodeLine {
    /// Reads one line of `CLUSTER NODES`.
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (open, ranges): (Vec<&str>, Vec<&str>) = words[8..].iter().partition(|word| word.starts_with('['));
        let slots = ranges.iter().flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u16>().unwrap()..=last.parse::<u16>().unwrap()
        });
        Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(str::to_owned).collect(),
            primary: (words[3] != "-").then(|| words[3].to_owned()),
            slots: slots.collect(),
            open: open.into_iter().map(str::to_owned).collect(),
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

impl Cluster {
    /// Starts so many primaries, each with so many replicas, shares the slots out evenly, and waits until all agree.
    pub fn start(folder: &Path, primaries: usize, replicas: usize, options: &Options) -> Self {
        let servers = (0..primaries * (1 + replicas)).map(|_| Server::start(folder, options)).collect();
        let cluster = Self { servers, folder: folder.to_owned(), options: options.clone() };
        for (index, server) in cluster.servers.iter().enumerate() {
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < primaries {
                let first = (16384 * index).div_ceil(primaries);
                let last = (16384 * (index + 1)).div_ceil(primaries) - 1;
                server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            }
        }
        for server in &cluster.servers[1..] {
            cluster.meet(server);
        }
        cluster.until_known();
        for (index, server) in cluster.servers.iter().enumerate().skip(primaries) {
            let primary = cluster.servers[index % primaries].id();
            until("a replica of its primary", || match server.call(&["CLUSTER", "REPLICATE", &primary]) {
                Ok(super::resp::Reply::Simple(_)) => Ok(()),
                other => Err(format!("{other:?}")),
            });
        }
        cluster.until_agreed();
        for server in cluster.servers.iter().skip(primaries) {
            until("replication", || {
                let told = server.ask(&["INFO", "replication"]).text();
                if told.contains("master_link_status:up") { Ok(()) } else { Err(told) }
            });
        }
        cluster
    }

    /// Starts one server more, empty and on its own; its index.
    pub fn add_server(&mut self) -> usize {
        self.servers.push(Server::start(&self.folder, &self.options));
        self.servers.len() - 1
    }

    /// Brings the last server into the cluster as `redis-cli --cluster add-node` does, and waits until all know it.
    pub fn meet_last(&self) {
        let server = self.servers.last().unwrap();
        server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &self.servers.len().to_string()]);
        self.meet(server);
        self.until_known();
        // It takes keys only some seconds after it has found the cluster whole.
        self.until_agreed();
    }

    fn meet(&self, server: &Server) {
        let (port, bus_port) = (self.servers[0].port.to_string(), self.servers[0].bus_port.to_string());
        server.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }

    /// The server with this id.
    pub fn index_of(&self, id: &str) -> usize {
        self.servers.iter().position(|server| server.is_running() && server.id() == id).expect("a server of ours")
    }

    /// What one server says of all.
    pub fn view(&self, index: usize) -> Vec<NodeLine> {
        self.servers[index].ask(&["CLUSTER", "NODES"]).text().lines().map(NodeLine::read).collect()
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|index| self.servers[*index].is_running())
    }

    /// Waits until every server that runs knows every other, by its own account.
    pub fn until_known(&self) {
        let count = self.running().count();
        until("every server knows every other", || {
            for index in self.running() {
                let view = self.view(index);
                let firm = |line: &NodeLine| !line.has("handshake") && !line.has("noaddr") && line.flags.len() < 4;
                if view.len() != count || !view.iter().all(firm) {
                    return Err(format!("{}: {view:?}", self.servers[index].address()));
                }
            }
            Ok(())
        });
    }

    /// Waits until all servers that run say the same of owners, roles and health, and that the cluster serves.
    pub fn until_agreed(&self) {
        until("all servers agree", || {
            let mut first = None;
            for index in self.running() {
                let told = self.servers[index].ask(&["CLUSTER", "INFO"]).text();
                if !told.contains("cluster_state:ok") {
                    return Err(format!("{}: {told}", self.servers[index].address()));
                }
                let view = self.view(index);
                if let Some(bad) = view.iter().find(|line| line.flags.iter().any(|flag| flag.starts_with("fail"))) {
                    return Err(format!("{bad:?}"));
                }
                let said: BTreeMap<_, _> =
                    view.into_iter().map(|line| (line.id.clone(), (line.primary.clone(), line.slots))).collect();
                match &first {
                    None => first = Some(said),
                    Some(first) if *first == said => {}
                    Some(_) => return Err(format!("{} says otherwise", self.servers[index].address())),
                }
            }
            Ok(())
        });
    }

    /// Indices of the servers that own slots or may, each with what it says of itself.
    pub fn primaries(&self) -> Vec<(usize, NodeLine)> {
        let of = |index| self.view(index).into_iter().find(|line| line.has("myself")).expect("a line of its own");
        self.running().map(|index| (index, of(index))).filter(|(_, line)| line.has("master")).collect()
    }

    /// Flags left on slots, with who has them.
    pub fn open_slots(&self) -> Vec<String> {
        let open = self.primaries().into_iter();
        open.flat_map(|(index, line)| line.open.into_iter().map(move |flag| format!("{index}: {flag}"))).collect()
    }

    /// `redis-cli` with what it needs to get in.
    pub fn redis_cli(&self, args: &[&str]) -> Output {
        let Access { user, password, tls } = &self.options.access;
        let mut command = Command::new("redis-cli");
        if let Some(user) = user {
            command.args(["--user", user]);
        }
        if let Some(password) = password {
            command.args(["--pass", password, "--no-auth-warning"]);
        }
        if *tls {
            command.arg("--tls").arg("--cacert").arg(certificate("ca.pem"));
        }
        command.args(args).output().unwrap()
    }

    /// What `redis-cli --cluster check` says, and whether it is content: all agree, all slots covered, none open.
    pub fn checked(&self) -> Result<(), String> {
        let index = self.running().next().expect("a server that runs");
        let output = self.redis_cli(&["--cluster", "check", &self.servers[index].address().to_string()]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let content = output.status.success()
            && said.contains("[OK] All nodes agree about slots configuration.")
            && said.contains("[OK] All 16384 slots covered.")
            && !said.contains("[WARNING]")
            && !said.contains("[ERR]");
        if content { Ok(()) } else { Err(format!("{}\n{said}", output.status)) }
    }

    /// `redis-cli --cluster check` must be clean, as soon as gossip has come round.
    pub fn assert_clean(&self) {
        until("redis-cli --cluster check is clean", || self.checked());
        assert_eq!(self.open_slots(), Vec::<String>::new(), "slots left open");
    }
}

//! `dev --with-redis N`: real redis-server processes beside the controller, formed into a cluster. They end with it, also
//! when it is killed, and find their keys again at the next start.

use std::fs::File;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use redis::{Connection, Value, cmd};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use super::args::TetherArgs;
use crate::domain::{Address, Host};

/// The program of a server, and what to do where it is missing.
const PROGRAM: &str = "redis-server";
const HINT: &str = "install it (Debian: apt-get install redis-server), or start without --with-redis";
/// Where the servers talk to each other, counted from the port of clients.
const BUS: u16 = 10_000;
/// How long the servers may take to start and to find each other.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a cluster may take to be whole again after a start; one that needs others besides is not waited for.
const RETURN: Duration = Duration::from_secs(8);
/// How long they may take to end.
const END: Duration = Duration::from_secs(5);
/// A file that is there once the servers have been made a cluster.
const FORMED: &str = "formed";

/// Servers that run.
pub struct RedisServers {
    servers: Vec<Server>,
}

struct Server {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl RedisServers {
    /// Starts `count` servers over what is in the folder, or makes a new cluster of them. To be called from a thread that
    /// lives as long as the process: the servers end with the thread that started them.
    ///
    /// # Errors
    /// When redis-server is not installed, a port is taken, another number of servers is there already, or a server does
    /// not start, with its log.
    pub fn start(folder: &Path, count: u16, base: u16) -> anyhow::Result<Self> {
        demand_program()?;
        let mut ports = ports_in(folder)?;
        let fresh = !folder.join(FORMED).exists();
        if fresh && ports.len() != usize::from(count) {
            // An earlier start came to nothing.
            ports = free_ports(count, base)?;
        }
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        ensure!(
            ports.len() == usize::from(count),
            "{} holds {} servers: start with --with-redis {}, or with another --data-dir",
            folder.display(),
            ports.len(),
            ports.len(),
        );
        let mut servers = Self { servers: Vec::new() };
        for port in ports {
            servers.servers.push(Server::launch(&folder.join(port.to_string()), port)?);
        }
        let mut connections = Vec::new();
        for server in &mut servers.servers {
            connections.push(server.connect()?);
        }
        if fresh {
            form(&servers, &mut connections)?;
            File::create(folder.join(FORMED)).and_then(|file| file.sync_all())?;
        } else {
            match until_whole(&mut connections, None, RETURN) {
                // Servers that were added are not started here: what is missing is for the controller to tell.
                Err(fault) if !fault.is::<Slow>() => return Err(fault),
                _ => {}
            }
        }
        Ok(servers)
    }

    /// Ports of the servers.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.servers.iter().map(|server| server.port)
    }

    /// The first of them.
    pub fn seed(&self) -> Address {
        let host = Host::new("127.0.0.1").expect("an address");
        Address { host, port: self.servers[0].port }
    }
}

impl Drop for RedisServers {
    /// In order, as SIGTERM asks; by force when that takes too long.
    fn drop(&mut self) {
        for server in &self.servers {
            if let Ok(Some(id)) = i32::try_from(server.child.id()).map(Pid::from_raw) {
                let _ = kill_process(id, Signal::TERM);
            }
        }
        let deadline = Instant::now() + END;
        for server in &mut self.servers {
            while server.child.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(server.child.kill());
            drop(server.child.wait());
        }
    }
}

impl Server {
    fn launch(folder: &Path, port: u16) -> anyhow::Result<Self> {
        for port in [port, port + BUS] {
            let address = (Ipv4Addr::LOCALHOST, port);
            TcpListener::bind(address).with_context(|| {
                format!(
                    "a server of --with-redis needs port {port}, which it had before: end what listens there, or start \
                     over with another --data-dir and --redis-port"
                )
            })?;
        }
        std::fs::create_dir_all(folder)?;
        let log = File::options().create(true).append(true).open(folder.join("redis.log"))?;
        let port_text = port.to_string();
        let child = Command::new(std::env::current_exe().context("the path of this program")?)
            .args(["tether", "--parent", &std::process::id().to_string(), "--", PROGRAM, "--port", &port_text])
            .args(["--bind", "127.0.0.1", "--cluster-enabled", "yes", "--cluster-allow-replica-migration", "no"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"])
            // Ctrl-C at the terminal is for the controller, which then ends them.
            .process_group(0)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("redis-server does not start")?;
        Ok(Self { child, port, folder: folder.to_owned() })
    }

    /// A connection, once the server answers.
    fn connect(&mut self) -> anyhow::Result<Connection> {
        let client = redis::Client::open((Ipv4Addr::LOCALHOST.to_string(), self.port))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the redis-server at port {} ended ({status}); its log says:\n{}", self.port, self.log_end());
            }
            let fault = match client.get_connection_with_timeout(Duration::from_secs(2)) {
                Ok(mut connection) => match cmd("PING").query::<Value>(&mut connection) {
                    Ok(_) => return Ok(connection),
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            };
            ensure!(Instant::now() < deadline, "the redis-server at port {} does not answer: {fault}", self.port);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log_end(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("redis.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

/// Says what to install before anything is made.
fn demand_program() -> anyhow::Result<()> {
    let mut asked = Command::new(PROGRAM);
    asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match asked.status() {
        Ok(_) => Ok(()),
        Err(fault) => bail!("--with-redis starts {PROGRAM}, which cannot be run ({fault}): {HINT}"),
    }
}

/// Servers that were made before: each has a folder named by its port.
fn ports_in(folder: &Path) -> anyhow::Result<Vec<u16>> {
    let mut ports = Vec::new();
    if !folder.exists() {
        return Ok(ports);
    }
    for entry in std::fs::read_dir(folder)? {
        ports.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u16>().ok()));
    }
    ports.sort_unstable();
    Ok(ports)
}

/// Ports that nobody has now, nor those of the bus.
fn free_ports(count: u16, base: u16) -> anyhow::Result<Vec<u16>> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let found: Vec<u16> =
        (base..u16::MAX - BUS).filter(|port| is_free(*port) && is_free(port + BUS)).take(usize::from(count)).collect();
    ensure!(
        found.len() == usize::from(count),
        "no {count} free ports from {base} on (each with the one 10000 above it): choose others with --redis-port"
    );
    Ok(found)
}

/// Makes one cluster of the servers, the slots shared out evenly. Goes on where an earlier start ended.
fn form(servers: &RedisServers, connections: &mut [Connection]) -> anyhow::Result<()> {
    let count = connections.len();
    for (turn, connection) in connections.iter_mut().enumerate() {
        let told: String = cmd("CLUSTER").arg("INFO").query(connection)?;
        if told.contains("cluster_slots_assigned:0\r") && told.contains("cluster_known_nodes:1\r") {
            let first = (16384 * turn).div_ceil(count);
            let last = (16384 * (turn + 1)).div_ceil(count) - 1;
            let () = cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last).query(connection)?;
            // Refused by a server that has one already.
            drop(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(turn + 1).query::<Value>(connection));
        }
    }
    for server in &servers.servers[1..] {
        let () = cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(server.port).query(&mut connections[0])?;
    }
    until_whole(connections, Some(count), PATIENCE)
}

/// Waits until every server says that the cluster serves, and that it knows so many.
fn until_whole(connections: &mut [Connection], count: Option<usize>, within: Duration) -> anyhow::Result<()> {
    let known = count.map_or_else(String::new, |count| format!("cluster_known_nodes:{count}\r"));
    let deadline = Instant::now() + within;
    for connection in connections {
        loop {
            let told: String = cmd("CLUSTER").arg("INFO").query(connection)?;
            if told.contains("cluster_state:ok\r") && told.contains(&known) {
                break;
            }
            if Instant::now() > deadline {
                return Err(Slow(told).into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// The servers have not found each other in time.
#[derive(Debug, thiserror::Error)]
#[error("the servers do not find each other: {0}")]
struct Slow(String);

/// Becomes another program that gets SIGTERM when this process's parent ends, however it ends: what is asked of the system
/// before becoming it stays.
#[must_use]
pub fn tether(args: &TetherArgs) -> ExitCode {
    let fault = match set_parent_process_death_signal(Some(Signal::TERM)) {
        // The parent may have ended before that.
        Ok(()) if getppid().map(|id| id.as_raw_nonzero().get().unsigned_abs()) != Some(args.parent) => {
            return ExitCode::FAILURE;
        }
        Ok(()) => Command::new(&args.command[0]).args(&args.command[1..]).exec(),
        Err(fault) => fault.into(),
    };
    let _ = writeln!(std::io::stderr(), "{}: {fault}; {HINT}", args.command[0]);
    ExitCode::FAILURE
}

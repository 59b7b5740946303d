//! One redis-server process on loopback: started, killed with -9, stopped, started again at the same port over the same
//! files, and ended by its process id when it goes out of scope.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use super::resp::{Access, Connection, Reply, certificate};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What differs from server to server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server: a program that is found by its name, or a path.
    pub binary: PathBuf,
    /// `appendonly yes` with `appendfsync always`: what was acknowledged is on disk.
    pub durable: bool,
    /// After how long of silence a node is taken for failing.
    pub node_timeout_ms: u32,
    pub access: Access,
    /// More arguments of redis-server.
    pub more: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            binary: "redis-server".into(),
            durable: true,
            node_timeout_ms: 3000,
            access: Access::default(),
            more: Vec::new(),
        }
    }
}

/// A loopback port that was free a moment ago; below those that other tests take, those of `dev --with-redis`, and those
/// of connections.
fn free_port() -> u16 {
    const FIRST: u16 = 3000;
    const COUNT: u16 = 4000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() % u32::from(COUNT);
    loop {
        let turn = u32::from(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((start * 89 + turn) % u32::from(COUNT)).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Fails with a word on what to install, unless redis-server and redis-cli are there.
pub fn demand_redis() {
    for binary in ["redis-server", "redis-cli"] {
        let there = Command::new(binary).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(
            there,
            "{binary} is not installed, and these tests are about it: `make deps` installs it \
             (Debian: apt-get install redis-server)"
        );
    }
}

/// A server that moves slots by itself, where `SLOTKEEPER_TEST_VALKEY` names one; says which, or that there is none.
pub fn valkey(test: &str) -> Option<PathBuf> {
    let Some(binary) = std::env::var_os("SLOTKEEPER_TEST_VALKEY").filter(|named| !named.is_empty()) else {
        println!("{test}: not against a real Valkey: SLOTKEEPER_TEST_VALKEY names none");
        return None;
    };
    let output = Command::new(&binary).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("SLOTKEEPER_TEST_VALKEY={}: {error}", binary.display()));
    println!("{test}: against {}", String::from_utf8_lossy(&output.stdout).trim());
    Some(binary.into())
}

/// Asks again and again until there is an answer.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) => assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}; the last try: {why}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server.
pub struct Server {
    child: Option<Child>,
    pub port: u16,
    pub bus_port: u16,
    pub folder: PathBuf,
    options: Options,
}

impl Server {
    /// Starts an empty server in cluster mode with a folder of its own in this one, and waits until it answers.
    pub fn start(folder: &Path, options: &Options) -> Self {
        demand_redis();
        loop {
            let (port, bus_port) = (free_port(), free_port());
            let folder = folder.join(format!("redis-{port}"));
            std::fs::create_dir_all(&folder).unwrap();
            let mut server = Self { child: None, port, bus_port, folder, options: options.clone() };
            server.launch();
            // Somebody may have taken the port in between: then with another.
            if server.answers() {
                return server;
            }
        }
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Starts the process again, over the same files and at the same port, and waits until it answers.
    pub fn restart(&mut self) {
        self.launch();
        assert!(self.answers(), "{} does not start again; its log:\n{}", self.address(), self.log_text());
    }

    fn launch(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.folder.join("redis.log")).unwrap();
        let child = Command::new(&self.options.binary)
            .args(self.arguments())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.options.binary.display()));
        self.child = Some(child);
    }

    fn arguments(&self) -> Vec<String> {
        let Options { durable, node_timeout_ms, access, more, .. } = &self.options;
        let (plain, tls) = if access.tls { (0, self.port) } else { (self.port, 0) };
        let mut arguments = format!(
            "--port {plain} --tls-port {tls} --cluster-port {} --bind 127.0.0.1 --cluster-enabled yes \
             --cluster-node-timeout {node_timeout_ms} --cluster-allow-replica-migration no --repl-diskless-sync-delay 0 \
             --daemonize no",
            self.bus_port
        );
        if *durable {
            arguments.push_str(" --appendonly yes --appendfsync always");
        }
        let mut arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        arguments.extend(["--save", ""].map(str::to_owned));
        if let (None, Some(password)) = (&access.user, &access.password) {
            arguments.extend(["--requirepass", password, "--masterauth", password].map(str::to_owned));
        }
        if access.tls {
            let file = |name: &str| certificate(name).to_str().unwrap().to_owned();
            arguments
                .extend("--tls-cluster yes --tls-replication yes --tls-auth-clients no".split(' ').map(str::to_owned));
            for (flag, name) in [
                ("--tls-ca-cert-file", "ca.pem"),
                ("--tls-cert-file", "server.pem"),
                ("--tls-key-file", "server.key"),
                ("--tls-client-cert-file", "client.pem"),
                ("--tls-client-key-file", "client.key"),
            ] {
                arguments.extend([flag.to_owned(), file(name)]);
            }
        }
        arguments.extend(more.iter().cloned());
        arguments
    }

    /// Whether the process lives and answers PING: false once it has ended.
    fn answers(&mut self) -> bool {
        until("an answer to PING", || {
            if self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some()) {
                self.child = None;
                return Ok(false);
            }
            match self.call(&["PING"]) {
                Ok(Reply::Simple(_)) => Ok(true),
                other => Err(format!("{other:?}; log:\n{}", self.log_text())),
            }
        })
    }

    /// SIGKILL, at once.
    pub fn kill_9(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal such as `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success(), "kill -s {name} {id}");
    }

    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address(), &self.options.access, Duration::from_secs(10))
    }

    /// One command over a new connection.
    pub fn call(&self, command: &[&str]) -> io::Result<Reply> {
        self.connect()?.call(command)
    }

    /// One command that must not be refused.
    #[track_caller]
    pub fn ask(&self, command: &[&str]) -> Reply {
        match self.call(command) {
            Ok(Reply::Error(why)) => panic!("{} {command:?}: {why}", self.address()),
            Ok(reply) => reply,
            Err(fault) => panic!("{} {command:?}: {fault}; log:\n{}", self.address(), self.log_text()),
        }
    }

    pub fn id(&self) -> String {
        self.ask(&["CLUSTER", "MYID"]).text()
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(self.folder.join("redis.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

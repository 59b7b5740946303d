//! Processes that end with what started them, and what the measures need of a group of them.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a group may take to be there.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Why a request brought nothing: no connection, no leader, or a refusal.
#[derive(Debug)]
pub struct Failed(#[expect(dead_code, reason = "shown when it ends the run")] pub String);

impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// One of the two systems: a group of members on loopback.
pub trait System {
    /// A client of one member.
    type Client: Client;

    /// Number of members.
    fn members(&self) -> usize;
    /// The member that leads.
    fn leader(&self) -> impl Future<Output = usize>;
    /// A connection to a member, for one load that is numbered.
    fn connect(&self, member: usize, number: usize) -> impl Future<Output = Result<Self::Client, Failed>> + Send;
    /// The members' processes.
    fn processes(&mut self) -> &mut [Process];
}

/// One load over a connection.
pub trait Client: Send + 'static {
    /// A write, acknowledged.
    fn write(&mut self) -> impl Future<Output = Result<(), Failed>> + Send;
    /// A write that has more to look after, where there is one.
    fn change(&mut self) -> impl Future<Output = Result<(), Failed>> + Send {
        self.write()
    }
    /// Takes back what a write may have left.
    fn settle(&mut self) -> impl Future<Output = Result<(), Failed>> + Send {
        std::future::ready(Ok(()))
    }
    /// A linearizable read.
    fn read(&mut self) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// A process that can be killed and started again with the same arguments.
pub struct Process {
    child: Option<Child>,
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
}

impl Process {
    /// Starts it; what it says goes to the log.
    pub fn start(program: &Path, args: Vec<String>, log: PathBuf) -> Self {
        let mut process = Self { child: None, program: program.to_owned(), args, log };
        process.restart();
        process
    }

    /// Processor time that it has used, in seconds and to a hundredth of one.
    pub fn processor_s(&self) -> f64 {
        let Some(child) = &self.child else { return 0.0 };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        // The name, in parentheses, may hold blanks; the times in user and in kernel mode are fields 14 and 15.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    /// SIGKILL, at once.
    pub fn kill_9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
        }
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).expect("the log is ours");
        let spawned = Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn();
        self.child = Some(spawned.unwrap_or_else(|error| panic!("{}: {error}", self.program.display())));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_9();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), std::fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// A loopback port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback").port()
}

/// Asks until there is an answer.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

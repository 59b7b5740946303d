//! Arguments of `serve` and `dev`, as typed; `config` resolves them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::domain::MemberId;

/// Runs a controller: one that stands alone, or a member of a group.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Configuration file (TOML); flags and SLOTKEEPER_* win over it
    #[arg(long, env = "SLOTKEEPER_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where this member keeps its log, snapshots and audit; nothing else may use it
    #[arg(long, env = "SLOTKEEPER_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the HTTP interface
    #[arg(long, env = "SLOTKEEPER_LISTEN", value_name = "HOST:PORT")]
    pub listen: Option<SocketAddr>,
    /// Address for the other members of the group; needed with --initial-members and --join
    #[arg(long, env = "SLOTKEEPER_PEER_LISTEN", value_name = "HOST:PORT")]
    pub peer_listen: Option<SocketAddr>,
    /// This member's number in --initial-members
    #[arg(long, env = "SLOTKEEPER_MEMBER_ID", value_name = "N")]
    pub member_id: Option<MemberId>,
    /// Every first member of the group, the same list on each: 1=HOST:PORT,2=HOST:PORT,…
    #[arg(long, env = "SLOTKEEPER_INITIAL_MEMBERS", value_name = "N=HOST:PORT,…")]
    pub initial_members: Option<String>,
    /// Where the other members reach this one; --peer-listen when absent
    #[arg(long, env = "SLOTKEEPER_PEER_ADDRESS", value_name = "HOST:PORT")]
    pub peer_address: Option<String>,
    /// Join the group that this member belongs to; not looked at once it has joined. See `member add`
    #[arg(long, env = "SLOTKEEPER_JOIN", value_name = "URL,…", value_delimiter = ',')]
    pub join: Vec<String>,
    /// File with the token that `member add` gave for it
    #[arg(long, env = "SLOTKEEPER_JOIN_TOKEN_FILE", value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Short raft timeouts, for members on one fast network with fast disks
    #[arg(long)]
    pub fast_lan: bool,
    /// No tokens: everyone who reaches the port is admin. Loopback addresses only
    #[arg(long)]
    pub insecure_dev: bool,
    /// Serve other than loopback addresses without TLS, because something in front of this member terminates it
    #[arg(long)]
    pub allow_plaintext: bool,
    /// Write the first admin token to this file (mode 0600) instead of printing it
    #[arg(long, env = "SLOTKEEPER_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
    /// Format of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Runs one controller on loopback for trying things out: no token needed.
#[derive(Args, Clone, Debug)]
pub struct DevArgs {
    /// Where it keeps its state; it is there again at the next start
    #[arg(long, default_value = "slotkeeper-dev", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Address of the HTTP interface; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:7373", value_name = "HOST:PORT")]
    pub listen: SocketAddr,
    /// Start N redis-server processes beside it, make one cluster of them, and adopt it. They end with the controller and
    /// keep their keys in --data-dir
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub with_redis: Option<u16>,
    /// The servers of --with-redis take the first free ports from this one on, and the ports 10000 above those; they have the
    /// same at the next start
    #[arg(long, default_value_t = 7001, value_name = "BASE", requires = "with_redis",
        value_parser = clap::value_parser!(u16).range(1024..=55000))]
    pub redis_port: u16,
}

/// Runs a program that ends when the process that started it does. `dev` starts its servers with it.
#[derive(Args, Clone, Debug)]
pub struct TetherArgs {
    /// The process that starts it
    #[arg(long, value_name = "ID")]
    pub parent: u32,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

//! From a configuration to a running controller, and to its orderly end.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::future::select_all;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::client::Client;
use crate::controller::{Caller, Controller, FirstStart, Zones};
use crate::domain::{Address, ClusterName, DriverKind, Policy};
use crate::driver::redis::{Links, Redis};
use crate::driver::{Driver, Flip, Manual};
use crate::executor;
use crate::raft::{self, OpenError, Raft, Tuning};
use crate::server::listener::{self, Limits};
use crate::server::{self, ServerConfig};

use super::args::{DevArgs, ServeArgs};
use super::config::Config;
use super::descriptors;
use super::redis_servers::RedisServers;
use super::telemetry;
use super::threads::Threads;

/// The configuration or the data directory cannot be used as given.
const EXIT_CONFIGURATION: u8 = 2;
/// The store is damaged, newer than this binary, or another member's.
const EXIT_STORE: u8 = 10;

/// How long a group may take to take this member in.
const JOIN_WITHIN: Duration = Duration::from_secs(30);

/// How often, and how far apart, the servers of `dev` are asked for their cluster: they may not agree at once.
const ADOPT_TRIES: u32 = 20;
const ADOPT_PAUSE: Duration = Duration::from_millis(500);

/// How long requests of peers that are under way may take to end.
const PEERS_DRAIN: Duration = Duration::from_millis(200);

/// `slotkeeper serve`: runs until SIGTERM or SIGINT.
#[must_use]
pub fn serve(args: ServeArgs) -> ExitCode {
    match Config::of_serve(args) {
        Ok(config) => {
            telemetry::start(config.log_format, "info,openraft=warn");
            run(config, |_| {})
        }
        Err(fault) => refuse(&fault),
    }
}

/// `slotkeeper dev`: one member on loopback, no tokens, runs until SIGTERM or SIGINT.
#[must_use]
pub fn dev(args: DevArgs) -> ExitCode {
    let data_dir = args.data_dir.display().to_string();
    let (count, base) = (args.with_redis, args.redis_port);
    let mut config = match Config::of_dev(args) {
        Ok(config) => config,
        Err(fault) => return refuse(&fault),
    };
    telemetry::start(config.log_format, "warn,openraft=error");
    // Started from this thread, which lives as long as the process; and ended after the controller.
    let started = count.map(|count| RedisServers::start(&config.data_dir.join("redis"), count, base)).transpose();
    match started {
        Ok(servers) => {
            config.seed = servers.as_ref().map(RedisServers::seed);
            let ports: Vec<u16> = servers.iter().flat_map(RedisServers::ports).collect();
            run(config, move |address| welcome(address, &data_dir, &ports))
        }
        Err(fault) => fail(&fault),
    }
}

fn refuse(fault: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("slotkeeper: {fault}");
    ExitCode::from(EXIT_CONFIGURATION)
}

fn welcome(address: SocketAddr, data_dir: &str, redis: &[u16]) {
    let endpoint = if address.port() == 7373 { String::new() } else { format!(" --endpoint http://{address}") };
    let next = match redis {
        [] => format!(
            "redis-cli cluster nodes | slotkeeper cluster import -{endpoint}\n  \
             slotkeeper plan create --add 127.0.0.1:7003 --reason 'more room'{endpoint}"
        ),
        [first, ..] => {
            let more = redis.iter().max().expect("one at least") + 1;
            format!(
                "redis-cli -c -p {first} set greeting hello\n  \
                 redis-server --port {more} --cluster-enabled yes --cluster-allow-replica-migration no \\\n    \
                 --appendonly yes --appendfsync always --dir $(mktemp -d) &\n  \
                 slotkeeper node add 127.0.0.1:{more} --reason 'more room'{endpoint}"
            )
        }
    };
    let servers = if redis.is_empty() {
        String::new()
    } else {
        let ports: Vec<String> = redis.iter().map(ToString::to_string).collect();
        format!("Redis servers of the cluster `default`: 127.0.0.1, ports {}.\n", ports.join(", "))
    };
    let text = format!(
        "slotkeeper {version} for development: http://{address} (documentation at /docs), state in {data_dir}\n\
         {servers}No token is needed. Try, in another terminal:\n\n  {next}\n\n\
         Ctrl-C ends it; the state stays.\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    // A closed standard output must not end the controller.
    drop(std::io::stdout().write_all(text.as_bytes()));
    drop(std::io::stdout().flush());
}

fn run(config: Config, started: impl FnOnce(SocketAddr)) -> ExitCode {
    let threads = match Threads::start() {
        Ok(threads) => threads,
        Err(fault) => return fail(&anyhow::Error::new(fault).context("the runtime cannot start")),
    };
    match threads.serving.block_on(carry(config, threads.raft.handle(), started)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fail(&fault),
    }
}

fn fail(fault: &anyhow::Error) -> ExitCode {
    eprintln!("slotkeeper: {fault:#}");
    match fault.downcast_ref::<OpenError>() {
        Some(OpenError::Config(_) | OpenError::Directory { .. } | OpenError::Locked { .. }) => {
            ExitCode::from(EXIT_CONFIGURATION)
        }
        Some(_) => ExitCode::from(EXIT_STORE),
        None => ExitCode::FAILURE,
    }
}

/// Starts everything, waits for a signal, stops everything: listeners first, the group last.
async fn carry(config: Config, raft_thread: &Handle, started: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    // First of all, so that a signal ends it in order from the first moment on.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let own = std::iter::once(config.listen).chain(config.peer_listen).collect();
    let redis = config.redis.load(own).map_err(|fault| OpenError::Config(fault.to_string()))?;
    let observe_every = config.redis.observe_every().map_err(|fault| OpenError::Config(fault.to_string()))?;
    let links = Arc::new(Links::new(redis));
    // Bound before the store is opened, so that a second process on the same ports touches nothing.
    let listener = bind(config.listen).await?;
    let address = listener.local_addr()?;
    let peer_listener = match config.peer_listen {
        Some(address) => Some(raft_thread.spawn(bind(address)).await??),
        None => None,
    };
    let joined = join(&config).await?;
    let (raft, peers) = raft_thread.spawn(Raft::open(raft_config(&config, joined))).await??;
    let mut removed = raft.removed();
    let controller = Controller::new(raft);
    let (stop, stopping) = watch::channel(false);

    let stopped = |mut stopping: watch::Receiver<bool>| async move {
        // A sender that is gone is a stop as well.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let drivers = executor::drivers([Arc::new(Flip) as Arc<dyn Driver>, Arc::new(Manual), Arc::new(Redis::new(links))]);
    controller.set_drivers(drivers.clone());
    let mut tasks = vec![
        executor::observe(controller.clone(), observe_every, stopping.clone()),
        controller.spawn_background(stopping.clone()),
        executor::spawn(controller.clone(), drivers, stopping.clone()),
    ];
    let (part, parting) = watch::channel(false);
    let mut peers = raft_thread.spawn(async move {
        let limits = Limits { drain: PEERS_DRAIN, ..Limits::default() };
        match peer_listener {
            Some(listener) => listener::serve(listener, peers, limits, stopped(parting)).await,
            None => stopped(parting).await,
        }
    });
    let server_config = ServerConfig { insecure_dev: config.insecure_dev, ..ServerConfig::default() };
    let router = server::router(controller.clone(), server_config);
    let limits = Limits::default();
    let limits = Limits { connections_max: descriptors::connections(limits.connections_max), ..limits };
    tasks.push(tokio::spawn(listener::serve(listener, router, limits, stopped(stopping))));
    info!(%address, "serving");

    let end = tokio::select! {
        _ = terminate.recv() => End::Signal,
        _ = interrupt.recv() => End::Signal,
        // None of them ends by itself but by a defect; a member that goes on without one would only look alive.
        _ = select_all(&mut tasks) => End::Defect,
        _ = &mut peers => End::Defect,
        Ok(why) = removed.wait_for(Option::is_some) => End::Removed(why.clone().unwrap_or_default()),
        () = async {
            first_start(&controller, &config).await;
            started(address);
            std::future::pending::<()>().await;
        } => End::Signal,
    };
    info!("stopping");
    // Before the listeners close, so that what comes meanwhile finds the next leader through this member.
    controller.hand_over().await;
    stop.send_replace(true);
    for task in tasks.into_iter().filter(|task| !task.is_finished()) {
        if let Err(fault) = task.await {
            error!(%fault, "a task ended badly");
        }
    }
    // What is under way needs the entries that the next leader sends.
    part.send_replace(true);
    if !peers.is_finished()
        && let Err(fault) = peers.await
    {
        error!(%fault, "the peer listener ended badly");
    }
    controller.shutdown().await;
    match end {
        End::Signal => Ok(()),
        End::Defect => anyhow::bail!("a part of the controller ended by itself; the log says why"),
        End::Removed(why) => Err(OpenError::Refused { path: config.data_dir, why }.into()),
    }
}

/// Why a controller ends.
enum End {
    Signal,
    Defect,
    /// The group goes on without this member.
    Removed(String),
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

fn raft_config(config: &Config, join: Option<raft::Join>) -> raft::Config {
    let id = config.member_id.unwrap_or(1);
    let listed = config.initial_members.get(&id).or(config.peer_address.as_ref());
    raft::Config {
        member_id: config.member_id,
        initial_members: config.initial_members.clone(),
        join,
        tuning: if config.fast_lan { Tuning::fast_lan() } else { Tuning::default() },
        ..raft::Config::new(&config.data_dir, listed.map_or("127.0.0.1:0", String::as_str))
    }
}

/// Asks the group to take this member in, unless it has been taken in before.
async fn join(config: &Config) -> anyhow::Result<Option<raft::Join>> {
    let Some(join) = config.join.as_ref().filter(|_| !raft::has_member(&config.data_dir)) else { return Ok(None) };
    let token = std::fs::read_to_string(&join.token_file)
        .map_err(|fault| OpenError::Config(format!("join token file {}: {fault}", join.token_file.display())))?;
    let client = Client::builder(join.endpoints.clone()).token(token.trim()).timeout(JOIN_WITHIN).build()?;
    let answer = client.join().await.with_context(|| format!("joining through {}", join.endpoints.join(", ")))?;
    info!(member = answer.member_id, group = answer.group_id, "joining");
    if config.peer_address.as_ref() != Some(&answer.peer_address) {
        warn!(address = answer.peer_address, "the others reach this member there: it must lead to --peer-listen");
    }
    Ok(Some(raft::Join {
        group_id: answer.group_id,
        member_id: answer.member_id,
        members: answer.members.into_iter().map(|peer| (peer.id, peer.peer_address)).collect(),
    }))
}

/// Gives a new group its first cluster and token; returns when the group is in use.
async fn first_start(controller: &Controller, config: &Config) {
    let driver = if config.seed.is_some() { DriverKind::Redis } else { DriverKind::Flip };
    let policy = Policy { author_may_approve: config.insecure_dev, ..Policy::default_for(driver) };
    let first = FirstStart { driver, policy };
    if let Err(fault) = controller.bootstrap(&first, |token| announce(config, token)).await {
        error!(%fault, "the first start failed");
    }
    if let Some(seed) = &config.seed {
        adopt(controller, seed).await;
    }
}

/// Takes the servers that run beside the controller into its first cluster, unless it has some: then of an earlier start.
async fn adopt(controller: &Controller, seed: &Address) {
    let name = ClusterName::new("default").expect("a valid name");
    let mut tries = 0;
    loop {
        match controller.cluster(&name) {
            Ok(cluster) if !cluster.nodes.is_empty() => return,
            _ => {}
        }
        let adopted = controller.import_seed(&Caller::system("dev"), &name, seed, &Zones::default()).await;
        let Err(fault) = adopted else { return };
        tries += 1;
        if tries == ADOPT_TRIES {
            return error!(%fault, "the cluster of the Redis servers is not adopted");
        }
        tokio::time::sleep(ADOPT_PAUSE).await;
    }
}

/// Shows the first admin token: this once, and nowhere else.
fn announce(config: &Config, token: &str) {
    if config.insecure_dev {
        return;
    }
    match &config.admin_token_file {
        Some(path) => match write_secret(path, token) {
            Ok(()) => info!(path = %path.display(), "the first admin token is written"),
            Err(fault) => {
                error!(path = %path.display(), %fault, "the first admin token cannot be written there");
                eprintln!("slotkeeper: first admin token, shown this once: {token}");
            }
        },
        None => eprintln!("slotkeeper: first admin token, shown this once: {token}"),
    }
}

fn write_secret(path: &std::path::Path, secret: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    // Written beside and renamed, so that who waits for the file never reads half of it.
    let beside = path.with_extension("new");
    // What a broken start left there keeps its mode when it is opened again.
    match std::fs::remove_file(&beside) {
        Err(fault) if fault.kind() != std::io::ErrorKind::NotFound => return Err(fault),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

//! A connection to one server.
//!
//! The `redis` crate encodes and reads; what is added here: the address is resolved once, checked and dialled; what is read is
//! bounded; every reply of a pipeline stands by itself; a reply that takes too long ends the link, since the server may still do
//! what was asked; nothing is asked again without the caller's knowledge.

mod refused;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, Value};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::settings::{Credentials, Settings};
use super::stream::{Budget, Stream, speaks_otherwise};
use crate::domain::Host;

pub use self::refused::{LinkError, Refusal, Reply};

/// A connection to one server. Calls may be made at the same time; the server does them one after the other.
pub struct Link {
    at: String,
    connection: MultiplexedConnection,
    /// What reads from the server, as long as this link is there.
    reader: AbortHandle,
    budget: Arc<Budget>,
    address: SocketAddr,
    tls: bool,
    timeout: Duration,
    over: watch::Receiver<bool>,
    broken: AtomicBool,
    /// Whether the server ever answered.
    answered: AtomicBool,
    waiting: AtomicUsize,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects and authenticates. The address is resolved once; the first address that may be dialled is.
    /// Every call ends when `over` turns true.
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn dial(
        settings: &Settings,
        credentials: Option<&Credentials>,
        (host, port): (&Host, u16),
        over: watch::Receiver<bool>,
    ) -> Result<Self, LinkError> {
        let at = printed(host, port);
        let mut waits = over.clone();
        tokio::select! {
            _ = waits.wait_for(|over| *over) => Err(LinkError::SteppedDown),
            dialled = Self::connect(settings, credentials, (host, port), at, over) => dialled,
        }
    }

    async fn connect(
        settings: &Settings,
        credentials: Option<&Credentials>,
        (host, port): (&Host, u16),
        at: String,
        over: watch::Receiver<bool>,
    ) -> Result<Self, LinkError> {
        let in_time = settings.connect_timeout;
        let deadline = Instant::now() + in_time;
        let unreachable = |why: String| LinkError::Unreachable { at: at.clone(), why };
        let late = || format!("no connection within {} ms", in_time.as_millis());
        let resolved = timeout_at(deadline, resolve(settings, host, port, &at)).await;
        let address = resolved.map_err(|_| unreachable(late()))??;
        let tcp = timeout_at(deadline, TcpStream::connect(address)).await.map_err(|_| unreachable(late()))?;
        let tcp = tcp.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp));
        let tcp = tcp.map_err(|fault| unreachable(fault.to_string()))?;
        let tls = settings.tls.as_ref();
        let name = tls.and_then(|tls| tls.server_name.as_deref()).unwrap_or(host.as_str());
        let budget = Budget::new(settings.reply_bytes);
        let greeted = async {
            let stream = Stream::over(tcp, tls, name, Arc::clone(&budget)).await.map_err(&unreachable)?;
            // The limits of time are this file's own: one per call.
            let session = session(credentials);
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            match MultiplexedConnection::new_with_config(&session, stream, config).await {
                Ok((connection, reader)) => Ok((connection, tokio::spawn(reader).abort_handle())),
                Err(error) => Err(error),
            }
            .map_err(|error| match error.kind() {
                ErrorKind::AuthenticationFailed => {
                    let user = credentials.and_then(|known| known.username.as_deref()).unwrap_or("default");
                    LinkError::Denied { at: at.clone(), why: format!("user {user:?}: {}", shown(&error)) }
                }
                _ => unreachable(shown(&error)),
            })
        };
        let greeted = timeout_at(deadline, greeted).await.unwrap_or_else(|_| Err(unreachable(late())));
        let (connection, reader) = match greeted {
            Ok(greeted) => greeted,
            Err(LinkError::Unreachable { why, .. }) => {
                let otherwise = speaks_otherwise(address, tls.is_some()).await;
                let told = budget.fault().or(otherwise.map(|said| format!("{why}; {said}"))).unwrap_or(why);
                return Err(LinkError::Unreachable { at, why: told });
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            connection,
            reader,
            budget,
            address,
            tls: tls.is_some(),
            timeout: settings.call_timeout,
            over,
            broken: AtomicBool::new(false),
            answered: AtomicBool::new(credentials.is_some()),
            waiting: AtomicUsize::new(0),
            at,
        })
    }

    /// The server's `host:port`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Whether it has failed, or belongs to a term that is over: it gives nothing but errors from then on.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire) || *self.over.borrow()
    }

    /// Whether a call waits for its reply, or was given up while it did.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// One command; an error that the server answers is [`LinkError::Answered`].
    ///
    /// # Errors
    /// [`LinkError`].
    pub async fn call(&self, command: &Cmd) -> Result<Value, LinkError> {
        self.ask(command, self.timeout).await?.map_err(|refusal| self.answered(refusal))
    }

    /// One command with its own limit of time, and what the server answered.
    ///
    /// # Errors
    /// [`LinkError`], never [`LinkError::Answered`].
    pub async fn ask(&self, command: &Cmd, in_time: Duration) -> Result<Reply, LinkError> {
        let mut connection = self.connection.clone();
        let value = self.within(in_time, connection.send_packed_command(command)).await?;
        Ok(reply(value))
    }

    /// Many commands in one go, and what the server answered to each: an error stops none of those after it.
    ///
    /// # Errors
    /// [`LinkError`], never [`LinkError::Answered`]: none or some were done.
    pub async fn pipeline(&self, commands: Vec<Cmd>, in_time: Duration) -> Result<Vec<Reply>, LinkError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let count = commands.len();
        let mut pipeline = Pipeline::with_capacity(count);
        for command in commands {
            pipeline.add_command(command);
        }
        let mut connection = self.connection.clone();
        let values = self.within(in_time, connection.send_packed_commands(&pipeline, 0, count)).await?;
        if values.len() != count {
            self.broken.store(true, Ordering::Release);
            let why = format!("{} replies to {count} commands", values.len());
            return Err(LinkError::Lost { at: self.at.clone(), why });
        }
        Ok(values.into_iter().map(reply).collect())
    }

    /// What the settings say where a call names no time.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The server answered with an error where nothing but a value will do.
    #[must_use]
    pub fn answered(&self, refusal: Refusal) -> LinkError {
        if refusal.denies() {
            return LinkError::Denied { at: self.at.clone(), why: refusal.to_string() };
        }
        LinkError::Answered { at: self.at.clone(), refusal }
    }

    /// A reply that is not of the form that the command has.
    #[must_use]
    pub fn unexpected(&self, what: &str) -> LinkError {
        LinkError::Lost { at: self.at.clone(), why: format!("it gave no {what}") }
    }

    async fn within<T>(
        &self,
        in_time: Duration,
        call: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, LinkError> {
        let mut over = self.over.clone();
        if *over.borrow() {
            return Err(LinkError::SteppedDown);
        }
        if self.is_broken() {
            return Err(LinkError::Lost { at: self.at.clone(), why: "it failed before".to_owned() });
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let answer = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => None,
            answer = timeout(in_time, call) => Some(answer),
        };
        let fault = match answer {
            None => LinkError::SteppedDown,
            Some(answer) => match answer {
                Ok(Ok(value)) => {
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.answered.store(true, Ordering::Relaxed);
                    self.budget.renew();
                    return Ok(value);
                }
                Ok(Err(error)) => LinkError::Lost { at: self.at.clone(), why: self.lost(&error).await },
                Err(_) => LinkError::Timeout { at: self.at.clone(), timeout_ms: in_time.as_millis() },
            },
        };
        self.broken.store(true, Ordering::Release);
        // Nothing of what it still sends is wanted.
        self.reader.abort();
        Err(fault)
    }

    /// Why a connection ended.
    async fn lost(&self, error: &RedisError) -> String {
        if let Some(fault) = self.budget.fault() {
            return fault;
        }
        let new = !self.answered.load(Ordering::Relaxed);
        let otherwise = if new { speaks_otherwise(self.address, self.tls).await } else { None };
        let why = shown(error);
        otherwise.map_or_else(|| why.clone(), |said| format!("{why}; {said}"))
    }

    /// Expects answers of up to so many bytes from now on.
    pub(super) fn expect(&self, bytes: u64) {
        self.budget.raise(bytes);
    }
}

fn reply(value: Value) -> Reply {
    match value {
        Value::ServerError(error) => Err(Refusal::from(&error)),
        value => Ok(value),
    }
}

/// `host:port`, an IPv6 host in brackets.
pub(super) fn printed(host: &Host, port: u16) -> String {
    if host.as_str().contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn shown(error: &RedisError) -> String {
    error.to_string().escape_debug().to_string()
}

async fn resolve(settings: &Settings, host: &Host, port: u16, at: &str) -> Result<SocketAddr, LinkError> {
    let found = tokio::net::lookup_host((host.as_str(), port))
        .await
        .map_err(|error| LinkError::Unreachable { at: at.to_owned(), why: error.to_string() })?;
    let mut refused = None;
    for address in found {
        match settings.networks.check(address) {
            Ok(()) => return Ok(address),
            Err(why) => refused = Some(why),
        }
    }
    Err(match refused {
        Some(why) => LinkError::Address { at: at.to_owned(), why },
        None => LinkError::Unreachable { at: at.to_owned(), why: "the name has no address".to_owned() },
    })
}

fn session(credentials: Option<&Credentials>) -> RedisConnectionInfo {
    // Servers before 7.2 do not know the command that tells them the library's name.
    let mut session = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(credentials) = credentials {
        session = session.set_password(credentials.password.expose());
        if let Some(username) = &credentials.username {
            session = session.set_username(username);
        }
    }
    session
}

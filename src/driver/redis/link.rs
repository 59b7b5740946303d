//! A connection to one server, and what can go wrong with it.
//!
//! The `redis` crate encodes, connects and reads; what is added here: the address is resolved once, checked and dialled;
//! every reply of a pipeline stands by itself; a reply that takes too long ends the link, since the server may still do
//! what was asked; nothing is asked again without the caller's knowledge.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo as _, Pipeline,
    RedisConnectionInfo, RedisError, RedisFuture, TlsCertificates, Value,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::settings::{Credentials, Settings, Tls};
use crate::domain::Host;

/// An error that a server answered, as it wrote it: `ERR I'm already the owner of hash slot 7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: String,
    text: String,
}

impl Refusal {
    /// Its first word: `ERR`, `LOADING`, `MOVED`…
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The whole of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the server will answer otherwise when it has started, or when the cluster is whole again.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self.code.as_str(), "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS")
    }

    /// Whether the credentials are not good for it.
    #[must_use]
    pub fn denies(&self) -> bool {
        matches!(self.code.as_str(), "NOAUTH" | "WRONGPASS" | "NOPERM")
    }
}

impl From<&redis::ServerError> for Refusal {
    fn from(error: &redis::ServerError) -> Self {
        let code = error.code().to_owned();
        let text = error.details().map_or_else(|| code.clone(), |details| format!("{code} {details}"));
        Self { code, text }
    }
}

/// What a server wrote is printed escaped.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.escape_debug().fmt(f)
    }
}

/// What one command of a pipeline gave.
pub type Reply = Result<Value, Refusal>;

/// Why a call gave no reply. `at` is the server's `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The address must not be dialled, or the settings cannot be used: it never works.
    #[error("{at} is not dialled: {why}")]
    Address {
        /// The server.
        at: String,
        /// Why not.
        why: String,
    },
    /// No connection came about. Nothing was sent.
    #[error("{at} cannot be reached: {why}")]
    Unreachable {
        /// The server.
        at: String,
        /// What the system said.
        why: String,
    },
    /// The server does not accept the credentials.
    #[error("{at} does not accept the credentials: {why}")]
    Denied {
        /// The server.
        at: String,
        /// What it said.
        why: String,
    },
    /// The connection ended; whether the server did what was asked is not known.
    #[error("the connection to {at} ended: {why}")]
    Lost {
        /// The server.
        at: String,
        /// What the system said.
        why: String,
    },
    /// No reply in time; whether the server did, or will do, what was asked is not known.
    #[error("{at} did not answer within {timeout_ms} ms")]
    Timeout {
        /// The server.
        at: String,
        /// How long it had.
        timeout_ms: u128,
    },
    /// The term that the link belonged to is over.
    #[error("this member does not lead any more")]
    SteppedDown,
    /// The server answered with an error, where the caller asked for a value.
    #[error("{at} answered: {refusal}")]
    Answered {
        /// The server.
        at: String,
        /// The error.
        refusal: Refusal,
    },
}

impl LinkError {
    /// Whether it may work later without anybody changing anything.
    #[must_use]
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Timeout { .. } => true,
            Self::Answered { refusal, .. } => refusal.passes(),
            Self::Address { .. } | Self::Denied { .. } | Self::SteppedDown => false,
        }
    }
}

/// A connection to one server. Calls may be made at the same time; the server does them one after the other.
pub struct Link {
    at: String,
    connection: MultiplexedConnection,
    timeout: Duration,
    over: watch::Receiver<bool>,
    broken: AtomicBool,
    waiting: AtomicUsize,
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
        let (in_time, link_at) = (settings.connect_timeout, at.clone());
        let dialled = async {
            let address = resolve(settings, host, port, &at).await?;
            let name = settings.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
            let client = client(settings.tls.as_ref(), credentials, (name.unwrap_or(host.as_str()), port))
                .map_err(|error| LinkError::Address { at: at.clone(), why: error.to_string() })?;
            // The limits of time are this file's own: one per call.
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(None)
                .set_response_timeout(None)
                .set_dns_resolver(Resolved(address));
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| match error.kind() {
                ErrorKind::AuthenticationFailed => LinkError::Denied { at: at.clone(), why: shown(&error) },
                _ => LinkError::Unreachable { at: at.clone(), why: shown(&error) },
            })
        };
        let mut waits = over.clone();
        let connection = tokio::select! {
            _ = waits.wait_for(|over| *over) => return Err(LinkError::SteppedDown),
            dialled = timeout(in_time, dialled) => dialled.unwrap_or_else(|_| {
                let why = format!("no connection within {} ms", in_time.as_millis());
                Err(LinkError::Unreachable { at: at.clone(), why })
            })?,
        };
        Ok(Self {
            at: link_at,
            connection,
            timeout: settings.call_timeout,
            over,
            broken: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
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
        let fault = tokio::select! {
            biased;
            _ = over.wait_for(|over| *over) => LinkError::SteppedDown,
            answer = timeout(in_time, call) => match answer {
                Ok(Ok(value)) => {
                    self.waiting.fetch_sub(1, Ordering::AcqRel);
                    return Ok(value);
                }
                Ok(Err(error)) => LinkError::Lost { at: self.at.clone(), why: shown(&error) },
                Err(_) => LinkError::Timeout { at: self.at.clone(), timeout_ms: in_time.as_millis() },
            },
        };
        self.broken.store(true, Ordering::Release);
        Err(fault)
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

/// The address that was resolved and checked before, whatever the name.
struct Resolved(SocketAddr);

impl AsyncDNSResolver for Resolved {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _host: &'b str,
        _port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let addresses: Box<dyn Iterator<Item = SocketAddr> + Send> = Box::new(std::iter::once(self.0));
        Box::pin(std::future::ready(Ok(addresses)))
    }
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

fn client(
    tls: Option<&Tls>,
    credentials: Option<&Credentials>,
    (name, port): (&str, u16),
) -> Result<Client, RedisError> {
    // Servers before 7.2 do not know the command that tells them the library's name.
    let mut session = RedisConnectionInfo::default().set_skip_set_lib_name();
    if let Some(credentials) = credentials {
        session = session.set_password(credentials.password.expose());
        if let Some(username) = &credentials.username {
            session = session.set_username(username);
        }
    }
    let Some(tls) = tls else {
        return Client::open(
            ConnectionAddr::Tcp(name.to_owned(), port).into_connection_info()?.set_redis_settings(session),
        );
    };
    let address = ConnectionAddr::TcpTls { host: name.to_owned(), port, insecure: false, tls_params: None };
    let client_tls = tls.identity.as_ref().map(|(certificate, key)| ClientTlsConfig {
        client_cert: certificate.clone(),
        client_key: key.expose().as_bytes().to_vec(),
    });
    let certificates = TlsCertificates { client_tls, root_cert: Some(tls.ca.clone()) };
    Client::build_with_tls(address.into_connection_info()?.set_redis_settings(session), certificates)
}

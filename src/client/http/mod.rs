//! The HTTP client: endpoints, token, retries. What can be asked is in `controller` and `cluster`.

mod cluster;
mod controller;
mod plans;
mod send;
mod snapshot;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::ClientError;
use crate::domain::ClusterName;

pub use cluster::{Cluster, PollAnswer};
pub use plans::{PlanHandle, Steer};
pub use send::{Received, Request};
pub use snapshot::Download;

/// A client of one group of controllers. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

/// How a [`Client`] is made.
#[derive(Clone)]
pub struct ClientBuilder {
    endpoints: Vec<String>,
    token: Option<String>,
    timeout: Duration,
    authorities: Vec<Vec<u8>>,
    identity: Option<Vec<u8>>,
}

pub(super) struct Inner {
    http: reqwest::Client,
    /// `http://host:port`, without a slash at the end; never empty.
    pub(super) endpoints: Vec<String>,
    /// The endpoint that answered last: asked first.
    preferred: AtomicUsize,
    authorization: Option<reqwest::header::HeaderValue>,
    timeout: Duration,
}

impl Client {
    /// A client of these endpoints (`http://host:port`, `https://…`, or `host:port`), members of one group, without a
    /// token and with the defaults of [`ClientBuilder`].
    ///
    /// # Errors
    /// [`ClientError::Config`].
    pub fn new<S: Into<String>>(endpoints: impl IntoIterator<Item = S>) -> Result<Self, ClientError> {
        Self::builder(endpoints).build()
    }

    /// A client of these endpoints, to be configured.
    #[must_use]
    pub fn builder<S: Into<String>>(endpoints: impl IntoIterator<Item = S>) -> ClientBuilder {
        ClientBuilder {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            token: None,
            timeout: Duration::from_secs(10),
            authorities: Vec::new(),
            identity: None,
        }
    }

    /// What can be asked about one cluster.
    #[must_use]
    pub fn cluster(&self, name: &ClusterName) -> Cluster {
        Cluster::new(self.clone(), name.clone())
    }

    /// The endpoints, in the order given.
    #[must_use]
    pub fn endpoints(&self) -> &[String] {
        &self.inner.endpoints
    }
}

impl ClientBuilder {
    /// The bearer token, `sk_<id>_<secret>`.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a request may take, with every retry at every endpoint; 10 s by default. The wait of a long poll comes
    /// on top.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Certificates (PEM) to trust, instead of those of the system; for `https` endpoints.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(pem.into());
        self
    }

    /// Certificate and private key (PEM, one text) to show to the controller.
    #[must_use]
    pub fn identity(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(pem.into());
        self
    }

    /// The client. Takes no proxy from the environment and follows no redirects: a token goes to the endpoints named
    /// here and nowhere else.
    ///
    /// # Errors
    /// [`ClientError::Config`] naming the setting.
    pub fn build(self) -> Result<Client, ClientError> {
        let endpoints: Vec<String> =
            self.endpoints.iter().map(|endpoint| check_endpoint(endpoint)).collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(config("endpoint", "none is given"));
        }
        let mut http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(2).min(self.timeout))
            .tcp_keepalive(Duration::from_secs(15))
            .user_agent(concat!("slotkeeper/", env!("CARGO_PKG_VERSION")));
        let mut authorities = Vec::new();
        for pem in &self.authorities {
            let bundle = reqwest::Certificate::from_pem_bundle(pem);
            let bundle = bundle.map_err(|error| config("certificate authorities", innermost(&error)))?;
            if bundle.is_empty() {
                return Err(config("certificate authorities", "there is no certificate in PEM form"));
            }
            authorities.extend(bundle);
        }
        // The system's authorities are looked for only where they are needed: a machine may have none.
        if !authorities.is_empty() || endpoints.iter().all(|endpoint| endpoint.starts_with("http:")) {
            http = http.tls_certs_only(authorities);
        }
        if let Some(pem) = &self.identity {
            let identity = reqwest::Identity::from_pem(pem);
            http = http.identity(identity.map_err(|error| config("client certificate", innermost(&error)))?);
        }
        let authorization = self.token.as_deref().map(authorization).transpose()?;
        let inner = Inner {
            http: http.build().map_err(|error| config("TLS", innermost(&error)))?,
            endpoints,
            preferred: AtomicUsize::new(0),
            authorization,
            timeout: self.timeout,
        };
        Ok(Client { inner: Arc::new(inner) })
    }
}

fn config(what: &'static str, why: impl fmt::Display) -> ClientError {
    ClientError::Config { what, why: why.to_string() }
}

/// What is at the bottom of an error: the libraries above only say that something went wrong.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn check_endpoint(text: &str) -> Result<String, ClientError> {
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = reqwest::Url::parse(&full).map_err(|error| config("endpoint", format!("{text:?}: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(config("endpoint", format!("{text:?} is neither http nor https")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(config("endpoint", "a user or password in the address is not supported: give a token"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(config("endpoint", format!("{text:?} has a query or fragment")));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn authorization(token: &str) -> Result<reqwest::header::HeaderValue, ClientError> {
    let mut value = reqwest::header::HeaderValue::from_str(&format!("Bearer {}", token.trim()))
        .map_err(|_| config("token", "has a character that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token is not shown.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoints", &self.inner.endpoints).finish_non_exhaustive()
    }
}

/// The token is not shown.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

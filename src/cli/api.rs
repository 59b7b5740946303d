//! A controller, as the settings name it, and what its refusals mean for the exit code.

use std::fmt::Write as _;
use std::future::Future;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::fault::{Exit, Fault};
use super::pick;
use super::settings::Settings;
use crate::client::{Client, ClientError, Cluster};
use crate::domain::{ClusterName, NodeId, ShardId};
use crate::wire::Problem;

/// Longest detail that is printed where its parts are listed too.
const DETAIL_MAX: usize = 200;
/// Most changes listed under a refusal.
const CHANGES_MAX: usize = 5;

/// A controller and the cluster meant. Commands are sequences of calls, so each is waited for.
pub struct Api {
    runtime: Runtime,
    /// What belongs to no cluster.
    pub client: Client,
    /// The cluster meant.
    pub cluster: Cluster,
}

impl Api {
    /// A client of the endpoints in the settings. Asks nothing yet.
    ///
    /// # Errors
    /// Invalid settings.
    pub fn open(settings: &Settings) -> Result<Self, Fault> {
        let mut builder = Client::builder(settings.endpoints.clone()).timeout(settings.timeout);
        if let Some(token) = &settings.token {
            builder = builder.token(token.0.clone());
        }
        let client = settings.tls.apply(builder).build().map_err(|error| settings.tls.name(error))?;
        if settings.verbose {
            settings.output.note(&format!("asking {} about {}", client.endpoints().join(", "), settings.cluster));
        }
        let cluster = client.cluster(&ClusterName::new(&settings.cluster)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, client, cluster })
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// The refusal with its exit code.
    pub fn call<T>(&self, answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, Fault> {
        self.runtime.block_on(answer).map_err(Fault::from)
    }

    /// Lets some time pass. The timer is made inside the runtime: outside of one there is no clock to ask.
    pub fn pause(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Waits for something that is no single answer.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The node a person means by its id, a unique beginning of it, or its `host:port`.
    ///
    /// # Errors
    /// Not found, or invalid when it could be several.
    pub fn node(&self, text: &str) -> Result<NodeId, Fault> {
        let nodes = self.call(self.cluster.nodes())?;
        let address = |host: &str, port: u16| {
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        };
        if let Some(node) = nodes.iter().find(|node| address(node.host.as_str(), node.port) == text) {
            return Ok(node.id.clone());
        }
        pick::one("node", text, nodes.iter().map(|node| node.id.as_str()), Exit::NotFound)?.parse().map_err(Fault::from)
    }

    /// The shard a person means by its id or a unique beginning of it.
    ///
    /// # Errors
    /// Not found, or invalid when it could be several.
    pub fn shard(&self, text: &str) -> Result<ShardId, Fault> {
        let shards = self.call(self.cluster.shards())?;
        pick::one("shard", text, shards.iter().map(|shard| shard.id.as_str()), Exit::NotFound)?
            .parse()
            .map_err(Fault::from)
    }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Problem(problem) if problem.code == "node-unreachable" => Exit::Unavailable,
            ClientError::Problem(problem) => of_status(problem.status),
            ClientError::Unreachable { .. } | ClientError::Timeout { .. } => Exit::Unavailable,
            ClientError::Config { .. } => Exit::Invalid,
            ClientError::Protocol { .. } => Exit::Error,
        };
        let message = match &error {
            ClientError::Problem(problem) => describe(problem),
            _ => error.to_string(),
        };
        Self::Exit(exit, message)
    }
}

const fn of_status(status: u16) -> Exit {
    match status {
        400 | 405 | 406 | 413 | 414 | 415 | 422 | 431 => Exit::Invalid,
        401 | 403 => Exit::Denied,
        404 => Exit::NotFound,
        409 | 412 | 428 => Exit::Conflict,
        408 | 429 | 502 | 503 | 504 => Exit::Unavailable,
        _ => Exit::Error,
    }
}

/// What happened, what changed, and what to do about it.
fn describe(problem: &Problem) -> String {
    let mut text = String::new();
    if let Some(field) = problem.field.as_ref().filter(|field| !problem.detail.starts_with(field.as_str())) {
        let _ = write!(text, "{field}: ");
    }
    let detail = if problem.detail.chars().count() > DETAIL_MAX && !problem.changes.is_empty() {
        &problem.title
    } else {
        &problem.detail
    };
    let _ = write!(text, "{detail} ({})", problem.code);
    let told = |change: &&String| !detail.contains(change.as_str());
    for change in problem.changes.iter().filter(told).take(CHANGES_MAX) {
        let _ = write!(text, "\n  changed since: {change}");
    }
    if let Some(more) = problem.changes.iter().filter(told).count().checked_sub(CHANGES_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "\n  … and {more} more changes");
    }
    for missing in problem.missing.iter().filter(|missing| !problem.detail.contains(missing.as_str())) {
        let _ = write!(text, "\n  missing: {missing}");
    }
    if problem.status == 401 {
        text += "\n  give a token with --token-file FILE or SLOTKEEPER_TOKEN";
    }
    text
}

//! The SDK: typed HTTP client, topology cache, routing of keys. Needs nothing of the server.

mod backoff;
mod cache;
mod error;
mod http;
mod keyslot;
mod routes;

pub use cache::{CacheError, CacheOptions, CacheStatus, TopologyCache};
pub use error::ClientError;
pub use http::{Client, ClientBuilder, Cluster, Download, PlanHandle, PollAnswer, Received, Request, Steer};
pub use keyslot::slot_of_key;
pub use routes::Routes;

//! The SDK: typed HTTP client, topology cache, routing of keys. Needs nothing of the server.

mod backoff;
mod error;
mod http;
mod keyslot;

pub use error::ClientError;
pub use http::{Client, ClientBuilder, Cluster, PlanHandle, PollAnswer, Received, Request, Steer};
pub use keyslot::slot_of_key;

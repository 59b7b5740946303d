//! Redis and Valkey servers: what is sent to them, in which order, and what their answers mean.
//!
//! [`protocol`] decides, from what both ends of a move say, what comes next; it is pure, and the model in its tests
//! drives it through every crash. The other files do what it says.

mod failpoints;
mod link;
mod links;
mod nodes;
pub mod protocol;
mod settings;
mod value;

pub use self::failpoints::Failpoints;
pub use self::link::{Link, LinkError, Refusal, Reply};
pub use self::links::{Links, Own};
pub use self::nodes::Servers;
pub use self::settings::{Credentials, Network, Networks, Secret, Settings, Tls};

//! Real redis-server processes on loopback, a load on them that keeps a journal, and the audit at its end.

pub mod audit;
pub mod client;
pub mod cluster;
mod dev;
mod flapping;
pub mod keys;
pub mod load;
mod own;
mod proof;
mod report;
pub mod resp;
mod scene;
pub mod server;
mod whole;

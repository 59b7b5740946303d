//! `slotkeeper`: a slot coordinator in the manner of Redis Cluster.
//!
//! The modules in reading order; which may import which is told in `ARCHITECTURE.md` and held by a test.

#![forbid(unsafe_code)]

pub mod domain;
#[cfg(feature = "server")]
pub mod nodes_text;
#[cfg(feature = "server")]
pub mod plan;
#[cfg(feature = "server")]
pub mod hashing;
#[cfg(feature = "server")]
pub mod state;
pub mod wire;
#[cfg(feature = "server")]
pub mod publish;
#[cfg(feature = "server")]
pub mod driver;
#[cfg(feature = "server")]
pub mod raft;
#[cfg(feature = "server")]
pub mod controller;
#[cfg(feature = "server")]
pub mod executor;
#[cfg(feature = "server")]
pub mod server;
pub mod client;
#[cfg(feature = "server")]
pub mod cli;
#[cfg(feature = "server")]
pub mod app;

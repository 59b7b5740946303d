//! The one integration binary. Mirrors the rooms of `src/`; end-to-end tests start the real binary.

mod architecture;
#[cfg(feature = "server")]
mod cli;
#[cfg(feature = "server")]
mod client_http;
#[cfg(feature = "server")]
mod e2e;
#[cfg(feature = "server")]
mod harness;
mod keyslot;
#[cfg(feature = "server")]
mod log_fixtures;
mod linearizability;
#[cfg(feature = "server")]
mod life;
#[cfg(feature = "server")]
mod live;
#[cfg(feature = "server")]
mod network;
#[cfg(feature = "server")]
mod nodes_text;
#[cfg(feature = "server")]
mod openapi;
#[cfg(feature = "server")]
mod plan;
mod promises;
#[cfg(feature = "server")]
mod raft;
#[cfg(feature = "server")]
mod raft_slow;
#[cfg(feature = "server")]
mod raft_snapshots;
#[cfg(feature = "server")]
mod raft_versions;
#[cfg(feature = "server")]
mod rollout;
#[cfg(feature = "server")]
mod scene;
#[cfg(feature = "server")]
mod scripts;
#[cfg(feature = "server")]
mod simulation;
#[cfg(feature = "server")]
mod state;
#[cfg(feature = "server")]
mod state_bounds;
#[cfg(feature = "server")]
mod scripted;
#[cfg(feature = "server")]
mod tls;
#[cfg(feature = "server")]
mod topology_cache;

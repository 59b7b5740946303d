//! Wiring: configuration, listeners, telemetry, shutdown.

mod args;
mod config;
mod descriptors;
mod disaster;
mod redis_servers;
mod redis;
mod run;
mod telemetry;
mod threads;

pub use args::{DevArgs, LogFormat, ServeArgs, TetherArgs};
pub use config::{Config, ConfigError, JoinConfig};
pub use disaster::{ForceNewGroupArgs, RestoreArgs, force_new_group, inspect, restore};
pub use redis::RedisTable;
pub use redis_servers::tether;
pub use run::{dev, serve};

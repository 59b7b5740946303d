//! Wiring: configuration, listeners, telemetry, shutdown.

mod args;
mod config;
mod descriptors;
mod disaster;
mod run;
mod telemetry;

pub use args::{DevArgs, LogFormat, ServeArgs};
pub use config::{Config, ConfigError, JoinConfig};
pub use disaster::{ForceNewGroupArgs, RestoreArgs, force_new_group, inspect, restore};
pub use run::{dev, serve};

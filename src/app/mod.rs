//! Wiring: configuration, listeners, telemetry, shutdown.

mod args;
mod config;
mod telemetry;

pub use args::{DevArgs, LogFormat, ServeArgs};
pub use config::{Config, ConfigError};

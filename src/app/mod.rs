//! Wiring: configuration, listeners, telemetry, shutdown.

mod args;
mod config;
mod run;
mod telemetry;

pub use args::{DevArgs, LogFormat, ServeArgs};
pub use config::{Config, ConfigError};
pub use run::{dev, serve};

//! The log on stderr.

use tracing_subscriber::EnvFilter;

use super::args::LogFormat;

/// Starts the log; `SLOTKEEPER_LOG` filters it (such as `info,slotkeeper=debug`).
pub fn start(format: LogFormat, default_filter: &str) {
    let filter = EnvFilter::try_from_env("SLOTKEEPER_LOG").unwrap_or_else(|_| EnvFilter::new(default_filter));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    // A second start in one process (tests) keeps the first log.
    drop(started);
}

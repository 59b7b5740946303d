//! Wiring: configuration, listeners, telemetry, shutdown.

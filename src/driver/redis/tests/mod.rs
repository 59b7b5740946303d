//! The driver against real servers.

mod fixture;
mod moves;

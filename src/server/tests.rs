//! The server over real sockets, on a group in memory.

mod access;
mod bad_inputs;
mod document;
mod fixture;
mod flow;
mod panics;
mod shutdown;
mod topology;

//! The driver against real servers.

mod away;
mod binaries;
mod crashes;
mod fenced;
mod fixture;
mod link;
mod moves;
mod never;
mod refusals;
mod replies;
mod roles;
mod tasks;
mod themselves;
mod third;
mod untrusted;

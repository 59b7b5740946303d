//! The driver against real servers.

mod away;
mod crashes;
mod fixture;
mod link;
mod moves;
mod never;
mod replies;
mod roles;
mod tasks;
mod third;
mod untrusted;

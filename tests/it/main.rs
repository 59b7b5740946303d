//! The one integration binary. Mirrors the rooms of `src/`; end-to-end tests start the real binary.

mod architecture;
mod keyslot;
#[cfg(feature = "server")]
mod nodes_text;
#[cfg(feature = "server")]
mod scene;
#[cfg(feature = "server")]
mod scripts;
mod raft;

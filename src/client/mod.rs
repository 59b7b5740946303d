//! The SDK: typed HTTP client, topology cache, routing of keys. Needs nothing of the server.

mod keyslot;

pub use keyslot::slot_of_key;

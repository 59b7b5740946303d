//! The SDK: typed HTTP client, topology cache, routing of keys. Needs nothing of the server.

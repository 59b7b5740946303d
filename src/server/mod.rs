//! HTTP: routes, authorisation, problems, limits. Sees the controller and never raft.

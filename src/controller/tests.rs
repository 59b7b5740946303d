//! The facade over a local group.

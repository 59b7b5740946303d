//! A value that cannot be: what it should have been and why it is not.

/// A malformed value, found while it was read. Shown as `slot: 16384 is not in 0..=16383`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Invalid {
    /// The kind of value, such as `slot range`.
    pub what: &'static str,
    /// The fault, with the offending text.
    pub why: String,
}

impl Invalid {
    /// A fault in a value of this kind.
    #[must_use]
    pub fn new(what: &'static str, why: impl Into<String>) -> Self {
        Self { what, why: why.into() }
    }
}

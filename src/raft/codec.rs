//! How log entries and snapshots are written: JSON in a versioned envelope, `{"v":1,"body":…}`. What an older
//! version wrote stays readable; a newer one is refused, never guessed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::level;
use super::types::Entry;

/// The newest version this member reads, and the one it writes.
const VERSION: u16 = 1;

/// Why stored or received bytes were refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// Written by a newer version.
    #[error("it has format version {found}; this member knows up to {VERSION}")]
    Newer {
        /// Its version.
        found: u16,
    },
    /// Not what was written.
    #[error("it cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    v: u16,
    body: T,
}

#[derive(Deserialize)]
struct VersionOnly {
    v: u16,
}

/// How long a value is in its envelope.
pub(super) fn bytes<T: Serialize>(body: &T) -> Result<usize, CodecError> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    write(&mut count, body)?;
    Ok(count.0)
}

/// An entry in its envelope, whose version is that of the command in it: a version that does not know it says so by
/// name, whatever the command looks like.
pub(super) fn encode_entry(entry: &Entry) -> Result<String, CodecError> {
    Ok(serde_json::to_string(&Envelope { v: level::of_entry(entry), body: entry })?)
}

/// A value in its envelope, written piece by piece.
pub(super) fn write<T: Serialize>(to: impl std::io::Write, body: &T) -> Result<(), CodecError> {
    Ok(serde_json::to_writer(to, &Envelope { v: VERSION, body })?)
}

/// A value out of its envelope.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    match serde_json::from_slice::<Envelope<T>>(bytes) {
        Ok(envelope) if envelope.v <= VERSION => Ok(envelope.body),
        Ok(envelope) => Err(CodecError::Newer { found: envelope.v }),
        // The body of a newer version may have another shape: say so rather than complain about a field.
        Err(error) => match serde_json::from_slice::<VersionOnly>(bytes) {
            Ok(VersionOnly { v }) if v > VERSION => Err(CodecError::Newer { found: v }),
            _ => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_and_its_bytes_are_fixed() {
        let mut text = Vec::new();
        write(&mut text, &vec![1, 2]).unwrap();
        assert_eq!(text, br#"{"v":1,"body":[1,2]}"#);
        assert_eq!(decode::<Vec<u8>>(&text).unwrap(), [1, 2]);
        assert_eq!(bytes(&vec![1, 2]).unwrap(), text.len());
    }

    #[test]
    fn a_newer_version_is_refused_whatever_its_body() {
        for text in [r#"{"v":2,"body":[1]}"#, r#"{"v":2,"body":{"new":"shape"}}"#] {
            let error = decode::<Vec<u8>>(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "it has format version 2; this member knows up to 1");
        }
    }

    #[test]
    fn damage_is_malformed() {
        for text in ["", "{", r#"{"v":1}"#, r#"{"v":1,"body":"x"}"#] {
            assert!(matches!(decode::<Vec<u8>>(text.as_bytes()), Err(CodecError::Malformed(_))), "{text}");
        }
    }
}

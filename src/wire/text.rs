//! Free text of operators: reasons and error messages. Bounded, and without characters that hide or reorder.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Invalid;

/// Longest free text, in bytes.
pub const TEXT_MAX_BYTES: usize = 1024;

/// Free text: at most 1024 bytes, no control characters but newline and tab, nothing that changes the direction of text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, max_length = 1024, example = "capacity for spring sale")]
pub struct Text(String);

impl Text {
    /// Checks a text.
    ///
    /// # Errors
    /// [`Invalid`] naming the fault.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(Invalid::new("text", format!("is longer than {TEXT_MAX_BYTES} bytes")));
        }
        match text.chars().find(|&c| hides(c)) {
            Some(bad) => Err(Invalid::new("text", format!("has the character {bad:?}"))),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters, and the bidirectional marks, embeddings, overrides and isolates of Unicode (UAX #9).
fn hides(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for Text {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_words_and_refuses_what_hides() {
        assert_eq!("Größe, 容量\n", Text::new("Größe, 容量\n").unwrap().as_str());
        for bad in ["a\u{202e}b", "a\0", "\u{1b}[31m", "\u{7f}", "\u{2066}x", &"x".repeat(1025)] {
            assert!(Text::new(bad).is_err(), "{bad:?}");
        }
    }
}

//! Times on the wire: RFC 3339, UTC, whole milliseconds.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::domain::{Instant, Invalid};

/// An [`Instant`] written as `2026-03-02T14:05:00Z`, with milliseconds only where there are some.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, format = DateTime)]
pub struct Timestamp(pub Instant);

/// 9999-12-31T23:59:59.999Z: the last time RFC 3339 can write.
const LAST_MS: u64 = 253_402_300_799_999;

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = self.0.0.min(LAST_MS);
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000).expect("bounded by LAST_MS");
        f.pad(&time.format(&Rfc3339).expect("years 1970 to 9999 can be written"))
    }
}

/// Reads RFC 3339 with any offset, not before 1970; finer than a millisecond is cut off.
impl std::str::FromStr for Timestamp {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .and_then(|time| u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok())
            .map(|ms| Self(Instant(ms)))
            .ok_or_else(|| {
                let shown: String = text.chars().take(64).collect();
                Invalid::new("time", format!("{shown:?} is not an RFC 3339 time since 1970"))
            })
    }
}

impl TryFrom<String> for Timestamp {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

impl From<Instant> for Timestamp {
    fn from(instant: Instant) -> Self {
        Self(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_rfc_3339_in_utc() {
        assert_eq!(Timestamp(Instant(1_772_460_300_000)).to_string(), "2026-03-02T14:05:00Z");
        assert_eq!(Timestamp(Instant(1_772_460_300_042)).to_string(), "2026-03-02T14:05:00.042Z");
        assert_eq!(Timestamp(Instant(u64::MAX)).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_any_offset_and_refuses_the_rest() {
        let at = |text: &str| text.parse::<Timestamp>().map(|t| t.0.0);
        assert_eq!(at("2026-03-02T15:05:00+01:00"), Ok(1_772_460_300_000));
        assert_eq!(at("1970-01-01T00:00:00.0019Z"), Ok(1));
        for bad in ["", "2026-03-02", "1969-12-31T23:59:59Z", "2026-13-02T14:05:00Z", "now"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}

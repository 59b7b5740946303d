//! A reason and what to do about it, as one text: it is kept, sent and logged as one, and shown as two.

/// What stands between the two.
const DO: &str = "; do: ";

/// A reason with what to do about it.
#[must_use]
pub fn advised(why: &str, advice: &str) -> String {
    if advice.is_empty() { why.to_owned() } else { format!("{why}{DO}{advice}") }
}

/// The reason, and what to do about it where the text tells.
#[must_use]
pub fn split_advice(text: &str) -> (&str, Option<&str>) {
    text.split_once(DO).map_or((text, None), |(why, advice)| (why, Some(advice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_apart_from_what_to_do() {
        assert_eq!(split_advice(&advised("it is away", "start it")), ("it is away", Some("start it")));
        assert_eq!(split_advice(&advised("it is away", "")), ("it is away", None));
    }
}

//! Finding what a person means by the beginning of a name.

use super::fault::{Exit, Fault};

/// The name that is the text, or the only one that begins with it.
///
/// # Errors
/// `missing` when there is none, invalid input when there are several.
pub fn one<'a>(what: &str, text: &str, names: impl Iterator<Item = &'a str>, missing: Exit) -> Result<&'a str, Fault> {
    let mut found = Vec::new();
    for name in names {
        if name == text {
            return Ok(name);
        }
        if !text.is_empty() && name.starts_with(text) {
            found.push(name);
        }
    }
    match found.as_slice() {
        [] => Err(Fault::Exit(missing, format!("there is no {what} {text:?}"))),
        [one] => Ok(one),
        [first, second, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" or {} others", rest.len()) };
            Err(Fault::invalid(format!("{what} {text:?} could be {first}, {second}{more}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_name_or_a_beginning_of_one() {
        let one = |text| one("node", text, ["ab", "abc", "b1", "b2"].into_iter(), Exit::NotFound);
        assert_eq!(one("ab").unwrap(), "ab");
        assert_eq!(one("abc").unwrap(), "abc");
        assert!(matches!(one("b"), Err(Fault::Exit(Exit::Invalid, why)) if why.contains("could be b1, b2")));
        assert!(matches!(one("x"), Err(Fault::Exit(Exit::NotFound, _))));
        assert!(matches!(one(""), Err(Fault::Exit(Exit::NotFound, _))));
    }
}

//! Reading JSON bodies: what is not well-formed is 400, what cannot be is 422 and names its field.

use serde::de::DeserializeOwned;

use super::error::ApiError;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 64;

/// Reads one JSON object.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ApiError::malformed(format!("the body is not UTF-8 after byte {}", error.valid_up_to())))?;
    check_depth(text)?;
    // Well-formedness first, of the whole body: a bad field further up must not hide that the rest is broken.
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(ApiError::malformed(format!("the body is not JSON: {error}")));
    }
    // A struct would also read from an array of its fields in order.
    if !text.trim_start().starts_with('{') {
        return Err(ApiError::invalid("body", "is not an object"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        // It is JSON, as was seen above: whatever is wrong now, a value cannot be.
        let why = error.into_inner().to_string();
        let told = match without_position(&why) {
            "trailing characters" | "trailing comma" => "has more elements than it can have",
            told => told,
        };
        ApiError::invalid(field(&path, &why), told)
    })
}

/// The path of the field at fault: serde names a missing, unknown or duplicate one in its message only.
fn field(path: &str, why: &str) -> String {
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| why.strip_prefix(start))
        .and_then(|rest| rest.split('`').next());
    match (path, named) {
        ("." | "", Some(name)) => name.to_owned(),
        (".", None) => "body".to_owned(),
        (path, Some(name)) if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        (path, Some(name)) => format!("{path}.{name}"),
        (path, None) => path.to_owned(),
    }
}

fn without_position(why: &str) -> &str {
    why.rsplit_once(" at line ").map_or(why, |(message, _)| message)
}

fn check_depth(text: &str) -> Result<(), ApiError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(ApiError::malformed(format!("the body nests deeper than {DEPTH_MAX} levels")));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ClusterCreate, NodeAdd, PlanRequest, ShardPatch};

    fn refusal<T: DeserializeOwned + std::fmt::Debug>(body: &[u8]) -> (u16, Option<String>) {
        let error = read::<T>(body).expect_err("must be refused");
        (error.status().as_u16(), error.problem().field.clone())
    }

    #[test]
    fn what_is_not_well_formed_is_400() {
        let nested = |open: &str, n: usize| format!(r#"{{"host":"h","port":1,"zone":{}"#, open.repeat(n));
        for body in [
            &b""[..],
            b"{",
            br#"{"host":"h""#,
            br#"{"host":"h","port":NaN}"#,
            br#"{"host":"h","port":1} x"#,
            br#"{"host":"h","port":1}{"#,
            b"{\"host\":\"\xff\",\"port\":1}",
            b"\xef\xbb\xbf{}",
            "[".repeat(100_000).as_bytes(),
            nested("[", 100_000).as_bytes(),
            nested("{\"a\":", 100_000).as_bytes(),
            br#"{"zone":5,"host":"#,
        ] {
            assert_eq!(
                (400, None),
                refusal::<NodeAdd>(body),
                "{}",
                String::from_utf8_lossy(&body[..body.len().min(60)])
            );
        }
    }

    #[test]
    fn what_cannot_be_is_422_and_names_its_field() {
        let node = |body: &str| refusal::<NodeAdd>(body.as_bytes());
        let named = |field: &str| (422, Some(field.to_owned()));
        assert_eq!(named("hots"), node(r#"{"hots":"h","port":1}"#));
        assert_eq!(named("port"), node(r#"{"host":"h"}"#));
        assert_eq!(named("host"), node(r#"{"host":"h","host":"h","port":1}"#));
        assert_eq!(named("port"), node(r#"{"host":"h","port":0}"#));
        assert_eq!(named("port"), node(r#"{"host":"h","port":1.0}"#));
        assert_eq!(named("port"), node(r#"{"host":"h","port":"1"}"#));
        assert_eq!(named("port"), node(r#"{"host":"h","port":65536}"#));
        assert_eq!(named("name"), node("{\"name\":\"a\u{202e}b\",\"host\":\"h\",\"port\":1}"));
        assert_eq!(named("name"), node(r#"{"name":"a\u0007","host":"h","port":1}"#));
        assert_eq!(named("weight"), node(r#"{"host":"h","port":1,"weight":-1}"#));
        assert_eq!(named("body"), node("[1]"));
        assert_eq!(named("body"), node("null"));
        let plan = |body: &str| refusal::<PlanRequest>(body.as_bytes());
        assert_eq!(named("add[1].port"), plan(r#"{"add":[{"host":"a","port":1},{"host":"b","port":-1}]}"#));
        assert_eq!(named("add[0].hots"), plan(r#"{"add":[{"hots":"a","port":1}]}"#));
        assert_eq!(named("goal.max_moves"), plan(r#"{"goal":{"kind":"budget"}}"#));
        let shard = |body: &str| refusal::<ShardPatch>(body.as_bytes());
        for bad in [
            "[[1,2,3]]",
            "[[1,2,[]]]",
            "[[1,2,{}]]",
            "[[0,16384]]",
            "[[-1,3]]",
            "[[1.0,3]]",
            r#"[["5",7]]"#,
            "[[7,5]]",
            "[[1]]",
        ] {
            let (status, field) = shard(&format!(r#"{{"pinned":{bad}}}"#));
            assert!(status == 422 && field.as_deref().is_some_and(|f| f.starts_with("pinned[0]")), "{bad}: {field:?}");
        }
        let cluster = |body: &str| refusal::<ClusterCreate>(body.as_bytes());
        let limits = r#"{"name":"c","driver":"flip","policy":{"limits":{"slots":1}}}"#;
        assert_eq!(named("policy.limits.slots"), cluster(limits));
        assert_eq!(named("driver"), cluster(r#"{"name":"c","driver":"teleport"}"#));
    }
}

//! What replies hold, read without trusting their form.

use std::collections::BTreeMap;

use redis::{Cmd, Value};

/// A command with its first arguments, which are ours.
pub(super) fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

/// The bytes of a text.
pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

/// A text.
pub(super) fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

/// A number that is not negative.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The parts of a list.
pub(super) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(parts) | Value::Set(parts) => Some(parts),
        _ => None,
    }
}

/// The fields of a map, which RESP2 gives as a list of names and values in turn.
pub(super) fn fields(entry: &Value) -> BTreeMap<String, &Value> {
    let name = |value: &Value| bytes(value).map(|name| String::from_utf8_lossy(name).into_owned());
    match entry {
        Value::Map(pairs) => pairs.iter().filter_map(|(key, value)| Some((name(key)?, value))).collect(),
        other => {
            let parts = list(other).unwrap_or_default();
            parts.chunks_exact(2).filter_map(|pair| Some((name(&pair[0])?, &pair[1]))).collect()
        }
    }
}

/// A field of what `INFO` answers.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// A key, as it is printed: keys are bytes.
pub(super) fn shown(key: &[u8]) -> String {
    const MOST: usize = 128;
    let cut = &key[..key.len().min(MOST)];
    format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < key.len() { "…" } else { "" })
}

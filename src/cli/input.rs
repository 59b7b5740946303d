//! Reading files and stdin, bounded: an endless file is refused, not read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::fault::Fault;

/// Longest input that is read: 8 MiB.
pub const INPUT_MAX_BYTES: usize = 8 << 20;

/// The bytes of a file, or of stdin for `-`.
///
/// # Errors
/// Invalid input when it cannot be read or is longer than [`INPUT_MAX_BYTES`].
pub fn read(path: &str) -> Result<Vec<u8>, Fault> {
    let shown = if path == "-" { "stdin" } else { path };
    let unreadable = |error: io::Error| Fault::invalid(format!("{shown}: {error}"));
    let bytes = if path == "-" { bounded(io::stdin().lock()) } else { File::open(path).and_then(bounded) };
    let bytes = bytes.map_err(unreadable)?;
    if bytes.len() > INPUT_MAX_BYTES {
        return Err(Fault::invalid(format!("{shown}: longer than {INPUT_MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Refuses a file with a secret that every user of this machine can read. A pipe or a device is nobody's file.
///
/// # Errors
/// Invalid input that tells what to do.
pub fn refuse_world_readable(path: &Path) -> Result<(), Fault> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.permissions().mode() & 0o004 != 0 => {
            let shown = path.display();
            Err(Fault::invalid(format!("{shown}: everyone can read the secret in it; chmod 600 it first")))
        }
        // What is not there is told by who reads it.
        _ => Ok(()),
    }
}

fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(INPUT_MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text without a byte-order mark.
#[must_use]
pub fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

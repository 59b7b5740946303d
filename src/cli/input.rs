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

/// As [`read`], of what must be text.
///
/// # Errors
/// Those of [`read`], and of [`refuse_foreign`].
pub fn read_text(path: &str) -> Result<Vec<u8>, Fault> {
    let bytes = read(path)?;
    refuse_foreign(&bytes).map_err(|fault| fault.about(if path == "-" { "stdin" } else { path }))?;
    Ok(bytes)
}

/// Refuses what is compressed, or text in another encoding, by name: read as it is, it would be nonsense.
///
/// # Errors
/// Invalid input that tells what it is and what to do.
pub fn refuse_foreign(beginning: &[u8]) -> Result<(), Fault> {
    let is = |magic: &[u8]| beginning.starts_with(magic);
    let (what, cure) = if is(b"\x1f\x8b\x08") {
        ("compressed with gzip", "unpack it: gzip -dc FILE, and - to read stdin")
    } else if is(b"\x28\xb5\x2f\xfd") {
        ("compressed with zstd", "unpack it: zstd -dc FILE, and - to read stdin")
    } else if is(b"\xff\xfe") || is(b"\xfe\xff") {
        ("UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE, and - to read stdin")
    } else {
        return Ok(());
    };
    Err(Fault::invalid(format!("this is {what}; {cure}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_text_is_named() {
        for (beginning, named) in [
            (&b"\x1f\x8b\x08\x00"[..], "gzip"),
            (b"\x28\xb5\x2f\xfd\x04", "zstd"),
            (b"\xff\xfes\0", "UTF-16"),
            (b"\xfe\xff\0s", "UTF-16"),
        ] {
            let said = format!("{:?}", refuse_foreign(beginning).unwrap_err());
            assert!(said.contains(named) && said.contains("stdin"), "{said}");
        }
        for fine in [&b""[..], b"slot,keys", b"\xef\xbb\xbfslot", b"\x1f", b"{"] {
            assert!(refuse_foreign(fine).is_ok());
        }
    }
}

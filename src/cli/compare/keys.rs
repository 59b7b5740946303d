//! The keys of a comparison: read from a file, bounded, or generated on all processors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};

use super::KeyArgs;
use crate::cli::fault::Fault;
use crate::cli::input;
use crate::hashing::{self, KEYS_MAX, Key, Sample};

/// Keys that are generated unless asked otherwise.
const DEFAULT_SAMPLE: usize = 100_000;
/// Longest key.
const KEY_MAX_BYTES: usize = 64 * 1024;
/// Most bytes of a key file.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// The keys that the arguments ask for.
///
/// # Errors
/// Invalid input naming the file and the line.
pub fn sample(args: &KeyArgs) -> Result<Sample, Fault> {
    if let Some(path) = &args.keys {
        let shown = if path == "-" { "stdin" } else { path };
        let end = if args.null { 0 } else { b'\n' };
        let read = if path == "-" {
            read(io::stdin().lock(), end)
        } else {
            let file = File::open(path).map_err(|error| Fault::invalid(format!("{shown}: {error}")))?;
            read(BufReader::new(file), end)
        };
        let keys = read.map_err(|fault| fault.about(shown))?;
        Sample::of_trace(&keys).map_err(|fault| Fault::from(fault).about(shown))
    } else {
        let count = args.sample.unwrap_or(DEFAULT_SAMPLE);
        if !(1..=KEYS_MAX).contains(&count) {
            return Err(Fault::invalid(format!("--sample {count} is not in 1..={KEYS_MAX}")));
        }
        Ok(Sample::of_generated(generate(args.seed, count as u64), args.zipf)?)
    }
}

/// Processors to work on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(16)
}

fn generate(seed: u64, count: u64) -> Vec<Key> {
    let parts = processors() as u64;
    std::thread::scope(|scope| {
        let part = |n| scope.spawn(move || hashing::generate(seed, n * count / parts..(n + 1) * count / parts));
        let threads: Vec<_> = (0..parts).map(part).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("hashing does not panic")).collect()
    })
}

/// Hashes the keys as they come, so that no file is held.
fn read(mut source: impl BufRead, end: u8) -> Result<Vec<Key>, Fault> {
    // Keys that end with a zero byte are taken as they are; lines are text.
    let lines = end == b'\n';
    let beginning = source.fill_buf().map_err(|error| Fault::invalid(error.to_string()))?;
    if lines {
        input::refuse_foreign(beginning)?;
    }
    let mark = if lines { beginning.len() - input::without_bom(beginning).len() } else { 0 };
    source.consume(mark);
    let mut source = source.take(FILE_MAX_BYTES + 1);
    let (mut keys, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let most = KEY_MAX_BYTES as u64 + 2;
        let read = (&mut source).take(most).read_until(end, &mut line);
        read.map_err(|error| Fault::invalid(error.to_string()))?;
        if line.is_empty() {
            break;
        }
        if line.last() == Some(&end) {
            line.pop();
            if lines && line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        let number = keys.len() + 1;
        if line.len() > KEY_MAX_BYTES {
            return Err(Fault::invalid(format!("key {number} is longer than {KEY_MAX_BYTES} bytes")));
        }
        if number > KEYS_MAX {
            return Err(Fault::invalid(format!("more than {KEYS_MAX} keys")));
        }
        keys.push(Key::of(&line));
        if source.limit() == 0 {
            return Err(Fault::invalid(format!("longer than {FILE_MAX_BYTES} bytes")));
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes_and_bounded() {
        let keys = |bytes: &[u8], end| read(bytes, end).map_err(|fault| format!("{fault:?}"));
        assert_eq!(Ok(vec![]), keys(b"", b'\n'));
        let two = vec![Key::of(b"a\0b"), Key::of(b"\xff")];
        assert_eq!(Ok(two.clone()), keys(b"a\0b\n\xff\n", b'\n'));
        assert_eq!(Ok(two), keys(b"a\0b\n\xff", b'\n'), "the last may end without one");
        assert_eq!(Ok(vec![Key::of(b"a\n"), Key::of(b"")]), keys(b"a\n\0\0", 0));
        let lines = vec![Key::of(b"a\rb"), Key::of(b"c")];
        assert_eq!(Ok(lines), keys(b"\xef\xbb\xbfa\rb\r\nc\r\n", b'\n'), "as other systems write lines");
        assert_eq!(Ok(vec![Key::of(b"\xef\xbb\xbfa\r")]), keys(b"\xef\xbb\xbfa\r\0", 0));
        assert!(keys(b"\x1f\x8b\x08\0", b'\n').unwrap_err().contains("gzip"));
        assert_eq!(Ok(vec![Key::of(b"\x1f\x8b\x08")]), keys(b"\x1f\x8b\x08\0", 0));
        let long = vec![b'x'; KEY_MAX_BYTES + 1];
        assert!(keys(&long, b'\n').unwrap_err().contains("key 1 is longer than 65536 bytes"));
        assert_eq!(Ok(vec![Key::of(&long[1..])]), keys(&[&long[1..], b"\n"].concat(), b'\n'));
        let endless = read(BufReader::new(io::repeat(b'x')), b'\n');
        assert!(endless.is_err(), "an endless line ends");
    }

    #[test]
    fn all_processors_generate_what_one_would() {
        assert_eq!(hashing::generate(3, 0..1001), generate(3, 1001));
    }
}

//! The keys of the proof: every type, with and without an end, under names that break whoever takes them for text.
//! A key is its number; all else follows from it.

use std::time::{Duration, SystemTime};

use super::resp::Reply;

/// What is stored under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    List,
    Set,
    Sorted,
    Hash,
    Stream,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u32);

/// A command, as bytes.
pub type Words = Vec<Vec<u8>>;

fn words(parts: &[&[u8]]) -> Words {
    parts.iter().map(|part| part.to_vec()).collect()
}

impl Key {
    /// What is stored under it.
    pub fn kind(self) -> Kind {
        [Kind::Text, Kind::List, Kind::Set, Kind::Sorted, Kind::Hash, Kind::Stream][self.0 as usize % 6]
    }

    /// Its name. Some share a tag, and so a slot.
    pub fn name(self) -> Vec<u8> {
        let n = self.0;
        match n / 6 % 8 {
            0 => format!("key:{n}").into_bytes(),
            1 => format!("a key {{{n}}} with  spaces ").into_bytes(),
            2 => format!("{{}}empty-tag-{n}").into_bytes(),
            3 => [b"nul\0\0 ", n.to_string().as_bytes(), b" \xff\xfe\x80"].concat(),
            4 => format!("back\\slash\\n \"{n}\" 'quoted' $HOME *?[a-z]").into_bytes(),
            5 => format!("}}{{backwards-{n}").into_bytes(),
            6 => format!("{{user:{}}}.part:{n}", n / 480).into_bytes(),
            _ => format!("\r\n$5\r\n{n}\r\n").into_bytes(),
        }
    }

    /// Whether it ends by itself, long after the test.
    pub fn ends(self) -> bool {
        self.0 / 48 % 3 == 1
    }

    /// Adds one version; versions of a key begin at 1 and each is sent once.
    pub fn write(self, version: u32) -> Words {
        let (name, v) = (self.name(), version.to_string().into_bytes());
        match self.kind() {
            Kind::Text => words(&[b"SET", &name, &[&v[..], b" ", &padding(self.0)].concat(), b"KEEPTTL"]),
            Kind::List => words(&[b"RPUSH", &name, &v]),
            Kind::Set => words(&[b"SADD", &name, &v]),
            Kind::Sorted => words(&[b"ZADD", &name, &v, &v]),
            Kind::Hash => words(&[b"HSET", &name, &v, &padding(version)]),
            Kind::Stream => words(&[b"XADD", &name, &[&v[..], b"-1"].concat(), b"at", &v]),
        }
    }

    /// Gives it its end.
    pub fn end_at(self, end: SystemTime) -> Words {
        words(&[b"PEXPIREAT", &self.name(), millis(end).to_string().as_bytes()])
    }

    /// Asks whether it has this version.
    pub fn look_for(self, version: u32) -> Words {
        let (name, v) = (self.name(), version.to_string().into_bytes());
        let id = [&v[..], b"-1"].concat();
        match self.kind() {
            Kind::Text => words(&[b"GET", &name]),
            Kind::List => words(&[b"LPOS", &name, &v]),
            Kind::Set => words(&[b"SISMEMBER", &name, &v]),
            Kind::Sorted => words(&[b"ZSCORE", &name, &v]),
            Kind::Hash => words(&[b"HGET", &name, &v]),
            Kind::Stream => words(&[b"XRANGE", &name, &id, &id]),
        }
    }

    /// Whether the answer to [`Self::look_for`] says that it has it; for a text: the version that it has.
    pub fn found(self, reply: &Reply) -> Found {
        match (self.kind(), reply) {
            (Kind::Text, Reply::Bulk(bytes)) => Found::Latest(version_of_text(bytes)),
            (Kind::List, Reply::Number(_))
            | (Kind::Set, Reply::Number(1))
            | (Kind::Sorted | Kind::Hash, Reply::Bulk(_)) => Found::Yes,
            (Kind::Stream, Reply::Array(entries)) if entries.len() == 1 => Found::Yes,
            _ => Found::No,
        }
    }

    /// Asks for all it holds.
    pub fn read(self) -> Words {
        let name = self.name();
        match self.kind() {
            Kind::Text => words(&[b"GET", &name]),
            Kind::List => words(&[b"LRANGE", &name, b"0", b"-1"]),
            Kind::Set => words(&[b"SMEMBERS", &name]),
            Kind::Sorted => words(&[b"ZRANGE", &name, b"0", b"-1"]),
            Kind::Hash => words(&[b"HGETALL", &name]),
            Kind::Stream => words(&[b"XRANGE", &name, b"-", b"+"]),
        }
    }

    /// The versions in the answer to [`Self::read`]; a text has its last one.
    pub fn versions(self, reply: Reply) -> Result<Vec<u32>, String> {
        let number = |bytes: Vec<u8>| String::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        let all: Option<Vec<u32>> = match (self.kind(), reply) {
            (Kind::Text, Reply::Bulk(bytes)) => {
                let whole = bytes.ends_with(&padding(self.0));
                whole.then(|| vec![version_of_text(&bytes)])
            }
            (Kind::List | Kind::Set | Kind::Sorted, Reply::Array(items)) => {
                items.into_iter().map(|item| number(item.bytes())).collect()
            }
            (Kind::Hash, Reply::Array(items)) => items
                .chunks(2)
                .map(|pair| {
                    let version = number(pair[0].clone().bytes())?;
                    (pair[1] == Reply::Bulk(padding(version))).then_some(version)
                })
                .collect(),
            (Kind::Stream, Reply::Array(entries)) => entries
                .into_iter()
                .map(|entry| {
                    let [id, fields] = <[Reply; 2]>::try_from(entry.array()).ok()?;
                    let version = number(fields.array().pop()?.bytes())?;
                    (id.text() == format!("{version}-1")).then_some(version)
                })
                .collect(),
            (_, other) => return Err(format!("{other:?}")),
        };
        all.ok_or_else(|| "a value that nobody wrote".to_owned())
    }
}

/// What a reader learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Yes,
    No,
    Latest(u32),
}

fn version_of_text(bytes: &[u8]) -> u32 {
    let digits: Vec<u8> = bytes.iter().copied().take_while(u8::is_ascii_digit).collect();
    String::from_utf8(digits).unwrap().parse().unwrap_or(0)
}

/// Bytes of a value that depend on a number, among them all that need care.
fn padding(seed: u32) -> Vec<u8> {
    (0..8 + seed % 40).map(|at| u8::try_from((seed.wrapping_mul(31) + at * 7) % 256).unwrap()).collect()
}

pub fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap()
}

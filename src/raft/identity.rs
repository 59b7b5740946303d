//! Which process of which store speaks. A store has a random id; every start of a process on it adds a random id of its
//! own. A copy of a store shares the past but not what follows, so peers, who keep the newest start they have met of
//! each member, tell the copy from the original, and an old copy from the member that went on.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::OpenError;
use super::store::Identity;
use crate::domain::MemberId;

/// Starts that are told to peers. One that was away for longer cannot tell a copy from the original.
const RECENT_MAX: usize = 64;
/// The file beside the store that says whose it is.
const MARKER: &str = "slotkeeper.member";
/// In place of a start that was never made: nobody can come after it.
const BARRED: &str = "barred";

/// The starts of a store, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Starts {
    count: u64,
    recent: Vec<String>,
}

impl Starts {
    /// These and one more.
    pub(super) fn and(&self, start: String) -> Self {
        let recent = std::iter::once(start).chain(self.recent.iter().cloned()).take(RECENT_MAX).collect();
        Self { count: self.count + 1, recent }
    }

    /// As it goes with every request and answer: `3:5f0c…,11a9…`.
    pub(super) fn header(&self) -> String {
        format!("{}:{}", self.count, self.recent.join(","))
    }

    pub(super) fn parse(header: &str) -> Option<Self> {
        let (count, recent) = header.split_once(':')?;
        let recent: Vec<String> = recent.split(',').map(str::to_owned).collect();
        let valid = recent.len() <= RECENT_MAX && recent.iter().all(|id| !id.is_empty());
        Some(Self { count: count.parse().ok().filter(|_| valid)?, recent })
    }

    fn newest(&self) -> Option<&str> {
        self.recent.first().map(String::as_str)
    }

    fn include(&self, start: &str) -> bool {
        self.recent.iter().any(|known| known == start)
    }
}

/// What a member keeps of another: its store and the newest start met. Written `store` or `store/count/start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known<'a> {
    store: &'a str,
    start: Option<(u64, &'a str)>,
}

/// What to think of one who says that he is a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The process that was met before.
    Same,
    /// Never met, or a later start of the same store; keep this.
    Later(String),
    /// Another store than before.
    OtherStore,
    /// The same store at an earlier start, or at one that does not follow from the last one met.
    Copy,
}

impl<'a> Known<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split('/');
        let store = parts.next().unwrap_or_default();
        let start = parts.next().and_then(|count| Some((count.parse().ok()?, parts.next()?)));
        Self { store, start }
    }

    /// What is kept of a member whose store went back: no start of it is heard again.
    pub(super) fn barred(known: &'a str) -> String {
        format!("{}/{}/{BARRED}", Self::parse(known).store, u64::MAX)
    }
}

/// Compares what is presented with what is known. A member of an earlier version presents no starts.
pub(super) fn judge(known: Option<&str>, store: &str, starts: Option<&Starts>) -> Verdict {
    let later = || match starts.and_then(|starts| Some((starts.count, starts.newest()?))) {
        Some((count, newest)) => Verdict::Later(format!("{store}/{count}/{newest}")),
        None => Verdict::Later(store.to_owned()),
    };
    let Some(known) = known.map(Known::parse) else { return later() };
    match (known.start, starts) {
        _ if known.store != store => Verdict::OtherStore,
        (Some((u64::MAX, _)), _) => Verdict::Copy,
        (_, None) => Verdict::Same,
        (None, Some(_)) => later(),
        (Some((_, start)), Some(starts)) if starts.newest() == Some(start) => Verdict::Same,
        (Some((count, start)), Some(starts))
            if starts.include(start) || starts.count > count.saturating_add(RECENT_MAX as u64) =>
        {
            later()
        }
        _ => Verdict::Copy,
    }
}

/// The file that says whose store is beside it: a store that was emptied, or lost its newest part, is not taken for a
/// new one.
#[derive(Debug, Serialize, Deserialize)]
struct Marker {
    member: MemberId,
    group: String,
    store: String,
    start: String,
}

/// Checks a store against its marker. `starts` are those the store knows of.
pub(super) fn check_marker(
    dir: &Path,
    database: &Path,
    identity: Option<&Identity>,
    starts: &Starts,
) -> Result<(), OpenError> {
    let path = dir.join(MARKER);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(OpenError::Directory { path, source }),
    };
    let marker: Marker =
        serde_json::from_slice(&text).map_err(|error| OpenError::damaged(&path, "the file", &error))?;
    let whose = format!("{MARKER} beside it says that it is of member {} of group {}", marker.member, marker.group);
    let lost = |why: &str| OpenError::damaged(database, "the database file", &format!("{why}, and {whose}"));
    match identity {
        None => Err(lost("it is empty")),
        Some(identity) if identity.incarnation != marker.store => Err(lost("it is another store")),
        Some(_) if !starts.include(&marker.start) && starts.count < RECENT_MAX as u64 => {
            Err(lost("it is older than its last start, or its write-ahead log is gone"))
        }
        Some(_) => Ok(()),
    }
}

/// Writes the marker, durably, before anything is acknowledged.
pub(super) fn write_marker(dir: &Path, identity: &Identity, starts: &Starts) -> Result<(), OpenError> {
    let marker = Marker {
        member: identity.member_id,
        group: identity.group_id.clone(),
        store: identity.incarnation.clone(),
        start: starts.newest().unwrap_or_default().to_owned(),
    };
    let (path, beside) = (dir.join(MARKER), dir.join(format!("{MARKER}.new")));
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        serde_json::to_writer(&mut file, &marker)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|source| OpenError::Directory { path: path.clone(), source })
}

/// Whether a directory holds a member already: one that is to join does so once.
#[must_use]
pub fn has_member(dir: &Path) -> bool {
    [PathBuf::from(MARKER), PathBuf::from(super::store::DATABASE)].iter().any(|name| dir.join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(ids: &[&str]) -> Starts {
        ids.iter().fold(Starts::default(), |starts, id| starts.and((*id).to_owned()))
    }

    /// Judges and, like a peer, keeps what is later.
    fn meet(known: &mut Option<String>, starts: &Starts) -> Verdict {
        let verdict = judge(known.as_deref(), "s", Some(starts));
        if let Verdict::Later(text) = &verdict {
            *known = Some(text.clone());
        }
        verdict
    }

    #[test]
    fn a_restart_is_heard_and_what_it_left_behind_is_not() {
        let (first, second) = (starts(&["a"]), starts(&["a", "b"]));
        let mut known = None;
        assert_eq!(meet(&mut known, &first), Verdict::Later("s/1/a".into()));
        assert_eq!(meet(&mut known, &first), Verdict::Same);
        assert_eq!(meet(&mut known, &second), Verdict::Later("s/2/b".into()));
        assert_eq!(meet(&mut known, &first), Verdict::Copy);
        assert_eq!(judge(known.as_deref(), "other", Some(&second)), Verdict::OtherStore);
        assert_eq!(judge(known.as_deref(), "s", None), Verdict::Same, "an earlier version tells no starts");
    }

    #[test]
    fn a_copy_stays_refused_however_often_it_starts() {
        let mut known = None;
        meet(&mut known, &starts(&["a", "b"]));
        // Copied at start a, when the member went on to b.
        let mut copy = starts(&["a", "x"]);
        assert_eq!(meet(&mut known, &copy), Verdict::Copy, "as many starts, and another");
        for number in 0..60 {
            copy = copy.and(format!("x{number}"));
            assert_eq!(meet(&mut known, &copy), Verdict::Copy, "{number}");
        }
    }

    #[test]
    fn a_peer_that_missed_some_starts_follows_and_one_that_missed_too_many_must_trust() {
        let mut original = starts(&["a"]);
        let mut known = None;
        meet(&mut known, &original);
        for number in 0..63 {
            original = original.and(format!("b{number}"));
        }
        assert!(matches!(judge(known.as_deref(), "s", Some(&original)), Verdict::Later(_)));
        let gone = original.and("c".into()).and("d".into());
        assert!(matches!(judge(known.as_deref(), "s", Some(&gone)), Verdict::Later(_)));
    }

    #[test]
    fn one_that_went_back_is_barred_for_good() {
        let barred = Known::barred("s/2/b");
        let later = starts(&["a", "b", "c"]);
        assert_eq!(judge(Some(&barred), "s", Some(&later)), Verdict::Copy);
        assert_eq!(judge(Some(&barred), "s", None), Verdict::Copy);
        assert_eq!(judge(Some("s"), "s", Some(&later)), Verdict::Later("s/3/c".into()), "kept by an earlier version");
    }

    #[test]
    fn the_header_comes_back_and_nonsense_does_not() {
        let some = starts(&["a", "b"]);
        assert_eq!(some.header(), "2:b,a");
        assert_eq!(Starts::parse("2:b,a"), Some(some));
        for text in ["", "2", "x:a", "2:", "2:a,,b", &format!("9:{}", ["a"; 65].join(","))] {
            assert_eq!(Starts::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_marker_without_its_store_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("slotkeeper.db");
        let identity =
            Identity { member_id: 3, group_id: "g".into(), incarnation: "s".into(), joined: false, made: false };
        let check = |identity, starts: &Starts| check_marker(dir.path(), &database, identity, starts);
        let (before, now) = (starts(&["a"]), starts(&["a", "b"]));
        assert!(check(None, &Starts::default()).is_ok() && !has_member(dir.path()));
        write_marker(dir.path(), &identity, &now).unwrap();
        assert!(has_member(dir.path()));
        assert!(check(Some(&identity), &now).is_ok());
        assert!(check(Some(&identity), &now.and("c".into())).is_ok(), "it was not written before the last crash");
        let other = Identity { incarnation: "t".into(), ..identity.clone() };
        for (identity, starts, why) in [
            (None, &Starts::default(), "it is empty, and slotkeeper.member beside it says that it is of member 3"),
            (Some(&identity), &before, "older than its last start"),
            (Some(&other), &now, "it is another store"),
        ] {
            let error = check(identity, starts).unwrap_err();
            assert!(error.to_string().contains(why) && error.exit_code() == 10, "{error}");
        }
        fs::write(dir.path().join(MARKER), "{").unwrap();
        assert_eq!(check(Some(&identity), &now).unwrap_err().exit_code(), 10);
    }
}

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

/// How far a member's log is: as its store had it when the process started, and what it has committed and made durable
/// since, as it says from time to time. What is committed and durable is never taken back, so that a later start
/// of the same store has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Index of the last entry, or of the snapshot, at the start.
    pub(super) at_start: u64,
    /// Index of an entry that is committed and durable.
    pub(super) durable: u64,
}

impl Reach {
    /// As it goes with every request and answer: `120/340`.
    pub(super) fn header(self) -> String {
        format!("{}/{}", self.at_start, self.durable)
    }

    pub(super) fn parse(header: &str) -> Option<Self> {
        let (at_start, durable) = header.split_once('/')?;
        Some(Self { at_start: at_start.parse().ok()?, durable: durable.parse().ok()? })
    }
}

/// What a member keeps of another: its store, the newest start met, and how far that was known to be. Written `store`,
/// `store/count/start` or `store/count/start/index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known<'a> {
    store: &'a str,
    start: Option<(u64, &'a str)>,
    durable: u64,
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
        let durable = parts.next().and_then(|index| index.parse().ok()).unwrap_or(0);
        Self { store, start, durable }
    }

    /// The same with a member's newest word of how far it is; none when that is no news.
    pub(super) fn reached(known: &'a str, reach: Reach) -> Option<String> {
        let Self { store, start, durable } = Self::parse(known);
        let (count, start) = start.filter(|_| reach.durable > durable)?;
        Some(format!("{store}/{count}/{start}/{}", reach.durable))
    }

    /// What is kept of a member whose store went back: no start of it is heard again.
    pub(super) fn barred(known: &'a str) -> String {
        format!("{}/{}/{BARRED}", Self::parse(known).store, u64::MAX)
    }
}

/// Compares what is presented with what is known. A member of an earlier version presents no starts and no reach.
pub(super) fn judge(known: Option<&str>, store: &str, starts: Option<&Starts>, reach: Option<Reach>) -> Verdict {
    let durable = known.map_or(0, |known| Known::parse(known).durable);
    let later = || match starts.and_then(|starts| Some((starts.count, starts.newest()?))) {
        // A start of the right store, which lacks what an earlier start of it had.
        Some(_) if reach.is_some_and(|reach| reach.at_start < durable) => Verdict::Copy,
        Some((count, newest)) => {
            let durable = durable.max(reach.map_or(0, |reach| reach.durable));
            Verdict::Later(format!("{store}/{count}/{newest}/{durable}"))
        }
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

    fn judge(known: Option<&str>, store: &str, starts: Option<&Starts>) -> Verdict {
        super::judge(known, store, starts, None)
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
        assert_eq!(meet(&mut known, &first), Verdict::Later("s/1/a/0".into()));
        assert_eq!(meet(&mut known, &first), Verdict::Same);
        assert_eq!(meet(&mut known, &second), Verdict::Later("s/2/b/0".into()));
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
        assert_eq!(judge(Some("s"), "s", Some(&later)), Verdict::Later("s/3/c/0".into()), "kept by an earlier version");
    }

    #[test]
    fn a_store_that_lacks_what_it_had_committed_is_refused_though_its_starts_follow() {
        let (first, second) = (starts(&["a"]), starts(&["a", "b"]));
        let reach = |at_start, durable| Some(Reach { at_start, durable });
        let Verdict::Later(mut known) = super::judge(None, "s", Some(&first), reach(0, 0)) else { panic!() };
        assert_eq!(super::judge(Some(&known), "s", Some(&first), reach(0, 40)), Verdict::Same);
        known = Known::reached(&known, Reach { at_start: 0, durable: 40 }).unwrap();
        assert_eq!(Known::reached(&known, Reach { at_start: 0, durable: 39 }), None, "no news");
        let later = |at_start| super::judge(Some(&known), "s", Some(&second), reach(at_start, at_start));
        assert_eq!(later(39), Verdict::Copy);
        assert_eq!(later(40), Verdict::Later("s/2/b/40".into()));
        assert_eq!(later(90), Verdict::Later("s/2/b/90".into()));
        // One of an earlier version says nothing, and one that was barred stays so.
        assert_eq!(judge(Some(&known), "s", Some(&second)), Verdict::Later("s/2/b/40".into()));
        let barred = Known::barred(&known);
        assert_eq!(
            Known::reached(&barred, Reach { at_start: 0, durable: 99 }).as_deref().map(|text| judge(
                Some(text),
                "s",
                Some(&second)
            )),
            Some(Verdict::Copy)
        );
        assert_eq!(Known::reached("s", Reach { at_start: 0, durable: 9 }), None, "kept by an earlier version");
        for text in ["", "1", "/", "1/x", "-1/2"] {
            assert_eq!(Reach::parse(text), None, "{text:?}");
        }
        assert_eq!(Reach::parse(&Reach { at_start: 3, durable: 7 }.header()), reach(3, 7));
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

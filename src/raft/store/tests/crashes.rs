//! Crashes: after every single write, and in the middle of one. What a process that was killed leaves is the database as
//! the last checkpoint left it and the write-ahead log up to any byte; whatever that byte is, every operation that was
//! reported durable before it must be there, and nothing half.

use super::*;

/// What is in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    vote: Option<Vote>,
    purged: Option<u64>,
    /// Index and term of each entry.
    entries: BTreeMap<u64, u64>,
}

/// One operation of the workload, each awaited before the next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Vote(u64),
    /// So many entries of a term.
    Append(u64, u64),
    /// Everything after an index goes.
    Truncate(u64),
    /// A snapshot of what is applied up to an index, and a purge up to another.
    Compact(u64, u64),
}

impl Model {
    fn after(&self, step: Step) -> Self {
        let mut model = self.clone();
        match step {
            Step::Vote(term) => model.vote = Some(Vote::new_committed(term, 1)),
            Step::Append(term, count) => {
                let next = model.next();
                model.entries.extend((next..next + count).map(|index| (index, term)));
            }
            Step::Truncate(after) => drop(model.entries.split_off(&(after + 1))),
            Step::Compact(_, purge) => {
                model.entries = model.entries.split_off(&(purge + 1));
                model.purged = Some(purge);
            }
        }
        model
    }

    fn next(&self) -> u64 {
        self.entries.last_key_value().map_or(self.purged.map_or(0, |purged| purged + 1), |(last, _)| last + 1)
    }

    fn of(loaded: &Loaded, store: &Store) -> Self {
        let log = store.lock();
        let term = |entry: &Entry| entry.log_id.committed_leader_id().term;
        Self {
            vote: loaded.vote,
            purged: loaded.purged.map(|id| id.index),
            entries: log.entries.iter().map(|(&index, (entry, _))| (index, term(entry))).collect(),
        }
    }
}

fn entry_of(term: u64, index: u64) -> Entry {
    let leader = openraft::impls::leader_id_std::LeaderId::<u64, u64>::new(term, 1);
    Entry { log_id: LogId::new(leader.to_committed(), index), ..entry(index) }
}

fn workload() -> Vec<Step> {
    use Step::{Append, Compact, Truncate, Vote};
    vec![
        Vote(1),
        Append(1, 1),
        Append(1, 3),
        Vote(2),
        Append(2, 6),
        Truncate(7),
        Vote(3),
        Append(3, 5),
        Compact(6, 2),
        Append(3, 1),
        Truncate(10),
        Append(4, 8),
        Vote(5),
        Compact(12, 9),
        Append(5, 2),
        Vote(6),
        Append(6, 20),
        Compact(25, 20),
        Truncate(30),
        Append(7, 4),
    ]
}

/// The directory after each operation, and what must be in it.
struct Moment {
    left: TempDir,
    /// Size of the write-ahead log then.
    wal: u64,
    /// Its size when the snapshots of this moment were there.
    snapshots_at: u64,
    model: Model,
}

async fn live_through() -> Vec<Moment> {
    let dir = TempDir::new().unwrap();
    let (mut store, mut machine) = reopen(dir.path()).await;
    let (mut model, mut applied, mut moments) = (Model::default(), 0, Vec::new());
    let size = || fs::metadata(schema::wal_path(dir.path())).unwrap().len();
    for step in workload() {
        let mut snapshots_at = size();
        match step {
            Step::Vote(term) => store.save_vote(&Vote::new_committed(term, 1)).await.unwrap(),
            Step::Append(term, count) => {
                let next = model.next();
                store.blocking_append((next..next + count).map(|index| entry_of(term, index))).await.unwrap();
            }
            Step::Truncate(after) => {
                store.truncate_after(Some(entry_of(model.entries[&after], after).log_id)).await.unwrap();
            }
            Step::Compact(upto, purge) => {
                let entries: Vec<_> =
                    (applied..=upto).map(|index| (entry_of(model.entries[&index], index), None)).collect();
                applied = upto + 1;
                machine.apply(futures::stream::iter(entries.into_iter().map(Ok))).await.unwrap();
                machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
                snapshots_at = size();
                store.purge(entry_of(model.entries[&purge], purge).log_id).await.unwrap();
            }
        }
        // What rides along is made to: the next vote or append would carry it.
        store.durable(Job::Flush).await.unwrap();
        model = model.after(step);
        let wal = size();
        moments.push(Moment { left: crash(dir.path()), wal, snapshots_at, model: model.clone() });
    }
    assert!(moments.windows(2).all(|pair| pair[0].wal < pair[1].wal), "every operation writes, and no checkpoint ran");
    moments
}

#[tokio::test]
async fn after_every_single_write_the_store_is_exactly_what_was_reported() {
    for moment in live_through().await {
        let (store, loaded) = Store::open(moment.left.path(), no_fatal()).unwrap();
        assert_eq!(Model::of(&loaded, &store), moment.model);
        store.close().await;
    }
}

/// What is found in the directory of a moment whose write-ahead log is cut.
async fn found_after_cut(at_rest: &Moment, whole: &[u8], cut: usize) -> Model {
    let left = crash(at_rest.left.path());
    fs::write(schema::wal_path(left.path()), &whole[..cut]).unwrap();
    let (store, loaded) = Store::open(left.path(), no_fatal()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
    let model = Model::of(&loaded, &store);
    store.close().await;
    model
}

#[tokio::test]
async fn a_write_ahead_log_cut_at_any_frame_or_inside_one_keeps_what_was_reported_before() {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let moments = live_through().await;
    let whole = fs::read(schema::wal_path(moments.last().unwrap().left.path())).unwrap();
    let (mut reported_only, mut more) = (0, 0);
    for frame in (HEADER..=whole.len()).step_by(FRAME) {
        for cut in [frame, frame + 24, frame + 2000].into_iter().filter(|&cut| cut <= whole.len()) {
            let reported = moments.iter().take_while(|moment| moment.wal <= cut as u64).count();
            let before = reported.checked_sub(1).map_or_else(Model::default, |last| moments[last].model.clone());
            // Where the snapshots of the operation under way may be there, both with and without them it must open.
            let with = moments.get(reported).filter(|next| next.snapshots_at <= cut as u64);
            let without = reported.checked_sub(1).map(|last| &moments[last]);
            for rest in with.into_iter().chain(without) {
                let found = found_after_cut(rest, &whole, cut).await;
                // The operation that was being written may be there whole; nothing else may.
                let under_way = moments.get(reported).is_some_and(|next| found == next.model);
                assert!(found == before || under_way, "cut at {cut}: {found:?}\nreported: {before:?}");
                reported_only += u32::from(found == before);
                more += u32::from(under_way);
            }
        }
    }
    assert!(reported_only > 100, "{reported_only} {more}");
}

//! The end of a proof: every acknowledged write is there with its value and its end, each key is on one server only, and
//! no slot is open.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::client::{Client, slot_of};
use super::cluster::Cluster;
use super::keys::{Key, Kind, millis};
use super::load::{Journal, in_batches};
use super::resp::Reply;

/// How far the end of a key may drift: `MIGRATE` sends what is left of its life, not when it ends.
const END_DRIFT_MS: u64 = 10_000;

/// How many faults are told.
const SHOWN: usize = 10;

/// Waits until the cluster is whole, reads everything back, and panics when something is missing or wrong.
pub fn audit(cluster: &Cluster, journal: &Journal) {
    cluster.until_agreed();
    cluster.assert_clean();
    let faults = faults(cluster, journal);
    let shown: Vec<&String> = faults.iter().take(SHOWN).collect();
    assert!(faults.is_empty(), "{} faults, such as {shown:#?}", faults.len());
}

/// Everything that is missing or wrong.
pub fn faults(cluster: &Cluster, journal: &Journal) -> Vec<String> {
    let mut faults = values(cluster, journal);
    faults.extend(ends(cluster, journal));
    faults.extend(places(cluster, journal));
    faults.extend(big(cluster, journal));
    faults
}

fn values(cluster: &Cluster, journal: &Journal) -> Vec<String> {
    let keys: HashMap<Vec<u8>, Key> = journal.keys().map(|key| (key.name(), key)).collect();
    let commands = journal.keys().map(|key| (key.name(), key.read())).collect();
    let mut faults = Vec::new();
    for (name, reply) in in_batches(cluster, commands) {
        let key = keys[&name];
        if let Err(why) = value(key, &journal.entry(key), reply) {
            faults.push(format!("{key:?} \"{}\" in slot {}: {why}", name.escape_ascii(), slot_of(&name)));
        }
    }
    faults
}

fn value(key: Key, entry: &super::load::Entry, reply: Reply) -> Result<(), String> {
    let found = key.versions(reply)?;
    let (acked, unknown): (BTreeSet<_>, BTreeSet<_>) =
        (entry.acked.iter().copied().collect(), entry.unknown.iter().copied().collect());
    if key.kind() == Kind::Text {
        let last = *acked.last().expect("filled");
        let fine = found[0] == last || unknown.contains(&found[0]);
        return if fine { Ok(()) } else { Err(format!("version {} after {last} was acknowledged", found[0])) };
    }
    let there: BTreeSet<u32> = found.iter().copied().collect();
    let lost: Vec<_> = acked.difference(&there).collect();
    let invented: Vec<_> =
        there.iter().filter(|version| !acked.contains(version) && !unknown.contains(version)).collect();
    if !lost.is_empty() || !invented.is_empty() {
        return Err(format!("{:?}: acknowledged and lost {lost:?}, there and never written {invented:?}", key.kind()));
    }
    if found.len() != there.len() {
        return Err(format!("{:?}: a version twice: {found:?}", key.kind()));
    }
    Ok(())
}

fn ends(cluster: &Cluster, journal: &Journal) -> Vec<String> {
    let expected: HashMap<Vec<u8>, bool> = journal.keys().map(|key| (key.name(), key.ends())).collect();
    let asked = expected.keys().map(|name| (name.clone(), vec![b"PEXPIRETIME".to_vec(), name.clone()])).collect();
    let end = millis(journal.end);
    let mut faults = Vec::new();
    for (name, reply) in in_batches(cluster, asked) {
        let fine = match (expected[&name], &reply) {
            (false, Reply::Number(at)) => *at == -1,
            (true, Reply::Number(at)) => u64::try_from(*at).is_ok_and(|at| at.abs_diff(end) <= END_DRIFT_MS),
            _ => false,
        };
        if !fine {
            faults.push(format!("\"{}\" ends {reply:?}, wanted {end} or never", name.escape_ascii()));
        }
    }
    faults
}

/// Every key once: by asking each primary for all it has, also of slots that it does not own.
fn places(cluster: &Cluster, journal: &Journal) -> Vec<String> {
    let mut expected: BTreeSet<Vec<u8>> = journal.keys().map(Key::name).collect();
    expected.extend(journal.big.iter().map(|big| big.name.clone()));
    let mut seen: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let mut faults = Vec::new();
    for (index, line) in cluster.primaries() {
        for name in all_keys(cluster, index) {
            if !line.slots.contains(&slot_of(&name)) {
                faults.push(format!("server {index} has \"{}\" and not its slot", name.escape_ascii()));
            }
            seen.entry(name).or_default().push(index);
        }
    }
    let brief: BTreeSet<_> = journal.brief.iter().cloned().collect();
    for (name, at) in &seen {
        if at.len() > 1 {
            faults.push(format!("\"{}\" is on the servers {at:?}", name.escape_ascii()));
        }
        if !expected.contains(name) {
            let which = if brief.contains(name) { "has ended" } else { "was never written" };
            faults.push(format!("\"{}\" {which} and is there", name.escape_ascii()));
        }
    }
    faults.extend(
        expected
            .iter()
            .filter(|name| !seen.contains_key(*name))
            .map(|name| format!("\"{}\" is gone", name.escape_ascii())),
    );
    faults
}

fn all_keys(cluster: &Cluster, index: usize) -> BTreeSet<Vec<u8>> {
    let mut connection = cluster.servers[index].connect().unwrap();
    let (mut cursor, mut names) = (b"0".to_vec(), BTreeSet::new());
    loop {
        let answer = connection.call(&[b"SCAN", &cursor[..], b"COUNT", b"5000"]).unwrap().array();
        let [next, page] = <[Reply; 2]>::try_from(answer).expect("a cursor and a page");
        names.extend(page.array().into_iter().map(Reply::bytes));
        cursor = next.bytes();
        if cursor == b"0" {
            return names;
        }
    }
}

fn big(cluster: &Cluster, journal: &Journal) -> Vec<String> {
    let Some(big) = &journal.big else { return Vec::new() };
    let mut client = Client::new(cluster.addresses(), &cluster.options.access);
    let wrong = (0..big.fields).filter(|field| {
        let asked = [b"HGET".to_vec(), big.name.clone(), field.to_string().into_bytes()];
        client.read(&big.name, &asked) != Reply::Bulk(big.value(*field))
    });
    wrong.map(|field| format!("field {field} of the big hash")).collect()
}

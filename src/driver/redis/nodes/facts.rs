//! How a server stands, from what `INFO` and `CONFIG GET` answer: pure.

use std::collections::BTreeMap;

use super::super::value::field;
use crate::driver::nodes::{Durability, Facts};

/// The settings that are asked for.
pub(super) const SETTINGS: [&str; 4] =
    ["appendfsync", "save", "cluster-allow-replica-migration", "cluster-node-timeout"];

/// Commands that moving slots and changing roles needs, with arguments that `ACL DRYRUN` takes. What `MIGRATE` sends to its
/// target as the same user is among them. A command that a server does not know counts for nothing.
pub(super) const NEEDED: [&str; 14] = [
    "CLUSTER NODES",
    "CLUSTER SETSLOT 0 STABLE",
    "CLUSTER GETKEYSINSLOT 0 1",
    "CLUSTER COUNTKEYSINSLOT 0",
    "CLUSTER MIGRATESLOTS SLOTSRANGE 0 0 NODE k",
    "CLUSTER GETSLOTMIGRATIONS",
    "CLUSTER MIGRATION STATUS ALL",
    "MIGRATE 127.0.0.1 6379 k 0 1",
    "RESTORE-ASKING k 0 v",
    "DUMP k",
    "MEMORY USAGE k",
    "ASKING",
    "CLUSTER FAILOVER",
    "CLUSTER REPLICATE k",
];

/// The name of a command: of those with parts, both.
pub(super) fn command_of(words: &str) -> String {
    let most = if words.starts_with("CLUSTER") || words.starts_with("MEMORY") { 2 } else { 1 };
    words.split(' ').take(most).collect::<Vec<_>>().join(" ")
}

/// What the answers say; a field that is not there counts as nothing.
pub(super) fn of(info: &str, settings: &BTreeMap<&'static str, String>) -> Facts {
    let number = |name: &str| field(info, name).and_then(|text| text.parse().ok());
    let flag = |name: &str| field(info, name) == Some("1");
    let is_replica = field(info, "role") == Some("slave");
    let (server, version) = match field(info, "valkey_version") {
        Some(version) => ("valkey", Some(version)),
        None => ("redis", field(info, "redis_version")),
    };
    // A replica's own count; what its primary has sent is the primary's `master_repl_offset`.
    let offset = if is_replica { number("slave_repl_offset") } else { number("master_repl_offset") };
    Facts {
        run_id: field(info, "run_id").unwrap_or_default().to_owned(),
        server: server.to_owned(),
        version: version.unwrap_or_default().to_owned(),
        cluster: flag("cluster_enabled"),
        loading: flag("loading"),
        keys: keys(info),
        used_bytes: number("used_memory").unwrap_or(0),
        max_bytes: number("maxmemory").unwrap_or(0),
        offset: offset.unwrap_or(0),
        link_up: is_replica.then(|| field(info, "master_link_status") == Some("up")),
        durability: durability(flag("aof_enabled"), settings),
        replica_migration: settings.get("cluster-allow-replica-migration").map(|value| value == "yes"),
        node_timeout_ms: settings.get("cluster-node-timeout").and_then(|value| value.parse().ok()),
        user: None,
        denied: Vec::new(),
    }
}

/// The keys of every database: `db0:keys=5,expires=0,avg_ttl=0`.
fn keys(info: &str) -> u64 {
    let databases = info.lines().filter_map(|line| {
        let (name, figures) = line.split_once(':')?;
        name.strip_prefix("db")?.parse::<u32>().ok()?;
        figures.split(',').find_map(|figure| figure.strip_prefix("keys=")).and_then(|keys| keys.parse::<u64>().ok())
    });
    databases.sum()
}

/// Where the setting cannot be read, the default of the servers counts.
fn durability(appends: bool, settings: &BTreeMap<&'static str, String>) -> Durability {
    let set = |name: &str| settings.get(name).map(String::as_str);
    match (appends, set("appendfsync"), set("save")) {
        (true, Some("always"), _) => Durability::Always,
        (true, Some("no"), _) => Durability::System,
        (true, ..) => Durability::EverySecond,
        (false, _, Some("")) => Durability::None,
        (false, ..) => Durability::Snapshots,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n# Memory\r\nused_memory:1048576\r\n\
        maxmemory:0\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n\
        master_repl_offset:77\r\n# Cluster\r\ncluster_enabled:1\r\n# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\n";

    fn settings(pairs: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    #[test]
    fn a_primary_and_a_replica_are_read() {
        let facts = of(PRIMARY, &settings(&[("appendfsync", "always"), ("cluster-node-timeout", "15000")]));
        let expected = Facts {
            run_id: "abc".to_owned(),
            server: "redis".to_owned(),
            version: "7.0.15".to_owned(),
            cluster: true,
            keys: 5,
            used_bytes: 1 << 20,
            offset: 77,
            durability: Durability::Always,
            node_timeout_ms: Some(15000),
            ..Facts::default()
        };
        assert_eq!(facts, expected);
        let replica = "valkey_version:8.1.0\r\nredis_version:7.2.4\r\nrole:slave\r\nmaster_link_status:down\r\n\
            slave_repl_offset:70\r\nmaster_repl_offset:77\r\ndb0:keys=2\r\ndb3:keys=4,expires=0\r\n";
        let facts = of(replica, &settings(&[("cluster-allow-replica-migration", "no")]));
        assert_eq!((facts.server.as_str(), facts.version.as_str()), ("valkey", "8.1.0"));
        assert_eq!((facts.link_up, facts.offset, facts.keys), (Some(false), 70, 6));
        assert_eq!(facts.replica_migration, Some(false));
    }

    #[test]
    fn what_a_crash_can_lose_follows_the_settings() {
        for (appends, pairs, expected) in [
            (true, vec![("appendfsync", "always")], Durability::Always),
            (true, vec![("appendfsync", "everysec")], Durability::EverySecond),
            (true, vec![("appendfsync", "no")], Durability::System),
            (true, vec![], Durability::EverySecond),
            (false, vec![("appendfsync", "always"), ("save", "3600 1")], Durability::Snapshots),
            (false, vec![("save", "")], Durability::None),
            (false, vec![], Durability::Snapshots),
        ] {
            assert_eq!(durability(appends, &settings(&pairs)), expected, "{appends} {pairs:?}");
        }
    }

    #[test]
    fn nothing_is_nothing() {
        let facts = of("", &BTreeMap::new());
        assert_eq!((facts.cluster, facts.keys, facts.link_up), (false, 0, None));
        assert_eq!(command_of(NEEDED[1]), "CLUSTER SETSLOT");
        assert_eq!(command_of(NEEDED[7]), "MIGRATE");
    }
}

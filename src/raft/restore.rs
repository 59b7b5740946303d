//! What is done with a stopped member: a new group from a backup, or from the one store that is left. Both end in a
//! group of another identity, so that members of the old one, should they come back, are refused; and in raised
//! generations, so that clients take the map.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use openraft::vote::RaftLeaderId;
use openraft::{BasicNode, EntryPayload, Membership};
use sha2::{Digest, Sha256};

use super::OpenError;
use super::archive::{self, Archive, ArchiveError, Head, Span};
use super::store::{Identity, Offline};
use super::types::{LogId, SnapshotMeta, StoredMembership, Vote};
use crate::domain::{ClusterName, Instant, MemberId, Principal, Version, hex};
use crate::state::{Restoration, State};

/// What a snapshot file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Version of the program that wrote it.
    pub written_by: String,
    /// The group it is of.
    pub group_id: String,
    /// Where in the log it stands.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The members then, with their peer addresses.
    pub members: Vec<(MemberId, String)>,
    /// Every cluster.
    pub clusters: Vec<(ClusterName, Version)>,
    /// Numbers of the first and last audit record in it; none when it holds none.
    pub audit: Option<(u64, u64)>,
    /// SHA-256 of the state, as `/v1/status` tells it.
    pub state_hash: String,
    /// SHA-256 of the content.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
}

/// Who makes a new group, when and why. Members restored each by itself must be told the same, or they are no group.
#[derive(Clone, Debug)]
pub struct Act {
    /// Who.
    pub by: Principal,
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The new group.
    pub group_id: String,
    /// The group before.
    pub old_group_id: String,
    /// The member that the store is of.
    pub member_id: MemberId,
    /// The members of the new group.
    pub members: BTreeMap<MemberId, String>,
    /// Where in the log it begins.
    pub index: u64,
    /// Every cluster, raised.
    pub clusters: Vec<(ClusterName, Version)>,
}

fn open_archive(path: &Path) -> Result<(Archive, State), OpenError> {
    let file = File::open(path).map_err(|fault| OpenError::Config(format!("{}: {fault}", path.display())))?;
    let refused = |error: ArchiveError| OpenError::damaged(path, "the snapshot", &error);
    let archive = Archive::open(file).map_err(refused)?;
    let state = archive.state().map_err(refused)?;
    if archive.head.records > 0 {
        archive.check_records().map_err(refused)?;
    }
    Ok((archive, state))
}

/// Reads and checks a snapshot file.
///
/// # Errors
/// [`OpenError`] when it is damaged, or of a newer version.
pub fn inspect(path: &Path) -> Result<SnapshotSummary, OpenError> {
    let (archive, state) = open_archive(path)?;
    let Head { written_by, group_id, meta, audit, records, .. } = archive.head;
    let nodes = meta.last_membership.membership().nodes();
    Ok(SnapshotSummary {
        written_by,
        group_id,
        index: meta.last_log_id.map_or(0, |id| id.index),
        term: meta.last_log_id.map_or(0, |id| **id.committed_leader_id()),
        members: nodes.map(|(&id, node)| (id, node.addr.clone())).collect(),
        clusters: versions(&state),
        audit: (records > 0).then_some((audit.first, audit.last)),
        state_hash: state.hash(),
        sha256: archive.sha256,
        bytes: archive.bytes,
    })
}

/// Makes a store in an empty directory from a snapshot: one member of a new group of `members`, and the same on each
/// of them when each is told the same.
///
/// # Errors
/// [`OpenError`]; the directory is as it was.
pub fn restore(
    snapshot: &Path,
    dir: &Path,
    member_id: MemberId,
    members: &BTreeMap<MemberId, String>,
    act: &Act,
) -> Result<Made, OpenError> {
    let (archive, mut state) = open_archive(snapshot)?;
    refuse_used(dir)?;
    if !members.contains_key(&member_id) {
        return Err(OpenError::Config(format!("member {member_id} is not among the initial members")));
    }
    let old = archive.head.group_id.clone();
    let position = archive.head.meta.last_log_id;
    let group_id = new_group_id(&["restore", &old, &archive.sha256], members, act);
    let from = format!("restored from a snapshot of group {old} at index {}", position.map_or(0, |id| id.index));
    let mut lines: Vec<String> = Vec::new();
    let mut span = archive.head.audit.clone();
    if archive.head.records == 0 {
        // A snapshot of a data directory: what was before is in the store that it lay beside.
        span = Span { first: span.last + 1, previous: span.hash.clone(), ..span };
    }
    for record in archive.records() {
        let record = record.map_err(|error| OpenError::damaged(snapshot, "the snapshot", &error))?;
        lines.push(text(&record));
    }
    let action = Restoration { at: act.at, by: &act.by, reason: &act.reason, action: "group.restore", from: &from };
    lines.push(text(&state.restore(&action)));
    let start = Start { group_id, member_id, members: members.clone(), position, incarnation: None, term: 0 };

    // Made beside and renamed: it is there whole or not at all.
    let staging = beside(dir)?;
    let failed = |source| OpenError::Directory { path: staging.clone(), source };
    fs::create_dir_all(&staging).map_err(failed)?;
    let made = start.put(&staging, &state, span, lines, &old);
    let finished = made.and_then(|made| {
        let _ = fs::remove_dir(dir);
        fs::rename(&staging, dir).map_err(failed)?;
        sync(dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        Ok(made)
    });
    finished.inspect_err(|_| drop(fs::remove_dir_all(&staging)))
}

/// Makes the store of one surviving member the first of a new group of one. Everything in its log counts as committed:
/// what was acknowledged and reached this member is kept, and so may be what was not acknowledged.
///
/// # Errors
/// [`OpenError`]; the store is as it was.
pub fn force_new_group(dir: &Path, address: Option<&str>, act: &Act) -> Result<Made, OpenError> {
    if !dir.join(super::store::DATABASE).exists() {
        return Err(OpenError::Config(format!("{} holds no store", dir.display())));
    }
    let mut offline = Offline::open(dir)?;
    let Some(identity) = offline.loaded.identity.clone() else {
        return Err(OpenError::Config(format!("the store in {} belongs to no group yet", dir.display())));
    };
    let (meta, mut state) = offline.loaded.snapshot.take().unwrap_or_default();
    let mut membership = meta.last_membership;
    let mut position = meta.last_log_id;
    let mut added = Vec::new();
    for (entry, _) in std::mem::take(&mut offline.loaded.entries).into_values() {
        if Some(entry.log_id) <= position {
            continue;
        }
        match &entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Normal(request) => added.extend(state.apply(&request.0).audit),
            EntryPayload::Membership(found) => membership = StoredMembership::new(Some(entry.log_id), found.clone()),
        }
        position = Some(entry.log_id);
    }
    offline.add_audit(&added)?;
    let member_id = identity.member_id;
    let known = membership.membership().get_node(&member_id).map(|node| node.addr.clone());
    let address = address.map(str::to_owned).or(known).ok_or_else(|| {
        OpenError::Config(format!("the peer address of member {member_id} is not known to its store: it must be given"))
    })?;
    let members = BTreeMap::from([(member_id, address)]);
    let group_id = new_group_id(&["force", &identity.group_id, &identity.incarnation], &members, act);
    let from = format!(
        "a new group of member {member_id} alone, from group {} at index {}",
        identity.group_id,
        position.map_or(0, |id| id.index)
    );
    let (span, mut lines) = offline.audit_until(&state)?;
    let action = Restoration { at: act.at, by: &act.by, reason: &act.reason, action: "group.force_new", from: &from };
    lines.push(text(&state.restore(&action)));
    let term = offline.loaded.vote.map_or(0, |vote| vote.leader_id.term);
    let incarnation = Some(identity.incarnation);
    let start = Start { group_id, member_id, members, position, incarnation, term };
    // The old snapshots and the log stay until the identity has changed, in one transaction; then they are ignored.
    drop(offline);
    start.put(dir, &state, span, lines, &identity.group_id)
}

/// The beginning of a store.
struct Start {
    group_id: String,
    member_id: MemberId,
    members: BTreeMap<MemberId, String>,
    position: Option<LogId>,
    incarnation: Option<String>,
    term: u64,
}

impl Start {
    fn put(
        self,
        dir: &Path,
        state: &State,
        span: Span,
        lines: Vec<String>,
        old_group_id: &str,
    ) -> Result<Made, OpenError> {
        let first = LogId::new(openraft::impls::leader_id_std::LeaderId::<u64, u64>::new(1, 1).to_committed(), 0);
        let position = self.position.unwrap_or(first);
        let voters = self.members.keys().copied().collect();
        let nodes: BTreeMap<MemberId, BasicNode> =
            self.members.iter().map(|(&id, address)| (id, BasicNode::new(address))).collect();
        let membership = Membership::new(vec![voters], nodes)
            .map_err(|error| OpenError::Config(format!("the members make no group: {error}")))?;
        let meta = SnapshotMeta {
            last_log_id: Some(position),
            last_membership: StoredMembership::new(Some(position), membership),
        };
        let end = &state.audit_head;
        let span = Span { last: end.seq, hash: end.hash.clone(), ..span };
        let failed = |source| OpenError::Directory { path: dir.to_owned(), source };
        let new = dir.join("snapshot.new");
        let head = Head::new(&self.group_id, &meta, span, lines.len() as u64);
        let file = File::create(&new).map_err(failed)?;
        archive::write(&file, true, &head, state, lines.into_iter().map(Ok)).map_err(failed)?;
        let incarnation = self.incarnation.unwrap_or_else(super::open::random_id);
        let identity = Identity::made(self.member_id, self.group_id.clone(), incarnation);
        let term = self.term.max(**position.committed_leader_id());
        let vote = Vote::new(term, self.member_id);
        super::store::begin_anew(dir, &new, &identity, &vote, &position)?;
        Ok(Made {
            group_id: self.group_id,
            old_group_id: old_group_id.to_owned(),
            member_id: self.member_id,
            members: self.members,
            index: position.index,
            clusters: versions(state),
        })
    }
}

fn versions(state: &State) -> Vec<(ClusterName, Version)> {
    state.clusters.values().map(|cluster| (cluster.name.clone(), cluster.version())).collect()
}

fn text(record: &crate::state::AuditRecord) -> String {
    serde_json::to_string(record).expect("an audit record is plain JSON")
}

/// A new identity, the same on every member that is told the same, and on no other.
fn new_group_id(from: &[&str], members: &BTreeMap<MemberId, String>, act: &Act) -> String {
    let mut sha = Sha256::new();
    let mut field = |text: &str| {
        sha.update((text.len() as u64).to_be_bytes());
        sha.update(text);
    };
    for text in from {
        field(text);
    }
    for (id, address) in members {
        field(&format!("{id}={address}"));
    }
    field(&act.at.0.to_string());
    field(act.by.name.as_str());
    field(&act.reason);
    hex(&sha.finalize()[..16])
}

fn refuse_used(dir: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Directory { path: dir.to_owned(), source };
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(OpenError::Config(format!(
                "{} is not empty: a snapshot is restored into a new directory",
                dir.display()
            ))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn beside(dir: &Path) -> Result<PathBuf, OpenError> {
    let name = dir.file_name().ok_or_else(|| OpenError::Config(format!("{} names no directory", dir.display())))?;
    let mut staging = name.to_owned();
    staging.push(format!(".restoring-{}", std::process::id()));
    Ok(dir.with_file_name(staging))
}

fn sync(dir: &Path) -> Result<(), OpenError> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|source| OpenError::Directory { path: dir.to_owned(), source })
}

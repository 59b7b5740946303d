//! What is done with files while nothing runs: looking into a snapshot, restoring one, and making a new group of the one
//! member that is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;

use super::config::parse_members;
use crate::domain::{Instant, MemberId, Principal, PrincipalName, Role};
use crate::raft::{self, Act, Made, OpenError, SnapshotSummary};

/// Makes a data directory from a snapshot: a member of a new group.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The data directory to make; it must not be there, or be empty
    #[arg(long, env = "SLOTKEEPER_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// This member's number in the new group
    #[arg(long, env = "SLOTKEEPER_MEMBER_ID", value_name = "N", default_value_t = 1)]
    pub member_id: MemberId,
    /// Every member of the new group, the same list on each: 1=HOST:PORT,2=HOST:PORT,… A group of this member alone when absent
    #[arg(long, env = "SLOTKEEPER_INITIAL_MEMBERS", value_name = "N=HOST:PORT,…")]
    pub initial_members: Option<String>,
    /// The time that counts as that of the restore, in Unix milliseconds; needed with several members, the same on each.
    /// Now when absent
    #[arg(long, value_name = "MS")]
    pub at: Option<u64>,
    #[command(flatten)]
    /// Who and why
    pub act: ActArgs,
}

/// Makes the store of the one member that is left the first of a new group.
#[derive(Args, Clone, Debug)]
pub struct ForceNewGroupArgs {
    /// The data directory of the member, which must not run
    #[arg(long, env = "SLOTKEEPER_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Where the members of the new group reach it, when that is another address than before
    #[arg(long, value_name = "HOST:PORT")]
    pub peer_address: Option<String>,
    /// You know that the other members are gone for good: what only they have is lost
    #[arg(long, required = true)]
    pub others_are_lost: bool,
    #[command(flatten)]
    /// Who and why
    pub act: ActArgs,
}

/// Who and why, for the audit.
#[derive(Args, Clone, Debug)]
pub struct ActArgs {
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Who does it, for the audit
    #[arg(long, env = "USER", value_name = "NAME", default_value = "admin")]
    pub by: PrincipalName,
}

impl ActArgs {
    fn at(self, at: Option<u64>) -> Result<Act, OpenError> {
        if self.reason.trim().is_empty() || self.reason.len() > 1024 {
            return Err(OpenError::Config("--reason: must say why, in at most 1024 bytes".to_owned()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = at.unwrap_or_else(|| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let by = Principal { name: self.by, role: Role::Admin, token: None };
        Ok(Act { by, at: Instant(at), reason: self.reason })
    }
}

/// Checks a snapshot file and tells what it holds.
///
/// # Errors
/// [`OpenError`] when it is not whole, or of a newer version.
pub fn inspect(file: &Path) -> Result<SnapshotSummary, OpenError> {
    raft::inspect(file)
}

/// `slotkeeper snapshot restore`.
///
/// # Errors
/// [`OpenError`]; nothing was changed.
pub fn restore(args: RestoreArgs) -> Result<Made, OpenError> {
    let members = match &args.initial_members {
        Some(list) => parse_members(list).map_err(|error| OpenError::Config(error.to_string()))?,
        None => BTreeMap::from([(args.member_id, "127.0.0.1:0".to_owned())]),
    };
    if members.len() > 1 && args.at.is_none() {
        let example = args.act.clone().at(None)?.at.0;
        return Err(OpenError::Config(format!(
            "--at is needed with several members, the same on each, because they must come to the same state: take now, --at {example}"
        )));
    }
    let act = args.act.at(args.at)?;
    raft::restore(&args.file, &args.data_dir, args.member_id, &members, &act)
}

/// `slotkeeper force-new-group`.
///
/// # Errors
/// [`OpenError`]; nothing was changed.
pub fn force_new_group(args: ForceNewGroupArgs) -> Result<Made, OpenError> {
    raft::force_new_group(&args.data_dir, args.peer_address.as_deref(), &args.act.at(None)?)
}

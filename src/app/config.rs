//! What `serve` runs with: flags and environment over the configuration file, checked as a whole.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::domain::{Address, MemberId, is_peer_address, is_plain_number};

use super::args::{DevArgs, LogFormat, ServeArgs};
use super::redis::RedisTable;

/// Where the HTTP interface listens unless told otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:7373";

/// A controller's configuration, consistent by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The member's own folder.
    pub data_dir: PathBuf,
    /// Address of the HTTP interface.
    pub listen: SocketAddr,
    /// Address for other members; none for a member alone.
    pub peer_listen: Option<SocketAddr>,
    /// This member's number; none for a member alone.
    pub member_id: Option<MemberId>,
    /// First members of the group; empty for a member alone.
    pub initial_members: BTreeMap<MemberId, String>,
    /// Where the others reach this member; none for a member alone.
    pub peer_address: Option<String>,
    /// How to join a group.
    pub join: Option<JoinConfig>,
    /// Short raft timeouts.
    pub fast_lan: bool,
    /// No tokens.
    pub insecure_dev: bool,
    /// Where the first admin token goes; printed when absent.
    pub admin_token_file: Option<PathBuf>,
    /// Format of the log.
    pub log_format: LogFormat,
    /// A server whose cluster the first one becomes.
    pub seed: Option<Address>,
    /// How Redis and Valkey servers are reached.
    pub redis: RedisTable,
}

/// How to join a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// Members of it.
    pub endpoints: Vec<String>,
    /// File with the token.
    pub token_file: PathBuf,
}

/// A configuration that cannot be: the process exits with 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {path}: {source}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML of the known keys.
    #[error("configuration file {path}: {why}")]
    Malformed {
        /// Which file.
        path: String,
        /// Where and why.
        why: String,
    },
    /// The settings contradict each other or are incomplete.
    #[error("{0}")]
    Inconsistent(String),
}

/// The configuration file: the flags' names with underscores.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    data_dir: Option<PathBuf>,
    listen: Option<SocketAddr>,
    peer_listen: Option<SocketAddr>,
    member_id: Option<MemberId>,
    initial_members: Option<String>,
    peer_address: Option<String>,
    #[serde(default)]
    join: Vec<String>,
    join_token_file: Option<PathBuf>,
    #[serde(default)]
    fast_lan: bool,
    #[serde(default)]
    insecure_dev: bool,
    #[serde(default)]
    allow_plaintext: bool,
    admin_token_file: Option<PathBuf>,
    #[serde(default)]
    redis: RedisTable,
}

impl Config {
    /// Resolves the arguments of `serve`.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file and key, or the settings that do not fit together.
    pub fn of_serve(args: ServeArgs) -> Result<Self, ConfigError> {
        let file = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let inconsistent = |why: &str| ConfigError::Inconsistent(why.to_owned());
        let data_dir = args.data_dir.or(file.data_dir).ok_or_else(|| inconsistent("--data-dir is needed"))?;
        let listen = args.listen.or(file.listen).unwrap_or(DEFAULT_LISTEN.parse().expect("a socket address"));
        let peer_listen = args.peer_listen.or(file.peer_listen);
        let member_id = args.member_id.or(file.member_id);
        let members = args.initial_members.or(file.initial_members);
        let initial_members = members.as_deref().map(parse_members).transpose()?.unwrap_or_default();
        let insecure_dev = args.insecure_dev || file.insecure_dev;
        let allow_plaintext = args.allow_plaintext || file.allow_plaintext;

        let peer_address = args.peer_address.or(file.peer_address);
        let endpoints = if args.join.is_empty() { file.join } else { args.join };
        let join = join(endpoints, args.join_token_file.or(file.join_token_file))?;
        check_peers(peer_listen, peer_address.as_deref(), join.is_some(), !initial_members.is_empty())?;
        if initial_members.is_empty() {
            if member_id.is_some_and(|id| id != 1) {
                return Err(inconsistent("--member-id without --initial-members: a member alone is number 1"));
            }
        } else {
            let id = member_id.ok_or_else(|| inconsistent("--initial-members needs --member-id"))?;
            if !initial_members.contains_key(&id) {
                return Err(ConfigError::Inconsistent(format!("--member-id {id} is not in --initial-members")));
            }
            if peer_listen.is_none() {
                return Err(inconsistent("--initial-members needs --peer-listen"));
            }
        }
        if insecure_dev && !listen.ip().is_loopback() {
            return Err(ConfigError::Inconsistent(format!("--insecure-dev serves loopback only, not {listen}")));
        }
        for address in std::iter::once(listen).chain(peer_listen) {
            if !address.ip().is_loopback() && !allow_plaintext {
                return Err(ConfigError::Inconsistent(format!(
                    "{address} is reachable from outside and this member serves no TLS: put a proxy that terminates it \
                     (for peers: a private network) in front and say --allow-plaintext"
                )));
            }
        }
        let admin_token_file = args.admin_token_file.or(file.admin_token_file);
        let secrets = [
            ("--admin-token-file", admin_token_file.as_deref()),
            ("--join-token-file", join.as_ref().map(|join| join.token_file.as_path())),
        ];
        for (flag, path) in secrets {
            if let Some(path) = path.filter(|path| is_world_readable(path)) {
                let shown = path.display();
                let why = format!("{flag} {shown}: everyone can read the secret in it; chmod 600 it first");
                return Err(ConfigError::Inconsistent(why));
            }
        }
        Ok(Self {
            data_dir,
            listen,
            peer_listen,
            member_id,
            initial_members,
            peer_address: peer_address.or_else(|| peer_listen.map(|address| address.to_string())),
            join,
            fast_lan: args.fast_lan || file.fast_lan,
            insecure_dev,
            admin_token_file,
            log_format: args.log_format,
            seed: None,
            redis: file.redis,
        })
    }

    /// Resolves the arguments of `dev`.
    ///
    /// # Errors
    /// [`ConfigError`] when the address is not on loopback.
    pub fn of_dev(args: DevArgs) -> Result<Self, ConfigError> {
        Self::of_serve(ServeArgs {
            data_dir: Some(args.data_dir),
            listen: Some(args.listen),
            insecure_dev: true,
            ..ServeArgs::default()
        })
    }
}

/// Whether every user of this machine can read a file. What is not there yet is written with mode 0600.
pub(super) fn is_world_readable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o004 != 0)
}

/// Where to join, and with which token.
fn join(endpoints: Vec<String>, token_file: Option<PathBuf>) -> Result<Option<JoinConfig>, ConfigError> {
    match (endpoints.is_empty(), token_file) {
        (true, None) => Ok(None),
        (false, Some(token_file)) => Ok(Some(JoinConfig { endpoints, token_file })),
        (true, Some(_)) => Err(ConfigError::Inconsistent("--join-token-file needs --join".to_owned())),
        (false, None) => Err(ConfigError::Inconsistent("--join needs --join-token-file".to_owned())),
    }
}

fn check_peers(
    peer_listen: Option<SocketAddr>,
    peer_address: Option<&str>,
    joins: bool,
    listed: bool,
) -> Result<(), ConfigError> {
    let inconsistent = |why: &str| Err(ConfigError::Inconsistent(why.to_owned()));
    if joins && listed {
        return inconsistent("--join and --initial-members: a group is either made or joined");
    }
    if joins && peer_listen.is_none() {
        return inconsistent("--join needs --peer-listen");
    }
    if peer_address.is_some() && (peer_listen.is_none() || listed || joins) {
        return inconsistent(
            "--peer-address goes with --peer-listen of a member alone: --initial-members and `member add` name the \
             address of others",
        );
    }
    if let Some(address) = peer_address.filter(|address| !is_peer_address(address)) {
        return Err(ConfigError::Inconsistent(format!("--peer-address {address:?} is not HOST:PORT")));
    }
    match peer_listen {
        Some(address) if address.ip().is_unspecified() && peer_address.is_none() && !listed && !joins => {
            inconsistent("--peer-listen names no address that others can reach: give --peer-address too")
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Settings, ConfigError> {
    let shown = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: shown.clone(), source })?;
    toml::from_str(&text).map_err(|error| ConfigError::Malformed { path: shown, why: error.to_string() })
}

/// Reads `1=host:port,2=host:port`: distinct numbers and addresses.
pub(super) fn parse_members(text: &str) -> Result<BTreeMap<MemberId, String>, ConfigError> {
    let number = |text: &str| is_plain_number(text).then(|| text.parse().ok()).flatten();
    let fault = |part: &str, why: &str| ConfigError::Inconsistent(format!("--initial-members: {part:?} {why}"));
    let mut members = BTreeMap::new();
    for part in text.split(',') {
        let (id, address) = part.split_once('=').ok_or_else(|| fault(part, "is not N=HOST:PORT"))?;
        let id = number(id).filter(|id| *id > 0).ok_or_else(|| fault(part, "does not start with a number from 1"))?;
        if !is_peer_address(address) {
            return Err(fault(part, "has no HOST:PORT after the ="));
        }
        if members.values().any(|known| known == address) {
            return Err(fault(part, "has an address that is listed already"));
        }
        if members.insert(id, address.to_owned()).is_some() {
            return Err(fault(part, "has a number that is listed already"));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut ServeArgs);

    fn serve(change: impl FnOnce(&mut ServeArgs)) -> Result<Config, String> {
        let mut args = ServeArgs { data_dir: Some("d".into()), ..ServeArgs::default() };
        change(&mut args);
        Config::of_serve(args).map_err(|error| error.to_string())
    }

    #[test]
    fn a_member_alone_needs_a_folder_only() {
        let config = serve(|_| {}).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:7373");
        assert!(config.initial_members.is_empty() && !config.insecure_dev);
        assert!(Config::of_serve(ServeArgs::default()).unwrap_err().to_string().contains("--data-dir"));
    }

    #[test]
    fn what_does_not_fit_together_is_refused_by_name() {
        let members = "1=127.0.0.1:1001,2=127.0.0.1:1002,3=127.0.0.1:1003";
        let grouped = |args: &mut ServeArgs| {
            args.initial_members = Some(members.into());
            args.member_id = Some(2);
            args.peer_listen = Some("127.0.0.1:1002".parse().unwrap());
        };
        assert_eq!(serve(grouped).unwrap().initial_members.len(), 3);
        let refused: [(&str, Change); 13] = [
            ("either made or joined", |a| {
                a.join = vec!["http://a:1".into()];
                a.join_token_file = Some("t".into());
            }),
            ("--join needs --join-token-file", |a| a.join = vec!["http://a:1".into()]),
            ("goes with --peer-listen of a member alone", |a| a.peer_address = Some("a:1".into())),
            ("is not HOST:PORT", |a| {
                (a.initial_members, a.member_id, a.peer_address) = (None, None, Some("nonsense".into()));
            }),
            ("is not in --initial-members", |a| a.member_id = Some(4)),
            ("needs --member-id", |a| a.member_id = None),
            ("needs --peer-listen", |a| a.peer_listen = None),
            ("number that is listed already", |a| a.initial_members = Some("2=a:1,2=b:1".into())),
            ("address that is listed already", |a| a.initial_members = Some("1=a:1,2=a:1".into())),
            ("is not N=HOST:PORT", |a| a.initial_members = Some("1".into())),
            ("number from 1", |a| a.initial_members = Some("0=a:1".into())),
            ("no HOST:PORT", |a| a.initial_members = Some("1=a:99999".into())),
            ("a member alone is number 1", |a| a.initial_members = None),
        ];
        for (expected, change) in refused {
            let error = serve(|args| {
                grouped(args);
                change(args);
            })
            .unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn addresses_reachable_from_outside_need_a_word() {
        let public = |a: &mut ServeArgs| a.listen = Some("0.0.0.0:7373".parse().unwrap());
        assert!(serve(public).unwrap_err().contains("--allow-plaintext"));
        assert!(
            serve(|a| {
                public(a);
                a.allow_plaintext = true;
            })
            .is_ok()
        );
        let open = serve(|a| {
            public(a);
            a.allow_plaintext = true;
            a.insecure_dev = true;
        });
        assert!(open.unwrap_err().contains("loopback only"));
    }

    #[test]
    fn a_token_file_that_everyone_reads_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        let with = |path: &Path| serve(|a| a.admin_token_file = Some(path.to_owned()));
        assert!(with(&path).is_ok(), "it is written later");
        std::fs::write(&path, "sk_first_x").unwrap();
        for (mode, refused) in [(0o644, true), (0o604, true), (0o600, false), (0o640, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match with(&path) {
                Ok(_) => assert!(!refused, "{mode:o}"),
                Err(why) => assert!(refused && why.contains("admin.token") && why.contains("chmod 600"), "{why}"),
            }
        }
    }

    #[test]
    fn a_file_is_read_strictly_and_flags_win() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:9\"\nfast_lan = true\n").unwrap();
        let config = serve(|a| a.config = Some(path.clone())).unwrap();
        assert_eq!((config.listen.port(), config.fast_lan), (9, true));
        let config = serve(|a| {
            a.config = Some(path.clone());
            a.listen = Some("127.0.0.1:8".parse().unwrap());
        });
        assert_eq!(config.unwrap().listen.port(), 8);
        std::fs::write(&path, "listne = \"127.0.0.1:9\"\n").unwrap();
        assert!(serve(|a| a.config = Some(path.clone())).unwrap_err().contains("listne"));
        assert!(serve(|a| a.config = Some("/nowhere/c.toml".into())).unwrap_err().contains("/nowhere/c.toml"));
    }
}

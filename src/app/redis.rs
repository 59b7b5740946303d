//! The table `[redis]` of the configuration: how the controller reaches Redis and Valkey servers.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::config::{ConfigError, is_world_readable};
use crate::driver::redis::{Credentials, Failpoints, Networks, Secret, Settings, Tls};

/// Less is not more than the way there and back; with more, clients wait longer than for a slow command.
const BUSY_US: RangeInclusive<u64> = 50..=100_000;

/// How servers are reached, as it is written in the file. Nothing is read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisTable {
    username: Option<String>,
    password_file: Option<PathBuf>,
    tls: Option<TlsTable>,
    #[serde(default)]
    allow_networks: Vec<String>,
    big_key_bytes: Option<u64>,
    busy_us: Option<u64>,
    #[serde(default)]
    fence_with_acl: bool,
    observe_interval_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    ca: PathBuf,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
}

/// How often the leader looks at the nodes of every cluster, unless told otherwise, and the bounds of that.
const OBSERVE_MS: u64 = 1_000;
const OBSERVE_MS_MIN: u64 = 100;
const OBSERVE_MS_MAX: u64 = 60_000;

impl RedisTable {
    /// How often the leader looks at the nodes of every cluster.
    ///
    /// # Errors
    /// [`ConfigError`] naming the key.
    pub fn observe_every(&self) -> Result<Duration, ConfigError> {
        match self.observe_interval_ms.unwrap_or(OBSERVE_MS) {
            ms @ OBSERVE_MS_MIN..=OBSERVE_MS_MAX => Ok(Duration::from_millis(ms)),
            ms => Err(ConfigError::Inconsistent(format!(
                "[redis] observe_interval_ms {ms} is not in {OBSERVE_MS_MIN}..={OBSERVE_MS_MAX}"
            ))),
        }
    }

    /// Reads the files that the table names. `own`: where this controller listens, which is never dialled.
    ///
    /// # Errors
    /// [`ConfigError`] naming the key.
    pub fn load(&self, own: Vec<SocketAddr>) -> Result<Settings, ConfigError> {
        let inconsistent = |why: &str| ConfigError::Inconsistent(format!("[redis] {why}"));
        let credentials = match (&self.username, &self.password_file) {
            (username, Some(path)) => {
                let password = Secret::new(secret("password_file", path)?.trim_end_matches(['\r', '\n']));
                Some(Credentials { username: username.clone(), password })
            }
            (Some(_), None) => return Err(inconsistent("username needs password_file")),
            (None, None) => None,
        };
        if self.fence_with_acl && self.username.is_none() {
            return Err(inconsistent("fence_with_acl needs the username of somebody who may change users"));
        }
        let mut allowed = Vec::new();
        for network in &self.allow_networks {
            allowed.push(network.parse().map_err(|why: String| inconsistent(&format!("allow_networks: {why}")))?);
        }
        if self.busy_us.is_some_and(|busy| !BUSY_US.contains(&busy)) {
            return Err(inconsistent(&format!("busy_us is not in {} to {}", BUSY_US.start(), BUSY_US.end())));
        }
        let defaults = Settings::default();
        Ok(Settings {
            credentials,
            tls: self.tls.as_ref().map(TlsTable::load).transpose()?,
            networks: Networks { allowed, own },
            big_key_bytes: self.big_key_bytes.unwrap_or(defaults.big_key_bytes),
            busy: self.busy_us.map_or(defaults.busy, Duration::from_micros),
            fence_with_acl: self.fence_with_acl,
            failpoints: failpoints(),
            ..defaults
        })
    }
}

impl TlsTable {
    fn load(&self) -> Result<Tls, ConfigError> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((file("tls.cert", cert)?, Secret::new(&secret("tls.key", key)?))),
            (None, None) => None,
            _ => return Err(ConfigError::Inconsistent("[redis] tls: cert and key go together".to_owned())),
        };
        Ok(Tls { ca: file("tls.ca", &self.ca)?, identity, server_name: self.server_name.clone() })
    }
}

fn file(key: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| ConfigError::Inconsistent(format!("[redis] {key} {}: {error}", path.display())))
}

fn secret(key: &str, path: &Path) -> Result<String, ConfigError> {
    let fault = |why: &str| ConfigError::Inconsistent(format!("[redis] {key} {}: {why}", path.display()));
    if is_world_readable(path) {
        return Err(fault("everyone can read the secret in it; chmod 600 it first"));
    }
    String::from_utf8(file(key, path)?).map_err(|_| fault("is not text"))
}

/// What the tests of the whole controller do between the steps of a move: `PLACE[:N]:die` ends the process there as if
/// it were killed, the N-th time; `PLACE[:N]:hold=FILE` makes a file and waits until it is gone. Not part of releases.
#[cfg(debug_assertions)]
fn failpoints() -> Failpoints {
    use std::sync::atomic::{AtomicU32, Ordering};

    let Ok(text) = std::env::var("SLOTKEEPER_FAILPOINT") else { return Failpoints::default() };
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let (place, turn, act) = match parts.as_slice() {
        [place, turn, act] if turn.parse::<u32>().is_ok() => (*place, turn.parse().unwrap_or(1), *act),
        [place, act] => (*place, 1, *act),
        _ => panic!("SLOTKEEPER_FAILPOINT={text:?} is not PLACE[:N]:die or PLACE[:N]:hold=FILE"),
    };
    let (place, act, left) = (place.to_owned(), act.to_owned(), AtomicU32::new(turn));
    Failpoints::new(move |reached| {
        let is_it = reached == place && left.fetch_sub(1, Ordering::Relaxed) == 1;
        let act = act.clone();
        Box::pin(async move {
            if !is_it {
                return;
            }
            match act.strip_prefix("hold=") {
                Some(file) => hold(Path::new(file)).await,
                None => {
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
                }
            }
        })
    })
}

#[cfg(debug_assertions)]
async fn hold(file: &Path) {
    std::fs::write(file, "").expect("the test's folder is there");
    while file.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[cfg(not(debug_assertions))]
fn failpoints() -> Failpoints {
    Failpoints::default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn load(text: &str) -> Result<Settings, String> {
        let table: RedisTable = toml::from_str(text).map_err(|error| error.to_string())?;
        table.load(Vec::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_table_is_read_strictly_and_its_files_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "canary\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let file = format!("password_file = {:?}\n", path.display().to_string());
        let settings = load(&format!("username = \"mover\"\nallow_networks = [\"10.0.0.0/8\"]\n{file}")).unwrap();
        assert_eq!(settings.credentials.as_ref().unwrap().password.expose(), "canary");
        assert!(!format!("{settings:?}").contains("canary"));
        assert_eq!(settings.networks.allowed.len(), 1);
        assert_eq!(load("busy_us = 300").unwrap().busy, Duration::from_micros(300));
        assert!(load("busy_us = 49").unwrap_err().contains("busy_us is not in 50 to 100000"));
        assert_eq!(load("").unwrap().big_key_bytes, 64 << 20);
        let every = |text: &str| toml::from_str::<RedisTable>(text).unwrap().observe_every();
        assert_eq!(every("").unwrap(), Duration::from_secs(1));
        assert_eq!(every("observe_interval_ms = 250").unwrap(), Duration::from_millis(250));
        for bad in [0, 99, 60_001] {
            let told = every(&format!("observe_interval_ms = {bad}")).unwrap_err().to_string();
            assert!(told.contains(&format!("observe_interval_ms {bad} is not in 100..=60000")), "{told}");
        }
        for (text, why) in [
            ("username = \"mover\"\n".to_owned(), "needs password_file"),
            ("password_file = \"/nowhere/secret\"\n".to_owned(), "/nowhere/secret"),
            (format!("fence_with_acl = true\n{file}"), "needs the username"),
            ("allow_networks = [\"everywhere\"]\n".to_owned(), "allow_networks: \"everywhere\""),
            ("[tls]\nca = \"/nowhere/ca\"\n".to_owned(), "tls.ca /nowhere/ca"),
            ("[tls]\nca = \"x\"\ncert = \"y\"\n".to_owned(), "go together"),
            ("pasword_file = \"x\"\n".to_owned(), "pasword_file"),
        ] {
            let told = load(&text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(load(&file).unwrap_err().contains("chmod 600"));
    }
}

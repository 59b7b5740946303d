//! Resolved settings: flag over `SLOTKEEPER_*` over configuration file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::input;
use super::output::{Color, Format, Output};
use super::tls::Tls;

/// Where a controller listens unless told otherwise.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7373";
/// The cluster a fresh controller has.
const DEFAULT_CLUSTER: &str = "default";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than a controller waits for nodes.
const NODES_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of every command that talks to a controller, as typed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// URL of a controller; give it several times for several, the next is asked when one does not answer
    #[arg(
        long,
        global = true,
        env = "SLOTKEEPER_ENDPOINT",
        hide_env_values = true,
        value_name = "URL",
        value_delimiter = ','
    )]
    pub endpoint: Vec<String>,
    /// The cluster meant [default: default]
    #[arg(long, global = true, env = "SLOTKEEPER_CLUSTER", hide_env_values = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// File with the bearer token
    #[arg(
        long,
        global = true,
        help = "File with the bearer token; SLOTKEEPER_TOKEN holds one itself",
        env = "SLOTKEEPER_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that the controllers' own must come from, instead of those of the system
    #[arg(long, global = true, env = "SLOTKEEPER_CACERT", hide_env_values = true, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Certificate (PEM) to show to the controllers; needs --key
    #[arg(long, global = true, env = "SLOTKEEPER_CERT", hide_env_values = true, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key (PEM) of --cert
    #[arg(long, global = true, env = "SLOTKEEPER_KEY", hide_env_values = true, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Configuration file (TOML) [default: ~/.config/slotkeeper/client.toml, where there is one]
    #[arg(long, global = true, env = "SLOTKEEPER_CLIENT_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub client_config: Option<PathBuf>,
    /// Form of the output [default: table]
    #[arg(
        short,
        long,
        global = true,
        env = "SLOTKEEPER_OUTPUT",
        hide_env_values = true,
        value_enum,
        value_name = "FORM"
    )]
    pub output: Option<Format>,
    /// How long to wait for an answer, such as 500ms, 10s or 2m [default: 10s]
    #[arg(long, global = true, env = "SLOTKEEPER_TIMEOUT", hide_env_values = true, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// When to colour [default: auto]
    #[arg(long, global = true, env = "SLOTKEEPER_COLOR", hide_env_values = true, value_enum, value_name = "WHEN")]
    pub color: Option<Color>,
    /// Answer every prompt with yes; skips no check
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// No remarks on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say on stderr who is asked
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientConfig {
    #[serde(default)]
    endpoints: Vec<String>,
    cluster: Option<String>,
    token_file: Option<PathBuf>,
    cacert: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    output: Option<String>,
    timeout: Option<String>,
    color: Option<String>,
}

/// What a command runs with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URLs of controllers, at least one.
    pub endpoints: Vec<String>,
    /// The cluster meant.
    pub cluster: String,
    /// The bearer token.
    pub token: Option<Secret>,
    /// What TLS trusts and shows.
    pub tls: Tls,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// Whether a person has said so.
    timeout_given: bool,
    /// Where output goes.
    pub output: Output,
    /// Prompts are answered with yes.
    pub yes: bool,
    /// Say on stderr who is asked.
    pub verbose: bool,
    /// The file read.
    file: Option<PathBuf>,
    /// Where the token came from.
    token_from: Option<String>,
}

/// A secret: never shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Settings as `config show` prints them.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Configuration file read, if any.
    pub file: Option<PathBuf>,
    /// URLs of controllers.
    pub endpoints: Vec<String>,
    /// The cluster meant.
    pub cluster: String,
    /// Where the token came from.
    pub token: Option<String>,
    /// Certificates trusted instead of those of the system.
    pub cacert: Option<String>,
    /// Certificate shown to the controllers.
    pub cert: Option<String>,
    /// Form of the output.
    pub output: String,
    /// Longest wait for an answer.
    pub timeout_ms: u128,
}

impl Settings {
    /// The same for what nodes are asked to do before there is an answer: they come to know and to forget each other in their
    /// own time.
    #[must_use]
    pub fn for_nodes(&self) -> Self {
        let timeout = if self.timeout_given { self.timeout } else { NODES_TIMEOUT };
        Self { timeout, ..self.clone() }
    }

    /// Resolves the settings.
    ///
    /// # Errors
    /// Invalid input naming the file and key.
    pub fn resolve(args: &GlobalArgs) -> Result<Self, Fault> {
        let (path, file) = read_file(args.client_config.as_deref())?;
        let invalid = |key: &str, why: String| {
            let shown = path.as_ref().map_or(String::new(), |path| path.display().to_string());
            Fault::invalid(format!("{shown}: {key}: {why}"))
        };
        let format = match (args.output, &file.output) {
            (Some(format), _) => format,
            (None, Some(text)) => Format::from_str(text, false).map_err(|why| invalid("output", why))?,
            (None, None) => Format::Table,
        };
        let color = match (args.color, &file.color) {
            (Some(color), _) => color,
            (None, Some(text)) => Color::from_str(text, false).map_err(|why| invalid("color", why))?,
            (None, None) => Color::Auto,
        };
        let timeout_given = args.timeout.is_some() || file.timeout.is_some();
        let timeout = match (args.timeout, &file.timeout) {
            (Some(timeout), _) => timeout,
            (None, Some(text)) => duration(text).map_err(|why| invalid("timeout", why))?,
            (None, None) => DEFAULT_TIMEOUT,
        };
        let mut endpoints = if args.endpoint.is_empty() { file.endpoints } else { args.endpoint.clone() };
        if endpoints.is_empty() {
            endpoints.push(DEFAULT_ENDPOINT.to_owned());
        }
        let (token, token_from) = token(args.token_file.as_deref().or(file.token_file.as_deref()))?;
        let or = |flag: &Option<PathBuf>, file: Option<PathBuf>| flag.clone().or(file);
        let tls = Tls::read(or(&args.cacert, file.cacert), or(&args.cert, file.cert), or(&args.key, file.key))?;
        let output = Output { format, color: color.on_stdout(), quiet: args.quiet };
        let cluster = args.cluster.clone().or(file.cluster).unwrap_or_else(|| DEFAULT_CLUSTER.to_owned());
        Ok(Self {
            endpoints,
            cluster,
            token,
            tls,
            timeout,
            timeout_given,
            output,
            yes: args.yes,
            verbose: args.verbose,
            file: path,
            token_from,
        })
    }

    /// What a command to paste needs besides its own arguments.
    #[must_use]
    pub fn globals(&self) -> String {
        let from_environment = std::env::var_os("SLOTKEEPER_CLUSTER").is_some();
        if self.cluster == DEFAULT_CLUSTER || from_environment {
            String::new()
        } else {
            format!(" --cluster {}", self.cluster)
        }
    }

    /// For `config show`.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let output = self.output.format.to_possible_value().map(|value| value.get_name().to_owned());
        Shown {
            file: self.file.clone(),
            endpoints: self.endpoints.clone(),
            cluster: self.cluster.clone(),
            token: self.token_from.clone(),
            cacert: self.tls.authorities.as_ref().map(|(path, _)| path.clone()),
            cert: self.tls.identity.as_ref().map(|(path, _)| path.clone()),
            output: output.unwrap_or_default(),
            timeout_ms: self.timeout.as_millis(),
        }
    }
}

/// The file named, or the one at its usual place where there is one.
fn read_file(named: Option<&Path>) -> Result<(Option<PathBuf>, ClientConfig), Fault> {
    let usual = || {
        let home = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")))?;
        Some(base.join("slotkeeper").join("client.toml")).filter(|path| path.is_file())
    };
    let Some(path) = named.map(Path::to_path_buf).or_else(usual) else { return Ok((None, ClientConfig::default())) };
    let shown = path.display().to_string();
    let bytes = input::read(&shown)?;
    let text = String::from_utf8(bytes).map_err(|_| Fault::invalid(format!("{shown}: not UTF-8")))?;
    let file = toml::from_str(&text).map_err(|fault| Fault::invalid(fault.to_string().trim_end()).about(&shown))?;
    Ok((Some(path), file))
}

fn token(file: Option<&Path>) -> Result<(Option<Secret>, Option<String>), Fault> {
    if let Some(path) = file {
        let shown = path.display().to_string();
        input::refuse_world_readable(path)?;
        let text =
            String::from_utf8(input::read(&shown)?).map_err(|_| Fault::invalid(format!("{shown}: not UTF-8")))?;
        let token = text.trim();
        if token.is_empty() || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Fault::invalid(format!("{shown}: not one token")));
        }
        return Ok((Some(Secret(token.to_owned())), Some(shown)));
    }
    let token = std::env::var("SLOTKEEPER_TOKEN").ok().filter(|token| !token.is_empty());
    Ok((token.map(Secret), std::env::var_os("SLOTKEEPER_TOKEN").map(|_| "SLOTKEEPER_TOKEN".to_owned())))
}

/// Reads `500ms`, `10s`, `2m`, or seconds without a unit.
///
/// # Errors
/// What is expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: Option<u64> = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    let ms_per_unit = match &text[digits.len()..] {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    number
        .zip(ms_per_unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is not a time such as 500ms, 10s or 2m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "1.5s", "1d", "10 s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}

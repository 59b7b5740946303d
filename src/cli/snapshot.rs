//! `slotkeeper snapshot save` and `status`. What a file holds and whether it is whole is told by whoever knows the format:
//! it is handed in, because the command line sees no state.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::GlobalArgs;
use super::api::Api;
use super::fault::Fault;
use super::settings::Settings;
use crate::wire::SnapshotSummary;

/// Why a file is no snapshot, with the exit code for it.
pub type Refusal = (u8, String);

/// Where a snapshot goes.
#[derive(Args, Clone, Debug)]
pub struct SaveArgs {
    /// The file to write; it must not be there yet. Keep it like a secret: hashes of tokens are in it
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// A snapshot.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Downloads a snapshot of now, has it checked, and puts it in its place, whole or not at all.
#[must_use]
pub fn save(
    global: &GlobalArgs,
    args: &SaveArgs,
    inspect: impl Fn(&Path) -> Result<SnapshotSummary, Refusal>,
) -> ExitCode {
    let beside = beside(&args.file);
    let saved = Settings::resolve(global).map_err(Fault::report).and_then(|settings| {
        download(&settings, args, &beside).map_err(Fault::report)?;
        let summary = inspect(&beside).map_err(|refusal| refuse(&args.file, refusal))?;
        let kept = keep(&beside, &args.file).map_err(|fault| fault.about(args.file.display()));
        kept.and_then(|()| show(&settings, &args.file, &summary)).map_err(Fault::report)
    });
    if saved.is_err() {
        drop(fs::remove_file(&beside));
    }
    saved.err().unwrap_or(ExitCode::SUCCESS)
}

/// Tells what a snapshot file holds.
#[must_use]
pub fn status(
    global: &GlobalArgs,
    args: &StatusArgs,
    inspect: impl Fn(&Path) -> Result<SnapshotSummary, Refusal>,
) -> ExitCode {
    let told = Settings::resolve(global).map_err(Fault::report).and_then(|settings| {
        let summary = inspect(&args.file).map_err(|refusal| refuse(&args.file, refusal))?;
        show(&settings, &args.file, &summary).map_err(Fault::report)
    });
    told.err().unwrap_or(ExitCode::SUCCESS)
}

/// Tells what came of making a new group: lines for people, or one value.
#[must_use]
pub fn show_made(global: &GlobalArgs, lines: &[String], value: &impl Serialize) -> ExitCode {
    let told = Settings::resolve(global).and_then(|settings| {
        if settings.output.is_for_people() {
            settings.output.text(&lines.join("\n"))
        } else {
            settings.output.json(value)
        }
    });
    told.map_or_else(Fault::report, |()| ExitCode::SUCCESS)
}

fn refuse(file: &Path, (code, why): Refusal) -> ExitCode {
    let why = if why.contains(&*file.to_string_lossy()) { why } else { format!("{}: {why}", file.display()) };
    super::output::warn_line(&format!("error: {why}"));
    ExitCode::from(code)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn download(settings: &Settings, args: &SaveArgs, beside: &Path) -> Result<(), Fault> {
    if args.file.exists() {
        return Err(Fault::conflict("it is there already").about(args.file.display()));
    }
    let api = Api::open(settings)?;
    let mut download = api.call(api.client.download_snapshot())?;
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(beside);
    let mut file = file.map_err(|fault| Fault::from(fault).about(beside.display()))?;
    while let Some(piece) = api.call(download.chunk())? {
        file.write_all(&piece).map_err(|fault| Fault::from(fault).about(beside.display()))?;
    }
    file.sync_all().map_err(|fault| Fault::from(fault).about(beside.display()))
}

fn keep(beside: &Path, file: &Path) -> Result<(), Fault> {
    fs::rename(beside, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

fn show(settings: &Settings, file: &Path, summary: &SnapshotSummary) -> Result<(), Fault> {
    let output = settings.output;
    if !output.is_for_people() {
        return output.json(summary);
    }
    let members: Vec<String> = summary.members.iter().map(|(id, address)| format!("{id}={address}")).collect();
    let clusters: Vec<String> = summary.clusters.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let audit = summary.audit.map_or_else(|| "none".to_owned(), |(first, last)| format!("records {first} to {last}"));
    let rows = [
        ("file", format!("{}, {} bytes, whole", file.display(), summary.bytes)),
        ("written by", format!("slotkeeper {}", summary.written_by)),
        ("group", summary.group_id.clone()),
        ("index", format!("{} (term {})", summary.index, summary.term)),
        ("members", members.join(", ")),
        ("clusters", if clusters.is_empty() { "none".to_owned() } else { clusters.join(", ") }),
        ("audit", audit),
        ("state", format!("sha256:{}", summary.state_hash)),
        ("content", format!("sha256:{}", summary.sha256)),
    ];
    let lines: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<11} {value}")).collect();
    output.text(&lines.join("\n"))
}

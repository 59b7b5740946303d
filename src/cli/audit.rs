//! `slotkeeper audit`: who did what, when and why.

use std::collections::VecDeque;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::Fault;
use super::output::{Format, WIDTH, escape, wrap};
use super::plan::Names;
use super::settings::Settings;
use crate::wire::AuditView;

/// Records of one page.
const PAGE: u16 = 200;
/// Columns before what stands under a record: the width of its number.
const INDENT: usize = 8;
/// Time between two looks of `audit tail`.
const EVERY: Duration = Duration::from_secs(1);

/// Who did what, when and why.
#[derive(Subcommand, Clone, Debug)]
pub enum AuditCommand {
    /// List the latest records, oldest first
    List(ListArgs),
    /// Print the latest records and every new one, until Ctrl-C
    Tail(ListArgs),
}

/// Which records.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Most records
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// Only this kind of operation, such as plan.approve
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: &AuditCommand, settings: &Settings) -> Result<(), Fault> {
    let api = Api::open(settings)?;
    let (AuditCommand::List(args) | AuditCommand::Tail(args)) = command;
    let mut reader = Reader { seen: 0, first: None };
    let mut latest = VecDeque::new();
    reader.read(&api, args, |record| {
        latest.push_back(record);
        if latest.len() > args.limit {
            latest.pop_front();
        }
    })?;
    let latest: Vec<AuditView> = latest.into();
    if matches!(command, AuditCommand::List(_)) && !settings.output.is_for_people() {
        return settings.output.json_list(&latest);
    }
    if settings.output.is_for_people()
        && let Some(first @ 2..) = reader.first
    {
        settings
            .output
            .note(&format!("records 1 to {} are not kept any more; the chain goes on from {first}", first - 1));
    }
    print(&latest, settings)?;
    if matches!(command, AuditCommand::List(_)) {
        return Ok(());
    }
    loop {
        api.pause(EVERY);
        let mut new = Vec::new();
        reader.read(&api, args, |record| new.push(record))?;
        print(&new, settings)?;
    }
}

/// Where reading the audit is: the number of the last record seen.
struct Reader {
    seen: u64,
    /// Number of the first record that there was.
    first: Option<u64>,
}

impl Reader {
    /// Reads every record there is after those seen.
    fn read(&mut self, api: &Api, args: &ListArgs, mut take: impl FnMut(AuditView)) -> Result<(), Fault> {
        loop {
            let page = api.call(api.client.audit(self.seen, PAGE))?;
            let (before, is_last) = (self.seen, page.next.is_none());
            for record in page.items {
                self.first.get_or_insert(record.seq);
                self.seen = self.seen.max(record.seq);
                if args.action.as_ref().is_none_or(|action| *action == record.action) {
                    take(record);
                }
            }
            if is_last || self.seen == before {
                return Ok(());
            }
        }
    }
}

fn print(records: &[AuditView], settings: &Settings) -> Result<(), Fault> {
    if !settings.output.is_for_people() {
        return records.iter().try_for_each(|record| settings.output.json(record));
    }
    let lines: Vec<String> = records.iter().map(line).collect();
    let names = match settings.output.format {
        Format::Wide => Names::whole(),
        _ => Names::within(lines.iter().map(String::as_str)),
    };
    let is_wide = settings.output.format == Format::Wide;
    lines.iter().map(|line| names.shorten(line)).try_for_each(|line| {
        let line = if is_wide { line } else { folded(&line) };
        settings.output.text(&line)
    })
}

/// One record within the columns: what does not fit stands under it, beside the numbers.
fn folded(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    let text = line.trim_start();
    let before = &line[..line.len() - text.len()];
    before.to_owned() + &wrap(text, WIDTH - INDENT).join(&format!("\n{:INDENT$}", ""))
}

fn line(record: &AuditView) -> String {
    let place = [record.cluster.as_ref().map(ToString::to_string), record.subject.clone()];
    let place: Vec<String> = place.into_iter().flatten().collect();
    let reason = record.reason.as_ref().map(|reason| format!(" | {reason}")).unwrap_or_default();
    escape(&format!(
        "{:>6}  {}  {} ({})  {}  {}  {}{reason}",
        record.seq,
        record.at,
        record.by.name,
        record.by.role,
        record.action,
        place.join("/"),
        record.summary
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_within_the_columns_and_loses_nothing() {
        let head = "     7  2026-03-02T14:05:00Z  ops-1 (operator)  cluster.change  prod-eu/p-7q2m4xkz  ";
        let long = format!("{head}{} | {}", "shard 01234567 of 8192 slots is draining; ".repeat(9), "x".repeat(300));
        let shown = folded(&long);
        assert!(shown.lines().count() > 5 && shown.lines().all(|line| line.chars().count() <= 94), "{shown}");
        assert!(shown.starts_with(head.trim_end()), "{shown}");
        assert!(shown.lines().skip(1).all(|line| line.starts_with("        ")), "{shown}");
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(&shown), bare(&long));
        let short = format!("{head}ok");
        assert_eq!(folded(&short), short);
    }
}

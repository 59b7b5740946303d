//! Per-slot statistics from a file: CSV with a header, or JSON. Read strictly: every fault is told with its line.

use std::time::UNIX_EPOCH;

use crate::cli::fault::Fault;
use crate::cli::input;
use crate::domain::{Instant, Invalid, LoadMetric, SLOT_COUNT, Slot, Statistics};
use crate::wire::{StatisticsView, Timestamp};

/// The comment that says when the figures of a CSV file were taken.
const TAKEN_AT: &str = "# taken_at:";

/// Reads statistics, or refuses them when they are too old. Where the file does not say when they were taken, they are as
/// old as the file; from stdin they are new.
///
/// # Errors
/// Invalid input with the line.
pub fn read(path: &str) -> Result<Statistics, Fault> {
    let bytes = input::read_text(path)?;
    let shown = if path == "-" { "stdin" } else { path };
    let text = input::without_bom(&bytes);
    let is_json = text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let statistics = if is_json { from_json(text) } else { from_csv(text) };
    let mut statistics = statistics.map_err(|fault| Fault::invalid(fault).about(shown))?;
    let now = super::now();
    let taken_at = statistics.taken_at().or_else(|| modified(path)).unwrap_or(now);
    statistics.set_taken_at(taken_at);
    let hours = now.since_ms(taken_at) / 3_600_000;
    if now.since_ms(taken_at) > Statistics::AGE_MAX_MS {
        let why =
            format!("the statistics are {hours} hours old, and older than 24 is too old to plan by: measure again");
        return Err(Fault::invalid(why).about(shown));
    }
    if taken_at.since_ms(now) > Statistics::AHEAD_MAX_MS {
        let why = format!("the statistics were taken in the future, {}", Timestamp(taken_at));
        return Err(Fault::invalid(why).about(shown));
    }
    Ok(statistics)
}

fn modified(path: &str) -> Option<Instant> {
    let since = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Instant)
}

fn from_json(text: &[u8]) -> Result<Statistics, String> {
    let view: StatisticsView = serde_json::from_slice(text).map_err(|fault| format!("not statistics: {fault}"))?;
    Statistics::try_from(&view).map_err(|fault| fault.to_string())
}

/// A column of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Slot,
    Figure(LoadMetric),
}

fn from_csv(text: &[u8]) -> Result<Statistics, String> {
    let text = std::str::from_utf8(text).map_err(|fault| {
        let line = text[..fault.valid_up_to()].split(|b| *b == b'\n').count();
        format!("line {line}: not UTF-8")
    })?;
    let mut columns: Option<Vec<Column>> = None;
    let mut taken_at = None;
    let mut statistics: Option<Statistics> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let at = |why: &dyn std::fmt::Display| format!("line {number}: {why}");
        let line = line.trim_end_matches('\r');
        let is_comment = line.is_empty() || line.starts_with('#');
        if let Some(time) = line.strip_prefix(TAKEN_AT) {
            let time: Timestamp = time.trim().parse().map_err(|fault: Invalid| at(&fault))?;
            if taken_at.replace(time.0).is_some() {
                return Err(at(&"taken_at is there twice"));
            }
        } else if let (Some(columns), Some(statistics), false) = (&columns, &mut statistics, is_comment) {
            let (slot, figures) = row(columns, line).map_err(|why| at(&why))?;
            statistics.add(slot, &figures).map_err(|fault| at(&fault))?;
        } else if !is_comment {
            let found = header(line).map_err(|why| at(&why))?;
            let metrics: Vec<LoadMetric> = found.iter().filter_map(|column| column.metric()).collect();
            statistics = Some(Statistics::new(&metrics, None).map_err(|fault| at(&fault))?);
            columns = Some(found);
        }
    }
    let mut statistics = statistics.ok_or("line 1: there is no header such as slot,keys,bytes,ops")?;
    if let Some(at) = taken_at {
        statistics.set_taken_at(at);
    }
    Ok(statistics)
}

impl Column {
    fn metric(self) -> Option<LoadMetric> {
        match self {
            Self::Slot => None,
            Self::Figure(metric) => Some(metric),
        }
    }
}

fn header(line: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for name in line.split(',').map(str::trim) {
        let figure = LoadMetric::ALL.into_iter().find(|metric| metric.as_str() == name).map(Column::Figure);
        let column = if name == "slot" { Some(Column::Slot) } else { figure };
        let column = column.ok_or_else(|| {
            let shown: String = name.chars().take(32).collect();
            format!("column {shown:?} is none of slot, keys, bytes and ops")
        })?;
        if columns.contains(&column) {
            return Err(format!("column {name} is there twice"));
        }
        columns.push(column);
    }
    if !columns.contains(&Column::Slot) {
        return Err("there is no column slot".to_owned());
    }
    Ok(columns)
}

fn row(columns: &[Column], line: &str) -> Result<(Slot, Vec<u64>), String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        return Err(format!("{} fields, but the header has {} columns", cells.len(), columns.len()));
    }
    let (mut slot, mut figures) = (None, Vec::with_capacity(columns.len()));
    for (column, cell) in columns.iter().zip(cells) {
        let is_number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
        let number = is_number.then(|| cell.parse::<u64>().ok()).flatten();
        let name = column.metric().map_or("slot", LoadMetric::as_str);
        let number = number.ok_or_else(|| {
            let shown: String = cell.chars().take(32).collect();
            format!("{name} {shown:?} is not a whole number in 0..=18446744073709551615")
        })?;
        match column {
            Column::Slot if number < SLOT_COUNT as u64 => slot = u16::try_from(number).ok(),
            Column::Slot => return Err(format!("slot {number} is not in 0..=16383")),
            Column::Figure(_) => figures.push(number),
        }
    }
    let slot = Slot::new(slot.expect("the header has a column slot")).expect("bounded above");
    Ok((slot, figures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_in_any_order_of_columns() {
        let text = "# taken_at: 2026-03-02T14:04:00Z\r\nbytes, slot\r\n\r\n7,3\r\n# more\n0,1\n";
        let statistics = from_csv(text.as_bytes()).unwrap();
        assert_eq!(statistics.of(LoadMetric::Bytes).unwrap()[3], 7);
        assert_eq!(statistics.listed().len(), 2);
        assert_eq!(statistics.taken_at(), Some(Instant(1_772_460_240_000)));
    }

    #[test]
    fn every_fault_has_its_line() {
        for (text, wanted) in [
            ("", "line 1: there is no header"),
            ("keys,bytes\n", "line 1: there is no column slot"),
            ("slot\n", "line 1: columns: there is none of keys, bytes and ops"),
            ("slot,keys,keys\n", "line 1: column keys is there twice"),
            ("slot,hits\n", "line 1: column \"hits\" is none of slot, keys, bytes and ops"),
            ("slot,keys\n1,2\n1,3\n", "line 3: slot: 1 is listed twice"),
            ("slot,keys\n16384,2\n", "line 2: slot 16384 is not in 0..=16383"),
            ("slot,keys\n1,-2\n", "line 2: keys \"-2\" is not a whole number"),
            ("slot,keys\n1,2.5\n", "line 2: keys \"2.5\" is not a whole number"),
            ("slot,keys\n1,18446744073709551616\n", "line 2: keys \"18446744073709551616\" is not a whole number"),
            ("slot,keys\n1,9007199254740991\n2,1\n", "line 3: keys: adds up to more than 9007199254740991"),
            ("slot,keys\n1\n", "line 2: 1 fields, but the header has 2 columns"),
            ("slot,keys\n1,2,3\n", "line 2: 3 fields, but the header has 2 columns"),
            ("slot,keys\n1,\n", "line 2: keys \"\" is not a whole number"),
            ("# taken_at: noon\nslot,keys\n", "line 1: time: \"noon\" is not an RFC 3339 time"),
        ] {
            let found = from_csv(text.as_bytes()).unwrap_err();
            assert!(found.starts_with(wanted), "{found:?} for {text:?}");
        }
        assert_eq!(from_csv(b"slot,keys\n1,\xff\n").unwrap_err(), "line 2: not UTF-8");
    }
}

//! `slotkeeper slot`: single slots and keys.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::api::Api;
use super::fault::Fault;
use super::input;
use super::output::{Output, escape};
use super::settings::Settings;
use crate::domain::{Slot, hash_tag};

/// Single slots and keys.
#[derive(Subcommand, Clone, Debug)]
pub enum SlotCommand {
    /// Show who owns a slot
    Show(SlotArgs),
    /// Say why a slot is where it is, and what the open plan does with it
    Explain(SlotArgs),
    /// Compute the slots of keys; no controller is asked
    OfKey(KeyArgs),
}

/// A slot.
#[derive(Args, Clone, Debug)]
pub struct SlotArgs {
    /// The slot, 0..=16383
    #[arg(value_name = "SLOT", value_parser = clap::value_parser!(u16).range(0..16384))]
    pub slot: u16,
}

/// Keys.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// The keys, any bytes; - alone reads them from stdin, one a line
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,
    /// Keys on stdin end with a zero byte, not with a line
    #[arg(short = '0', long)]
    pub null: bool,
}

/// Carries out one command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(command: &SlotCommand, settings: &Settings) -> Result<(), Fault> {
    let output = settings.output;
    match command {
        SlotCommand::Show(args) => {
            let api = Api::open(settings)?;
            let slot = api.call(api.cluster.slot(Slot::new(args.slot)?))?;
            if !output.is_for_people() {
                return output.json(&slot);
            }
            let owner = match (&slot.shard, &slot.primary) {
                (Some(shard), Some(node)) => format!("{shard}, primary {} at {}:{}", node.id, node.host, node.port),
                (Some(shard), None) => shard.to_string(),
                (None, _) => "nobody".to_owned(),
            };
            let moving = slot.moving.as_ref().map(|moving| format!(", moving {} -> {}", moving.from, moving.to));
            let moving = escape(&moving.unwrap_or_default());
            let text = format!("slot {}: {owner}{moving} (epoch {})", slot.slot, slot.epoch);
            output.sentences(&text)
        }
        SlotCommand::Explain(args) => {
            let api = Api::open(settings)?;
            let explained = api.call(api.cluster.explain(Slot::new(args.slot)?))?;
            if !output.is_for_people() {
                return output.json(&explained);
            }
            let owner = explained.owner.as_ref().map_or("nobody", |owner| owner.as_str());
            let mut said = vec![format!("slot {}: {owner}", explained.slot)];
            said.extend(explained.because);
            output.text(&super::plan::sentences(&said, output))
        }
        SlotCommand::OfKey(args) => of_keys(args, output),
    }
}

/// One key of the command line gives its slot alone; several, or those of stdin, a line each.
fn of_keys(args: &KeyArgs, output: Output) -> Result<(), Fault> {
    let from_stdin = args.keys.len() == 1 && args.keys[0] == "-";
    let keys: Vec<Vec<u8>> = if from_stdin {
        lines(&input::read("-")?, if args.null { 0 } else { b'\n' })
    } else {
        args.keys.iter().map(|key| key.as_bytes().to_vec()).collect()
    };
    match keys.as_slice() {
        [key] if !from_stdin => {
            if output.is_for_people() {
                output.text(&Slot::of_key(key).to_string())
            } else {
                output.json(&KeySlot::of(key))
            }
        }
        keys if output.is_for_people() => {
            let line = |key: &Vec<u8>| format!("{:>5}  {}\n", Slot::of_key(key), shown(key));
            output.text(&keys.iter().map(line).collect::<String>())
        }
        keys => output.json_list(&keys.iter().map(|key| KeySlot::of(key)).collect::<Vec<_>>()),
    }
}

/// What ends with this byte each time; the last may end without one.
fn lines(bytes: &[u8], end: u8) -> Vec<Vec<u8>> {
    let whole = bytes.strip_suffix(&[end]).unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { whole.split(|byte| *byte == end).map(<[u8]>::to_vec).collect() }
}

/// A key on one line: what is no text, or would not stay on its line, is escaped.
fn shown(key: &[u8]) -> String {
    std::str::from_utf8(key).map_or_else(|_| key.escape_ascii().to_string(), escape)
}

/// A key and its slot.
#[derive(Debug, Serialize)]
struct KeySlot {
    key: String,
    /// The bytes, where they are no text and `key` is not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    hash_tag: String,
    slot: Slot,
}

impl KeySlot {
    fn of(key: &[u8]) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_text = std::str::from_utf8(key).is_ok();
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).expect("half a byte");
        let key_hex = (!is_text).then(|| key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect());
        Self { key: text(key), key_hex, hash_tag: text(hash_tag(key)), slot: Slot::of_key(key) }
    }
}

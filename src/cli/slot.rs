//! `slotkeeper slot`: single slots and keys.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, Subcommand};

use super::api::Api;
use super::fault::Fault;
use super::output::{Format, escape};
use super::plan::Names;
use super::settings::Settings;
use crate::domain::{Slot, hash_tag};

/// Single slots and keys.
#[derive(Subcommand, Clone, Debug)]
pub enum SlotCommand {
    /// Show who owns a slot
    Show(SlotArgs),
    /// Say why a slot is where it is, and what the open plan does with it
    Explain(SlotArgs),
    /// Compute the slot of a key; no controller is asked
    OfKey(KeyArgs),
}

/// A slot.
#[derive(Args, Clone, Debug)]
pub struct SlotArgs {
    /// The slot, 0..=16383
    #[arg(value_name = "SLOT", value_parser = clap::value_parser!(u16).range(0..16384))]
    pub slot: u16,
}

/// A key.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// The key, any bytes
    #[arg(value_name = "KEY")]
    pub key: OsString,
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
            output.text(&shortened(&text, settings))
        }
        SlotCommand::Explain(args) => {
            let api = Api::open(settings)?;
            let explained = api.call(api.cluster.explain(Slot::new(args.slot)?))?;
            if !output.is_for_people() {
                return output.json(&explained);
            }
            let owner = explained.owner.as_ref().map_or("nobody", |owner| owner.as_str());
            let mut text = format!("slot {}: {owner}\n", explained.slot);
            explained.because.iter().for_each(|why| text.extend(["  ", &escape(why), "\n"]));
            output.text(&shortened(&text, settings))
        }
        SlotCommand::OfKey(args) => {
            let key = args.key.as_bytes();
            let slot = Slot::of_key(key);
            if output.is_for_people() {
                return output.text(&slot.to_string());
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            output.json(&serde_json::json!({"key": text(key), "hash_tag": text(hash_tag(key)), "slot": slot}))
        }
    }
}

fn shortened(text: &str, settings: &Settings) -> String {
    if settings.output.format == Format::Wide { text.to_owned() } else { Names::within([text]).shorten(text) }
}

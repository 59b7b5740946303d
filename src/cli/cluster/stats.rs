//! `slotkeeper cluster stats`: what the nodes count of each slot, in the form that `plan create --stats` takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;

use crate::cli::api::Api;
use crate::cli::fault::{Exit, Fault};
use crate::cli::output::counted;
use crate::cli::settings::Settings;
use crate::client::Cluster;
use crate::domain::{ClusterName, Slot};
use crate::wire::{MeasuredView, SlotFigures, StatisticsView};

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// The cluster's name; that of --cluster when absent
    #[arg(value_name = "NAME")]
    pub name: Option<ClusterName>,
    /// Measure load as well, over so many seconds: the column ops is then the processor time that each slot took in
    /// them, in microseconds (servers with cluster-slot-stats-enabled yes: Valkey 8, Redis 8.2)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub over: Option<u64>,
}

/// Measures and prints.
pub fn stats(args: &StatsArgs, cluster: &Cluster, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let mut measured = api.call(cluster.statistics())?;
    let mut load = None;
    if let Some(seconds) = args.over {
        let before = busy(&measured)?;
        settings.output.note(&format!("measuring for {}", counted(seconds, "second")));
        std::thread::sleep(Duration::from_secs(seconds));
        measured = api.call(cluster.statistics())?;
        load = Some(since(&before, &busy(&measured)?));
    }
    let with_bytes = measured.slots.iter().all(|of| of.bytes.is_some());
    if settings.output.is_for_people() {
        return settings.output.text(&csv(&measured, with_bytes, load.as_ref()));
    }
    let row = |of: &crate::wire::MeasuredSlotView| SlotFigures {
        slot: of.slot,
        keys: Some(of.keys),
        bytes: of.bytes.filter(|_| with_bytes),
        ops: load.as_ref().map(|load| load[&of.slot]),
    };
    let slots = measured.slots.iter().map(row).collect();
    settings.output.json(&StatisticsView { taken_at: measured.taken_at, slots })
}

/// The processor time of every slot; all nodes have to count it.
fn busy(measured: &MeasuredView) -> Result<BTreeMap<Slot, u64>, Fault> {
    let counted: BTreeMap<Slot, u64> = measured.slots.iter().filter_map(|of| Some((of.slot, of.busy_us?))).collect();
    let silent: Vec<Slot> = measured.slots.iter().filter(|of| of.busy_us.is_none()).map(|of| of.slot).collect();
    if silent.is_empty() {
        return Ok(counted);
    }
    let ranges: Vec<String> = crate::domain::ranges_of(silent).iter().take(4).map(ToString::to_string).collect();
    Err(Fault::Exit(
        Exit::Conflict,
        format!(
            "the servers do not count the load of slots {}: Valkey 8 and Redis 8.2 do after \
             CONFIG SET cluster-slot-stats-enabled yes at each of them",
            ranges.join(",")
        ),
    ))
}

/// What was added; a server that began anew counts from nothing.
fn since(before: &BTreeMap<Slot, u64>, after: &BTreeMap<Slot, u64>) -> BTreeMap<Slot, u64> {
    let added = |slot: &Slot, now: u64| match before.get(slot) {
        Some(before) if *before <= now => now - before,
        _ => now,
    };
    after.iter().map(|(slot, now)| (*slot, added(slot, *now))).collect()
}

fn csv(measured: &MeasuredView, with_bytes: bool, load: Option<&BTreeMap<Slot, u64>>) -> String {
    let mut text = format!("# taken_at: {}\nslot,keys", measured.taken_at);
    for (column, there) in [(",bytes", with_bytes), (",ops", load.is_some())] {
        text += if there { column } else { "" };
    }
    for of in &measured.slots {
        write!(text, "\n{},{}", of.slot, of.keys).expect("a text takes what is written");
        for figure in [of.bytes.filter(|_| with_bytes), load.map(|load| load[&of.slot])].into_iter().flatten() {
            write!(text, ",{figure}").expect("a text takes what is written");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Instant;
    use crate::wire::{MeasuredSlotView, Timestamp};

    fn measured(slots: &[(u16, u64, Option<u64>, Option<u64>)]) -> MeasuredView {
        let of = |(slot, keys, bytes, busy_us): &(u16, u64, Option<u64>, Option<u64>)| MeasuredSlotView {
            slot: Slot::new(*slot).unwrap(),
            keys: *keys,
            bytes: *bytes,
            busy_us: *busy_us,
        };
        let taken_at = Timestamp(Instant(1_772_460_240_000));
        MeasuredView { taken_at, slots: slots.iter().map(of).collect() }
    }

    #[test]
    fn figures_are_printed_in_the_form_that_plans_take() {
        let first = busy(&measured(&[(3, 1, Some(90), Some(100)), (4, 0, Some(0), Some(50))])).unwrap();
        let last = measured(&[(3, 2, Some(180), Some(160)), (4, 0, Some(0), Some(7))]);
        let load = since(&first, &busy(&last).unwrap());
        let header = "# taken_at: 2026-03-02T14:04:00Z\nslot,keys";
        assert_eq!(csv(&last, true, Some(&load)), format!("{header},bytes,ops\n3,2,180,60\n4,0,0,7"));
        assert_eq!(csv(&last, false, None), format!("{header}\n3,2\n4,0"));
    }

    #[test]
    fn servers_that_do_not_count_are_told_by_their_slots() {
        let Err(Fault::Exit(_, why)) =
            busy(&measured(&[(3, 1, None, Some(1)), (4, 1, None, None), (5, 1, None, None)]))
        else {
            panic!("they do not");
        };
        assert!(why.contains("load of slots 4-5: Valkey 8"), "{why}");
    }
}

//! `slotkeeper cluster import`: adopting a running cluster.

use std::collections::BTreeMap;

use clap::Args;

use crate::cli::api::Api;
use crate::cli::fault::Fault;
use crate::cli::output::{self, counted};
use crate::cli::reason::ReasonArgs;
use crate::cli::settings::Settings;
use crate::cli::{input, table};
use crate::domain::{Address, Host, Zone, ZonePattern};
use crate::wire::ImportRequest;

/// What to adopt.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// The text of CLUSTER NODES (- for stdin)
    #[arg(value_name = "FILE", required_unless_present = "seed", conflicts_with = "seed")]
    pub file: Option<String>,
    /// Any node of the running cluster: the controller asks it and all masters it knows, which must agree
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "dialled")]
    pub seed: Option<Address>,
    /// The host that was asked: for nodes printed without one
    #[arg(long, value_name = "HOST")]
    pub dialled: Option<String>,
    /// Zones of the nodes (- for stdin): lines HOST,ZONE or TOML "HOST" = "ZONE"; a host:port or node id will do too
    #[arg(long, value_name = "FILE")]
    pub zones: Option<String>,
    /// Zones by host name, such as *.{zone}.example.com
    #[arg(long, value_name = "PATTERN")]
    pub zone_pattern: Option<ZonePattern>,
    /// Why, for the audit.
    #[command(flatten)]
    pub reason: ReasonArgs,
}

/// Adopts a cluster and tells what it is.
pub fn import(args: &ImportArgs, api: &Api, settings: &Settings) -> Result<(), Fault> {
    let text = |file: &String| {
        String::from_utf8(input::read_text(file)?)
            .map_err(|fault| Fault::invalid(format!("{file}: not UTF-8: {fault}")))
    };
    let body = ImportRequest {
        nodes_text: args.file.as_ref().map(text).transpose()?,
        dialled: args.dialled.as_deref().map(Host::new).transpose()?,
        seed: args.seed.clone(),
        zones: match &args.zones {
            None => BTreeMap::new(),
            Some(file) => zones(&text(file)?).map_err(|fault| fault.about(file))?,
        },
        zone_pattern: args.zone_pattern.clone(),
        reason: args.reason.text()?,
    };
    let answer = api.call(api.cluster.import(&body))?;
    if !settings.output.is_for_people() {
        return settings.output.json(&answer);
    }
    let cluster = &answer.cluster;
    let mut text = format!(
        "Cluster {} is adopted: {} in {}, {} without an owner; epoch {}.\n",
        cluster.name,
        counted(cluster.nodes, "node"),
        counted(cluster.shards, "shard"),
        counted(cluster.unassigned, "slot"),
        answer.epoch
    );
    text += &table::notes(&answer.notes);
    settings.output.sentences(&text)
}

/// Reads zones: TOML where a line has an equals sign outside of a comment, else lines of host and zone.
fn zones(text: &str) -> Result<BTreeMap<String, Zone>, Fault> {
    let text = text.trim_start_matches('\u{feff}');
    let is_toml = text.lines().any(|line| line.split('#').next().is_some_and(|line| line.contains('=')));
    if is_toml {
        let zones: BTreeMap<String, String> =
            toml::from_str(text).map_err(|fault| Fault::invalid(fault.message().to_owned()))?;
        return zones.into_iter().map(|(host, zone)| Ok((host, Zone::new(&zone)?))).collect();
    }
    let mut zones = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() || number == 1 && line.eq_ignore_ascii_case("host,zone") {
            continue;
        }
        let fault = |why: &str| Fault::invalid(format!("line {number}: {}: {why}", output::escape(line)));
        let (host, zone) = line.split_once(',').ok_or_else(|| fault("is not HOST,ZONE"))?;
        let zone = Zone::new(zone.trim()).map_err(|invalid| fault(&invalid.to_string()))?;
        if zones.insert(host.trim().to_owned(), zone).is_some() {
            return Err(fault("the host is listed already"));
        }
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        match zones(text) {
            Ok(zones) => Ok(zones.into_iter().map(|(host, zone)| (host, zone.to_string())).collect()),
            Err(Fault::Exit(_, why)) => Err(why),
            Err(Fault::ClosedPipe) => unreachable!("nothing is written"),
        }
    }

    #[test]
    fn zones_are_read_in_either_form() {
        let expected = vec![("10.0.0.1".to_owned(), "eu-1".to_owned()), ("b.test:7001".to_owned(), "eu-2".to_owned())];
        for text in [
            "host,zone\r\n10.0.0.1,eu-1\r\nb.test:7001, eu-2\r\n",
            "\u{feff}# ours\n10.0.0.1,eu-1 # first\n\nb.test:7001,eu-2",
            "# ours\n\"10.0.0.1\" = \"eu-1\"\n\"b.test:7001\" = \"eu-2\"\n",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, words) in [
            ("a,eu\nb", "line 2: b: is not HOST,ZONE"),
            ("a,eu\na,us", "line 2: a,us: the host is listed already"),
            ("a,e u", "line 1: a,e u: zone"),
            ("a = 1", "expected a string"),
            ("\"a\" = \"x\"\n\"a\" = \"y\"", "duplicate"),
            ("\"a\" = \"x y\"", "zone"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(words), "{text:?}: {why}");
        }
    }
}

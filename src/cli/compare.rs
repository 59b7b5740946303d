//! `slotkeeper compare`: what one scale event costs under each hash family. Works without a controller; with `--current` it
//! asks for the cluster's topology and compares from there.

mod keys;
mod show;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;

use super::api::Api;
use super::fault::Fault;
use super::settings::Settings;
use crate::domain::{
    Comparison, Family, Invalid, Millionths, NodeId, Outcome, PlacedNode, ShardState, SlotTable, Tolerance, Weight,
    Zone,
};
use crate::hashing::{self, Event, Question, Sample, Terms, Tuning};
use crate::wire::ComparisonView;

/// What is compared.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// The nodes before the event: a number, or NAME[=WEIGHT][@ZONE],...
    #[arg(long, value_name = "N|LIST", required_unless_present = "current", conflicts_with = "current")]
    pub nodes: Option<String>,
    /// The shards of the current cluster and their slots; asks a controller. Draining ones leave
    #[arg(long)]
    pub current: bool,
    /// So many nodes after the event: the last leave, or more join
    #[arg(long, value_name = "M", conflicts_with_all = ["add", "drain", "weight"])]
    pub to: Option<usize>,
    /// Add a node NAME[=WEIGHT][@ZONE]
    #[arg(long, value_name = "NODE")]
    pub add: Vec<String>,
    /// Drain a node
    #[arg(long, value_name = "NAME")]
    pub drain: Vec<String>,
    /// Give a node another weight, 0..=10000
    #[arg(long, value_name = "NAME=W")]
    pub weight: Vec<String>,
    /// Only these families: modulo, ring, vnodes, ketama, rendezvous, jump, maglev, bounded-load, anchor, multi-probe, slots
    #[arg(long, value_name = "FAMILY", value_delimiter = ',')]
    pub family: Vec<String>,
    /// Draw a chart into this file (SVG)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Which keys.
    #[command(flatten)]
    pub keys: KeyArgs,
    /// On which terms.
    #[command(flatten)]
    pub terms: TermArgs,
}

/// Which keys.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Keys")]
pub struct KeyArgs {
    /// Keys from a file (- for stdin), one a line (LF or CRLF); a key that comes again is another request for it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sample", "seed", "zipf"])]
    pub keys: Option<String>,
    /// Keys of the file end with a zero byte, not with a line: any other bytes are part of them
    #[arg(short = '0', long, requires = "keys")]
    pub null: bool,
    /// So many generated keys [default: 100000]
    #[arg(long, value_name = "N")]
    pub sample: Option<usize>,
    /// Which keys are generated
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Ask for the k-th generated key in proportion to 1/k, not for each once
    #[arg(long)]
    pub zipf: bool,
}

/// On which terms.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Terms")]
pub struct TermArgs {
    /// Requests per second of all clients
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub requests_per_second: u64,
    /// Slots per second that a rollout moves
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub slots_per_second: u64,
    /// Copies of each key
    #[arg(long, value_name = "R", default_value_t = 3)]
    pub copies: u32,
    /// Clients with a stale view of the nodes
    #[arg(long, value_name = "V", default_value_t = 10)]
    pub views: u32,
    /// A stale view holds at least one in so many nodes
    #[arg(long, value_name = "T", default_value_t = 2)]
    pub view_part: u32,
    /// Points for a unit of weight: vnodes and bounded-load
    #[arg(long, value_name = "N", default_value_t = 160)]
    pub points: u32,
    /// Probes of a key: multi-probe
    #[arg(long, value_name = "K", default_value_t = 21)]
    pub probes: u32,
    /// How far above its share a node may go, in percent: bounded-load
    #[arg(long, value_name = "PCT", default_value = "25")]
    pub epsilon: String,
    /// Children in the tree of a hot key
    #[arg(long, value_name = "D", default_value_t = 4)]
    pub arity: u32,
}

/// Carries out the command.
///
/// # Errors
/// [`Fault`] with the exit code.
pub fn run(args: &CompareArgs, settings: &Settings) -> Result<(), Fault> {
    let question = question(args, settings)?;
    let sample = keys::sample(&args.keys)?;
    let comparison = compare(&question, &sample);
    if let Some(path) = &args.svg {
        let written = std::fs::write(path, hashing::chart(&comparison));
        written.map_err(|error| Fault::error(format!("{}: {error}", path.display())))?;
        settings.output.note(&format!("The chart is in {}.", path.display()));
    }
    if settings.output.is_for_people() {
        settings.output.text(&show::text(&comparison))
    } else {
        settings.output.json(&ComparisonView::from(&comparison))
    }
}

/// Studies the families side by side, the slowest first, as many at once as there are processors.
fn compare(question: &Question, sample: &Sample) -> Comparison {
    let slowest_first = |family: &Family| !matches!(family, Family::MultiProbe | Family::Rendezvous | Family::Anchor);
    let mut families = question.families().to_vec();
    families.sort_by_key(slowest_first);
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let clock = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let work = || {
        let mut done = Vec::new();
        while let Some(&family) = families.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(hashing::study(question, sample, family, &clock));
        }
        done
    };
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..keys::processors()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a study does not panic")).collect()
    });
    hashing::conclude(question, sample, outcomes)
}

fn question(args: &CompareArgs, settings: &Settings) -> Result<Question, Fault> {
    let terms = terms(args)?;
    let event = event(args)?;
    let (before, mut after, table) = match &args.nodes {
        Some(nodes) => {
            let before = listed(nodes, args.to)?;
            (before.clone(), before, None)
        }
        None => current(settings)?,
    };
    after = match args.to {
        Some(to) => hashing::resized(&after, to)?,
        None => event.apply(&after)?,
    };
    Ok(Question::new(before, after, terms, table)?)
}

/// Nodes by number or by name.
fn listed(text: &str, to: Option<usize>) -> Result<Vec<PlacedNode>, Fault> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let count = text.parse().ok().filter(|count| (1..=hashing::NODES_MAX).contains(count));
        let count = count.ok_or_else(|| {
            Fault::invalid(format!("--nodes {text:?} is not in 1..={}, nor a list of names", hashing::NODES_MAX))
        })?;
        return Ok(hashing::numbered(count, to.unwrap_or(count).min(hashing::NODES_MAX))?);
    }
    text.split(',').map(|entry| node("--nodes", entry)).collect()
}

/// `NAME[=WEIGHT][@ZONE]`.
fn node(flag: &str, text: &str) -> Result<PlacedNode, Fault> {
    let about = |fault: Invalid| Fault::invalid(format!("{flag} {text:?}: {fault}"));
    let (rest, zone) = text.split_once('@').map_or((text, None), |(rest, zone)| (rest, Some(zone)));
    let (name, weight) = rest.split_once('=').map_or((rest, None), |(name, weight)| (name, Some(weight)));
    Ok(PlacedNode {
        name: NodeId::new(name).map_err(about)?,
        weight: weight.map_or(Ok(Weight::ONE), |weight| parse_weight(flag, text, weight))?.get(),
        zone: zone.map(Zone::new).transpose().map_err(about)?,
    })
}

fn parse_weight(flag: &str, whole: &str, weight: &str) -> Result<Weight, Fault> {
    let number = crate::domain::is_plain_number(weight).then(|| weight.parse().ok()).flatten();
    let weight = number.and_then(|number| Weight::new(number).ok());
    weight.ok_or_else(|| Fault::invalid(format!("{flag} {whole:?}: the weight is not a number in 0..=10000")))
}

fn event(args: &CompareArgs) -> Result<Event, Fault> {
    let reweight = |text: &String| {
        let (name, weight) =
            text.split_once('=').ok_or_else(|| Fault::invalid(format!("--weight {text:?} is not NAME=W")))?;
        let name = NodeId::new(name).map_err(|fault| Fault::invalid(format!("--weight {text:?}: {fault}")))?;
        Ok((name, parse_weight("--weight", text, weight)?))
    };
    let drain = |name: &String| NodeId::new(name).map_err(|fault| Fault::invalid(format!("--drain {name:?}: {fault}")));
    Ok(Event {
        add: args.add.iter().map(|text| node("--add", text)).collect::<Result<_, Fault>>()?,
        drain: args.drain.iter().map(drain).collect::<Result<_, Fault>>()?,
        reweight: args.weight.iter().map(reweight).collect::<Result<_, Fault>>()?,
    })
}

fn terms(args: &CompareArgs) -> Result<Terms, Fault> {
    let families: Vec<Family> = args.family.iter().map(|name| name.parse()).collect::<Result<_, Invalid>>()?;
    let terms = &args.terms;
    let epsilon = Tolerance::from_percent(&terms.epsilon)
        .map_err(|fault| Fault::invalid(format!("--epsilon {:?}: {}", terms.epsilon, fault.why)))?;
    let tuning = Tuning {
        points: terms.points,
        probes: terms.probes,
        epsilon: Millionths(epsilon.0.into()),
        ..Tuning::default()
    };
    let terms = Terms {
        families: if families.is_empty() { Family::ALL.to_vec() } else { families },
        tuning,
        copies: terms.copies,
        views: terms.views,
        view_part: terms.view_part,
        requests_per_second: terms.requests_per_second,
        slots_per_second: terms.slots_per_second,
        arity: terms.arity,
    };
    terms.validate()?;
    Ok(terms)
}

type Sides = (Vec<PlacedNode>, Vec<PlacedNode>, Option<SlotTable>);

/// The shards of the cluster now, and those of them that are not draining.
fn current(settings: &Settings) -> Result<Sides, Fault> {
    let api = Api::open(settings)?;
    let topology = api.call(api.cluster.topology())?;
    let mut sides: Sides = (Vec::new(), Vec::new(), Some(topology.table));
    for shard in topology.shards {
        let node = PlacedNode {
            name: NodeId::new(shard.id.as_str())?,
            weight: shard.weight.get(),
            zone: shard.primary.zone.clone(),
        };
        if shard.state == ShardState::Active {
            sides.1.push(node.clone());
        }
        sides.0.push(node);
    }
    Ok(sides)
}

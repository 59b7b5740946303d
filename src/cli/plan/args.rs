//! Arguments of `slotkeeper plan`.

use clap::{Args, Subcommand, ValueEnum};

use crate::domain::{DriverKind, Invalid, Limits, LoadMetric, Objective, PlacementGoal, Spread, Window};

/// Plans: what is to change, reviewed before it does.
#[derive(Subcommand, Clone, Debug)]
pub enum PlanCommand {
    /// Propose a plan, or compute one from a file without any controller
    Create(Box<CreateArgs>),
    /// List plans, newest first
    List(ListArgs),
    /// Show a plan for review
    Show(ShowArgs),
    /// Compare two plans
    Diff(DiffArgs),
    /// Check a plan file by itself: its shape, digest, base and certificate
    Check(CheckArgs),
    /// Approve a plan as it was shown: by its digest
    Approve(ApproveArgs),
    /// Refuse a plan
    Reject(EndArgs),
    /// Take a plan back
    Withdraw(EndArgs),
    /// Propose a plan anew on the cluster as it is now
    Refresh(PlanArgs),
    /// Start the rollout of an approved plan
    Start(StartArgs),
}

/// One plan.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// The plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
}

/// What a plan is to reach.
#[expect(clippy::struct_excessive_bools, reason = "one per flag of the command line")]
#[derive(Args, Clone, Debug, Default)]
pub struct CreateArgs {
    /// Plan from a file (- for stdin): the text of CLUSTER NODES, or a topology as JSON. No controller is asked
    #[arg(long, value_name = "FILE")]
    pub offline: Option<String>,
    /// Add: offline a number of shards or NAME=WEIGHT; else a node HOST:PORT[,weight=W][,name=N][,zone=Z][,replica-of=S]
    #[arg(long, value_name = "WHAT")]
    pub add: Vec<String>,
    /// Drain a node; if its shard has another, that one takes over and no slot moves
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// Drain a whole shard
    #[arg(long, value_name = "SHARD")]
    pub drain_shard: Vec<String>,
    /// Give a shard another weight, 0..=10000
    #[arg(long, value_name = "SHARD=W")]
    pub weight: Vec<String>,
    /// What to reach; told by the other flags where it is not given
    #[arg(long, value_enum)]
    pub goal: Option<GoalKind>,
    /// Fewest moves that bring every shard within so many percent of its share
    #[arg(long, value_name = "PCT", conflicts_with_all = ["max_moves", "drain_only", "trigger_above"])]
    pub tolerance: Option<String>,
    /// Move nothing while no shard is farther from its share than so many percent of its slots (redis-cli's threshold)
    #[arg(long, value_name = "PCT", conflicts_with_all = ["max_moves", "drain_only", "metric"])]
    pub trigger_above: Option<String>,
    /// Balance this figure instead of the number of slots; needs --stats, but for keys and bytes with driver redis
    #[arg(long, value_enum, conflicts_with_all = ["max_moves", "drain_only"])]
    pub metric: Option<Metric>,
    /// Which slots move once it is settled how many: for few ranges, or few bytes (needs --stats, but with driver redis)
    #[arg(long, value_enum)]
    pub objective: Option<ObjectiveArg>,
    /// Per-slot statistics (- for stdin): CSV with the columns slot and any of keys, bytes, ops; or JSON
    #[arg(long, value_name = "FILE")]
    pub stats: Option<String>,
    /// The best balance that so many moves can reach
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(0..=16384), conflicts_with = "drain_only")]
    pub max_moves: Option<u32>,
    /// Empty the draining shards and touch nothing else
    #[arg(long)]
    pub drain_only: bool,
    /// Give every active shard so many replicas, with the fewest nodes changed and then primaries spread evenly
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub replicas: Option<u16>,
    /// What the copies of a shard must not share
    #[arg(long, value_enum, requires = "replicas", default_value_t)]
    pub spread: Apart,
    /// Slots that must stay where they are, such as 0-99,4000 (offline)
    #[arg(long, value_name = "RANGES", requires = "offline")]
    pub pin: Vec<String>,
    /// Most slots of a shard (offline)
    #[arg(long, value_name = "SHARD=N", requires = "offline")]
    pub max_slots: Vec<String>,
    /// Fewest slots of a shard (offline)
    #[arg(long, value_name = "SHARD=N", requires = "offline")]
    pub min_slots: Vec<String>,
    /// Whose default limits to use (offline)
    #[arg(long, value_enum, requires = "offline")]
    pub driver: Option<Driver>,
    /// Undo a finished plan: its moves backwards, as a new plan
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["offline", "add", "drain", "drain_shard", "weight", "tolerance", "max_moves", "drain_only", "goal", "trigger_above", "metric", "objective", "stats", "replicas"])]
    pub revert: Option<String>,
    /// Bring slots that nodes have otherwise than the table (open, without or with two owners) back to it; nothing else
    #[arg(long, conflicts_with_all = ["offline", "add", "drain", "drain_shard", "weight", "tolerance", "max_moves", "drain_only", "goal", "trigger_above", "metric", "objective", "stats", "replicas", "revert"])]
    pub repair: bool,
    /// Compute and show, change and store nothing
    #[arg(long, conflicts_with = "offline")]
    pub dry_run: bool,
    /// Why, for the reviewer and the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// List every shard and range
    #[arg(long)]
    pub full: bool,
    /// Draw the moves against the tolerance
    #[arg(long)]
    pub curve: bool,
    /// Say why the plan moves this slot or leaves it, instead of showing the plan (offline)
    #[arg(long, value_name = "SLOT", requires = "offline", value_parser = clap::value_parser!(u16).range(0..16384))]
    pub explain_slot: Option<u16>,
    /// Say why this shard gives, takes or neither, instead of showing the plan (offline)
    #[arg(long, value_name = "SHARD", requires = "offline", conflicts_with = "explain_slot")]
    pub explain_shard: Option<String>,
    /// Exit with 10 when there is something to move
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// Pace of the rollout.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// What the copies of a shard must not share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Apart {
    /// A zone, as far as there are enough of them, and never a host
    #[default]
    Zone,
    /// A host
    Host,
}

impl CreateArgs {
    /// The placement of copies that is asked for.
    #[must_use]
    pub fn placement(&self) -> Option<PlacementGoal> {
        let spread = match self.spread {
            Apart::Zone => Spread::Zone,
            Apart::Host => Spread::Host,
        };
        self.replicas.map(|replicas| PlacementGoal { replicas, spread })
    }
}

/// A lower or other pace than the driver's own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Pace")]
pub struct LimitArgs {
    /// Actions in flight that leave one shard
    #[arg(long, value_name = "N")]
    pub moves_per_source: Option<u32>,
    /// Actions in flight that enter one shard
    #[arg(long, value_name = "N")]
    pub moves_per_target: Option<u32>,
    /// Slots of one action
    #[arg(long, value_name = "N")]
    pub slots_per_move: Option<u32>,
    /// Slots per second of the whole rollout
    #[arg(long, value_name = "N")]
    pub slots_per_second: Option<u32>,
    /// Bytes per second of the whole rollout
    #[arg(long, value_name = "N")]
    pub bytes_per_second: Option<u64>,
    /// How long a flipped range stays listed as moving
    #[arg(long, value_name = "MS")]
    pub overlap_ms: Option<u64>,
    /// Start actions only then, in UTC, such as "mon-fri 22:00-06:00"; give it several times for several; none: any time
    #[arg(long, value_name = "DAYS TIMES|none", value_parser = window_or_none)]
    pub window: Vec<WindowArg>,
}

/// A time window, or `none` for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowArg(pub Option<Window>);

fn window_or_none(text: &str) -> Result<WindowArg, String> {
    if text == "none" {
        return Ok(WindowArg(None));
    }
    text.parse().map(|window| WindowArg(Some(window))).map_err(|fault: Invalid| fault.why)
}

impl LimitArgs {
    /// Whether any was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moves_per_source.is_none()
            && self.moves_per_target.is_none()
            && self.slots_per_move.is_none()
            && self.slots_per_second.is_none()
            && self.bytes_per_second.is_none()
            && self.overlap_ms.is_none()
            && self.window.is_empty()
    }

    /// Sets what was given.
    pub fn apply(&self, limits: &mut Limits) {
        if let Some(value) = self.moves_per_source {
            limits.moves_per_source = value;
        }
        if let Some(value) = self.moves_per_target {
            limits.moves_per_target = value;
        }
        if let Some(value) = self.slots_per_move {
            limits.slots_per_move = value;
        }
        if self.slots_per_second.is_some() {
            limits.slots_per_second = self.slots_per_second;
        }
        if self.bytes_per_second.is_some() {
            limits.bytes_per_second = self.bytes_per_second;
        }
        if let Some(value) = self.overlap_ms {
            limits.overlap_ms = value;
        }
        if let Some(windows) = self.windows() {
            limits.windows = windows;
        }
    }

    /// The time windows, where any or `none` was given.
    #[must_use]
    pub fn windows(&self) -> Option<Vec<Window>> {
        (!self.window.is_empty()).then(|| self.window.iter().filter_map(|window| window.0).collect())
    }
}

/// How slots are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// Ownership changes, no data moves: for caches
    Flip,
    /// An outside mover takes actions over REST
    #[default]
    Manual,
    /// Redis or Valkey servers
    Redis,
}

impl Driver {
    /// The driver of the domain.
    #[must_use]
    pub const fn kind(self) -> DriverKind {
        match self {
            Self::Flip => DriverKind::Flip,
            Self::Manual => DriverKind::Manual,
            Self::Redis => DriverKind::Redis,
        }
    }
}

/// Kinds of goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GoalKind {
    /// Every shard at its share, or within --tolerance of it
    Balance,
    /// Empty the draining shards and touch nothing else
    DrainOnly,
    /// The best balance that --max-moves can reach
    Budget,
    /// Keys, bytes or operations (--metric) within --tolerance of their shares
    BalanceLoad,
}

/// What load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Metric {
    /// Number of keys
    Keys,
    /// Bytes of memory
    Bytes,
    /// Operations per second
    Ops,
}

impl Metric {
    /// The metric of the domain.
    #[must_use]
    pub const fn metric(self) -> LoadMetric {
        match self {
            Self::Keys => LoadMetric::Keys,
            Self::Bytes => LoadMetric::Bytes,
            Self::Ops => LoadMetric::Ops,
        }
    }
}

/// What slots are chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
    /// Few contiguous ranges afterwards
    Ranges,
    /// Few bytes moved
    Bytes,
}

impl ObjectiveArg {
    /// The objective of the domain.
    #[must_use]
    pub const fn objective(self) -> Objective {
        match self {
            Self::Ranges => Objective::Ranges,
            Self::Bytes => Objective::Bytes,
        }
    }
}

/// Which plans to list.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only plans in this state
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
}

/// What to show of a plan.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// List every shard and range
    #[arg(long)]
    pub full: bool,
    /// Draw the moves against the tolerance
    #[arg(long)]
    pub curve: bool,
    /// Only what the plan does with this slot, and why
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u16).range(0..16384))]
    pub slot: Option<u16>,
    /// Only why this shard gives, takes or neither, and what becomes of its nodes
    #[arg(long, value_name = "SHARD", conflicts_with = "slot")]
    pub shard: Option<String>,
}

/// Two plans.
#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// The first plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// The second plan's id
    #[arg(value_name = "OTHER")]
    pub other: String,
}

/// What to check a plan file against.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The plan as JSON (- for stdin)
    #[arg(value_name = "FILE")]
    pub file: String,
    /// The cluster it was made for: the text of CLUSTER NODES, or a topology as JSON (- for stdin)
    #[arg(long, value_name = "FILE")]
    pub nodes: String,
    /// The per-slot statistics it was made with, when it was made with some
    #[arg(long, value_name = "FILE")]
    pub stats: Option<String>,
    /// The plan it undoes, as JSON, when it undoes one
    #[arg(long, value_name = "FILE")]
    pub reverts: Option<String>,
    /// Say as well why the plan moves this slot, or leaves it
    #[arg(long, value_name = "SLOT", value_parser = clap::value_parser!(u16).range(0..16384))]
    pub explain_slot: Option<u16>,
    /// Say as well why this shard gives, takes or neither
    #[arg(long, value_name = "SHARD")]
    pub explain_shard: Option<String>,
}

/// An approval.
#[derive(Args, Clone, Debug)]
pub struct ApproveArgs {
    /// The plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// The digest of the plan as you read it
    #[arg(long, value_name = "sha256:HEX")]
    pub digest: String,
    /// Acknowledge a warning by its code or name
    #[arg(long, value_name = "CODE")]
    pub ack: Vec<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// A plan that is not to start.
#[derive(Args, Clone, Debug)]
pub struct EndArgs {
    /// The plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// Also take back what was desired: undrain, former weights, nodes without slots removed
    #[arg(long)]
    pub revert_intent: bool,
    /// Why, for the author and the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// A plan that is to start.
#[derive(Args, Clone, Debug)]
pub struct StartArgs {
    /// The plan's id
    #[arg(value_name = "PLAN")]
    pub plan: String,
    /// Stay and watch the rollout until it ends
    #[arg(long)]
    pub watch: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

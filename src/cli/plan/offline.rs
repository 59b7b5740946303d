//! `plan create --offline`: a plan from a file, without any controller and without touching the network.

use std::collections::{BTreeMap, BTreeSet};

use super::args::{CreateArgs, GoalKind, ObjectiveArg};
use super::source::Source;
use super::statistics;
use crate::cli::fault::Fault;
use crate::domain::{
    ActionKind, Base, DriverKind, Fingerprint, Goal, Intent, Limits, NodeId, NodeState, Objective, PlacementGoal, Plan,
    PlanBody, PlanId, Principal, Shard, ShardId, ShardState, SlotRange, SlotTable, Statistics, Tolerance, Weight,
};
use crate::plan::{self, Input, Looked, PlacementInput};

/// How long an offline plan says it may be used.
const TTL_MS: u64 = 24 * 3600 * 1000;
/// How near loads are brought to their shares when nothing else is said: 5 %. Slots cannot be cut, so that 0 is hardly
/// ever reached.
const LOAD_TOLERANCE: Tolerance = Tolerance(50_000);
/// Most shards that are added at once.
const ADD_MAX: u32 = 4096;

/// The plan that brings the cluster of the file to what the arguments want, and the owners it stands on.
///
/// # Errors
/// Invalid input naming the argument, or what makes the goal infeasible.
pub fn create(file: &str, args: &CreateArgs) -> Result<(Plan, SlotTable), Fault> {
    let goal = goal(args)?;
    let limits = limits(args)?;
    if file == "-" && args.stats.as_deref() == Some("-") {
        return Err(Fault::invalid("only one of --offline and --stats can be stdin"));
    }
    let source = Source::read(file)?;
    let statistics = args.stats.as_deref().map(statistics::read).transpose()?;
    let mut wanted = Wanted::new(source);
    wanted.add(&args.add)?;
    wanted.drain(args)?;
    wanted.reweight(&args.weight)?;
    wanted.bound(args)?;
    let driver = args.driver.unwrap_or_default().kind();
    let objective = args.objective.map(ObjectiveArg::objective).unwrap_or_default();
    let reason = args.reason.clone().unwrap_or_default();
    let table = wanted.source.table.clone();
    let asked = Asked { goal, objective, placement: args.placement() };
    let plan = wanted.plan(asked, statistics.as_ref(), driver, &limits, reason)?;
    Ok((plan, table))
}

/// The goal of the arguments.
///
/// # Errors
/// Invalid input.
pub fn goal(args: &CreateArgs) -> Result<Goal, Fault> {
    let percent = |text: Option<&str>| text.map(Tolerance::from_percent).transpose();
    let tolerance = percent(args.tolerance.as_deref())?;
    let trigger =
        percent(args.trigger_above.as_deref()).map_err(|fault| Fault::from(fault).about("--trigger-above"))?;
    let told = if args.drain_only {
        GoalKind::DrainOnly
    } else if args.max_moves.is_some() {
        GoalKind::Budget
    } else if args.metric.is_some() {
        GoalKind::BalanceLoad
    } else {
        GoalKind::Balance
    };
    let kind = args.goal.unwrap_or(told);
    let without = |flag: &str| Err(Fault::invalid(format!("this --goal does not go with {flag}")));
    if kind != told && told != GoalKind::Balance {
        return without(match told {
            GoalKind::DrainOnly => "--drain-only",
            GoalKind::Budget => "--max-moves",
            GoalKind::BalanceLoad | GoalKind::Balance => "--metric",
        });
    }
    match (kind, args.metric, args.max_moves) {
        (GoalKind::Balance, ..) => Ok(match trigger {
            Some(trigger) => Goal::BalanceAbove { trigger },
            None => Goal::Balance { tolerance: tolerance.unwrap_or_default() },
        }),
        _ if trigger.is_some() => without("--trigger-above"),
        (GoalKind::DrainOnly | GoalKind::Budget, ..) if tolerance.is_some() => without("--tolerance"),
        (GoalKind::DrainOnly, ..) => Ok(Goal::DrainOnly),
        (GoalKind::Budget, _, Some(max_moves)) => Ok(Goal::Budget { max_moves }),
        (GoalKind::Budget, _, None) => Err(Fault::invalid("--goal budget needs --max-moves")),
        (GoalKind::BalanceLoad, Some(metric), _) => {
            Ok(Goal::BalanceLoad { metric: metric.metric(), tolerance: tolerance.unwrap_or(LOAD_TOLERANCE) })
        }
        (GoalKind::BalanceLoad, None, _) => {
            Err(Fault::invalid("--goal balance-load needs --metric keys, bytes or ops"))
        }
    }
}

fn limits(args: &CreateArgs) -> Result<Limits, Fault> {
    let mut limits = args.driver.unwrap_or_default().kind().default_limits();
    args.limits.apply(&mut limits);
    limits.validate()?;
    Ok(limits)
}

/// What the plan is to reach.
struct Asked {
    goal: Goal,
    objective: Objective,
    placement: Option<PlacementGoal>,
}

/// The cluster of the file as it is wanted, and what was changed for that.
struct Wanted {
    source: Source,
    add: Vec<(ShardId, Weight)>,
    reweight: Vec<(ShardId, Weight)>,
    promotions: Vec<ActionKind>,
}

impl Wanted {
    fn new(source: Source) -> Self {
        Self { source, add: Vec::new(), reweight: Vec::new(), promotions: Vec::new() }
    }

    /// `N` shards of weight 1, or one as `NAME=WEIGHT`.
    fn add(&mut self, values: &[String]) -> Result<(), Fault> {
        for value in values {
            if let Some((name, weight)) = value.split_once('=') {
                let name = ShardId::new(name).map_err(|fault| Fault::invalid(format!("--add {value}: {fault}")))?;
                self.add_shard(name, parse_weight("--add", value, weight)?)?;
                continue;
            }
            let count = value.parse::<u32>().ok().filter(|count| (1..=ADD_MAX).contains(count)).ok_or_else(|| {
                Fault::invalid(format!("--add {value:?}: neither a number in 1..={ADD_MAX} nor NAME=WEIGHT"))
            })?;
            let mut number = 0;
            for _ in 0..count {
                let free = loop {
                    number += 1;
                    let name = ShardId::new(&format!("new-{number}"))?;
                    if self.source.shards.iter().all(|shard| shard.id != name) {
                        break name;
                    }
                };
                self.add_shard(free, Weight::ONE)?;
            }
        }
        Ok(())
    }

    fn add_shard(&mut self, id: ShardId, weight: Weight) -> Result<(), Fault> {
        let shards = &mut self.source.shards;
        let Err(position) = shards.binary_search_by(|shard| shard.id.cmp(&id)) else {
            return Err(Fault::invalid(format!("--add: there is a shard {id} already")));
        };
        shards.insert(position, new_shard(&id, weight));
        self.source.table.insert_shard(id.clone());
        self.add.push((id, weight));
        Ok(())
    }

    /// A shard whose nodes are all drained is to be emptied; one that loses its primary only gets another.
    fn drain(&mut self, args: &CreateArgs) -> Result<(), Fault> {
        let mut nodes: BTreeSet<NodeId> = BTreeSet::new();
        for text in &args.drain {
            nodes.insert(self.source.node(text).map_err(|fault| fault.about("--drain"))?);
        }
        let mut shards: BTreeSet<ShardId> = BTreeSet::new();
        for text in &args.drain_shard {
            shards.insert(self.source.shard(text).map_err(|fault| fault.about("--drain-shard"))?);
        }
        for i in 0..self.source.shards.len() {
            let shard = &self.source.shards[i];
            let heir = shard.nodes().find(|node| !nodes.contains(*node) && self.source.serves(node));
            let loses_nodes = shard.nodes().any(|node| nodes.contains(node));
            if shards.contains(&shard.id) || (loses_nodes && heir.is_none()) {
                self.source.shards[i].state = ShardState::Draining;
            } else if let Some(heir) = heir.filter(|_| nodes.contains(&shard.primary)) {
                let (from, to) = (shard.primary.clone(), heir.clone());
                self.promotions.push(ActionKind::Promote { shard: shard.id.clone(), from, to });
            }
        }
        for node in self.source.nodes.iter_mut().filter(|node| nodes.contains(&node.id)) {
            node.state = NodeState::Draining;
        }
        Ok(())
    }

    fn reweight(&mut self, values: &[String]) -> Result<(), Fault> {
        for value in values {
            let (shard, weight) = self.shard_and_value("--weight", value)?;
            let weight = parse_weight("--weight", value, weight)?;
            let shard = &mut self.source.shards[shard];
            if let Some(entry) = self.add.iter_mut().find(|(id, _)| *id == shard.id) {
                entry.1 = weight;
            } else if shard.weight != weight {
                self.reweight.retain(|(id, _)| *id != shard.id);
                self.reweight.push((shard.id.clone(), weight));
            }
            shard.weight = weight;
        }
        Ok(())
    }

    fn bound(&mut self, args: &CreateArgs) -> Result<(), Fault> {
        for (flag, values) in [("--max-slots", &args.max_slots), ("--min-slots", &args.min_slots)] {
            for value in values {
                let (shard, number) = self.shard_and_value(flag, value)?;
                let number = number.parse::<u16>().ok().filter(|number| *number <= 16384).ok_or_else(|| {
                    Fault::invalid(format!("{flag} {value}: {number:?} is not a number of slots in 0..=16384"))
                })?;
                let shard = &mut self.source.shards[shard];
                let bound = if flag == "--max-slots" { &mut shard.max_slots } else { &mut shard.min_slots };
                *bound = Some(number);
            }
        }
        for range in args.pin.iter().flat_map(|list| list.split(',')) {
            let range: SlotRange = range.parse().map_err(|fault| Fault::invalid(format!("--pin: {fault}")))?;
            self.pin(range)?;
        }
        Ok(())
    }

    fn pin(&mut self, range: SlotRange) -> Result<(), Fault> {
        for slot in range.slots() {
            let owner = self.source.table.owner(slot).ok_or_else(|| {
                Fault::invalid(format!("--pin {range}: slot {slot} has no owner that it could stay with"))
            })?;
            let shard = self.source.shards.iter_mut().find(|shard| shard.id == *owner).expect("owners are shards");
            shard.pinned.insert(slot);
        }
        Ok(())
    }

    /// The index of the shard and the value of `SHARD=VALUE`.
    fn shard_and_value<'a>(&self, flag: &str, text: &'a str) -> Result<(usize, &'a str), Fault> {
        let (shard, value) =
            text.rsplit_once('=').ok_or_else(|| Fault::invalid(format!("{flag} {text:?}: not SHARD=NUMBER")))?;
        let id = self.source.shard(shard).map_err(|fault| fault.about(flag))?;
        let index = self.source.shards.iter().position(|shard| shard.id == id).expect("found by its id");
        Ok((index, value))
    }

    fn plan(
        mut self,
        Asked { goal, objective, placement }: Asked,
        statistics: Option<&Statistics>,
        driver: DriverKind,
        limits: &Limits,
        reason: String,
    ) -> Result<Plan, Fault> {
        self.add.sort();
        self.reweight.sort();
        let Source { shards, table, .. } = &self.source;
        let lost = BTreeSet::new();
        let input = Input { table, shards, lost: &lost, statistics };
        let body =
            plan::plan_for(&input, goal, objective, limits).map_err(|fault| Fault::invalid(fault.to_string()))?;
        let nodes: BTreeMap<_, _> = self.source.nodes.iter().map(|node| (&node.id, node)).collect();
        let mut body = with_roles(body, self.promotions, &PlacementInput { shards, nodes: &nodes }, placement)?;
        plan::check(&input, goal, limits, &body).map_err(|faults| defect(&faults))?;
        body.summary.eta_seconds = plan::eta_seconds(&body, limits);
        let checks = plan::checks(&Looked {
            facts: None,
            input,
            nodes: &nodes,
            // A file that tells of an open slot is refused.
            moving: 0,
            notes: &self.source.notes,
            driver,
            body: &body,
            goal,
            limits,
            reverts: false,
        });
        let fingerprint = Fingerprint::of(table, shards, &body.moved_slots());
        let drain = shards.iter().filter(|shard| shard.state == ShardState::Draining);
        let drain = drain.map(|shard| shard.id.clone()).collect();
        let now = super::now();
        Ok(Plan {
            id: PlanId::new("p-offline")?,
            supersedes: None,
            reverts: None,
            intent: Intent { goal, add: self.add, drain, reweight: self.reweight, reason, placement },
            base: Base { cluster_id: self.source.cluster_id.clone(), version: self.source.version, fingerprint },
            body,
            checks,
            limits: limits.clone(),
            approvals_required: 1,
            author_may_approve: false,
            author: Principal::system("offline"),
            created_at: now,
            expires_at: now.plus_ms(TTL_MS),
        })
    }
}

/// Puts the promotions before the body, or the whole placement of copies where one is asked for.
fn with_roles(
    body: PlanBody,
    promotions: Vec<ActionKind>,
    input: &PlacementInput<'_>,
    goal: Option<PlacementGoal>,
) -> Result<PlanBody, Fault> {
    let Some(goal) = goal else { return Ok(plan::with_leading_actions(body, promotions)) };
    let placed = plan::place(input, goal).map_err(|fault| Fault::invalid(fault.to_string()))?;
    let mut body = plan::with_leading_waves(body, placed.waves);
    if body.actions.is_empty() {
        body.empty_because = body.empty_because.map(|why| why + ", and every copy is where it is asked for");
    }
    body.placement = Some(placed.placement);
    plan::check_placement(input, goal, &body).map_err(|faults| defect(&faults))?;
    Ok(body)
}

fn defect(faults: &[String]) -> Fault {
    Fault::error(format!("the plan did not pass its own check, a defect: {}", faults.join("; ")))
}

/// A shard that is added offline: its node is not known yet and goes by the shard's name.
pub fn new_shard(id: &ShardId, weight: Weight) -> Shard {
    let node = NodeId::new(id.as_str()).expect("shard ids and node ids are names alike");
    Shard::new(id.clone(), node, weight)
}

fn parse_weight(flag: &str, value: &str, weight: &str) -> Result<Weight, Fault> {
    let number = weight.bytes().all(|b| b.is_ascii_digit()).then(|| weight.parse().ok()).flatten();
    number
        .and_then(|number| Weight::new(number).ok())
        .ok_or_else(|| Fault::invalid(format!("{flag} {value}: weight {weight:?} is not a number in 0..=10000")))
}

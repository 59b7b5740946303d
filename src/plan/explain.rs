//! Why a slot moves or stays, and why a shard gives, takes or neither, in sentences that name the numbers of the
//! certificate. Told from a plan alone, and from the table it stands on.

use super::Memory;
use crate::domain::{
    Action, ActionKind, Band, Goal, LoadFigures, Objective, PlacementGoal, Plan, ShardChange, ShardId, ShardLoad,
    ShardState, Slot, SlotTable, Tolerance,
};

/// What is known beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The owners that the plan stands on; the slots it moves may have moved since.
    pub table: &'a SlotTable,
    /// Earlier owners.
    pub memory: &'a Memory,
}

/// Why the plan moves this slot, or leaves it.
#[must_use]
pub fn explain_slot(plan: &Plan, known: &Known<'_>, slot: Slot) -> Vec<String> {
    let told = Told::of(plan);
    let touches = |action: &&Action| action.kind.ranges().iter().any(|range| range.contains(slot));
    if let Some(action) = plan.body.actions.iter().find(touches) {
        return told.moves(known, slot, action);
    }
    let Some(owner) = known.table.owner(slot) else {
        let why =
            if told.plan.intent.goal == Goal::DrainOnly { ": the goal drain_only leaves such slots alone" } else { "" };
        return vec![format!("slot {slot} has no owner, and the plan leaves it so{why}")];
    };
    told.stays(slot, owner)
}

/// Why the plan lets this shard give, take or neither; none when the plan does not know the shard.
#[must_use]
pub fn explain_shard(plan: &Plan, shard: &ShardId) -> Option<Vec<String>> {
    let told = Told::of(plan);
    let change = told.shard(shard)?;
    let mut said = vec![told.share(change), told.counts(change)];
    said.extend(told.partners(shard));
    said.extend(told.beyond(change));
    said.extend(told.roles(shard));
    said.push(told.bound());
    Some(said)
}

/// What one shard gives and takes.
struct Flow {
    gives: u32,
    takes: u32,
}

struct Told<'a> {
    plan: &'a Plan,
}

impl<'a> Told<'a> {
    const fn of(plan: &'a Plan) -> Self {
        Self { plan }
    }

    fn shard(&self, shard: &ShardId) -> Option<&'a ShardChange> {
        self.plan.body.shards.iter().find(|change| change.id == *shard)
    }

    fn band(&self, shard: &ShardId) -> Option<&'a Band> {
        self.plan.body.certificate.bands.iter().find(|band| band.shard == *shard)
    }

    fn flow(&self, shard: &ShardId) -> Flow {
        let (mut gives, mut takes) = (0, 0);
        for kind in self.plan.body.actions.iter().map(|action| &action.kind) {
            let slots = u32::try_from(kind.slots()).expect("at most 16384");
            gives += if kind.source() == Some(shard) { slots } else { 0 };
            takes += if kind.target() == Some(shard) { slots } else { 0 };
        }
        Flow { gives, takes }
    }

    /// What it has of the load, where the plan balances that.
    fn load(&self, shard: &ShardId) -> Option<(&'a LoadFigures, &'a ShardLoad)> {
        let figures = self.plan.body.figures.load.as_ref()?;
        Some((figures, figures.shards.iter().find(|load| load.shard == *shard)?))
    }

    /// What decides which slots go, once it is settled how many.
    fn choice(&self) -> String {
        let (figures, summary) = (&self.plan.body.figures, &self.plan.body.summary);
        let bytes = figures.costs.as_ref().filter(|costs| costs.objective == Objective::Bytes);
        match (&figures.load, bytes) {
            (Some(load), _) => format!("chosen by its {}", load.metric.as_str()),
            (None, Some(costs)) => format!("chosen for few bytes ({} move in all)", costs.chosen.bytes),
            (None, None) => {
                format!("chosen for few ranges ({} before, {} after)", summary.ranges_before, summary.ranges_after)
            }
        }
    }

    /// A lost shard: its slots are assigned, not moved.
    fn is_lost(&self, shard: &ShardId) -> bool {
        let from =
            |action: &Action| matches!(&action.kind, ActionKind::AssignSlots { from: Some(from), .. } if from == shard);
        self.plan.body.actions.iter().any(from)
    }

    fn moves(&self, known: &Known<'_>, slot: Slot, action: &Action) -> Vec<String> {
        let body = &self.plan.body;
        let wave = body.waves.iter().position(|wave| wave.contains(&action.id)).map_or(0, |wave| wave + 1);
        let when = format!("in action {} (wave {wave} of {})", action.id, body.waves.len());
        let (from, to) = (action.kind.source(), action.kind.target());
        let to_name = to.map_or("", ShardId::as_str);
        let mut said = vec![match (&action.kind, from) {
            (ActionKind::MoveSlots { .. }, Some(from)) => format!("slot {slot} moves from {from} to {to_name} {when}"),
            (_, Some(from)) => format!(
                "slot {slot} goes from {from} to {to_name} {when}: {from} is lost, so nothing is read from it and its keys \
                 are gone"
            ),
            (_, None) => format!("slot {slot} has no owner; {to_name} gets it {when}, which is no move"),
        }];
        if let Some(undone) = &self.plan.reverts {
            said.push(format!("plan {undone}, which this one undoes, took it from {to_name}"));
            return said;
        }
        for shard in from.into_iter().chain(to) {
            said.extend(self.shard(shard).map(|change| self.counts(change)));
        }
        let earlier = known.memory.earlier(slot);
        said.push(match (earlier, from) {
            (Some(earlier), _) if Some(earlier) == to => {
                format!("this slot and not another: {earlier} owned it before, and taking it back costs no move more")
            }
            (_, Some(from)) => format!("this slot and not another of {from}: {}", self.choice()),
            (_, None) => "every slot gets an owner".to_owned(),
        });
        said.push(self.bound());
        said
    }

    fn stays(&self, slot: Slot, owner: &ShardId) -> Vec<String> {
        let Some(change) = self.shard(owner) else {
            return vec![format!("slot {slot} belongs to {owner}, which the plan does not know")];
        };
        let mut said = vec![format!("slot {slot} stays with {owner}")];
        if let Some(undone) = &self.plan.reverts {
            said.push(format!("plan {undone}, which this one undoes, did not bring it to {owner}"));
            return said;
        }
        let pinned = change.bounds.pinned.iter().any(|range| range.contains(slot));
        let Flow { gives, takes } = self.flow(owner);
        if pinned {
            said.push(format!("it is pinned: no plan moves it while {owner} owns it"));
        } else if gives > 0 {
            let (before, after) = (change.before, change.after);
            said.push(self.counts(change));
            said.push(format!("{owner} keeps {after} of its {before} slots; which ones go is {}", self.choice()));
        } else {
            said.push(self.counts(change));
            if takes > 0 {
                said.push("in a plan with the fewest moves no shard both gives and takes".to_owned());
            }
        }
        said.extend(self.roles(owner));
        said.push(self.bound());
        said
    }

    /// Weight, share, band, and what binds the share.
    fn share(&self, change: &ShardChange) -> String {
        let (id, quota) = (&change.id, change.quota);
        if let Some((figures, load)) = self.load(id) {
            let (metric, total, lo, hi) = (figures.metric.as_str(), figures.total, load.lo, load.hi);
            return format!("{id} has weight {}: its band is {lo}..={hi} of {total} {metric}", change.weight.get());
        }
        let band = self.band(id).map_or_else(String::new, |band| format!(", its band {}..={}", band.lo, band.hi));
        let mut text = match change.state {
            ShardState::Active => {
                format!("{id} has weight {}: its share is {quota} of 16384 slots{band}", change.weight.get())
            }
            ShardState::Draining => format!("{id} is draining: its share is {quota} slots{band}"),
        };
        let bounds = &change.bounds;
        let pinned: usize = bounds.pinned.iter().map(|range| range.count()).sum();
        let limits = [
            bounds.min_slots.map(|least| format!("min_slots {least}")),
            bounds.max_slots.map(|most| format!("max_slots {most}")),
            (pinned > 0).then(|| format!("{pinned} pinned slots")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        if !limits.is_empty() {
            text.push_str("; it is bound by ");
            text.push_str(&limits.join(", "));
        }
        text
    }

    /// What it has against its band, and what it gives or takes.
    fn counts(&self, change: &ShardChange) -> String {
        let (id, before) = (&change.id, change.before);
        let Flow { gives, takes } = self.flow(id);
        let does = match (gives, takes) {
            (0, 0) => "so it neither gives nor takes".to_owned(),
            (gives, 0) => format!("and gives {gives}"),
            (0, takes) => format!("and takes {takes}"),
            (gives, takes) => format!("gives {gives} and takes {takes}"),
        };
        if self.is_lost(id) {
            return format!("{id} is lost: all of its {before} slots are assigned to others, without reading them");
        }
        if let Some((figures, load)) = self.load(id) {
            let (metric, before, lo, hi) = (figures.metric.as_str(), load.before, load.lo, load.hi);
            let place = if before > hi {
                format!("{} above", before - hi)
            } else if before < lo {
                format!("{} below", lo - before)
            } else {
                "within".to_owned()
            };
            let slots = if gives + takes > 0 { " slots" } else { "" };
            return format!("{id} has {before} {metric}, {place} its band {lo}..={hi}, {does}{slots}");
        }
        let Some(band) = self.band(id) else { return format!("{id} owns {before} slots, {does}") };
        let (lo, hi) = (band.lo, band.hi);
        if before > hi {
            format!("{id} owns {before} slots, {} above its band {lo}..={hi}, {does}", before - hi)
        } else if before < lo {
            format!("{id} owns {before} slots, {} below its band {lo}..={hi}, {does}", lo - before)
        } else {
            format!("{id} owns {before} slots, within its band {lo}..={hi}, {does}")
        }
    }

    /// To whom it gives, or from whom it takes: the largest three.
    fn partners(&self, shard: &ShardId) -> Option<String> {
        const SHOWN: usize = 3;
        let moves = self.plan.body.moves();
        let gives = moves.iter().any(|pair| pair.from.as_ref() == Some(shard));
        let others: Vec<String> = moves
            .iter()
            .filter(|pair| if gives { pair.from.as_ref() == Some(shard) } else { pair.to == *shard })
            .map(|pair| {
                let other = if gives { Some(&pair.to) } else { pair.from.as_ref() };
                format!("{} {}", other.map_or("nobody", ShardId::as_str), pair.slots.len())
            })
            .collect();
        let more = others.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let listed = others.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        (!others.is_empty()).then(|| format!("it {}: {listed}{more}", if gives { "gives to" } else { "takes from" }))
    }

    /// Why it gives or takes more than its own band asks for.
    fn beyond(&self, change: &ShardChange) -> Option<String> {
        let band = self.band(&change.id)?;
        if self.plan.reverts.is_some() || self.plan.body.figures.load.is_some() {
            return None;
        }
        let Flow { gives, takes } = self.flow(&change.id);
        let (surplus, deficit) = (change.before.saturating_sub(band.hi), band.lo.saturating_sub(change.before));
        let (a, b) = (self.plan.body.certificate.surplus, self.plan.body.certificate.deficit);
        if gives > surplus {
            let more = gives - surplus;
            Some(format!("it gives {more} more than it must: others lack {b} (B), and only {a} (A) are above a band"))
        } else if takes > deficit {
            let more = takes - deficit;
            Some(format!("it takes {more} more than it must: {a} (A) are above a band, and only {b} (B) are lacking"))
        } else {
            None
        }
    }

    /// Promotions and changes of shard, and the placement they belong to.
    fn roles(&self, shard: &ShardId) -> Vec<String> {
        let body = &self.plan.body;
        let mut said = Vec::new();
        for action in &body.actions {
            match &action.kind {
                ActionKind::Promote { shard: of, from, to } if of == shard => said.push(format!(
                    "{to} becomes the primary of {shard} in place of {from} in action {}; no slot moves for that",
                    action.id
                )),
                ActionKind::SetReplicaOf { node, shard: of } if of == shard => {
                    said.push(format!("{node} becomes a replica of {shard} in action {}", action.id));
                }
                _ => {}
            }
        }
        let Some(placement) = &body.placement else { return said };
        let Some(placed) = placement.shards.iter().find(|placed| placed.shard == *shard) else { return said };
        let PlacementGoal { replicas, spread } = placement.goal;
        if said.is_empty() {
            said.push(format!("the copies of {shard} stay where they are: apart by {} already", spread.as_str()));
        }
        let names: Vec<&str> = placed.replicas.iter().take(4).map(crate::domain::NodeId::as_str).collect();
        let more = placed.replicas.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        said.push(format!("{shard} is served by {} then, and copied by {}{more}", placed.primary, names.join(", ")));
        said.push(format!(
            "{} nodes change shard and {} shards fail over in all; no placement of {replicas} replicas apart by {} changes \
             fewer than {} nodes",
            placement.changes,
            placement.failovers,
            spread.as_str(),
            placement.lower_bound
        ));
        said
    }

    /// The bound that the plan as a whole meets.
    fn bound(&self) -> String {
        let (summary, proof) = (&self.plan.body.summary, &self.plan.body.certificate);
        if let Some(undone) = &self.plan.reverts {
            return format!("the plan undoes {undone}: {} slots go back, whatever the balance", summary.slots);
        }
        let goal = goal(self.plan.intent.goal);
        if self.plan.body.figures.load.is_some() {
            let (slots, bound) = (summary.slots, summary.lower_bound);
            return format!("{slots} slots move in all; no plan for {goal} moves fewer than {bound}");
        }
        format!(
            "{} slots move in all; no plan for {goal} moves fewer than {}: {} are above a band (A), {} lacking (B), {} \
             without an owner",
            summary.slots, summary.lower_bound, proof.surplus, proof.deficit, proof.unassigned
        )
    }
}

fn goal(goal: Goal) -> String {
    match goal {
        Goal::Balance { tolerance: Tolerance(0) } => "exact balance".to_owned(),
        Goal::Balance { tolerance } => format!("balance within {} %", tolerance.percent()),
        Goal::BalanceAbove { trigger } => format!("balance above {} %", trigger.percent()),
        Goal::DrainOnly => "drain_only".to_owned(),
        Goal::Budget { max_moves } => format!("these counts (the best of {max_moves} moves)"),
        Goal::BalanceLoad { metric, tolerance } => {
            format!("balance of {} within {} %", metric.as_str(), tolerance.percent())
        }
    }
}

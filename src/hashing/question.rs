//! What is compared: the nodes before and after, and on which terms.

use super::Tuning;
use super::placement::Member;
use crate::domain::{Family, Invalid, PlacedNode, SlotTable, Weight};

/// Most nodes of a comparison.
pub const NODES_MAX: usize = 1024;
/// Most stale views.
pub const VIEWS_MAX: u32 = 64;

/// How it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The families, each once.
    pub families: Vec<Family>,
    /// What they are tuned by.
    pub tuning: Tuning,
    /// Copies of each key, for the preference list.
    pub copies: u32,
    /// Stale views.
    pub views: u32,
    /// Each view holds at least 1/t of the nodes.
    pub view_part: u32,
    /// Requests per second of all clients.
    pub requests_per_second: u64,
    /// Slots per second that a rollout moves.
    pub slots_per_second: u64,
    /// Children of a position in the tree of a hot key.
    pub arity: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            families: Family::ALL.to_vec(),
            tuning: Tuning::default(),
            copies: 3,
            views: 10,
            view_part: 2,
            requests_per_second: 10_000,
            slots_per_second: 100,
            arity: 4,
        }
    }
}

impl Terms {
    /// Checks every bound.
    ///
    /// # Errors
    /// [`Invalid`] naming the value.
    pub fn validate(&self) -> Result<(), Invalid> {
        let within = |what, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(Invalid::new(what, format!("{value} is not in {least}..={most}")))
            }
        };
        within("points", self.tuning.points.into(), 1, 10_000)?;
        within("probes", self.tuning.probes.into(), 1, 1000)?;
        within("copies", self.copies.into(), 1, 16)?;
        within("views", self.views.into(), 1, VIEWS_MAX.into())?;
        within("view_part", self.view_part.into(), 1, 100)?;
        within("requests_per_second", self.requests_per_second, 1, 1_000_000_000)?;
        within("slots_per_second", self.slots_per_second, 1, 16_384)?;
        within("arity", self.arity.into(), 2, 64)?;
        if !(1000..=10_000_000).contains(&self.tuning.epsilon.0) {
            return Err(Invalid::new("epsilon", format!("{:.3} is not in 0.001..=10", self.tuning.epsilon)));
        }
        let twice = |family: &&Family| self.families.iter().filter(|other| other == family).count() > 1;
        match (self.families.iter().find(twice), self.families.is_empty()) {
            (_, true) => Err(Invalid::new("families", "there is none".to_owned())),
            (Some(family), _) => Err(Invalid::new("families", format!("{family} is given twice"))),
            (None, false) => Ok(()),
        }
    }
}

/// A question that can be answered.
#[derive(Clone, Debug)]
pub struct Question {
    pub(super) before: Vec<Member>,
    pub(super) after: Vec<Member>,
    pub(super) terms: Terms,
    pub(super) table: Option<SlotTable>,
    /// Nodes before or after: their numbers are below this.
    pub(super) universe: usize,
}

impl Question {
    /// Checks both lists of nodes. The slots of `table`, where one is given, belong to shards with the names of the nodes
    /// before.
    ///
    /// # Errors
    /// [`Invalid`] naming what cannot be.
    pub fn new(
        before: Vec<PlacedNode>,
        after: Vec<PlacedNode>,
        terms: Terms,
        table: Option<SlotTable>,
    ) -> Result<Self, Invalid> {
        terms.validate()?;
        check(&before, "nodes")?;
        check(&after, "nodes after the event")?;
        if before == after {
            return Err(Invalid::new("event", "changes nothing: add, drain or reweight a node".to_owned()));
        }
        if let Some(table) = &table {
            check_table(table, &before)?;
        }
        let mut names: Vec<_> = before.iter().chain(&after).map(|node| node.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        let member = |node: PlacedNode| {
            let id = names.binary_search(&node.name).expect("every name is listed");
            Member { id: u16::try_from(id).expect("few nodes"), node }
        };
        let universe = names.len();
        let before = before.into_iter().map(member).collect();
        let after = after.into_iter().map(member).collect();
        Ok(Self { before, after, terms, table, universe })
    }

    /// Nodes before or after the event.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.universe
    }

    /// The families to study.
    #[must_use]
    pub fn families(&self) -> &[Family] {
        &self.terms.families
    }
}

fn check(nodes: &[PlacedNode], what: &'static str) -> Result<(), Invalid> {
    if nodes.is_empty() || nodes.len() > NODES_MAX {
        return Err(Invalid::new(what, format!("{} is not in 1..={NODES_MAX}", nodes.len())));
    }
    let mut names: Vec<_> = nodes.iter().map(|node| &node.name).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Invalid::new(what, format!("{name} is given twice")));
    }
    if let Some(node) = nodes.iter().find(|node| node.weight > Weight::MAX.get()) {
        return Err(Invalid::new(what, format!("{} has the weight {}, above 10000", node.name, node.weight)));
    }
    if nodes.iter().all(|node| node.weight == 0) {
        return Err(Invalid::new(what, "no node has a weight above 0".to_owned()));
    }
    Ok(())
}

fn check_table(table: &SlotTable, before: &[PlacedNode]) -> Result<(), Invalid> {
    let is_node = |name: &str| before.iter().any(|node| node.name.as_str() == name);
    if let Some(shard) = table.shards().iter().find(|shard| !is_node(shard.as_str())) {
        return Err(Invalid::new("slots", format!("{shard} is not one of the nodes")));
    }
    let homeless = table.unassigned().iter().count();
    if homeless > 0 {
        return Err(Invalid::new("slots", format!("{homeless} slots have no owner; assign them first")));
    }
    Ok(())
}

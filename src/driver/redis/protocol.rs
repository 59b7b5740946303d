//! The classic way to move one slot between two servers, as a pure function: from what both ends say of the slot to the
//! next step. Whoever starts anew, after any crash of anybody, looks at both ends and goes on from there; nothing but the
//! intent (which slot, from which shard to which) is remembered.
//!
//! Source: the documentation of `CLUSTER SETSLOT`, and `cluster.c` of Redis 7.0. The order of the steps is what keeps keys:
//! the target owns the slot only after the source has none of its keys, and the source lets go only after that.

use std::fmt::{self, Display};

use crate::nodes_text::Flag;

/// What one end says of the slot, all of it read in one go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End<N> {
    /// The server that was asked: the primary of its shard.
    pub me: N,
    /// Who owns the slot, by what this server knows.
    pub owner: Option<N>,
    /// What this server has set on the slot.
    pub flag: Option<Flag<N>>,
    /// How many keys of the slot it holds.
    pub keys: u64,
}

/// Both ends of a move, and who belongs to the shards: after a failover a flag may name a node that was primary before.
#[derive(Clone, Debug)]
pub struct Ends<'a, N> {
    /// Where the slot comes from.
    pub source: &'a End<N>,
    /// Where it goes to.
    pub target: &'a End<N>,
    /// Every node of the source's shard.
    pub from: &'a [N],
    /// Every node of the target's shard.
    pub to: &'a [N],
}

/// What to do next with a slot. Steps that name no end are sent to the target first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Target: `SETSLOT s IMPORTING source`.
    Import,
    /// Source: `SETSLOT s MIGRATING target`.
    Migrate,
    /// Source: move every key of the slot with `MIGRATE`, then look again.
    Drain,
    /// Target: `SETSLOT s NODE target`. Only straight after a look that allowed it.
    Own,
    /// Source: `SETSLOT s NODE target`.
    Release,
    /// Source: `SETSLOT s STABLE`: it does not own the slot, or owns it and imports it from somebody.
    CloseSource,
    /// Target: `SETSLOT s STABLE`: it owns the slot, or holds no key of it.
    CloseTarget,
    /// The move is complete at both ends.
    Done,
}

/// Why a slot cannot go on by itself: somebody else did something with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle<N> {
    /// An end has the slot open to or from a node that is not part of this move.
    OpenElsewhere {
        /// Who has it open.
        at: N,
        /// What it has set.
        flag: Flag<N>,
    },
    /// A node that is not part of this move owns it.
    OwnedElsewhere {
        /// Who says so.
        at: N,
        /// The owner.
        owner: N,
    },
    /// Nobody owns it, by what the source knows.
    Unowned {
        /// Who says so.
        at: N,
    },
    /// Neither end owns the slot, and the target still imports it and holds keys of it.
    Imported {
        /// Who holds them.
        at: N,
        /// How many.
        keys: u64,
    },
    /// The target owns the slot and the source still holds keys of it, which nobody can reach.
    Stray {
        /// Who holds them.
        at: N,
        /// How many.
        keys: u64,
    },
}

impl<N: Display> Display for Obstacle<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenElsewhere { at, flag: Flag::Migrating(to) } => write!(f, "{at} has it migrating to {to}"),
            Self::OpenElsewhere { at, flag: Flag::Importing(from) } => write!(f, "{at} has it importing from {from}"),
            Self::OwnedElsewhere { at, owner } => write!(f, "{at} says that {owner} owns it"),
            Self::Unowned { at } => write!(f, "{at} says that nobody owns it"),
            Self::Imported { at, keys } => {
                write!(f, "{at} imports it and holds {keys} keys of it, and neither end owns it")
            }
            Self::Stray { at, keys } => write!(f, "{at} does not own it any more and still holds {keys} keys of it"),
        }
    }
}

impl<N> Obstacle<N> {
    /// The same with nodes named otherwise.
    pub fn named<M>(&self, name: impl Fn(&N) -> M) -> Obstacle<M> {
        let flagged = |flag: &Flag<N>| match flag {
            Flag::Migrating(to) => Flag::Migrating(name(to)),
            Flag::Importing(from) => Flag::Importing(name(from)),
        };
        match self {
            Self::OpenElsewhere { at, flag } => Obstacle::OpenElsewhere { at: name(at), flag: flagged(flag) },
            Self::OwnedElsewhere { at, owner } => Obstacle::OwnedElsewhere { at: name(at), owner: name(owner) },
            Self::Unowned { at } => Obstacle::Unowned { at: name(at) },
            Self::Stray { at, keys } => Obstacle::Stray { at: name(at), keys: *keys },
            Self::Imported { at, keys } => Obstacle::Imported { at: name(at), keys: *keys },
        }
    }
}

/// The next step of a move from source to target.
///
/// # Errors
/// [`Obstacle`] when only a person can tell what is right.
pub fn forward<N: Clone + Eq>(ends: &Ends<'_, N>) -> Result<Step, Obstacle<N>> {
    let (source, target) = (ends.source, ends.target);
    let source_owns = source.owner.as_ref() == Some(&source.me);
    if target.owner.as_ref() == Some(&target.me) {
        if !source_owns {
            return after_hand_over(ends);
        }
        // Both claim it: what the source accepted meanwhile must reach the target before it lets go.
        return Ok(match (&source.flag, source.keys) {
            (Some(Flag::Migrating(to)), 0) if *to == target.me => Step::Release,
            (Some(Flag::Migrating(to)), _) if *to == target.me => Step::Drain,
            (None | Some(Flag::Migrating(_)), _) => Step::Migrate,
            (Some(Flag::Importing(_)), _) => Step::CloseSource,
        });
    }
    if let Some(owner) = &target.owner
        && !ends.from.contains(owner)
        && !ends.to.contains(owner)
    {
        return Err(Obstacle::OwnedElsewhere { at: target.me.clone(), owner: owner.clone() });
    }
    match &source.owner {
        Some(_) if source_owns => before_hand_over(ends),
        // The source let go before the target had it, or a new primary of the target lost what it had.
        Some(owner) if ends.to.contains(owner) => match (&target.flag, source.keys) {
            (_, 1..) => Err(Obstacle::Stray { at: source.me.clone(), keys: source.keys }),
            (Some(Flag::Importing(from)), 0) if ends.from.contains(from) => Ok(Step::Own),
            (None, 0) => Ok(Step::Import),
            (Some(flag), 0) => Err(elsewhere(target, flag)),
        },
        Some(owner) => Err(Obstacle::OwnedElsewhere { at: source.me.clone(), owner: owner.clone() }),
        None => Err(Obstacle::Unowned { at: source.me.clone() }),
    }
}

/// The next step of taking a move back that has not come to its end: the source keeps the slot, and the keys that have
/// moved come home. A slot that the target owns already is moved back with [`forward`], the ends exchanged.
///
/// # Errors
/// [`Obstacle`] when only a person can tell what is right.
pub fn back<N: Clone + Eq>(ends: &Ends<'_, N>) -> Result<Step, Obstacle<N>> {
    let (source, target) = (ends.source, ends.target);
    debug_assert!(target.owner.as_ref() != Some(&target.me), "what is owned is moved back");
    if source.owner.as_ref() != Some(&source.me) {
        return Err(match &source.owner {
            Some(owner) => Obstacle::OwnedElsewhere { at: source.me.clone(), owner: owner.clone() },
            None => Obstacle::Unowned { at: source.me.clone() },
        });
    }
    match (&source.flag, &target.flag) {
        (Some(_), _) => Ok(Step::CloseSource),
        // `MIGRATE` works on what a server does not own only while the slot is open there.
        (None, None) if target.keys > 0 => Ok(Step::Import),
        (None, Some(Flag::Importing(from))) if ends.from.contains(from) => {
            Ok(if target.keys > 0 { Step::Drain } else { Step::CloseTarget })
        }
        (None, Some(flag)) => Err(elsewhere(target, flag)),
        (None, None) => Ok(Step::Done),
    }
}

/// The next step of leaving a slot to whoever has it, where that is neither end, or nobody: no end keeps it open. Not where the
/// target holds keys that it imported: closed there, nobody could reach them.
///
/// # Errors
/// [`Obstacle`] when an end owns it, or only a person can tell what is right.
pub fn let_go<N: Clone + Eq>(ends: &Ends<'_, N>) -> Result<Step, Obstacle<N>> {
    let (source, target) = (ends.source, ends.target);
    // A server that imports a slot takes no news of its owner.
    let deaf = matches!(target.flag, Some(Flag::Importing(_)));
    for (end, deaf) in [(source, false), (target, deaf)] {
        if let Some(owner) = &end.owner
            && (ends.to.contains(owner) || ends.from.contains(owner) && !deaf)
        {
            return Err(Obstacle::OwnedElsewhere { at: end.me.clone(), owner: owner.clone() });
        }
    }
    match (&source.flag, &target.flag) {
        (Some(Flag::Migrating(to)), _) if ends.to.contains(to) => Ok(Step::CloseSource),
        (Some(flag), _) => Err(elsewhere(source, flag)),
        (None, Some(Flag::Importing(from))) if ends.from.contains(from) => match target.keys {
            0 => Ok(Step::CloseTarget),
            keys => Err(Obstacle::Imported { at: target.me.clone(), keys }),
        },
        (None, Some(flag)) => Err(elsewhere(target, flag)),
        (None, None) => Ok(Step::Done),
    }
}

fn before_hand_over<N: Clone + Eq>(ends: &Ends<'_, N>) -> Result<Step, Obstacle<N>> {
    let (source, target) = (ends.source, ends.target);
    match &target.flag {
        Some(Flag::Importing(from)) if *from == source.me => {}
        // A primary before this one is named, or the flag went with a restart: once more.
        Some(Flag::Importing(from)) if !ends.from.contains(from) => {
            return Err(elsewhere(target, &Flag::Importing(from.clone())));
        }
        None | Some(Flag::Importing(_)) => return Ok(Step::Import),
        Some(flag) => return Err(elsewhere(target, flag)),
    }
    match &source.flag {
        Some(Flag::Migrating(to)) if *to == target.me => {}
        Some(Flag::Migrating(to)) if !ends.to.contains(to) => {
            return Err(elsewhere(source, &Flag::Migrating(to.clone())));
        }
        None | Some(Flag::Migrating(_)) => return Ok(Step::Migrate),
        Some(Flag::Importing(_)) => return Ok(Step::CloseSource),
    }
    Ok(if source.keys > 0 { Step::Drain } else { Step::Own })
}

fn after_hand_over<N: Clone + Eq>(ends: &Ends<'_, N>) -> Result<Step, Obstacle<N>> {
    let (source, target) = (ends.source, ends.target);
    if source.keys > 0 {
        return Err(Obstacle::Stray { at: source.me.clone(), keys: source.keys });
    }
    Ok(match (&source.flag, &target.flag) {
        (Some(Flag::Importing(_)), _) => Step::CloseSource,
        (Some(Flag::Migrating(_)), _) => Step::Release,
        (None, _) if source.owner.as_ref() != Some(&target.me) => Step::Release,
        (None, Some(_)) => Step::CloseTarget,
        (None, None) => Step::Done,
    })
}

fn elsewhere<N: Clone>(at: &End<N>, flag: &Flag<N>) -> Obstacle<N> {
    Obstacle::OpenElsewhere { at: at.me.clone(), flag: flag.clone() }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

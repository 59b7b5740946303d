//! Names for tables: the 40 hex digits of a Redis node are shortened to a beginning that is unique in the plan.

use std::collections::BTreeSet;

use crate::wire::plan::{ActionKindView, PlanView};

/// Shortest beginning of an id that is shown.
const SHORTEST: usize = 8;

/// How ids are shown.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Characters kept of a long id; none keeps all.
    keep: Option<usize>,
}

impl Names {
    /// Every id whole.
    #[must_use]
    pub const fn whole() -> Self {
        Self { keep: None }
    }

    /// Long ids so short that they still differ from every other id.
    pub fn of<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let long: BTreeSet<&str> = ids.into_iter().filter(|id| is_long(id)).collect();
        let mut keep = SHORTEST;
        for (a, b) in long.iter().zip(long.iter().skip(1)) {
            let shared = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
            keep = keep.max(shared + 1);
        }
        Self { keep: Some(keep) }
    }

    /// For the shards and nodes of a plan.
    #[must_use]
    pub fn of_plan(plan: &PlanView) -> Self {
        let nodes = plan.actions.iter().flat_map(|action| match &action.kind {
            ActionKindView::Promote { from, to, .. } => vec![from.as_str(), to.as_str()],
            ActionKindView::SetReplicaOf { node, .. } => vec![node.as_str()],
            _ => Vec::new(),
        });
        Self::of(plan.shards.iter().map(|shard| shard.id.as_str()).chain(nodes))
    }

    /// An id as it is shown.
    #[must_use]
    pub fn show<'a>(&self, id: &'a str) -> &'a str {
        match self.keep {
            Some(keep) if is_long(id) => &id[..keep.min(id.len())],
            _ => id,
        }
    }
}

fn is_long(id: &str) -> bool {
    id.len() == 40 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_tells_them_apart() {
        let (a, b, c) = ("0123456789abcdef".repeat(3), "0123456789abcdee".repeat(3), "shard-e".to_owned());
        let (a, b) = (&a[..40], &b[..40]);
        let names = Names::of([a, b, &c]);
        assert_eq!([names.show(a), names.show(b), names.show(&c)], ["0123456789abcdef", "0123456789abcdee", "shard-e"]);
        assert_eq!(Names::of([a]).show(a), "01234567");
        assert_eq!(Names::whole().show(a), a);
    }
}

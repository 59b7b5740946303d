//! Names for tables: the 40 hex digits of a Redis node are shortened to a beginning that is unique in the plan.

use std::collections::BTreeSet;

use crate::wire::plan::{ActionKindView, PlanView};

/// Shortest beginning of an id that is shown.
const SHORTEST: usize = 8;
/// Hex digits shown of a digest in a sentence.
const DIGEST_SHOWN: usize = 12;

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

    /// For the ids that stand in sentences.
    pub fn within<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::of(texts.into_iter().flat_map(|text| text.split(is_between)))
    }

    /// Sentences with their ids as they are shown, and digests cut unless everything is whole.
    #[must_use]
    pub fn shorten(&self, text: &str) -> String {
        let parts = text.split_inclusive(is_between).map(|part| {
            let word = part.trim_end_matches(is_between);
            let shown = match self.keep {
                Some(_) if is_hex(word, 64) => [&word[..DIGEST_SHOWN], "…"].concat(),
                _ => self.show(word).to_owned(),
            };
            shown + &part[word.len()..]
        });
        parts.collect()
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

/// Whether the character is no part of a name, so that what stands beside it may be an id.
fn is_between(c: char) -> bool {
    !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_')
}

fn is_long(id: &str) -> bool {
    is_hex(id, 40)
}

fn is_hex(word: &str, digits: usize) -> bool {
    word.len() == digits && word.bytes().all(|b| b.is_ascii_hexdigit())
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

    #[test]
    fn shortens_ids_in_sentences_and_nothing_else() {
        let (a, b) = ("0123456789abcdef0123456789abcdef01234567", "0123456789fedcba0123456789abcdef01234567");
        let text = format!("slot 7: {a}, primary {b}@h:1; digest sha256:{}, new-{a} \u{e9}", "ab".repeat(32));
        let names = Names::within([text.as_str()]);
        let expected =
            format!("slot 7: 0123456789a, primary 0123456789f@h:1; digest sha256:abababababab…, new-{a} \u{e9}");
        assert_eq!(names.shorten(&text), expected);
        assert_eq!(Names::whole().shorten(&text), text);
    }
}

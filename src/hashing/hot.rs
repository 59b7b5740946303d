//! What random trees do for hot keys: requests are played against them. The owner alone; nodes that climb, each asking for
//! a key at most once; clients that climb, when copies are there and when none is yet.

use super::key::{Key, Numbers, scale, with};
use super::placement::Member;
use super::question::Question;
use super::sample::Sample;
use crate::domain::{HotKeys, Millionths, tree::Tree};

/// Most hot keys.
const KEYS_MAX: usize = 64;
/// Requests played for each node.
const REQUESTS_PER_NODE: u64 = 200;
/// Most requests played.
const REQUESTS_MAX: u64 = 50_000;

/// Plays the hottest keys of a sample against trees over the nodes after the event.
pub(super) fn relief(question: &Question, sample: &Sample) -> HotKeys {
    let nodes = question.after.iter().filter(|member| member.node.weight > 0).count();
    let hot = hottest(sample, nodes);
    let (_, most) = hot[0];
    let counts: Vec<u64> = hot.iter().map(|(_, count)| *count).collect();
    let keys: Vec<Key> = hot.iter().map(|(key, _)| *key).collect();
    let mut relief = play(&question.after, question.terms.arity, &keys, &counts);
    relief.hottest = Millionths::ratio(most, sample.requests);
    relief
}

/// The keys that alone are more than a node's share of the requests, hottest first; else the hottest one.
fn hottest(sample: &Sample, nodes: usize) -> Vec<(Key, u64)> {
    let nodes = u64::try_from(nodes).expect("few nodes");
    let is_hot = |count: u64| u128::from(count) * u128::from(nodes) > u128::from(sample.requests);
    let mut hot: Vec<(u64, usize)> = sample
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| is_hot(**count))
        .map(|(index, count)| (*count, index))
        .collect();
    if hot.is_empty() {
        let first = sample.counts.iter().enumerate().max_by_key(|(index, count)| (**count, std::cmp::Reverse(*index)));
        hot.extend(first.map(|(index, count)| (*count, index)));
    }
    hot.sort_unstable_by_key(|&(count, index)| (std::cmp::Reverse(count), index));
    hot.truncate(KEYS_MAX);
    hot.into_iter().map(|(count, index)| (sample.keys[index], count)).collect()
}

/// Requests for these keys, in proportion to their counts, against a tree of each over the members with a weight.
pub(super) fn play(members: &[Member], arity: u32, keys: &[Key], counts: &[u64]) -> HotKeys {
    let nodes = members.iter().filter(|member| member.node.weight > 0).count();
    let positions = u32::try_from(nodes).expect("few nodes");
    let tree = Tree::new(positions, arity).expect("a node and an arity that were checked");
    let requests = (u64::from(positions) * REQUESTS_PER_NODE).min(REQUESTS_MAX);
    let mut scene = Scene { tree, nodes, requests: draw(counts, requests), keys };
    let fair = |loads: Vec<u64>| {
        let heaviest = loads.into_iter().max().unwrap_or(0);
        Millionths::ratio(heaviest * u64::from(positions), requests)
    };
    HotKeys {
        hottest: Millionths(0),
        keys: u32::try_from(keys.len()).expect("few keys"),
        arity,
        requests,
        owner_alone: fair(scene.owner_alone()),
        nodes_climb: fair(scene.nodes_climb()),
        clients_climb_warm: fair(scene.clients_climb(false)),
        clients_climb_cold: fair(scene.clients_climb(true)),
        bound: Millionths(bound(positions)),
    }
}

/// Twice the number of binary digits of n: a logarithm with room for chance.
fn bound(nodes: u32) -> u64 {
    2_000_000 * u64::from(nodes.ilog2() + 1)
}

/// Which key each request asks for.
fn draw(counts: &[u64], requests: u64) -> Vec<usize> {
    let mut ends = Vec::with_capacity(counts.len());
    let mut total = 0;
    for count in counts {
        total += count;
        ends.push(total);
    }
    let mut numbers = Numbers::seeded(total);
    (0..requests).map(|_| numbers.below(total)).map(|drawn| ends.partition_point(|&end| end <= drawn)).collect()
}

struct Scene<'a> {
    tree: Tree,
    nodes: usize,
    requests: Vec<usize>,
    keys: &'a [Key],
}

impl Scene<'_> {
    fn node(&self, key: usize, position: u32) -> usize {
        let hash = with(self.keys[key].hash, u64::from(position));
        usize::try_from(scale(hash, u64::try_from(self.nodes).expect("few nodes"))).expect("below the number of nodes")
    }

    fn owner_alone(&self) -> Vec<u64> {
        let mut loads = vec![0; self.nodes];
        self.requests.iter().for_each(|&key| loads[self.node(key, 0)] += 1);
        loads
    }

    /// Who has no copy asks the parent, once; the answer fills every node on the way.
    fn nodes_climb(&mut self) -> Vec<u64> {
        let (mut loads, mut has) = (vec![0; self.nodes], self.only_owners());
        self.climb(|scene, key, leaf| {
            let mut asks = true;
            for node in scene.path(key, leaf) {
                if asks {
                    loads[node] += 1;
                }
                // A node that has a copy, or waits for one, asks nobody.
                asks = asks && !std::mem::replace(&mut has[key][node], true);
            }
        });
        loads
    }

    /// The client asks the leaf, then its parent, until one has a copy. In a cold burst nobody has one but the owner.
    fn clients_climb(&mut self, cold: bool) -> Vec<u64> {
        let (mut loads, mut has) = (vec![0; self.nodes], self.only_owners());
        self.climb(|scene, key, leaf| {
            for node in scene.path(key, leaf) {
                loads[node] += 1;
                let found = if cold { has[key][node] } else { std::mem::replace(&mut has[key][node], true) };
                if found {
                    break;
                }
            }
        });
        loads
    }

    fn only_owners(&self) -> Vec<Vec<bool>> {
        let owned = |key: usize| (0..self.nodes).map(|node| node == self.node(key, 0)).collect();
        (0..self.keys.len()).map(owned).collect()
    }

    /// The nodes from a leaf to the root, each once in a row.
    fn path(&self, key: usize, leaf: u32) -> Vec<usize> {
        let mut path: Vec<usize> = self.tree.path(leaf).map(|position| self.node(key, position)).collect();
        path.dedup();
        path
    }

    /// Every request, at a random leaf.
    fn climb(&self, mut ask: impl FnMut(&Self, usize, u32)) {
        let mut numbers = Numbers::seeded(self.requests.len().try_into().expect("fits in memory"));
        for &key in &self.requests {
            let number = u32::try_from(numbers.below(self.tree.leaves().into())).expect("below the number of leaves");
            ask(self, key, self.tree.leaf(number));
        }
    }
}

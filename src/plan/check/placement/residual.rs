//! What of a flow could be exchanged, and whether that would cost less: Bellman and Ford, ended by the first cycle.

/// Arcs that could take one unit more, or give one back.
pub(super) struct Residual {
    arcs: Vec<(u32, u32, i64)>,
    nodes: usize,
}

const NOBODY: u32 = u32::MAX;

impl Residual {
    pub fn new(nodes: usize) -> Self {
        Self { arcs: Vec::new(), nodes }
    }

    /// An arc with so many units on it, of at most so many, at this cost each.
    pub fn arc(&mut self, from: usize, to: usize, flow: u32, most: u32, cost: i64) {
        let node = |node: usize| u32::try_from(node).expect("a few nodes a shard and a host");
        if flow < most {
            self.arcs.push((node(from), node(to), cost));
        }
        if flow > 0 {
            self.arcs.push((node(to), node(from), -cost));
        }
    }

    /// Whether there is a cycle of negative cost.
    pub fn can_be_improved(&self) -> bool {
        let (mut costs, mut from) = (vec![0_i64; self.nodes], vec![NOBODY; self.nodes]);
        loop {
            let mut changed = false;
            for &(tail, head, cost) in &self.arcs {
                let through = costs[tail as usize] + cost;
                if through < costs[head as usize] {
                    (costs[head as usize], from[head as usize]) = (through, tail);
                    changed = true;
                }
            }
            if !changed {
                return false;
            }
            // Without one the ways back all end, and the rounds do too.
            if has_cycle(&from) {
                return true;
            }
        }
    }
}

fn has_cycle(from: &[u32]) -> bool {
    let mut seen = vec![0_u32; from.len()];
    for (mark, start) in (1..).zip(0..from.len()) {
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = mark;
            if from[at] == NOBODY {
                break;
            }
            at = from[at] as usize;
        }
        if seen[at] == mark && from[at] != NOBODY {
            return true;
        }
    }
    false
}

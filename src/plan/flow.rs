//! Flows of least cost in networks of whole numbers: Dijkstra with potentials, then blocking flows along what costs
//! nothing more. There are as many rounds as different prices of a unit, and prices here are few.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An arc, as given to [`Network::arc`] and asked for in [`Network::flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arc(usize);

/// A network with a flow in it. Every arc stands beside its reverse: at index `i` and `i ^ 1`.
pub(super) struct Network {
    heads: Vec<u32>,
    left: Vec<u32>,
    costs: Vec<i64>,
    nodes: usize,
    /// Arcs out of each node: `out[first[n]..first[n + 1]]`. Built when a flow is asked for.
    first: Vec<u32>,
    out: Vec<u32>,
    potentials: Vec<i64>,
}

const FAR: i64 = i64::MAX;

impl Network {
    /// A network of these many nodes without arcs.
    pub fn new(nodes: usize) -> Self {
        let (first, out) = (Vec::new(), Vec::new());
        Self { heads: Vec::new(), left: Vec::new(), costs: Vec::new(), nodes, first, out, potentials: vec![0; nodes] }
    }

    /// Adds an arc; `cost` is of one unit and at least 0.
    pub fn arc(&mut self, from: usize, to: usize, capacity: u32, cost: i64) -> Arc {
        assert!(cost >= 0, "shortest ways are looked for without negative costs");
        let index = self.heads.len();
        self.heads.extend([to, from].map(|node| u32::try_from(node).expect("a few nodes a shard and a host")));
        self.left.extend([capacity, 0]);
        self.costs.extend([cost, -cost]);
        Arc(index)
    }

    /// Units on an arc.
    pub fn flow(&self, arc: Arc) -> u32 {
        self.left[arc.0 ^ 1]
    }

    /// Sends up to so many units from one node to another at the least cost; how many went.
    pub fn send(&mut self, source: usize, sink: usize, wanted: u32) -> u32 {
        self.index();
        let mut sent = 0;
        while sent < wanted && self.reach(source, sink) {
            loop {
                let mut levels = self.levels(source, sink);
                if levels[sink] == u32::MAX {
                    break;
                }
                sent += self.block(source, sink, wanted - sent, &mut levels);
            }
        }
        sent
    }

    fn index(&mut self) {
        let mut first = vec![0_u32; self.nodes + 1];
        for index in 0..self.heads.len() {
            first[self.heads[index ^ 1] as usize + 1] += 1;
        }
        for node in 0..self.nodes {
            first[node + 1] += first[node];
        }
        let (mut next, mut out) = (first.clone(), vec![0; self.heads.len()]);
        for index in 0..self.heads.len() {
            let place = &mut next[self.heads[index ^ 1] as usize];
            out[*place as usize] = u32::try_from(index).expect("a few arcs a node");
            *place += 1;
        }
        (self.first, self.out) = (first, out);
    }

    fn arcs_out(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.out[self.first[node] as usize..self.first[node + 1] as usize].iter().map(|&arc| arc as usize)
    }

    fn reduced(&self, arc: usize) -> i64 {
        let (from, to) = (self.heads[arc ^ 1] as usize, self.heads[arc] as usize);
        self.costs[arc] + self.potentials[from] - self.potentials[to]
    }

    /// Dijkstra: raises the potentials so that the shortest ways cost nothing. False when there is no way.
    fn reach(&mut self, source: usize, sink: usize) -> bool {
        let mut distances = vec![FAR; self.nodes];
        let mut queue = BinaryHeap::from([(Reverse(0), source)]);
        distances[source] = 0;
        while let Some((Reverse(distance), node)) = queue.pop() {
            if distance > distances[node] {
                continue;
            }
            if node == sink {
                break;
            }
            for arc in self.arcs_out(node).filter(|&arc| self.left[arc] > 0) {
                let (to, through) = (self.heads[arc] as usize, distance + self.reduced(arc));
                if through < distances[to] {
                    distances[to] = through;
                    queue.push((Reverse(through), to));
                }
            }
        }
        let most = distances[sink];
        if most == FAR {
            return false;
        }
        for (potential, distance) in self.potentials.iter_mut().zip(distances) {
            *potential += distance.min(most);
        }
        true
    }

    /// The number of arcs to each node along arcs that cost nothing.
    fn levels(&self, source: usize, sink: usize) -> Vec<u32> {
        let mut levels = vec![u32::MAX; self.nodes];
        let mut reached = vec![source];
        levels[source] = 0;
        let mut next = 0;
        while next < reached.len() && levels[sink] == u32::MAX {
            let node = reached[next];
            next += 1;
            for arc in self.arcs_out(node) {
                let to = self.heads[arc] as usize;
                if self.left[arc] > 0 && levels[to] == u32::MAX && self.reduced(arc) == 0 {
                    levels[to] = levels[node] + 1;
                    reached.push(to);
                }
            }
        }
        levels
    }

    /// Sends along ways of rising levels until none is left.
    fn block(&mut self, source: usize, sink: usize, wanted: u32, levels: &mut [u32]) -> u32 {
        let mut turn = self.first.clone();
        let (mut way, mut at, mut sent): (Vec<usize>, usize, u32) = (Vec::new(), source, 0);
        while sent < wanted {
            if at == sink {
                let units = way.iter().map(|&arc| self.left[arc]).min().unwrap_or(0).min(wanted - sent);
                sent += units;
                for &arc in &way {
                    self.left[arc] -= units;
                    self.left[arc ^ 1] += units;
                }
                let full = way.iter().position(|&arc| self.left[arc] == 0).unwrap_or(0);
                at = self.heads[way[full] ^ 1] as usize;
                way.truncate(full);
                continue;
            }
            let onward = (turn[at]..self.first[at + 1]).find(|&place| {
                let arc = self.out[place as usize] as usize;
                let to = self.heads[arc] as usize;
                self.left[arc] > 0 && levels[to] == levels[at].saturating_add(1) && self.reduced(arc) == 0
            });
            if let Some(place) = onward {
                turn[at] = place;
                let arc = self.out[place as usize] as usize;
                way.push(arc);
                at = self.heads[arc] as usize;
            } else {
                levels[at] = u32::MAX;
                let Some(arc) = way.pop() else { break };
                at = self.heads[arc ^ 1] as usize;
            }
        }
        sent
    }
}

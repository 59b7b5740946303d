//! Waves: the fewest rounds in which all actions fit within the limits per source and per target.
//!
//! The graph of shards is bipartite, so König's theorem gives as many colours as the largest degree: a shard that may have
//! `a` actions at a time becomes `a` copies, and the edges are coloured with Kempe chains. The bound is always reached.

/// One action: the shard it leaves, if any counts, and the shard it enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub from: Option<u16>,
    pub to: u16,
}

/// The wave of each edge from 0, and the number of waves. An edge gets the first wave that is free when its turn comes, in
/// the order given, so an early edge goes early.
pub(super) fn colour(edges: &[Edge], shards: usize, per_source: u32, per_target: u32) -> (Vec<u32>, u32) {
    let rounds = bound(edges, shards, per_source, per_target);
    let mut colouring = Colouring::new(edges, shards, per_source, per_target, rounds);
    for edge in 0..edges.len() {
        colouring.colour(edge);
    }
    (colouring.colours, rounds)
}

/// `max_v max(⌈out_v/a⌉, ⌈in_v/b⌉)`.
pub(super) fn bound(edges: &[Edge], shards: usize, per_source: u32, per_target: u32) -> u32 {
    let (mut out, mut into) = (vec![0_u32; shards], vec![0_u32; shards]);
    for edge in edges {
        into[usize::from(edge.to)] += 1;
        if let Some(from) = edge.from {
            out[usize::from(from)] += 1;
        }
    }
    let rounds = |degrees: &[u32], limit: u32| degrees.iter().max().map_or(0, |most| most.div_ceil(limit));
    rounds(&out, per_source).max(rounds(&into, per_target))
}

const NOT_YET: u32 = u32::MAX;

/// A proper colouring of the edges coloured so far.
struct Colouring {
    /// The copies at the ends of each edge; the same number twice when the edge has no source.
    ends: Vec<[u32; 2]>,
    colours: Vec<u32>,
    /// The edges of each copy.
    incident: Vec<Vec<u32>>,
    /// A bit for each colour that is free at a copy.
    free: Vec<u64>,
    words: usize,
}

impl Colouring {
    fn new(edges: &[Edge], shards: usize, per_source: u32, per_target: u32, rounds: u32) -> Self {
        let mut sources = Copies::new(shards, per_source);
        let mut targets = Copies::new(shards, per_target);
        let mut count = 0;
        let ends: Vec<[u32; 2]> = edges
            .iter()
            .map(|edge| {
                let target = targets.next(edge.to, &mut count);
                [edge.from.map_or(target, |from| sources.next(from, &mut count)), target]
            })
            .collect();
        let mut incident = vec![Vec::new(); count as usize];
        for (edge, [source, target]) in (0_u32..).zip(&ends) {
            incident[*target as usize].push(edge);
            if source != target {
                incident[*source as usize].push(edge);
            }
        }
        let words = (rounds as usize).div_ceil(64);
        let mut all = vec![u64::MAX; words];
        if let Some(last) = all.last_mut().filter(|_| !rounds.is_multiple_of(64)) {
            *last = (1 << (rounds % 64)) - 1;
        }
        Self { colours: vec![NOT_YET; edges.len()], ends, incident, free: all.repeat(count as usize), words }
    }

    fn colour(&mut self, edge: usize) {
        let [source, target] = self.ends[edge];
        let colour = self.first_common(source, target).unwrap_or_else(|| {
            let at_source = self.first_common(source, source).expect("a copy has at most as many edges as colours");
            let at_target = self.first_common(target, target).expect("a copy has at most as many edges as colours");
            self.flip(target, at_source, at_target);
            at_source
        });
        self.set(edge, colour);
    }

    /// The first colour that is free at both copies.
    fn first_common(&self, a: u32, b: u32) -> Option<u32> {
        let words = |copy: u32| &self.free[copy as usize * self.words..][..self.words];
        let found = words(a).iter().zip(words(b)).map(|(a, b)| a & b).enumerate().find(|(_, both)| *both != 0)?;
        Some(u32::try_from(found.0).expect("at most one colour an edge") * 64 + found.1.trailing_zeros())
    }

    fn toggle(&mut self, copy: u32, colour: u32) {
        self.free[copy as usize * self.words + colour as usize / 64] ^= 1 << (colour % 64);
    }

    fn set(&mut self, edge: usize, colour: u32) {
        let [source, target] = self.ends[edge];
        self.colours[edge] = colour;
        self.toggle(target, colour);
        if source != target {
            self.toggle(source, colour);
        }
    }

    /// Swaps the colours along the path of `wanted` and `other` that starts at `copy`, where `other` is free: `wanted` is
    /// free there afterwards. In a bipartite graph the path ends before it comes to a copy where `wanted` is free already.
    fn flip(&mut self, copy: u32, wanted: u32, other: u32) {
        let mut path = Vec::new();
        let (mut at, mut colour) = (copy, wanted);
        while let Some(&edge) = self.incident[at as usize].iter().find(|&&edge| self.colours[edge as usize] == colour) {
            path.push(edge as usize);
            let [source, target] = self.ends[edge as usize];
            if source == target {
                break;
            }
            at = if at == source { target } else { source };
            colour = wanted + other - colour;
        }
        let old: Vec<u32> = path.iter().map(|&edge| self.colours[edge]).collect();
        for (&edge, &colour) in path.iter().zip(&old) {
            self.set(edge, colour);
        }
        for (&edge, &colour) in path.iter().zip(&old) {
            self.set(edge, wanted + other - colour);
        }
    }
}

/// Deals the edges of each shard round to as many copies as it may have actions at a time.
struct Copies {
    limit: u32,
    dealt: Vec<u32>,
    of: Vec<Vec<u32>>,
}

impl Copies {
    fn new(shards: usize, limit: u32) -> Self {
        Self { limit, dealt: vec![0; shards], of: vec![Vec::new(); shards] }
    }

    fn next(&mut self, shard: u16, count: &mut u32) -> u32 {
        let (dealt, copies) = (&mut self.dealt[usize::from(shard)], &mut self.of[usize::from(shard)]);
        let turn = (*dealt % self.limit) as usize;
        *dealt += 1;
        if turn == copies.len() {
            copies.push(*count);
            *count += 1;
        }
        copies[turn]
    }
}

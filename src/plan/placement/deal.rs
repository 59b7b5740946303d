//! Deals the copies that came through the hub of a zone to its hosts, those of one shard to different ones: to the host with
//! most room, and where a shard finds none, along a path of shards that make room for each other.

use super::Grounds;
use super::copies::rooms;

/// Copies of a shard that are to come to any hosts of a zone where it has none.
pub(super) struct Need {
    pub shard: usize,
    pub zone: usize,
    pub copies: u32,
}

/// The hosts of the copies of each shard beside its primary, ascending: those where copies stay, and those dealt. None when
/// they cannot be dealt: no path makes room exactly when there is no way at all.
pub(super) fn deal(grounds: &Grounds<'_>, kept: Vec<Vec<usize>>, needs: &[Need]) -> Option<Vec<Vec<usize>>> {
    let mut deal = Deal::new(grounds, kept);
    let mut order: Vec<&Need> = needs.iter().collect();
    order.sort_by_key(|need| std::cmp::Reverse(need.copies));
    for need in order {
        for _ in 0..need.copies {
            deal.one(need.shard, need.zone)?;
        }
    }
    let mut hosts = deal.held;
    for of_shard in &mut hosts {
        of_shard.sort_unstable();
    }
    Some(hosts)
}

struct Deal<'a> {
    grounds: &'a Grounds<'a>,
    in_zone: Vec<Vec<usize>>,
    room: Vec<u32>,
    /// The hosts of each shard so far.
    held: Vec<Vec<usize>>,
    /// The shards that each host got here; copies that stay are not among them.
    dealt: Vec<Vec<usize>>,
}

impl<'a> Deal<'a> {
    fn new(grounds: &'a Grounds<'a>, held: Vec<Vec<usize>>) -> Self {
        let mut in_zone = vec![Vec::new(); grounds.zones];
        grounds.hosts.iter().enumerate().for_each(|(host, of)| in_zone[of.zone].push(host));
        let mut room = rooms(grounds);
        held.iter().flatten().for_each(|&host| room[host] -= 1);
        Self { grounds, in_zone, room, held, dealt: vec![Vec::new(); grounds.hosts.len()] }
    }

    fn may_have(&self, shard: usize, host: usize) -> bool {
        host != self.grounds.nodes[self.grounds.serving[shard]].host && !self.held[shard].contains(&host)
    }

    /// One more copy of the shard.
    fn one(&mut self, shard: usize, zone: usize) -> Option<()> {
        let open = self.in_zone[zone].iter().copied().filter(|&host| self.room[host] > 0 && self.may_have(shard, host));
        let host = match open.max_by_key(|&host| (self.room[host], std::cmp::Reverse(host))) {
            Some(host) => host,
            None => self.make_room(shard, zone)?,
        };
        self.give(shard, host);
        Some(())
    }

    fn give(&mut self, shard: usize, host: usize) {
        self.room[host] -= 1;
        self.held[shard].push(host);
        self.dealt[host].push(shard);
    }

    fn take(&mut self, shard: usize, host: usize) {
        self.room[host] += 1;
        self.held[shard].retain(|held| *held != host);
        self.dealt[host].retain(|dealt| *dealt != shard);
    }

    /// A host for the shard that has room then, by the shortest path on which each shard goes from a host that is full to
    /// another one.
    fn make_room(&mut self, shard: usize, zone: usize) -> Option<usize> {
        let mut reached_by: Vec<Option<usize>> = vec![None; self.grounds.hosts.len()];
        // From which host a shard would go.
        let mut leaves: Vec<Option<usize>> = vec![None; self.grounds.shards.len()];
        let mut queue = vec![shard];
        let mut next = 0;
        while let Some(&mover) = queue.get(next) {
            next += 1;
            for &host in &self.in_zone[zone] {
                if reached_by[host].is_some() || !self.may_have(mover, host) {
                    continue;
                }
                reached_by[host] = Some(mover);
                if self.room[host] > 0 {
                    return Some(self.shift(shard, host, &reached_by, &leaves));
                }
                for &other in &self.dealt[host] {
                    if other != shard && leaves[other].is_none() {
                        leaves[other] = Some(host);
                        queue.push(other);
                    }
                }
            }
        }
        None
    }

    /// Moves everybody along the path that ends at a host with room; the host that `shard` gets.
    fn shift(&mut self, shard: usize, end: usize, by: &[Option<usize>], leaves: &[Option<usize>]) -> usize {
        let mut to = end;
        loop {
            let mover = by[to].expect("the path was walked");
            if mover == shard {
                return to;
            }
            let from = leaves[mover].expect("the path was walked");
            self.take(mover, from);
            self.give(mover, to);
            to = from;
        }
    }
}

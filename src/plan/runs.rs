//! The table as a linked list of runs, so that giving a run or the end of one away costs O(1).

/// No neighbour.
pub(super) const NONE: u32 = u32::MAX;

/// Consecutive slots with one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Who owns it in the plan so far.
    pub owner: u16,
    /// Its slots must not move.
    pub fixed: bool,
    /// Its first slot.
    pub first: u32,
    /// Number of slots; 0 once it was merged into a neighbour.
    pub len: u32,
    /// The run before it.
    pub prev: u32,
    /// The run after it.
    pub next: u32,
}

/// One end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The runs in slot order.
pub(super) struct Runs {
    runs: Vec<Run>,
    head: u32,
}

impl Runs {
    /// The maximal runs of equal `(owner, fixed)`.
    pub fn new(slots: impl Iterator<Item = (u16, bool)>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for (slot, (owner, fixed)) in (0_u32..).zip(slots) {
            match runs.last_mut() {
                Some(run) if (run.owner, run.fixed) == (owner, fixed) => run.len += 1,
                _ => {
                    let this = index(runs.len());
                    if let Some(run) = runs.last_mut() {
                        run.next = this;
                    }
                    let prev = this.wrapping_sub(1);
                    runs.push(Run { owner, fixed, first: slot, len: 1, prev, next: NONE });
                }
            }
        }
        let head = if runs.is_empty() { NONE } else { 0 };
        Self { runs, head }
    }

    /// The run with this index, alive or not.
    pub fn get(&self, run: u32) -> Run {
        self.runs[run as usize]
    }

    /// The run beside it, if there is one.
    pub fn beside(&self, run: u32, side: Side) -> Option<u32> {
        let neighbour = match side {
            Side::Left => self.runs[run as usize].prev,
            Side::Right => self.runs[run as usize].next,
        };
        (neighbour != NONE).then_some(neighbour)
    }

    /// Indexes of the runs that are alive, in no useful order.
    pub fn alive(&self) -> impl Iterator<Item = u32> + '_ {
        (0..index(self.runs.len())).filter(|&run| self.runs[run as usize].len > 0)
    }

    /// Indexes of the runs in slot order.
    pub fn in_order(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors((self.head != NONE).then_some(self.head), |&run| self.beside(run, Side::Right))
    }

    /// Gives a whole run to `owner`; the run it is part of afterwards.
    pub fn give_whole(&mut self, run: u32, owner: u16) -> u32 {
        self.runs[run as usize].owner = owner;
        if let Some(next) = self.beside(run, Side::Right).filter(|&next| self.get(next).owner == owner) {
            self.merge(run, next);
        }
        match self.beside(run, Side::Left).filter(|&prev| self.get(prev).owner == owner) {
            Some(prev) => {
                self.merge(prev, run);
                prev
            }
            None => run,
        }
    }

    /// Gives `count` slots at one end of a longer run to `owner`; the run they are part of afterwards.
    pub fn give_end(&mut self, run: u32, side: Side, count: u32, owner: u16) -> u32 {
        let old = self.get(run);
        assert!(0 < count && count < old.len, "an end is shorter than its run");
        self.runs[run as usize].len -= count;
        if side == Side::Left {
            self.runs[run as usize].first += count;
        }
        let beside = self.beside(run, side);
        if let Some(neighbour) = beside.filter(|&neighbour| self.get(neighbour).owner == owner) {
            self.runs[neighbour as usize].len += count;
            if side == Side::Right {
                self.runs[neighbour as usize].first -= count;
            }
            return neighbour;
        }
        self.insert_beside(run, side, old, count, owner)
    }

    fn insert_beside(&mut self, run: u32, side: Side, old: Run, count: u32, owner: u16) -> u32 {
        let inserted = index(self.runs.len());
        let (first, prev, next) = match side {
            Side::Left => (old.first, old.prev, run),
            Side::Right => (old.first + old.len - count, run, old.next),
        };
        self.runs.push(Run { owner, fixed: false, first, len: count, prev, next });
        match prev {
            NONE => self.head = inserted,
            prev => self.runs[prev as usize].next = inserted,
        }
        if next != NONE {
            self.runs[next as usize].prev = inserted;
        }
        inserted
    }

    /// Merges a run into the one before it.
    fn merge(&mut self, left: u32, right: u32) {
        let gone = self.get(right);
        self.runs[left as usize].len += gone.len;
        self.runs[left as usize].next = gone.next;
        if gone.next != NONE {
            self.runs[gone.next as usize].prev = left;
        }
        self.runs[right as usize].len = 0;
    }

    /// The owner of every slot.
    pub fn owners(&self, total: usize) -> Vec<u16> {
        let mut owners = vec![0; total];
        for run in self.runs.iter().filter(|run| run.len > 0) {
            owners[run.first as usize..(run.first + run.len) as usize].fill(run.owner);
        }
        owners
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("at most a few runs a slot")
}

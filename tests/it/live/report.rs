//! The table at the end of a proof: a line for each case, also of one that fails, in the file that `SLOTKEEPER_PROOF_REPORT`
//! names; and which cases are run of all there are.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::load::Size;

/// What a case has shown.
#[derive(Debug, Default)]
pub struct Shown {
    /// Slots that moved.
    pub slots: u64,
    /// How long the rollouts took.
    pub rollouts: Duration,
    /// Writes that were acknowledged while servers and controllers died.
    pub acked: u64,
    /// How often a rollout was blocked and told to go on.
    pub resumed: usize,
}

/// A case that is under way; told as failed when it ends by a panic.
pub struct Case {
    name: String,
    size: Size,
    begun: Instant,
    shown: Option<Shown>,
}

impl Case {
    pub fn begin(name: String, size: Size, (number, all): (usize, usize)) -> Self {
        println!("case {number} of {all}: {name}, {} keys …", size.keys);
        Self { name, size, begun: Instant::now(), shown: None }
    }

    /// Nothing is lost.
    pub fn held(mut self, shown: Shown) {
        self.shown = Some(shown);
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let (verdict, shown) = match self.shown.take() {
            Some(shown) => ("held", shown),
            None => ("FAILED", Shown::default()),
        };
        let line = format!(
            "{verdict:<7} {:<58} {:>7} keys {:>3} MB  {:>5} slots in {:>5.1} s  {:>8} writes  resumed {}  {:>6.1} s",
            self.name,
            self.size.keys,
            self.size.big_mb,
            shown.slots,
            shown.rollouts.as_secs_f64(),
            shown.acked,
            shown.resumed,
            self.begun.elapsed().as_secs_f64(),
        );
        println!("{line}");
        if let Some(path) = std::env::var_os("SLOTKEEPER_PROOF_REPORT") {
            let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the report can be written");
            writeln!(file, "{line}").expect("the report can be written");
        }
    }
}

/// The cases of this run: all, or every N-th from the K-th on with `SLOTKEEPER_PROOF_PART=K/N`; each with its number.
pub fn part<T>(cases: Vec<T>) -> (usize, Vec<(usize, T)>) {
    let all = cases.len();
    let text = std::env::var("SLOTKEEPER_PROOF_PART").unwrap_or_else(|_| "1/1".to_owned());
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    let (k, n) = parts.filter(|(k, n)| (1..=*n).contains(k)).unwrap_or_else(|| panic!("{text}: no part such as 2/6"));
    (all, (1..).zip(cases).filter(|(number, _)| number % n == k % n).collect())
}

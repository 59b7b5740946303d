//! What is known of each slot: keys, bytes, operations. Columns, because a planner looks at one of them at a time.

use super::{Instant, Invalid, LoadMetric, SLOT_COUNT, Slot, SlotSet};

/// Largest sum of a column: figures stay far from where products with weights and tolerances would overflow.
const TOTAL_MAX: u64 = (1 << 53) - 1;

/// Per-slot statistics of a cluster, as measured at one time. They are an input of a plan, never part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    taken_at: Option<Instant>,
    listed: SlotSet,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    metric: LoadMetric,
    total: u64,
    of: Vec<u64>,
}

impl Statistics {
    /// Older than this they are refused: 24 hours.
    pub const AGE_MAX_MS: u64 = 24 * 3_600_000;
    /// So far may the clock that measured be ahead: 5 minutes.
    pub const AHEAD_MAX_MS: u64 = 300_000;

    /// Statistics with these columns and no slot yet.
    ///
    /// # Errors
    /// [`Invalid`] when there is no column, or one twice.
    pub fn new(metrics: &[LoadMetric], taken_at: Option<Instant>) -> Result<Self, Invalid> {
        if metrics.is_empty() {
            return Err(Invalid::new("columns", "there is none of keys, bytes and ops"));
        }
        if let Some(twice) = (1..metrics.len()).find(|&i| metrics[..i].contains(&metrics[i])) {
            return Err(Invalid::new("columns", format!("{} is there twice", metrics[twice].as_str())));
        }
        let column = |&metric: &LoadMetric| Column { metric, total: 0, of: vec![0; SLOT_COUNT] };
        Ok(Self { taken_at, listed: SlotSet::new(), columns: metrics.iter().map(column).collect() })
    }

    /// When they were measured, where that is known.
    #[must_use]
    pub const fn taken_at(&self) -> Option<Instant> {
        self.taken_at
    }

    /// Says when they were measured.
    pub const fn set_taken_at(&mut self, at: Instant) {
        self.taken_at = Some(at);
    }

    /// Notes the figures of a slot, in the order of the columns.
    ///
    /// # Errors
    /// [`Invalid`] when the slot was noted before, or a column would add up to more than 2^53 − 1.
    pub fn add(&mut self, slot: Slot, figures: &[u64]) -> Result<(), Invalid> {
        assert_eq!(figures.len(), self.columns.len(), "one figure a column");
        if !self.listed.insert(slot) {
            return Err(Invalid::new("slot", format!("{slot} is listed twice")));
        }
        for (column, &figure) in self.columns.iter_mut().zip(figures) {
            let total = column.total.checked_add(figure).filter(|total| *total <= TOTAL_MAX).ok_or_else(|| {
                Invalid::new(column.metric.as_str(), format!("adds up to more than {TOTAL_MAX} with slot {slot}"))
            })?;
            (column.total, column.of[slot.index()]) = (total, figure);
        }
        Ok(())
    }

    /// One figure of every slot, 0 where none was noted; none without that column.
    #[must_use]
    pub fn of(&self, metric: LoadMetric) -> Option<&[u64]> {
        self.columns.iter().find(|column| column.metric == metric).map(|column| column.of.as_slice())
    }

    /// The columns, in their order.
    pub fn metrics(&self) -> impl Iterator<Item = LoadMetric> + '_ {
        self.columns.iter().map(|column| column.metric)
    }

    /// The slots that were noted.
    #[must_use]
    pub const fn listed(&self) -> &SlotSet {
        &self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_noted_once_and_columns_are_bounded() {
        let mut statistics = Statistics::new(&[LoadMetric::Keys, LoadMetric::Bytes], None).unwrap();
        statistics.add(Slot::at(3), &[1, TOTAL_MAX]).unwrap();
        let why = |result: Result<(), Invalid>| result.unwrap_err().to_string();
        assert!(why(statistics.add(Slot::at(3), &[0, 0])).contains("3 is listed twice"));
        assert!(why(statistics.add(Slot::at(4), &[0, 1])).contains("more than 9007199254740991 with slot 4"));
        assert_eq!(statistics.of(LoadMetric::Keys).unwrap()[3], 1);
        assert_eq!(statistics.of(LoadMetric::Ops), None);
        assert!(Statistics::new(&[], None).is_err());
        assert!(Statistics::new(&[LoadMetric::Ops, LoadMetric::Ops], None).is_err());
    }
}

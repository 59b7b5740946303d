//! Per-slot statistics as JSON, in a request or a file. Read strictly, with the place of every fault.

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;
use crate::domain::{Invalid, LoadMetric, Slot, SlotSet, Statistics};

/// What is known of each slot at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatisticsView {
    /// When it was measured.
    #[schema(value_type = String, format = DateTime)]
    pub taken_at: Timestamp,
    /// Every slot that has an owner, once, all with the same figures.
    #[serde(deserialize_with = "rows")]
    #[schema(max_items = 16384)]
    pub slots: Vec<SlotFigures>,
}

/// The figures of one slot: at least one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotFigures {
    /// The slot.
    #[schema(value_type = u16, maximum = 16383)]
    pub slot: Slot,
    /// Number of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
}

impl SlotFigures {
    fn of(&self, metric: LoadMetric) -> Option<u64> {
        match metric {
            LoadMetric::Keys => self.keys,
            LoadMetric::Bytes => self.bytes,
            LoadMetric::Ops => self.ops,
        }
    }

    fn metrics(&self) -> Vec<LoadMetric> {
        LoadMetric::ALL.into_iter().filter(|metric| self.of(*metric).is_some()).collect()
    }
}

/// Reads rows one by one, so that a fault is told with its line and column.
fn rows<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SlotFigures>, D::Error> {
    struct Rows;
    impl<'de> Visitor<'de> for Rows {
        type Value = Vec<SlotFigures>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of slots with their figures")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut rows: Vec<SlotFigures> = Vec::new();
            let mut seen = SlotSet::new();
            while let Some(row) = list.next_element::<SlotFigures>()? {
                // The line that the reader adds may be the one after the row.
                let fault =
                    |why: &str| Err(A::Error::custom(format!("slots[{}]: slot {} {why}", rows.len(), row.slot)));
                if !seen.insert(row.slot) {
                    return fault("is listed twice");
                }
                if row.metrics().is_empty() {
                    return fault("has none of keys, bytes and ops");
                }
                if rows.first().is_some_and(|first| first.metrics() != row.metrics()) {
                    return fault(&format!("has other figures than slot {}", rows[0].slot));
                }
                rows.push(row);
            }
            Ok(rows)
        }
    }
    from.deserialize_seq(Rows)
}

impl TryFrom<&StatisticsView> for Statistics {
    type Error = Invalid;
    fn try_from(view: &StatisticsView) -> Result<Self, Invalid> {
        let metrics = view.slots.first().map(SlotFigures::metrics).unwrap_or_default();
        let mut statistics = Self::new(&metrics, Some(view.taken_at.0))?;
        for row in &view.slots {
            let figures: Option<Vec<u64>> = metrics.iter().map(|metric| row.of(*metric)).collect();
            let complete = figures.filter(|figures| figures.len() == row.metrics().len());
            let figures = complete
                .ok_or_else(|| Invalid::new("slots", format!("slot {} has other figures than the first", row.slot)))?;
            statistics.add(row.slot, &figures)?;
        }
        Ok(statistics)
    }
}

impl StatisticsView {
    /// Statistics as they are sent; those without a time as taken at this one.
    #[must_use]
    pub fn new(statistics: &Statistics, otherwise: Timestamp) -> Self {
        let column = |metric| statistics.of(metric);
        let [keys, bytes, ops] = LoadMetric::ALL.map(column);
        let figure = |of: Option<&[u64]>, slot: Slot| of.map(|of| of[slot.index()]);
        let row = |slot: Slot| SlotFigures {
            slot,
            keys: figure(keys, slot),
            bytes: figure(bytes, slot),
            ops: figure(ops, slot),
        };
        let taken_at = statistics.taken_at().map_or(otherwise, Timestamp);
        Self { taken_at, slots: statistics.listed().iter().map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(slots: &str) -> String {
        let text = format!("{{\"taken_at\":\"2026-03-02T14:04:00Z\",\n\"slots\":[\n{slots}]}}");
        serde_json::from_str::<StatisticsView>(&text).unwrap_err().to_string()
    }

    #[test]
    fn faults_are_told_with_their_place() {
        for (slots, wanted) in [
            ("{\"slot\":1,\"keys\":1},\n{\"slot\":1,\"keys\":2}\n", "slots[1]: slot 1 is listed twice at line "),
            (
                "{\"slot\":1,\"keys\":1},\n{\"slot\":2,\"bytes\":2}\n",
                "slots[1]: slot 2 has other figures than slot 1 at line ",
            ),
            ("{\"slot\":1}\n", "slots[0]: slot 1 has none of keys, bytes and ops at line "),
            ("{\"slot\":16384,\"keys\":1}\n", "not in 0..=16383 at line 3"),
            ("{\"slot\":1,\"keys\":-1}\n", "invalid value: integer `-1`, expected u64 at line 3"),
            ("{\"slot\":1,\"keys\":1,\"hits\":1}\n", "unknown field `hits`"),
            ("{\"slot\":1,\"keys\":18446744073709551616}\n", "at line 3"),
        ] {
            let found = fault(slots);
            assert!(found.contains(wanted), "{found:?} for {slots:?}");
        }
    }

    #[test]
    fn there_and_back() {
        let text = r#"{"taken_at":"2026-03-02T14:04:00Z","slots":[{"slot":3,"bytes":7,"ops":0},{"slot":1,"bytes":0,"ops":2}]}"#;
        let view: StatisticsView = serde_json::from_str(text).unwrap();
        let statistics = Statistics::try_from(&view).unwrap();
        assert_eq!(statistics.of(LoadMetric::Bytes).unwrap()[3], 7);
        assert_eq!(statistics.of(LoadMetric::Keys), None);
        let again = StatisticsView::new(&statistics, Timestamp::default());
        assert_eq!(again.slots.iter().map(|row| row.slot.get()).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(Statistics::try_from(&again).unwrap(), statistics);
        let huge =
            r#"{"taken_at":"2026-03-02T14:04:00Z","slots":[{"slot":3,"bytes":9007199254740991},{"slot":4,"bytes":1}]}"#;
        let view: StatisticsView = serde_json::from_str(huge).unwrap();
        assert!(Statistics::try_from(&view).unwrap_err().to_string().contains("adds up to more than 9007199254740991"));
    }
}

//! Weekly times, in UTC, in which a rollout may start actions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Instant, Invalid};

/// Most windows of one policy.
pub const WINDOWS_MAX: usize = 32;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u32 = 24 * 60;
const WEEK_MINUTES: u32 = 7 * DAY_MINUTES;
const MINUTE_MS: u64 = 60_000;
/// 1970-01-01 was a Thursday.
const EPOCH_MINUTE: u64 = 3 * DAY_MINUTES as u64;

/// Written `mon-fri 22:00-06:00` or `sun 00:00-24:00`: on each of these days from the one time to the other, which is of
/// the next day when it is not later. The end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    /// Days from Monday, 0; both included, and beyond Sunday when the last is before the first.
    first_day: u8,
    last_day: u8,
    /// Minutes of the day, `0..1440`.
    from: u16,
    /// `1..=1440`.
    to: u16,
}

impl Window {
    /// First minutes of its spans, from the beginning of a week, and how long each is.
    fn spans(self) -> impl Iterator<Item = (u32, u32)> {
        let days = (u32::from(self.last_day) + 7 - u32::from(self.first_day)) % 7 + 1;
        let (from, to) = (u32::from(self.from), u32::from(self.to));
        let length = if to > from { to - from } else { to + DAY_MINUTES - from };
        (0..days).map(move |day| ((u32::from(self.first_day) + day) % 7 * DAY_MINUTES + from, length))
    }

    /// Whether it is open in this minute of the week.
    fn has(self, minute: u32) -> bool {
        self.spans().any(|(start, length)| (minute + WEEK_MINUTES - start) % WEEK_MINUTES < length)
    }
}

/// Whether actions may start now: always where there are no windows.
#[must_use]
pub fn is_open(windows: &[Window], now: Instant) -> bool {
    windows.is_empty() || windows.iter().any(|window| window.has(minute_of_week(now)))
}

/// When actions may start again; none when they may now.
#[must_use]
pub fn opens_at(windows: &[Window], now: Instant) -> Option<Instant> {
    if is_open(windows, now) {
        return None;
    }
    let minute = minute_of_week(now);
    let starts = windows.iter().flat_map(|window| window.spans()).map(|(start, _)| start);
    let minutes = starts.map(|start| (start + WEEK_MINUTES - minute) % WEEK_MINUTES).min()?;
    Some(Instant((now.0 / MINUTE_MS + u64::from(minutes)) * MINUTE_MS))
}

/// Whether the first are open only when the second are.
#[must_use]
pub fn are_within(inner: &[Window], outer: &[Window]) -> bool {
    let open = |windows: &[Window], minute| windows.is_empty() || windows.iter().any(|window| window.has(minute));
    (0..WEEK_MINUTES).all(|minute| !open(inner, minute) || open(outer, minute))
}

/// Minutes since Monday 00:00 UTC.
fn minute_of_week(now: Instant) -> u32 {
    let minute = (now.0 / MINUTE_MS % u64::from(WEEK_MINUTES) + EPOCH_MINUTE) % u64::from(WEEK_MINUTES);
    u32::try_from(minute).expect("less than a week")
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        f.write_str(DAYS[usize::from(self.first_day)])?;
        if self.last_day != self.first_day {
            write!(f, "-{}", DAYS[usize::from(self.last_day)])?;
        }
        write!(f, " {}-{}", time(self.from), time(self.to))
    }
}

impl FromStr for Window {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (days, times) = text.split_once(' ')?;
            let (first, last) = days.split_once('-').unwrap_or((days, days));
            let (from, to) = times.split_once('-')?;
            let window = Self { first_day: day(first)?, last_day: day(last)?, from: minutes(from)?, to: minutes(to)? };
            (u32::from(window.from) < DAY_MINUTES && window.to > 0 && window.from != window.to).then_some(window)
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(40).collect();
            Invalid::new("windows", format!("{shown:?} is not DAY[-DAY] HH:MM-HH:MM, such as \"mon-fri 22:00-06:00\""))
        })
    }
}

fn day(name: &str) -> Option<u8> {
    u8::try_from(DAYS.iter().position(|day| *day == name)?).ok()
}

/// `00:00` to `24:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute)?);
    (minute < 60 && hour * 60 + minute <= 24 * 60).then_some(hour * 60 + minute)
}

impl TryFrom<String> for Window {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(texts: &[&str]) -> Vec<Window> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Seconds since 1970 of moments whose weekday comes from `date -u`: 2026-03-02 was a Monday.
    const MONDAY: u64 = 1_772_409_600;

    fn at(day: u64, hour: u64, minute: u64) -> Instant {
        Instant((MONDAY + day * 86_400 + hour * 3600 + minute * 60) * 1000)
    }

    #[test]
    fn they_read_what_they_write_and_nothing_else() {
        for text in ["mon-fri 22:00-06:00", "sun 00:00-24:00", "sat-mon 09:30-09:31", "wed 23:59-00:01"] {
            assert_eq!(text.parse::<Window>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "mon",
            "mon 22:00",
            "Mon 22:00-23:00",
            "mon 22-23",
            "mon 24:00-01:00",
            "mon 01:00-24:01",
            "mon 01:60-02:00",
            "mon 1:00-02:00",
            "mon 02:00-02:00",
            "mon 02:00-00:00 ",
            "mon  02:00-03:00",
            "mon,tue 01:00-02:00",
            "day 01:00-02:00",
            "mon 10:00-00:00-",
            "mon +1:00-02:00",
            "mon 05:00-00:00",
        ] {
            assert!(bad.parse::<Window>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn they_are_open_from_the_first_minute_to_before_the_last() {
        let nights = windows(&["mon-fri 22:00-06:00"]);
        for (day, hour, minute, open) in [
            (0, 21, 59, false),
            (0, 22, 0, true),
            (1, 5, 59, true),
            (1, 6, 0, false),
            (4, 23, 0, true),
            (5, 5, 59, true),
            (5, 6, 0, false),
            (5, 22, 0, false),
            (6, 23, 0, false),
            (0, 5, 0, false),
            (7, 22, 0, true),
        ] {
            assert_eq!(is_open(&nights, at(day, hour, minute)), open, "{day} {hour}:{minute}");
        }
        let over_sunday = windows(&["sun 23:00-01:00", "sat-sun 10:00-11:00"]);
        assert!(is_open(&over_sunday, at(7, 0, 59)) && !is_open(&over_sunday, at(7, 1, 0)));
        assert!(is_open(&over_sunday, at(5, 10, 0)) && is_open(&over_sunday, at(6, 10, 59)));
        assert!(is_open(&[], at(3, 3, 3)));
    }

    #[test]
    fn they_tell_when_they_open() {
        let nights = windows(&["fri 22:00-24:00", "mon 01:00-02:00"]);
        assert_eq!(opens_at(&nights, at(0, 1, 30)), None);
        assert_eq!(opens_at(&nights, at(0, 2, 0)), Some(at(4, 22, 0)));
        assert_eq!(opens_at(&nights, Instant(at(4, 21, 59).0 + 59_999)), Some(at(4, 22, 0)));
        assert_eq!(opens_at(&nights, at(5, 0, 0)), Some(at(7, 1, 0)));
        assert_eq!(opens_at(&[], at(0, 0, 0)), None);
    }

    #[test]
    fn one_set_lies_within_another() {
        let (nights, late) = (windows(&["mon-fri 22:00-06:00"]), windows(&["tue 23:00-02:00"]));
        assert!(are_within(&late, &nights) && !are_within(&nights, &late));
        assert!(are_within(&nights, &[]) && !are_within(&[], &nights) && are_within(&[], &[]));
        assert!(are_within(&[], &windows(&["mon-sun 00:00-24:00"])));
        assert!(!are_within(&windows(&["sat 05:00-06:01"]), &nights));
    }
}

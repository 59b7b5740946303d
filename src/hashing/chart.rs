//! The chart of a comparison: keys moved, load of the nodes, and misses over time. Can be read without the text: titles, axes
//! with units, legends; colours of Okabe and Ito, for light and for dark.

use super::svg::{Anchor, Svg};
use crate::domain::{Comparison, Family, FamilyFigures, MissCurve, Outcome};

const WIDTH: i64 = 1000;
const ROW: i64 = 24;
const TOP: i64 = 132;
/// The bars of the left panel, the ranges of the right one, and the curves below.
const LEFT: (i64, i64) = (126, 508);
const RIGHT: (i64, i64) = (600, 960);
const BELOW: (i64, i64) = (118, 840);
const CURVE_HEIGHT: i64 = 220;

const STYLE: &str = "
text{font:13px system-ui,sans-serif;fill:#1b1b1b}
.title{font-size:20px;font-weight:600}.head{font-size:15px;font-weight:600}.dim{fill:#555}
.paper{fill:#fff}.band{fill:#f3f3f3}.grid{stroke:#cfcfcf;stroke-width:1}.axis{stroke:#555;stroke-width:1}
.least{stroke:#1b1b1b;stroke-width:2;stroke-dasharray:5 4}
.moved{fill:#0072b2}.above{fill:#d55e00}.heavy{fill:#d55e00}.light{fill:#56b4e9;stroke:#0072b2}
.span{stroke:#777;stroke-width:3}
.c0,.c1,.c2,.c3,.c4{fill:none;stroke-width:3}
.c0{stroke:#009e73}.c1{stroke:#d55e00;stroke-dasharray:9 4}.c2{stroke:#0072b2;stroke-dasharray:3 4}
.c3{stroke:#cc79a7;stroke-dasharray:12 4 3 4}.c4{stroke:#e69f00;stroke-dasharray:6 3}
@media (prefers-color-scheme:dark){
text{fill:#ececec}.dim{fill:#b4b4b4}.paper{fill:#161616}.band{fill:#222}.grid{stroke:#444}.axis{stroke:#aaa}
.least{stroke:#ececec}.moved{fill:#56b4e9}.span{stroke:#999}.c2{stroke:#56b4e9}
}
";

/// Draws a comparison.
#[must_use]
pub fn chart(comparison: &Comparison) -> String {
    let rows = i64::try_from(comparison.outcomes.len()).expect("few families");
    let bottom = TOP + rows * ROW;
    let curves_top = bottom + 130;
    let height = curves_top + CURVE_HEIGHT + 72;
    let title = format!("What this scale event costs: {}", comparison.event);
    let description = comparison.advice.last().map_or("", String::as_str);
    let mut svg = Svg::new(WIDTH, height, STYLE, &title, description);
    svg.text("title", Anchor::Start, (20, 34), "What one scale event costs under each hash family");
    let subtitle = format!(
        "{}  ·  {} keys, {} requests at {}/s",
        clipped(&comparison.event.replace("->", "→")),
        grouped(comparison.keys),
        grouped(comparison.requests),
        grouped(comparison.requests_per_second)
    );
    svg.text("dim", Anchor::Start, (20, 56), &subtitle);
    for (row, outcome) in (0..).zip(&comparison.outcomes) {
        let y = TOP + row * ROW;
        if row % 2 == 0 {
            svg.rect("band", 20, y, WIDTH - 40, ROW);
        }
        svg.text("name", Anchor::End, (LEFT.0 - 10, y + 17), outcome.family.as_str());
    }
    moves(&mut svg, comparison, bottom);
    balance(&mut svg, comparison, bottom);
    curves(&mut svg, comparison, curves_top);
    svg.finish()
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(79).chain(['…']).collect() }
}

fn figures(outcome: &Outcome) -> Option<&FamilyFigures> {
    outcome.figures.as_ref().ok()
}

/// `1 234 567`, with narrow no-break spaces.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A span of pixels for values from 0 to `top`.
#[derive(Clone, Copy)]
struct Scale {
    from: i64,
    to: i64,
    top: u64,
}

impl Scale {
    fn at(self, value: u64) -> i64 {
        let width = u128::try_from(self.to - self.from).expect("a span to the right");
        let offset = u128::from(value.min(self.top)) * width / u128::from(self.top.max(1));
        self.from + i64::try_from(offset).expect("within the span")
    }
}

/// The next of 1, 2, 5, 10, 20, ... times a unit.
fn round_step(least: u64) -> u64 {
    let mut unit = 1;
    loop {
        if let Some(step) = [1, 2, 5].map(|m| m * unit).into_iter().find(|&step| step >= least) {
            return step;
        }
        unit *= 10;
    }
}

fn moves(svg: &mut Svg, comparison: &Comparison, bottom: i64) {
    let ppm = |keys: u64| keys * 1_000_000 / comparison.keys.max(1);
    let most = comparison.outcomes.iter().filter_map(figures).map(|f| ppm(f.keys_moved)).max().unwrap_or(0);
    let step = round_step(most.max(1).div_ceil(5));
    let scale = Scale { from: LEFT.0, to: LEFT.1 - 60, top: step * most.max(1).div_ceil(step) };
    svg.text("head", Anchor::Start, (20, 92), "Keys moved");
    let least = ppm(comparison.least_keys);
    svg.rect("moved", LEFT.0, 104, 12, 12);
    svg.text("dim", Anchor::Start, (LEFT.0 + 18, 115), "as few as possible");
    svg.rect("above", LEFT.0 + 150, 104, 12, 12);
    svg.text("dim", Anchor::Start, (LEFT.0 + 168, 115), "more than that");
    svg.line("least", (LEFT.0 + 278, 110), (LEFT.0 + 302, 110));
    svg.text("dim", Anchor::Start, (LEFT.0 + 308, 115), "least possible");
    for tick in (0..=scale.top).step_by(usize::try_from(step).expect("small")) {
        let x = scale.at(tick);
        svg.line("grid", (x, TOP), (x, bottom));
        let decimals = usize::from(step < 10_000) + usize::from(step < 1000);
        svg.text("dim", Anchor::Middle, (x, bottom + 18), &percent(tick, decimals));
    }
    svg.text("dim", Anchor::Middle, (i64::midpoint(scale.from, scale.to), bottom + 38), "keys moved, % of all keys");
    let line = scale.at(least);
    for (row, outcome) in (0..).zip(&comparison.outcomes) {
        let y = TOP + row * ROW;
        let Some(figures) = figures(outcome) else {
            svg.text("dim", Anchor::Start, (LEFT.0 + 8, y + 17), "cannot carry this event");
            continue;
        };
        let moved = ppm(figures.keys_moved);
        let (needed, end) = (scale.at(moved.min(least)), scale.at(moved));
        svg.rect("moved", LEFT.0, y + 5, needed - LEFT.0, ROW - 10);
        svg.rect("above", needed, y + 5, end - needed, ROW - 10);
        let decimals = if moved < 100_000 { 2 } else { 1 };
        // Beside the line of the least possible, not across it.
        let x = if (end - 2..end + 60).contains(&line) { line + 6 } else { end + 6 };
        svg.text("value", Anchor::Start, (x, y + 17), &format!("{} %", percent(moved, decimals)));
    }
    svg.line("least", (line, TOP - 4), (line, bottom));
}

/// Millionths as percent.
fn percent(millionths: u64, decimals: usize) -> String {
    format!("{:.decimals$}", crate::domain::Millionths(millionths.saturating_mul(100)))
}

fn balance(svg: &mut Svg, comparison: &Comparison, bottom: i64) {
    let most = comparison.outcomes.iter().filter_map(figures).map(|f| f.balance.heaviest.0).max().unwrap_or(0);
    let most = most.clamp(1_000_000, 100_000_000);
    let step = round_step(most.div_ceil(5));
    let scale = Scale { from: RIGHT.0, to: RIGHT.1 - 60, top: step * most.div_ceil(step) };
    svg.text("head", Anchor::Start, (RIGHT.0 - 40, 92), "Load of the nodes after it");
    svg.circle("light", (RIGHT.0 - 34, 110), 5);
    svg.text("dim", Anchor::Start, (RIGHT.0 - 24, 115), "lightest");
    svg.circle("heavy", (RIGHT.0 + 48, 110), 6);
    svg.text("dim", Anchor::Start, (RIGHT.0 + 59, 115), "heaviest node");
    svg.line("least", (RIGHT.0 + 160, 110), (RIGHT.0 + 184, 110));
    svg.text("dim", Anchor::Start, (RIGHT.0 + 190, 115), "its share (ideal)");
    for tick in (0..=scale.top).step_by(usize::try_from(step).expect("small")) {
        let x = scale.at(tick);
        svg.line("grid", (x, TOP), (x, bottom));
        let decimals = usize::from(step < 1_000_000) + usize::from(step < 100_000);
        let label = format!("{:.decimals$}", crate::domain::Millionths(tick));
        svg.text("dim", Anchor::Middle, (x, bottom + 18), &label);
    }
    let label = "keys of a node over its fair share";
    svg.text("dim", Anchor::Middle, (i64::midpoint(scale.from, scale.to), bottom + 38), label);
    let ideal = scale.at(1_000_000);
    svg.line("least", (ideal, TOP - 4), (ideal, bottom));
    for (row, outcome) in (0..).zip(&comparison.outcomes) {
        let Some(figures) = figures(outcome) else { continue };
        let y = TOP + row * ROW + ROW / 2;
        let (light, heavy) = (scale.at(figures.balance.lightest.0), scale.at(figures.balance.heaviest.0));
        svg.line("span", (light, y), (heavy, y));
        svg.circle("light", (light, y), 5);
        svg.circle("heavy", (heavy, y), 6);
        svg.text("value", Anchor::Start, (heavy + 12, y + 5), &format!("{:.2}", figures.balance.heaviest));
    }
}

/// The curves that tell most: fixed slots, the highest, the lowest of the others, and some between.
fn chosen(comparison: &Comparison) -> Vec<(Family, &MissCurve)> {
    let mut all: Vec<(Family, &MissCurve)> =
        comparison.outcomes.iter().filter_map(|o| Some((o.family, &figures(o)?.misses))).collect();
    all.sort_by_key(|(family, curve)| (*family != Family::Slots, std::cmp::Reverse(curve.peak_per_second), *family));
    if all.len() <= 5 {
        return all;
    }
    let last = all.len() - 1;
    [0, 1, 2, usize::midpoint(2, last), last].into_iter().map(|index| all[index]).collect()
}

fn curves(svg: &mut Svg, comparison: &Comparison, top: i64) {
    let bottom = top + CURVE_HEIGHT;
    let curves = chosen(comparison);
    svg.text("head", Anchor::Start, (20, top - 44), "Cache misses that the source behind has to bear");
    let pace = format!(
        "the event starts at 0 s; slots are moved at {} a second, every other family changes at once",
        comparison.slots_per_second
    );
    svg.text("dim", Anchor::Start, (20, top - 24), &pace);
    let most = curves.iter().map(|(_, curve)| curve.peak_per_second).max().unwrap_or(0).max(1);
    let decades = u64::from(most.ilog10()) + 1;
    let height = u64::try_from(CURVE_HEIGHT).expect("positive");
    let y_of = |per_second: u64| {
        let offset = log10_thousandths(per_second) * height / (decades * 1000);
        bottom - i64::try_from(offset).expect("within the panel")
    };
    for decade in 0..=decades {
        let value = 10_u64.pow(u32::try_from(decade).expect("few decades"));
        svg.line("grid", (BELOW.0, y_of(value)), (BELOW.1, y_of(value)));
        svg.text("dim", Anchor::End, (BELOW.0 - 10, y_of(value) + 5), &grouped(value));
    }
    svg.upright("dim", (36, i64::midpoint(top, bottom)), "misses per second (log)");
    let span_ms = curves.first().map_or(1000, |(_, curve)| curve.step_ms * curve.misses.len() as u64);
    let scale = Scale { from: BELOW.0, to: BELOW.1, top: span_ms };
    let step = round_step(span_ms.div_ceil(8).max(1000));
    for tick in (0..=span_ms).step_by(usize::try_from(step).expect("small")) {
        svg.line("axis", (scale.at(tick), bottom), (scale.at(tick), bottom + 5));
        svg.text("dim", Anchor::Middle, (scale.at(tick), bottom + 22), &(tick / 1000).to_string());
    }
    svg.line("axis", (BELOW.0, bottom), (BELOW.1, bottom));
    svg.text("dim", Anchor::Middle, (i64::midpoint(BELOW.0, BELOW.1), bottom + 44), "seconds after the event begins");
    for (index, (family, curve)) in (0_u64..).zip(&curves) {
        let class = format!("c{index}");
        let points: Vec<(i64, i64)> = (0_u64..)
            .zip(&curve.misses)
            .map(|(step, misses)| (scale.at(step * curve.step_ms + curve.step_ms / 2), misses * 1000 / curve.step_ms))
            .map(|(x, per_second)| (x, y_of(per_second)))
            .collect();
        svg.polyline(&class, &points);
        let y = top + 14 + i64::try_from(index).expect("few") * 26;
        svg.line(&class, (BELOW.1 + 16, y - 5), (BELOW.1 + 46, y - 5));
        svg.text("name", Anchor::Start, (BELOW.1 + 52, y), family.as_str());
    }
}

/// 1000 · log10(n) by squaring: whole numbers, the same everywhere; 0 for 0.
fn log10_thousandths(number: u64) -> u64 {
    if number <= 1 {
        return 0;
    }
    let whole = u64::from(number.ilog2());
    // The mantissa in [1, 2) as 2³¹-ths, squared for one more binary digit of the logarithm each time.
    let mut mantissa = (u128::from(number) << 31) >> whole;
    let mut log2 = whole;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        log2 <<= 1;
        if mantissa >= 1 << 32 {
            mantissa >>= 1;
            log2 |= 1;
        }
    }
    // log10(2) = 0.30103.
    (log2 * 30_103 / 100) >> 16
}

//! Writes SVG by hand: a few shapes, whole pixels, every text escaped.

use std::fmt::Write as _;

/// A drawing.
#[derive(Debug)]
pub(super) struct Svg {
    out: String,
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    /// Opens a drawing with a title and a description for those who do not see it.
    pub(super) fn new(width: i64, height: i64, style: &str, title: &str, description: &str) -> Self {
        let mut svg = Self { out: String::new() };
        let _ = write!(
            svg.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" aria-labelledby=\"title description\">\n<title id=\"title\">{}</title>\n<desc \
             id=\"description\">{}</desc>\n<style>{style}</style>\n",
            escape(title),
            escape(description)
        );
        svg.rect("paper", 0, 0, width, height);
        svg
    }

    pub(super) fn rect(&mut self, class: &str, x: i64, y: i64, width: i64, height: i64) {
        let _ = writeln!(
            self.out,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"/>",
            width.max(0),
            height.max(0)
        );
    }

    pub(super) fn line(&mut self, class: &str, from: (i64, i64), to: (i64, i64)) {
        let _ = writeln!(
            self.out,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub(super) fn circle(&mut self, class: &str, center: (i64, i64), radius: i64) {
        let _ =
            writeln!(self.out, "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>", center.0, center.1);
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(i64, i64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let _ = writeln!(self.out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, at: (i64, i64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = at;
        let _ = writeln!(
            self.out,
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\">{}</text>",
            escape(text)
        );
    }

    /// A text from bottom to top, around its middle.
    pub(super) fn upright(&mut self, class: &str, at: (i64, i64), text: &str) {
        let (x, y) = at;
        let _ = writeln!(
            self.out,
            "<text class=\"{class}\" text-anchor=\"middle\" transform=\"translate({x} {y}) rotate(-90)\">{}</text>",
            escape(text)
        );
    }

    /// The document.
    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// Text as XML text or attribute: what XML cannot hold becomes U+FFFD.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

//! Where output goes: data to stdout, everything else to stderr. Never panics on a closed pipe, never prints a control
//! character it was given.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::fault::Fault;
use super::plan::Names;

/// Columns that lines for people keep within.
pub const WIDTH: usize = 94;

/// Form of the data on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people, within 94 columns
    #[default]
    Table,
    /// For people, nothing shortened
    Wide,
    /// One JSON document
    Json,
    /// One JSON document a line
    Jsonl,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment asks for no color
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Color {
    /// Whether stdout gets colours.
    #[must_use]
    pub fn on_stdout(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        }
    }
}

/// Output of one command.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Form of the data.
    pub format: Format,
    /// Whether to colour.
    pub color: bool,
    /// No notes.
    pub quiet: bool,
}

impl Output {
    /// Whether the data is for people.
    #[must_use]
    pub const fn is_for_people(self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    /// Writes text to stdout.
    ///
    /// # Errors
    /// When it cannot be written.
    #[expect(clippy::unused_self, reason = "data goes through the output, whatever its form")]
    pub fn text(self, text: &str) -> Result<(), Fault> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            stdout.write_all(b"\n")?;
        }
        Ok(stdout.flush()?)
    }

    /// Writes sentences to stdout, with the long ids in them [`Self::shortened`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sentences(self, text: &str) -> Result<(), Fault> {
        self.text(&self.shortened(text))
    }

    /// Sentences with their long ids cut to what tells them apart, unless everything is to be whole. What is to be done stays
    /// as it is: it is typed.
    #[must_use]
    pub fn shortened(self, text: &str) -> String {
        if self.format == Format::Wide {
            return text.to_owned();
        }
        let names = Names::within([text]);
        let line =
            |line: &str| if line.trim_start().starts_with("do: ") { line.to_owned() } else { names.shorten(line) };
        text.split_inclusive('\n').map(line).collect()
    }

    /// Writes one value as JSON to stdout.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json(self, value: &impl Serialize) -> Result<(), Fault> {
        let text = if self.format == Format::Jsonl {
            serde_json::to_string(value)
        } else {
            serde_json::to_string_pretty(value)
        };
        self.text(&text.map_err(|fault| Fault::error(fault.to_string()))?)
    }

    /// Writes values to stdout: one array, or one a line.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn json_list<T: Serialize>(self, values: &[T]) -> Result<(), Fault> {
        if self.format == Format::Jsonl {
            values.iter().try_for_each(|value| self.json(value))
        } else {
            self.json(&values)
        }
    }

    /// A remark on stderr.
    pub fn note(self, text: &str) {
        if !self.quiet {
            warn_line(text);
        }
    }

    /// Colours a word when colours are on.
    #[must_use]
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("\u{1b}[{}m{text}\u{1b}[0m", style as u8) } else { text.to_owned() }
    }
}

/// What a colour means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Style {
    /// To be looked at first.
    Bold = 1,
    /// Wrong.
    Bad = 31,
    /// As it should be.
    Good = 32,
    /// Worth reading.
    Warn = 33,
}

/// A line on stderr; a closed stderr is nothing to fail for.
pub fn warn_line(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escape_lines(text));
}

/// The text in lines of at most `room` characters, broken at spaces where there are some. At least one line.
#[must_use]
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let room = room.max(20);
    let mut lines = vec![String::new()];
    for word in text.replace(" %", "\u{a0}%").split(' ') {
        // A number and its unit stay in one line.
        let mut word: Vec<char> = word.replace('\u{a0}', " ").chars().collect();
        loop {
            let line = lines.last_mut().expect("never empty");
            let used = line.chars().count() + usize::from(!line.is_empty());
            if used + word.len() <= room {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.extend(&word);
                break;
            }
            if line.is_empty() {
                line.extend(word.drain(..room));
            }
            lines.push(String::new());
        }
    }
    lines
}

/// `1 shard`, `3 shards`.
#[must_use]
pub fn counted(number: impl Into<u64>, noun: &str) -> String {
    let number: u64 = number.into();
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Text from elsewhere, safe to print on one line: control, formatting and bidi characters escaped.
#[must_use]
pub fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

fn escape_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

/// Control characters, and those that change how the text around them is shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hides_nothing() {
        assert_eq!(escape("a\u{1b}[31mb\r\n\u{202e}c"), "a\\u{1b}[31mb\\r\\n\\u{202e}c");
        assert_eq!(escape("shard-é {cart:eu}"), "shard-é {cart:eu}");
    }
}

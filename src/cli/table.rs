//! Plain tables: columns two spaces apart, numbers to the right, nothing drawn.

use std::fmt::Write as _;

use super::output::escape;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    right: bool,
}

/// A column of words.
#[must_use]
pub const fn left(name: &'static str) -> Column {
    Column { name, right: false }
}

/// A column of numbers.
#[must_use]
pub const fn right(name: &'static str) -> Column {
    Column { name, right: true }
}

/// Rows under a heading, as text with a line end after each; every cell escaped.
#[must_use]
pub fn render(columns: &[Column], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()).collect();
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([columns[i].name.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = line(columns, &widths, columns.iter().map(|column| column.name));
    for row in &rows {
        text += &line(columns, &widths, row.iter().map(String::as_str));
    }
    text
}

/// Remarks, a line each.
#[must_use]
pub fn notes(notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        text.extend(["  note: ", &escape(note), "\n"]);
    }
    text
}

fn line<'a>(columns: &[Column], widths: &[usize], cells: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for ((cell, column), &width) in cells.zip(columns).zip(widths) {
        if !text.is_empty() {
            text += "  ";
        }
        let _ = if column.right { write!(text, "{cell:>width$}") } else { write!(text, "{cell:<width$}") };
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "5".to_owned()], vec!["shard\t".to_owned(), "16384".to_owned()]];
        assert_eq!(render(&[left("ID"), right("SLOTS")], &rows), "ID       SLOTS\na            5\nshard\\t  16384\n");
    }
}

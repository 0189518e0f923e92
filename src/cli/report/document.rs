//! What a report says, without how it is written: sections of paragraphs, lists, tables and figures.
//!
//! Whatever comes from a capture goes through [`shown`], which bounds it and makes its control characters visible.

/// A report.
pub(super) struct Document {
    pub(super) title: String,
    /// What it comes to, the most important first.
    pub(super) summary: Vec<Line>,
    pub(super) sections: Vec<Section>,
}

/// A section with a place to link to.
pub(super) struct Section {
    pub(super) anchor: &'static str,
    pub(super) title: &'static str,
    pub(super) blocks: Vec<Block>,
}

/// A part of a section.
pub(super) enum Block {
    Heading(Line),
    Paragraph(Line),
    List(Vec<Line>),
    Table(Table),
    Figure(Figure),
    /// Blocks that are folded away under a title.
    Folded(Line, Vec<Block>),
    /// Text as it is, line by line.
    Verbatim(String),
}

/// A table; every row has a cell per column.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Line>>,
}

/// A column by its name.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Whether it is of numbers, which stand below each other.
    pub(super) is_number: bool,
}

/// A plot.
pub(super) struct Figure {
    pub(super) title: String,
    /// What it shows, which also stands in place of it.
    pub(super) says: String,
    /// What its marks mean, and how many there are.
    pub(super) legend: String,
    /// The marks it is made of.
    pub(super) drawing: String,
}

/// A run of text.
#[derive(Clone, Default)]
pub(super) struct Line(pub(super) Vec<Span>);

/// Text of one kind.
#[derive(Clone)]
pub(super) enum Span {
    Text(String),
    /// A name, a value or an expression: what is recorded is always of this kind.
    Code(String),
    Strong(String),
}

impl Line {
    pub(super) fn text(self, text: impl Into<String>) -> Self {
        self.with(Span::Text(text.into()))
    }

    pub(super) fn code(self, text: impl Into<String>) -> Self {
        self.with(Span::Code(text.into()))
    }

    pub(super) fn strong(self, text: impl Into<String>) -> Self {
        self.with(Span::Strong(text.into()))
    }

    /// It without what sets its parts apart.
    pub(super) fn plain(&self) -> String {
        let text = |span: &Span| match span {
            Span::Text(text) | Span::Code(text) | Span::Strong(text) => text.clone(),
        };
        self.0.iter().map(text).collect()
    }

    fn with(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }
}

/// A line of text alone.
pub(super) fn text(text: impl Into<String>) -> Line {
    Line::default().text(text)
}

/// A line of recorded text alone.
pub(super) fn code(text: impl Into<String>) -> Line {
    Line::default().code(text)
}

/// A line that begins with a strong word.
pub(super) fn strong(text: impl Into<String>) -> Line {
    Line::default().strong(text)
}

/// Columns by their names; those that begin with `#` are of numbers.
pub(super) fn columns(names: &[&'static str]) -> Vec<Column> {
    let column = |name: &&'static str| match name.strip_prefix('#') {
        Some(name) => Column { name, is_number: true },
        None => Column { name, is_number: false },
    };
    names.iter().map(column).collect()
}

/// `1 step`, `2 steps`.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Characters of one recorded text that are shown.
const MOST_SHOWN: usize = 300;

/// A recorded text with nothing in it that cannot be seen, and a bound on its length.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(MOST_SHOWN) {
        if is_unseen(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    let more = text.chars().count().saturating_sub(MOST_SHOWN);
    if more > 0 {
        shown.push_str(&format!("... ({more} more characters)"));
    }
    shown
}

/// Whether a character is a control character, or one that changes how those around it are laid out.
pub(super) fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_made_visible_and_long_texts_end() {
        assert_eq!(shown("a\nb\0\u{202e}c <d>"), "a\\nb\\u{0}\\u{202e}c <d>");
        let long = shown(&"x".repeat(1000));
        assert!(long.ends_with("xx... (700 more characters)"), "{long}");
        assert_eq!(long.chars().filter(|character| *character == 'x').count(), 300);
    }
}

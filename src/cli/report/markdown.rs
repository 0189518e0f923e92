//! A report as GitHub Markdown, without the drawings.

use std::fmt::{self, Display, Write as _};

use super::document::{Block, Document, Line, Section, Span, Table, is_unseen};

/// The whole file.
pub(super) fn markdown(document: &Document) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, document);
    page
}

fn write_page(page: &mut String, document: &Document) -> fmt::Result {
    writeln!(page, "# {}\n", Escaped(&document.title))?;
    for line in &document.summary {
        writeln!(page, "{}\n", Inline(line))?;
    }
    for Section { title, blocks, .. } in &document.sections {
        writeln!(page, "## {}\n", Escaped(title))?;
        blocks.iter().try_for_each(|block| write_block(page, block))?;
    }
    writeln!(page, "Written by stepscope {}.", env!("CARGO_PKG_VERSION"))
}

fn write_block(page: &mut String, block: &Block) -> fmt::Result {
    match block {
        Block::Heading(line) => writeln!(page, "### {}\n", Inline(line)),
        Block::Paragraph(line) => writeln!(page, "{}\n", Inline(line)),
        Block::List(lines) => {
            lines.iter().try_for_each(|line| writeln!(page, "- {}", Inline(line)))?;
            writeln!(page)
        }
        Block::Table(table) => write_table(page, table),
        Block::Figure(figure) => writeln!(page, "**{}.** {}\n", Escaped(&figure.title), Escaped(&figure.says)),
        Block::Folded(title, blocks) => {
            writeln!(page, "<details><summary>{}</summary>\n", Inline(title))?;
            blocks.iter().try_for_each(|block| write_block(page, block))?;
            writeln!(page, "</details>\n")
        }
        Block::Verbatim(text) => {
            let text = visible(text, |character| character == '\n');
            let fence = "`".repeat(longest_run(&text).max(2) + 1);
            writeln!(page, "{fence}text\n{}\n{fence}\n", text.trim_end())
        }
    }
}

fn write_table(page: &mut String, table: &Table) -> fmt::Result {
    table.columns.iter().try_for_each(|column| write!(page, "| {} ", Escaped(column.name)))?;
    writeln!(page, "|")?;
    table.columns.iter().try_for_each(|column| page.write_str(if column.is_number { "|--:" } else { "|---" }))?;
    writeln!(page, "|")?;
    for row in &table.rows {
        row.iter().try_for_each(|cell| write!(page, "| {} ", InCell(cell)))?;
        writeln!(page, "|")?;
    }
    writeln!(page)
}

/// Text that stands for itself, is no link and calls nobody.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.0.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '#' | '~' | '$' => {
                    write!(formatter, "\\{character}")?;
                }
                '|' => formatter.write_str("&#124;")?,
                // Names and addresses are looked for in what is rendered, where a backslash is no more.
                '@' => formatter.write_str("@<!-- -->")?,
                ':' if characters.peek() == Some(&'/') => formatter.write_str(":<!-- -->")?,
                unseen if is_unseen(unseen) => write!(formatter, "{}", Escaped(&unseen.escape_default().to_string()))?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A run of text.
struct Inline<'a>(&'a Line);

impl Display for Inline<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Line(spans)) = self;
        spans.iter().try_for_each(|span| match span {
            Span::Text(text) => write!(formatter, "{}", Escaped(text)),
            Span::Strong(text) => write!(formatter, "**{}**", Escaped(text)),
            Span::Code(text) if text.is_empty() => Ok(()),
            Span::Code(text) => code(formatter, text),
        })
    }
}

/// A run of text in a cell of a table, which a bar would end, even one in a code span.
struct InCell<'a>(&'a Line);

impl Display for InCell<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Line(spans)) = self;
        spans.iter().try_for_each(|span| match span {
            Span::Code(text) if text.contains('|') => write!(formatter, "<code>{}</code>", Escaped(text)),
            span => write!(formatter, "{}", Inline(&Line(vec![span.clone()]))),
        })
    }
}

/// A code span, in more backticks than it has in a row.
fn code(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let visible = visible(text, |_| false);
    let fence = "`".repeat(longest_run(&visible) + 1);
    // One space on either side is taken away again.
    let is_bare = !visible.starts_with(['`', ' ']) && !visible.ends_with(['`', ' ']);
    let space = if is_bare { "" } else { " " };
    write!(formatter, "{fence}{space}{visible}{space}{fence}")
}

/// A text without characters that cannot be seen, but for those that are `kept`.
fn visible(text: &str, kept: impl Fn(char) -> bool) -> String {
    let mut visible = String::new();
    for character in text.chars() {
        match is_unseen(character) && !kept(character) {
            true => visible.extend(character.escape_default()),
            false => visible.push(character),
        }
    }
    visible
}

/// Backticks in a row, at most.
fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::document::{code, columns, text};
    use super::*;

    #[test]
    fn recorded_text_stays_in_its_code_span() {
        for (recorded, written) in [
            ("plain", "`plain`"),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("<script>@you</script>", "`<script>@you</script>`"),
            ("two\nlines", "`two\\nlines`"),
        ] {
            assert_eq!(Inline(&code(recorded)).to_string(), written);
        }
    }

    #[test]
    fn text_is_no_markup_and_cells_stay_cells() {
        assert_eq!(Inline(&text("a_b <i> @c 1|2 *")).to_string(), "a\\_b \\<i\\> @<!-- -->c 1&#124;2 \\*");
        let table = Table { columns: columns(&["a", "#b"]), rows: vec![vec![code("x|y"), text("1|2")]] };
        let mut page = String::new();
        write_table(&mut page, &table).unwrap();
        assert_eq!(page, "| a | b |\n|---|--:|\n| <code>x&#124;y</code> | 1&#124;2 |\n\n");
    }

    #[test]
    fn a_fence_in_a_text_does_not_end_it() {
        let mut page = String::new();
        write_block(&mut page, &Block::Verbatim("a\n````\n<b>\n".to_owned())).unwrap();
        assert_eq!(page, "`````text\na\n````\n<b>\n`````\n\n");
    }
}

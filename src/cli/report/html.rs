//! A report as one HTML file: no scripts, nothing that is loaded, light and dark.

use std::fmt::{self, Display, Write as _};

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use super::document::{Block, Document, Figure, Line, Section, Span, Table, is_unseen};

const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded or run, whatever a capture says: the page's own style is known by its hash.
fn policy(style: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{hash}'")
}

/// Text that stands for itself, in an element or in a quoted attribute.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                '\n' => formatter.write_char('\n')?,
                unseen if is_unseen(unseen) => write!(formatter, "{}", unseen.escape_default())?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The whole file.
pub(super) fn html(document: &Document) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, document);
    page
}

fn write_page(page: &mut String, document: &Document) -> fmt::Result {
    let title = Escaped(&document.title);
    let style = format!("\n{STYLE}");
    writeln!(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(page, "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", Escaped(&policy(&style)))?;
    writeln!(page, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(page, "<meta name=\"color-scheme\" content=\"light dark\">")?;
    writeln!(page, "<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>")?;
    writeln!(page, "<header>\n<h1>{title}</h1>")?;
    for (index, line) in document.summary.iter().enumerate() {
        let class = if index == 0 { " class=\"lead\"" } else { "" };
        writeln!(page, "<p{class}>{}</p>", Inline(line))?;
    }
    writeln!(page, "<nav aria-label=\"Sections\">\n<ol>")?;
    for Section { anchor, title, .. } in &document.sections {
        writeln!(page, "<li><a href=\"#{}\">{}</a></li>", Escaped(anchor), Escaped(title))?;
    }
    writeln!(page, "</ol>\n</nav>\n</header>\n<main>")?;
    for Section { anchor, title, blocks } in &document.sections {
        let anchor = Escaped(anchor);
        writeln!(page, "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-title\">")?;
        writeln!(page, "<h2 id=\"{anchor}-title\"><a href=\"#{anchor}\">{}</a></h2>", Escaped(title))?;
        blocks.iter().try_for_each(|block| write_block(page, block))?;
        writeln!(page, "</section>")?;
    }
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page, "</main>\n<footer><p>Written by stepscope {version}.</p></footer>\n</body>\n</html>")
}

fn write_block(page: &mut String, block: &Block) -> fmt::Result {
    match block {
        Block::Heading(line) => writeln!(page, "<h3>{}</h3>", Inline(line)),
        Block::Paragraph(line) => writeln!(page, "<p>{}</p>", Inline(line)),
        Block::List(lines) => {
            writeln!(page, "<ul>")?;
            lines.iter().try_for_each(|line| writeln!(page, "<li>{}</li>", Inline(line)))?;
            writeln!(page, "</ul>")
        }
        Block::Table(table) => write_table(page, table),
        Block::Figure(figure) => write_figure(page, figure),
        Block::Folded(title, blocks) => {
            writeln!(page, "<details>\n<summary>{}</summary>", Inline(title))?;
            blocks.iter().try_for_each(|block| write_block(page, block))?;
            writeln!(page, "</details>")
        }
        Block::Verbatim(text) => writeln!(page, "<pre tabindex=\"0\">{}</pre>", Escaped(text)),
    }
}

fn write_table(page: &mut String, table: &Table) -> fmt::Result {
    let class = |index: usize| match table.columns.get(index).is_some_and(|column| column.is_number) {
        true => " class=\"number\"",
        false => "",
    };
    writeln!(page, "<div class=\"scroll\">\n<table>\n<thead>\n<tr>")?;
    for (index, column) in table.columns.iter().enumerate() {
        writeln!(page, "<th scope=\"col\"{}>{}</th>", class(index), Escaped(column.name))?;
    }
    writeln!(page, "</tr>\n</thead>\n<tbody>")?;
    for row in &table.rows {
        write!(page, "<tr>")?;
        for (index, cell) in row.iter().enumerate() {
            write!(page, "<td{}>{}</td>", class(index), Inline(cell))?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</tbody>\n</table>\n</div>")
}

fn write_figure(page: &mut String, figure: &Figure) -> fmt::Result {
    writeln!(page, "<figure>\n<h3>{}</h3>\n{}", Escaped(&figure.title), figure.drawing)?;
    let (says, legend) = (Escaped(&figure.says), Escaped(&figure.legend));
    writeln!(page, "<figcaption>{says} {legend}</figcaption>\n</figure>")
}

/// A run of text in its elements.
struct Inline<'a>(&'a Line);

impl Display for Inline<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Line(spans)) = self;
        spans.iter().try_for_each(|span| match span {
            Span::Text(text) => write!(formatter, "{}", Escaped(text)),
            Span::Code(text) => write!(formatter, "<code>{}</code>", Escaped(text)),
            Span::Strong(text) => write!(formatter, "<strong>{}</strong>", Escaped(text)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_element() {
        let hostile = "</code><script>alert(\"1\")</script>'&amp;\u{202e}\0";
        let escaped = Escaped(hostile).to_string();
        assert_eq!(
            escaped,
            "&lt;/code&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;amp;\\u{202e}\\u{0}"
        );
        let line = Line::default().text("a < b ").code(hostile).strong("<b>");
        assert_eq!(Inline(&line).to_string(), format!("a &lt; b <code>{escaped}</code><strong>&lt;b&gt;</strong>"));
    }
}

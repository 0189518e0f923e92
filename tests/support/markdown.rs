//! Reads GitHub Markdown as far as code and tables go.

/// Markdown without its fences and code spans, as CommonMark reads them.
pub fn without_code(markdown: &str) -> String {
    let mut text = String::new();
    let mut fence: Option<String> = None;
    for line in markdown.lines() {
        let ticks: String = line.chars().take_while(|character| *character == '`').collect();
        match &fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 && !line[ticks.len()..].contains('`') => fence = Some(ticks),
            None => text.push_str(&format!("{}\n", without_spans(line))),
        }
    }
    assert_eq!(fence, None, "a fence is never closed");
    text
}

fn without_spans(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find('`') {
        let (before, code) = rest.split_at(begin);
        text.push_str(before);
        if before.ends_with('\\') {
            text.push('`');
            rest = &code[1..];
            continue;
        }
        let length = code.len() - code.trim_start_matches('`').len();
        let inner = &code[length..];
        let mut from = 0;
        let end = loop {
            let Some(tick) = inner[from..].find('`').map(|tick| from + tick) else { break None };
            let run = inner[tick..].len() - inner[tick..].trim_start_matches('`').len();
            if run == length {
                break Some(tick + run);
            }
            from = tick + run;
        };
        let Some(end) = end else { panic!("a code span is never closed: {line}") };
        text.push_str("CODE");
        rest = &inner[end..];
    }
    text + rest
}

/// The rows of a table have as many cells as its head.
pub fn assert_tables(markdown: &str) {
    let mut cells = None;
    for line in markdown.lines() {
        if !line.starts_with('|') {
            cells = None;
            continue;
        }
        let found = line.matches('|').count();
        assert_eq!(*cells.get_or_insert(found), found, "{line}");
    }
}

#[test]
fn code_is_told_from_text() {
    assert_eq!(without_code("a `b` ``c`d`` e\\`f\n````\ng\n````\nh"), "a CODE CODE e\\`f\nh\n");
    assert!(std::panic::catch_unwind(|| without_code("a ``b`")).is_err());
    assert!(std::panic::catch_unwind(|| without_code("```\na")).is_err());
    assert!(std::panic::catch_unwind(|| assert_tables("| a | b |\n| c |")).is_err());
}

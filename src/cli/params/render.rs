//! The chain of every parameter, as a table.

use std::fmt::Write;

use serde_json::Value;

use crate::params::chain::{LAYERS, layer};
use crate::params::{ParamChain, Request, ResolvedParams, Source};

/// Longer values are cut in the table; `--json` has them whole.
const WIDEST_VALUE: usize = 28;

/// A table with a row per parameter and a column per layer, then what follows for the seed, then the warnings.
pub(super) fn text(request: &Request, model: &str, resolved: &ResolvedParams) -> String {
    let titles = LAYERS.map(|(_, title)| title);
    let heading = ["parameter"].into_iter().chain(titles).chain(["runs with", "from"]);
    let rows: Vec<Vec<String>> =
        [heading.map(str::to_owned).collect()].into_iter().chain(resolved.chain.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();

    let mut text = format!("{} on {}\n\n", request.endpoint().path(), model);
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text.push_str("\n* the layer that decides; - the layer says nothing\n");
    if resolved.seed.source == Source::Generated {
        text.push_str("No layer gives a seed: every run gets a fresh one, so that equal requests differ.\n");
    }
    for warning in &resolved.warnings {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn cells(chain: &ParamChain) -> Vec<String> {
    let said = |(source, _): (Source, _)| match layer(chain, source) {
        None => "-".to_owned(),
        Some(value) if source == chain.source => format!("{} *", shown(chain.name, value)),
        Some(value) => shown(chain.name, value),
    };
    let value = match chain.source {
        Source::Generated => "fresh".to_owned(),
        _ => shown(chain.name, &chain.value),
    };
    let name = chain.name.to_owned();
    [name].into_iter().chain(LAYERS.map(said)).chain([value, chain.source.name().to_owned()]).collect()
}

fn shown(parameter: &str, value: &Value) -> String {
    let text = match (value, parameter) {
        (Value::Null, "top_k") => "no limit".to_owned(),
        (Value::Null, _) => "off".to_owned(),
        (value, _) => value.to_string(),
    };
    match text.char_indices().nth(WIDEST_VALUE) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::params::chain::json;
    use crate::params::{Defaults, RequestFields};

    fn shown_for(fields: &str) -> (String, Value) {
        let request = Request::parse(&format!(r#"{{"prompt": "Hi"{fields}}}"#), None).expect("a request");
        let defaults = Defaults {
            server: RequestFields { top_p: Some(0.9), ..RequestFields::default() },
            generation_config: RequestFields { temperature: Some(0.6), ..RequestFields::default() },
            recommends_sampling: Some("temperature 0.6".to_owned()),
            vocabulary_size: 100,
            context_length: 64,
        };
        let resolved = request.resolve(&defaults).expect("resolvable");
        (text(&request, "m", &resolved), json(&request, "m", &resolved))
    }

    fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
        let line = table.lines().find(|line| line.starts_with(name)).expect("a row per parameter");
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    #[test]
    fn the_table_shows_every_layer_and_marks_the_one_that_decides() {
        let (table, _) = shown_for(r#", "temperature": 0.7, "stop": ["a long string that is cut in the table"]"#);
        assert_eq!(row(&table, "temperature"), ["temperature", "0.7 *", "-", "0.6", "1.0", "0.7", "client"]);
        assert_eq!(row(&table, "top_p"), ["top_p", "-", "0.9 *", "-", "1.0", "0.9", "server override"]);
        assert_eq!(row(&table, "top_k"), ["top_k", "-", "-", "-", "no limit *", "no limit", "protocol default"]);
        assert_eq!(row(&table, "seed"), ["seed", "-", "-", "-", "-", "fresh", "generated"]);
        assert_eq!(row(&table, "stop ")[1], "[\"a long string that is cut ... *");
        assert!(table.contains("every run gets a fresh one"));
    }

    #[test]
    fn a_fixed_seed_is_not_called_fresh_and_warnings_are_told() {
        let (table, json) = shown_for(r#", "temperature": 0, "seed": 0"#);
        assert_eq!(row(&table, "seed"), ["seed", "0 *", "-", "-", "-", "0", "client"]);
        assert!(!table.contains("fresh"), "{table}");
        assert_eq!(table.lines().filter(|line| line.starts_with("warning: ")).count(), 2);
        assert_eq!(json["fresh_seed"], false);
        assert_eq!(json["warnings"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn json_tells_silence_from_no_limit() {
        let (_, json) = shown_for(r#", "top_k": -1"#);
        let params = json["params"].as_array().expect("an array");
        let of = |name: &str| params.iter().find(|param| param["name"] == name).expect("every parameter");
        assert_eq!(of("top_k")["layers"], json!({"client": null, "protocol_default": null}));
        assert_eq!(of("top_k")["source"], "client");
        let seed = json!({"name": "seed", "layers": {}, "value": null, "source": "generated"});
        assert_eq!(of("seed"), &seed);
        assert_eq!(json["fresh_seed"], true);
    }
}

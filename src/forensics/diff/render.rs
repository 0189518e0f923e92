//! Where captures part, for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{At, Condition, Diff, Kind, MatchedBy, Parting, Sequence, Unlike};

/// One object: `captures`, `same`, `parted`, `requests` (each sequence that parts or whose conditions do), `settings`, `missing`.
pub fn json(names: [&str; 2], diff: &Diff) -> Value {
    let settings = diff.settings.iter().map(|setting| {
        let value = |value: &Option<String>| value.as_deref().map_or(Value::Null, as_json);
        json!({"name": setting.name, "a": value(&setting.values[0]), "b": value(&setting.values[1])})
    });
    json!({
        "captures": names,
        "same": diff.sequences.len() - diff.parted(),
        "parted": diff.parted(),
        "requests": diff.sequences.iter().map(sequence_json).collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
        "missing": diff.missing,
    })
}

fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn sequence_json(sequence: &Sequence) -> Value {
    let mut object = json!({
        "request": sequence.request,
        "client_id": sequence.client_id,
        "matched_by": sequence.matched_by.name(),
        "choice": sequence.choice,
        "tokens": sequence.tokens,
        "parts": sequence.parting.as_ref().map(name),
        "condition": sequence.condition.as_ref().map(condition_json),
        "row": sequence.row.as_ref().map(condition_json),
    });
    match &sequence.parting {
        Some(Parting::Tokens { index, position, steps }) => {
            object["index"] = (*index).into();
            object["position"] = (*position).into();
            object["steps"] = steps.iter().map(|at| at.as_ref().map_or(Value::Null, at_json)).collect();
        }
        Some(Parting::Prompt { position, tokens }) => {
            object["position"] = (*position).into();
            object["tokens_there"] = json!(tokens);
        }
        Some(Parting::End(ends)) => object["ends"] = json!(ends),
        Some(Parting::Refusal(words)) => object["admission"] = json!(words),
        Some(Parting::Rows) | None => {}
    }
    object
}

/// What parts, in a word.
pub fn name(parting: &Parting) -> &'static str {
    match parting {
        Parting::Refusal(_) => "refusal",
        Parting::Prompt { .. } => "prompt",
        Parting::Tokens { .. } => "tokens",
        Parting::End(_) => "end",
        Parting::Rows => "rows",
    }
}

fn condition_json(condition: &Condition) -> Value {
    let unlike = |unlike: &Unlike| json!({"name": unlike.name, "kind": unlike.kind.name(), "a": unlike.values[0], "b": unlike.values[1]});
    let first = condition.unlike.first();
    json!({
        "name": first.map(|first| &first.name),
        "kind": first.map(|first| first.kind.name()),
        "position": condition.position,
        "steps": condition.steps,
        "unlike": condition.unlike.iter().map(unlike).collect::<Vec<_>>(),
    })
}

/// The facts of a step that are set side by side, by name.
const FACTS: [&str; 15] = [
    "step",
    "path",
    "scheduler",
    "first_position",
    "q_len",
    "prev_accepted",
    "state_column",
    "drafts",
    "withheld",
    "emitted",
    "grammar",
    "row",
    "token",
    "rank and margin",
    "best of the row",
];

fn fact(at: &At, name: &str) -> Value {
    let (step, row) = (&at.step, at.step.rows.get(at.row));
    match name {
        "step" => step.step.into(),
        "path" => json!(step.path),
        "scheduler" => json!(step.scheduler),
        "first_position" => step.first_position.into(),
        "q_len" => json!(step.q_len),
        "prev_accepted" => json!(step.prev_accepted),
        "state_column" => json!(step.state.map(|state| state.column)),
        "drafts" => json!(step.drafts),
        "withheld" => {
            json!(step.withheld.as_ref().map(|withheld| {
                withheld.iter().map(|draft| json!([draft.index, draft.reason])).collect::<Vec<_>>()
            }))
        }
        "emitted" => json!(step.emitted),
        "grammar" => json!(step.grammar.as_ref().map(|grammar| [grammar.before, grammar.after])),
        "row" => at.row.into(),
        "token" => json!(at.token),
        // Those of a row past the end are no token's.
        "rank and margin" => match row.filter(|_| at.token.is_some()) {
            Some(row) => json!([row.rank, row.margin]),
            None => Value::Null,
        },
        _ => json!(row.and_then(|row| row.statistics).map(|row| json!([row.argmax, row.maximum]))),
    }
}

/// A position with its step, as an object.
pub fn at_json(at: &At) -> Value {
    let row = at.step.rows.get(at.row).filter(|_| at.token.is_some());
    let mut object: serde_json::Map<String, Value> =
        FACTS[..13].iter().map(|name| ((*name).to_owned(), fact(at, name))).collect();
    object.insert("rank".to_owned(), json!(row.and_then(|row| row.rank)));
    object.insert("margin".to_owned(), json!(row.and_then(|row| row.margin)));
    object.insert("statistics".to_owned(), json!(at.step.rows.get(at.row).and_then(|row| row.statistics)));
    object.into()
}

/// What parts, request by request.
pub fn text(names: [&str; 2], diff: &Diff) -> String {
    let mut text = String::new();
    let (all, parted) = (diff.sequences.len(), diff.parted());
    let _ = writeln!(text, "a  {}\nb  {}", names[0], names[1]);
    for setting in &diff.settings {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not recorded".to_owned());
        let [a, b] = &setting.values;
        let _ = writeln!(text, "   {} is {} in a and {} in b", setting.name, value(a), value(b));
    }
    let alike = |sequence: &&Sequence| sequence.parting.is_none();
    let otherwise = diff.sequences.iter().filter(alike).filter(|sequence| sequence.condition.is_some()).count();
    let _ = writeln!(text, "\n{all} in both: {parted} part, {} have the same tokens, rows and ends", all - parted);
    if otherwise > 0 {
        let _ = writeln!(text, "of the latter {otherwise} came by them under other conditions, which --json lists");
    }
    let by_prompt = diff.sequences.iter().filter(|sequence| sequence.matched_by == MatchedBy::NumberAndPrompt).count();
    if by_prompt > 0 {
        let _ = writeln!(text, "{by_prompt} are matched by number and prompt, for want of an id that is in both");
    }
    for sequence in diff.sequences.iter().filter(|sequence| sequence.parting.is_some()) {
        of_sequence(&mut text, sequence);
    }
    for missing in diff.missing.iter().take(SHOWN) {
        let _ = writeln!(text, "missing: {missing}");
    }
    if diff.missing.len() > SHOWN {
        let _ = writeln!(text, "missing: {} more, which --json lists", diff.missing.len() - SHOWN);
    }
    text
}

/// Missing things that are shown.
const SHOWN: usize = 20;

fn of_sequence(text: &mut String, sequence: &Sequence) {
    let [a, b] = sequence.request;
    let request = match (&sequence.client_id, a == b) {
        (Some(id), true) => format!("{id} (request {a})"),
        (Some(id), false) => format!("{id} (requests {a} and {b})"),
        (None, _) => format!("request {a}"),
    };
    let choice = if sequence.choice > 0 { format!(", choice {}", sequence.choice) } else { String::new() };
    let _ = write!(text, "\n{request}{choice}: ");
    let _ = match &sequence.parting {
        Some(Parting::Refusal([a, b])) => writeln!(text, "{a} in a, {b} in b"),
        Some(Parting::Prompt { position, tokens }) => {
            writeln!(text, "the prompts part at position {position}: {} and {}", token(tokens[0]), token(tokens[1]))
        }
        Some(Parting::Tokens { index, position, .. }) => {
            writeln!(text, "the tokens part at position {position}, after {index} of the answer")
        }
        Some(Parting::End([a, b])) => {
            writeln!(text, "the same {} tokens, ended by {} and {}", sequence.tokens, json!(a), json!(b))
        }
        Some(Parting::Rows) => writeln!(text, "the same {} tokens, of other rows", sequence.tokens),
        None => writeln!(text, "the same {} tokens", sequence.tokens),
    };
    if let Some(condition) = &sequence.condition {
        of_condition(text, "first condition that differs", condition);
        if condition.unlike.first().is_some_and(|first| first.kind == Kind::Row) {
            let _ = writeln!(
                text,
                "    what it was computed under is the same, as far as it is recorded: see `stepscope localize`"
            );
        }
    }
    // The same place is not told twice.
    let is_first = sequence
        .condition
        .as_ref()
        .is_some_and(|first| first.position == sequence.row.as_ref().and_then(|row| row.position));
    match &sequence.row {
        Some(row) if !is_first => of_condition(text, "first row that differs", row),
        _ => {}
    }
    if let Some(Parting::Tokens { steps, .. }) = &sequence.parting {
        side_by_side(text, steps);
    }
}

fn token(token: Option<u32>) -> String {
    token.map_or("the end".to_owned(), |token| token.to_string())
}

fn of_condition(text: &mut String, what: &str, condition: &Condition) {
    let Some(first) = condition.unlike.first() else { return };
    let [a, b] = &first.values;
    let place = match (condition.position, condition.steps) {
        (Some(position), Some([in_a, in_b])) if in_a == in_b => format!("position {position}, step {in_a}"),
        (Some(position), Some([in_a, in_b])) => format!("position {position}, steps {in_a} and {in_b}"),
        _ => "the request".to_owned(),
    };
    let _ = writeln!(text, "  {what}: {} is {a} and {b} ({place})", first.name);
    let others: Vec<&str> = condition.unlike[1..].iter().map(|unlike| unlike.name.as_str()).collect();
    if !others.is_empty() {
        let _ = writeln!(text, "    and with it {}", others.join(", "));
    }
}

/// Writes two positions with their steps beside each other, and marks what differs.
pub fn side_by_side(text: &mut String, steps: &[Option<At>; 2]) {
    let shown = |at: &Option<At>, name: &str| match at.as_ref().map(|at| fact(at, name)) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(word)) => word,
        Some(value) => value.to_string(),
    };
    for name in FACTS {
        let [a, b] = [shown(&steps[0], name), shown(&steps[1], name)];
        if a == "-" && b == "-" {
            continue;
        }
        let mark = if a == b { ' ' } else { '*' };
        // Long lists go below each other.
        let _ = match a.len().max(b.len()) {
            ..=36 => writeln!(text, "  {mark} {name:<16} {a:<36}  {b}"),
            _ => writeln!(text, "  {mark} {name:<16} {a}\n    {:<16} {b}", ""),
        };
    }
}

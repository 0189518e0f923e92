use crate::capture::conditions::Conditions;
use crate::capture::records::{FORMAT_VERSION, ForcedToken, GrammarStep, RowRecord, StepPath, StepRecord};
use crate::forensics::correlate::{Expression, Judgement};

fn step(q_len: Option<u32>) -> StepRecord {
    let bare = r#"{"step":"1","request":"0","choice":0,"first_position":2,"drafts":["3","-1"],"emitted":[3,4]}"#;
    let step: StepRecord = serde_json::from_str(&bare.replace("\"3\",\"-1\"", "3,-1")).unwrap();
    StepRecord { q_len, path: Some(StepPath::Verify), ..step }
}

/// A row; what was judged there had that rank.
fn row(rank: Option<u32>, forced: Option<u32>) -> RowRecord {
    RowRecord {
        position: 2,
        token: None,
        statistics: None,
        rank,
        margin: None,
        scheduler_mask: None,
        applied_mask: None,
        mask_population: None,
        logprob: None,
        forced: forced.map(|rank| ForcedToken { token: 7, rank: Some(rank), margin: None }),
    }
}

fn judge(text: &str, steps: &[StepRecord]) -> Judgement {
    let expression: Expression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut conditions = Conditions::of_format(FORMAT_VERSION);
    steps.iter().for_each(|step| conditions.push(step));
    expression.judge(steps.last().unwrap(), &conditions)
}

fn fault(text: &str) -> String {
    text.parse::<Expression>().unwrap_err().to_string()
}

#[test]
fn expressions_are_what_they_say() {
    let steps = [step(Some(5))];
    for (text, holds) in [
        ("q_len == 5", true),
        ("q_len = 5", true),
        ("q_len != 5", false),
        ("q_len > 4 and q_len < 6", true),
        ("q_len >= 6 or q_len <= 5", true),
        ("not q_len == 5", false),
        ("not not (q_len == 5)", true),
        ("q_len == drafts + 3", true),
        ("q_len - 1 == drafts + 2", true),
        ("5 == q_len", true),
        ("q_len > -1", true),
        ("path == verify", true),
        ("path == 'decode'", false),
        ("path != \"decode\"", true),
        ("true", true),
        ("emitted == drafts", true),
        // `and` binds closer than `or`.
        ("q_len == 5 or q_len == 5 and q_len == 4", true),
        ("(q_len == 5 or q_len == 5) and q_len == 4", false),
    ] {
        assert_eq!(judge(text, &steps), if holds { Judgement::Failing } else { Judgement::Passing }, "{text}");
    }
}

#[test]
fn unknown_is_neither_unless_the_rest_decides() {
    let steps = [step(None)];
    for (text, judgement) in [
        ("q_len == 5", Judgement::Unknown),
        ("not q_len == 5", Judgement::Unknown),
        ("q_len == 5 and drafts == 2", Judgement::Unknown),
        ("q_len == 5 and drafts == 3", Judgement::Passing),
        ("drafts == 2 or q_len == 5", Judgement::Failing),
        ("drafts == 3 or q_len == 5", Judgement::Unknown),
        ("previous.q_len == 5", Judgement::Unknown),
    ] {
        assert_eq!(judge(text, &steps), judgement, "{text}");
    }
}

#[test]
fn the_step_before_is_seen() {
    let steps = [step(Some(4)), step(Some(5))];
    assert_eq!(judge("previous.q_len == 4 and q_len == previous.q_len + 1", &steps), Judgement::Failing);
}

#[test]
fn a_step_has_what_one_of_its_rows_has() {
    let with = |rows: Vec<RowRecord>| [StepRecord { rows, ..step(Some(2)) }];
    let ranks = with(vec![row(Some(0), None), row(Some(4), Some(1))]);
    assert_eq!(judge("rank > 3", &ranks), Judgement::Failing);
    assert_eq!(judge("rank > 3 and row == 0", &ranks), Judgement::Passing);
    assert_eq!(judge("rank > 3 and forced_rank == 1", &ranks), Judgement::Failing);
    let unknown = with(vec![row(Some(0), None), row(None, None)]);
    assert_eq!(judge("rank > 3", &unknown), Judgement::Unknown);
    assert_eq!(judge("rank > 3", &with(vec![])), Judgement::Unknown, "no row is known");
    assert_eq!(judge("draft == 3", &ranks), Judgement::Failing);
    // A row that has no such thing is passed over; whether these have a forced token is not known.
    let bonus = with(vec![row(Some(0), None), row(Some(0), None), row(Some(0), None)]);
    assert_eq!(judge("draft < 3", &bonus), Judgement::Failing, "-1");
    assert_eq!(judge("draft == 5 or draft == 6", &bonus), Judgement::Passing);
    assert_eq!(judge("forced_rank > 0", &bonus), Judgement::Unknown);
    let grammar = Some(GrammarStep { before: 0, after: 0, terminated: false, reasoning: false });
    let free = [StepRecord { grammar, ..bonus[0].clone() }];
    assert_eq!(judge("forced_rank > 0", &free), Judgement::NoSite);
}

#[test]
fn errors_name_the_place_and_the_columns() {
    let unknown = fault("q_len > 1 and prev_acepted > 2");
    assert!(
        unknown.starts_with("at character 15: `prev_acepted` is no column; did you mean `prev_accepted`?"),
        "{unknown}"
    );
    assert!(unknown.contains("first_position") && unknown.contains("forced_rank") && unknown.contains("`previous.`"));
    for (text, error) in [
        ("", "at character 1: expected a column or a number, found the end"),
        ("q_len", "at character 1: expected something true or false: a comparison, say"),
        ("q_len >", "at character 8: expected a column or a number, found the end"),
        ("q_len > > 2", "at character 9: expected a column or a number, found `>`"),
        ("q_len => 2", "at character 7: `=>` is no comparison; they are == != < <= > >="),
        ("(q_len > 2", "at character 1: this parenthesis is not closed"),
        ("(q_len > 2 3", "at character 12: expected `)`, found `3`"),
        ("q_len > 2 3", "at character 11: expected `and`, `or` or the end, found `3`"),
        ("q_len > path", "at character 7: a number and a word cannot be compared"),
        ("path > decode", "at character 6: `>` compares numbers alone"),
        ("q_len and true", "at character 1: expected something true or false"),
        ("not q_len", "at character 5: expected something true or false"),
        ("path == 'verify", "at character 9: the word has no closing '"),
        ("q_len > 2 & true", "at character 11: `&` means nothing here"),
        ("path + 1 == 2", "at character 1: something is added to it that is no number"),
        ("and", "at character 1: expected a column or a number, found `and`"),
    ] {
        assert!(fault(text).starts_with(error), "{text}: {}", fault(text));
    }
    assert!(fault(&"(".repeat(100)).contains("nests deeper than 64"), "{}", fault(&"(".repeat(100)));
    assert!(fault(&" ".repeat(5000)).contains("5000 bytes"));
}

#[test]
fn no_text_panics() {
    use proptest::prelude::*;
    let parts = prop::sample::select(vec![
        "q_len",
        "path",
        "bonus",
        "rank",
        "previous.q_len",
        "verify",
        "1",
        "2.5",
        "'",
        "\"x\"",
        "==",
        "<",
        ">=",
        "+",
        "-",
        "(",
        ")",
        "and",
        "or",
        "not",
        "true",
        "é",
        " ",
        ".",
    ]);
    let texts = prop::collection::vec(parts, 0..12).prop_map(|parts| parts.join(" "));
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }, |(text in texts)| {
        if let Ok(expression) = text.parse::<Expression>() {
            let mut conditions = Conditions::of_format(FORMAT_VERSION);
            let step = step(Some(3));
            conditions.push(&step);
            let _ = expression.judge(&step, &conditions);
        }
    });
}

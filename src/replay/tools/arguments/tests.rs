//! The judge of arguments: its keywords, what it does not judge, what it takes, and a validator of the whole language beside it.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fits<'a>(value: &'a Value, schema: &'a Value) -> Judged<'a> {
    Judge::new().fits(value, schema)
}

#[test]
fn schemas_are_judged_as_far_as_they_are_known() {
    let nested = json!({"type": "object", "properties": {"list": {"type": "array", "items": {"type": ["integer", "null"]}},
        "either": {"anyOf": [{"const": 1}, {"type": "string"}]}}, "additionalProperties": {"type": "boolean"}});
    for right in [json!({"list": [1, null, 2.0]}), json!({"either": "x", "more": true}), json!({"either": 1.0})] {
        assert_eq!(fits(&right, &nested), Ok(NotJudged::new()), "{right}");
    }
    for wrong in [json!([]), json!({"list": [1.5]}), json!({"either": 2}), json!({"more": 1})] {
        assert!(fits(&wrong, &nested).is_err(), "{wrong}");
    }
}

#[test]
fn a_keyword_that_is_not_judged_is_said() {
    for (schema, keywords) in [
        (json!({"$ref": "#/x", "type": "string"}), vec!["$ref"]),
        (json!({"type": "integer", "multipleOf": 2, "title": "A"}), vec!["multipleOf"]),
        (json!({"allOf": [{"pattern": "a"}, {"not": {}}]}), vec!["not", "pattern"]),
        (json!({"anyOf": [{"type": "string"}, {"format": "uri"}]}), vec!["format"]),
        (json!({"anyOf": [{"type": "integer"}, {"format": "uri"}]}), vec![]),
        (json!({"oneOf": [{"type": "integer"}, {"format": "uri"}]}), vec!["format"]),
    ] {
        assert_eq!(fits(&json!(1), &schema), Ok(keywords.into_iter().collect()), "{schema}");
    }
    let patterned = json!({"patternProperties": {"^a": {}}, "additionalProperties": false});
    assert_eq!(fits(&json!({"b": 1}), &patterned), Ok(NotJudged::from(["patternProperties"])));
    assert!(fits(&json!(1), &json!({"type": "string", "pattern": "a"})).is_err(), "what is judged counts all the same");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let schema =
        json!({"properties": {"a": {"properties": {"b": {"maximum": 3}}, "required": ["b"]}, "c": {"minLength": 2}}});
    for (value, expected) in [
        (json!({"a": {"b": 4}}), "`a`: `b`: `maximum` 3, and not 4"),
        (json!({"a": {}}), "`a`: the required key `b`"),
        (json!({"c": "é"}), "`c`: `minLength` 2, and not \"é\""),
    ] {
        assert_eq!(fits(&value, &schema).unwrap_err().to_string(), expected);
    }
}

#[test]
fn no_more_work_is_done_than_is_set_aside() {
    let schema = json!({"items": {"enum": (0..5_000).collect::<Vec<u32>>()}});
    let value = json!(vec![4_999; 5_000]);
    let mut judge = Judge::new();
    assert_eq!(judge.fits(&value, &schema), Ok(NotJudged::from([TOO_MUCH])));
    assert!(judge.work() < MOST_WORK + 20_000, "{}", judge.work());
    // As much as a member of each of many choices, and no more.
    let schema = json!({"properties": (0..1_000).map(|key| (format!("k{key}"), json!({"type": "integer"}))).collect::<Map<_, _>>()});
    let value = Value::Object((0..1_000).map(|key| (format!("k{key}"), json!(1))).collect());
    let mut judge = Judge::new();
    assert_eq!(judge.fits(&value, &schema), Ok(NotJudged::new()));
    assert_eq!(judge.work(), 1_001);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, -2.5, 1e20]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "é", "ab"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let key = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let kinds = || prop::sample::select(vec!["null", "boolean", "string", "array", "object", "number", "integer"]);
    let bound = || {
        (
            prop::sample::select(vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
            prop::sample::select(vec![json!(0), json!(1), json!(1.0), json!(-2.5)]),
        )
    };
    let size = prop::sample::select(vec!["minLength", "maxLength", "minItems", "maxItems"]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kinds().prop_map(|kind| json!({"type": kind})),
        (kinds(), kinds()).prop_filter_map("two kinds", |(a, b)| (a != b).then(|| json!({"type": [a, b]}))),
        value().prop_map(|value| json!({"const": value})),
        prop::collection::vec(value(), 1..3).prop_map(|values| json!({"enum": values})),
        bound().prop_map(|(keyword, bound)| json!({keyword: bound})),
        (size, 0..3_u32).prop_map(|(keyword, bound)| json!({keyword: bound})),
        prop::collection::btree_set(prop::sample::select(vec!["a", "b"]), 0..2)
            .prop_map(|keys| json!({"required": keys})),
        Just(json!({"pattern": "a", "title": "A"})),
    ];
    leaf.prop_recursive(3, 16, 3, move |inner| {
        let some = prop::collection::vec(inner.clone(), 1..3);
        let list = prop::sample::select(vec!["anyOf", "oneOf", "allOf"]);
        prop_oneof![
            (list, some).prop_map(|(keyword, schemas)| json!({keyword: schemas})),
            inner.clone().prop_map(|schema| json!({"items": schema})),
            (inner.clone(), inner.clone())
                .prop_map(|(a, other)| json!({"properties": {"a": a}, "additionalProperties": other})),
            inner.clone().prop_map(|other| json!({"additionalProperties": other})),
            (inner.clone(), kinds()).prop_map(|(schema, kind)| match schema {
                Value::Object(mut keywords) => {
                    keywords.insert("type".to_owned(), kind.into());
                    Value::Object(keywords)
                }
                other => other,
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    /// What is judged to fit fits, and what is judged not to does not, by a validator of the whole language.
    #[test]
    fn a_judgement_is_that_of_a_validator(value in value(), schema in schema()) {
        let is_valid = jsonschema::draft202012::is_valid(&schema, &value);
        match fits(&value, &schema) {
            Ok(not_judged) if not_judged.is_empty() => prop_assert!(is_valid, "{} fits {}", value, schema),
            Ok(_) => {}
            Err(wrong) => prop_assert!(!is_valid, "{} fits {}: {}", value, schema, wrong),
        }
    }
}

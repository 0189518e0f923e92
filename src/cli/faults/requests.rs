//! The requests that faults are tried on.

use serde_json::{Value, json};

/// Requests of each kind.
const ROUNDS: usize = 3;
/// Their seed is left to the engine, so that they part from the clean run in any case: in a run with a fault they are left
/// out, but for the one of seeds, which makes them alike.
pub(super) const UNSEEDED: &str = "unseeded";

/// Requests in which each fault has something to bite: every way of sampling, of constraining and of ending.
pub(super) fn requests() -> Vec<Value> {
    let (end, line_break) = ("4", "15");
    let schema = json!({"type": "object", "required": ["name", "count"], "additionalProperties": false,
        "properties": {"name": {"enum": ["alpha", "beta", "gamma"]}, "count": {"type": "integer", "minimum": 0, "maximum": 999}}});
    let parameters = json!({"type": "object", "required": ["at", "n"], "additionalProperties": false,
        "properties": {"at": {"enum": ["C:\\new"]}, "n": {"enum": [1, 20]}}});
    let tools = json!([{"type": "function", "function": {"name": "put", "parameters": parameters}}]);
    let long = "the order of the answers is not the order of the questions, and a man of the house said so. ".repeat(2);
    let mut lines = Vec::new();
    // Its prompt is a token longer than the chunks it is computed in.
    let prompt: Vec<u32> = (10..35).collect();
    let body = json!({"prompt": prompt, "temperature": 0, "max_tokens": 20, "ignore_eos": true});
    lines.push(json!({"custom_id": "chunks", "method": "POST", "url": "/v1/completions", "body": body}));
    for round in 0..ROUNDS {
        let bodies = [
            ("greedy", json!({"temperature": 0, "max_tokens": 60, "ignore_eos": true, "logprobs": true})),
            (
                "drawn",
                json!({"temperature": 0.8, "seed": 7 + round, "max_tokens": 60, "top_p": 0.95, "ignore_eos": true}),
            ),
            ("default", json!({"seed": 70 + round, "max_tokens": 40, "ignore_eos": true})),
            (
                "filtered",
                json!({"temperature": 1.1, "seed": 17 + round, "min_p": 0.2, "top_k": 30, "max_tokens": 60, "ignore_eos": true,
                    "logit_bias": {"40": 6, "41": 6, "42": -100}}),
            ),
            (
                "penalized",
                json!({"temperature": 0.3, "seed": 27 + round, "repetition_penalty": 1.4, "frequency_penalty": 1.0,
                    "max_tokens": 60, "ignore_eos": true}),
            ),
            (
                "late-end",
                json!({"temperature": 0.9, "seed": 37 + round, "min_tokens": 20, "max_tokens": 60, "logit_bias": {"2": 7},
                    "stop": ["e", "th"]}),
            ),
            ("two", json!({"temperature": 1, "seed": 47 + round, "n": 2, "max_tokens": 40, "ignore_eos": true})),
            (UNSEEDED, json!({"temperature": 1, "max_tokens": 12, "ignore_eos": true})),
            (
                "schema",
                json!({"temperature": 0, "max_tokens": 80, "logit_bias": {end: 100},
                    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
            ),
            (
                "schema-drawn",
                json!({"seed": 57 + round, "max_tokens": 80, "logit_bias": {end: 100},
                    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}),
            ),
            (
                "late-reasoning",
                json!({"temperature": 0.9, "seed": 87 + round, "max_tokens": 90, "logit_bias": {end: 5},
                    "structured_outputs": {"regex": "(ab|cd|ef){4,12}"}}),
            ),
            (
                "pattern",
                json!({"temperature": 0, "max_tokens": 60, "logit_bias": {end: 100},
                    "structured_outputs": {"regex": "(ab|cd|ef){4,12}(, (ab|cd|ef){2,5})*"}}),
            ),
            (
                "choice",
                json!({"seed": 67 + round, "max_tokens": 40, "logit_bias": {end: 100}, "structured_outputs": {"choice": ["alphabetical", "alphanumeric"]}}),
            ),
            (
                "object",
                json!({"seed": 77 + round, "max_tokens": 60, "logit_bias": {end: 100}, "response_format": {"type": "json_object"}}),
            ),
            (
                "call",
                json!({"temperature": 0, "max_tokens": 120, "logit_bias": {end: 100}, "tools": tools, "tool_choice": "required"}),
            ),
            (
                "one-call",
                json!({"seed": 97 + round, "n": 4, "max_tokens": 120, "logit_bias": {end: 100, line_break: 3 * round}, "tools": tools,
                    "tool_choice": "required", "parallel_tool_calls": false}),
            ),
        ];
        for (name, mut body) in bodies {
            // The same question for the requests whose answers have to differ.
            let number = if name == UNSEEDED { 0 } else { round };
            // Tools are a system message by themselves.
            let told = if body.get("tools").is_some() { "" } else { &long };
            body["messages"] = json!([
                {"role": "system", "content": told},
                {"role": "user", "content": format!("Question {number} of {name}")},
            ]);
            let id = format!("{name}-{round}");
            lines.push(json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body}));
        }
    }
    lines
}

//! Captures of an engine that never was, as `json` messages from docs/capture-format.md alone: plain random steps, and failures
//! that go with one condition, or with none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of `least..=most`.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        least + (self.next() % (most - least + 1) as u64) as i64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.between(0, items.len() as i64 - 1) as usize]
    }
}

/// One step: its numbers by column, and its message.
struct Step {
    request: usize,
    numbers: BTreeMap<&'static str, Option<i64>>,
    path: &'static str,
    reasoning: bool,
    message: Value,
    /// The forced rows.
    forced: Vec<usize>,
}

/// The numbers that conditions are planted on, with their units as the document has them. What a step led to is a condition of
/// the step after it alone.
const STATE: [&str; 15] = [
    "q_len",
    "prev_accepted",
    "batch_slot",
    "batch_size",
    "cached_prefix",
    "state_slot",
    "state_column",
    "drafts",
    "drafts_raw",
    "withheld",
    "withheld_by_grammar",
    "withheld_at_limit",
    "first_position",
    "grammar_before",
    "rows",
];
const RESULT: [&str; 3] = ["drafts_accepted", "emitted", "grammar_after"];
/// A threshold on these would be one of hundreds, which nobody could name exactly.
const MANY_VALUED: [&str; 4] = ["first_position", "grammar_before", "grammar_after", "cached_prefix"];

/// A condition that is planted.
struct Planted {
    text: String,
    /// By step; `None` where it is not known.
    holds: Vec<Option<bool>>,
}

/// Writes a capture. With `planted`, most steps that fail do so where a condition holds, which is told, as `correlate` writes it.
pub fn write(path: &Path, seed: u64, planted: bool) -> Option<String> {
    let mut random = Random(seed);
    let mut steps = engine(&mut random);
    let condition = planted.then(|| plant(&mut random, &steps));
    // Some requests are harder than others, whatever the engine does.
    let mut hardness = Vec::new();
    let noise = if planted { 0.004 } else { 0.03 };
    for (index, step) in steps.iter_mut().enumerate() {
        while hardness.len() <= step.request {
            hardness.push(*random.pick(&[0.3, 1.0, 1.7]));
        }
        let holds = condition.as_ref().is_some_and(|condition| condition.holds[index] == Some(true));
        let fails = random.chance(if holds { 0.9 } else { noise * hardness[step.request] });
        if fails && !step.forced.is_empty() {
            let row = *random.pick(&step.forced);
            step.message["rows"][row]["forced"]["rank"] = random.between(1, 40).into();
        }
    }
    write_messages(path, &steps);
    condition.map(|condition| condition.text)
}

fn engine(random: &mut Random) -> Vec<Step> {
    let most_drafts = random.between(3, 12);
    let slots = random.between(3, 8);
    let acceptance = *random.pick(&[0.5, 0.7, 0.85]);
    let withholding = *random.pick(&[0.15, 0.3, 0.5]);
    let mut steps = Vec::new();
    let mut number = 0;
    for request in 0..random.between(40, 60) as usize {
        let prompt = random.between(10, 60);
        let cached = if random.chance(0.4) { random.between(1, 9) } else { 0 };
        let (mut position, mut grammar, mut accepted) = (0, 0, None);
        let mut state_slot = random.between(0, slots - 1);
        for index in 0..random.between(6, 16) {
            number += random.between(1, 2);
            let path = if index == 0 {
                "prefill"
            } else if random.chance(0.15) {
                "decode"
            } else {
                "verify"
            };
            let raw = if path == "verify" { random.between(1, most_drafts) } else { 0 };
            let withheld =
                (0..raw).filter(|_| random.chance(withholding)).count() as i64 * i64::from(random.chance(0.6));
            let reasons: Vec<&str> = (0..withheld).map(|_| *random.pick(&["grammar", "grammar", "limit"])).collect();
            let by = |reason: &str| reasons.iter().filter(|of_draft| **of_draft == reason).count() as i64;
            let drafts = raw - withheld;
            let taken = (0..drafts).take_while(|_| random.chance(acceptance)).count() as i64;
            let q_len = if index == 0 { prompt } else { 1 + drafts };
            let rows = if index == 0 { 1 } else { q_len };
            let reasoning = random.chance(0.05);
            let batch = random.between(1, slots);
            let slot = random.between(0, batch - 1);
            if random.chance(0.1) {
                state_slot = random.between(0, slots - 1);
            }
            let emitted = taken + 1;
            let column = accepted.map_or(0, |accepted: i64| accepted - 1);
            let consumed = if reasoning { 0 } else { emitted };
            let forced: Vec<usize> = (0..rows as usize).filter(|_| !reasoning && random.chance(0.6)).collect();
            let numbers: BTreeMap<&'static str, Option<i64>> = [
                ("q_len", Some(q_len)),
                ("prev_accepted", accepted),
                ("batch_slot", Some(slot)),
                ("batch_size", Some(batch)),
                ("cached_prefix", Some(if index == 0 { cached } else { 0 })),
                ("state_slot", Some(state_slot)),
                ("state_column", Some(column)),
                ("drafts", Some(drafts)),
                ("drafts_raw", Some(raw)),
                ("withheld", Some(withheld)),
                ("withheld_by_grammar", Some(by("grammar"))),
                ("withheld_at_limit", Some(by("limit"))),
                ("first_position", Some(position)),
                ("grammar_before", Some(grammar)),
                ("rows", Some(rows)),
                ("drafts_accepted", Some(taken)),
                ("emitted", Some(emitted)),
                ("grammar_after", Some(grammar + consumed)),
            ]
            .into();
            let tokens = |count: i64| vec![7; count as usize];
            let verdict = |draft: i64| match draft < taken {
                true => json!({"accepted": true, "reason": "match"}),
                false if draft == taken => json!({"accepted": false, "reason": "mismatch"}),
                false => json!({"accepted": false, "reason": "after_rejection"}),
            };
            let row = |row: usize| {
                let position = position + q_len - rows + row as i64;
                match (reasoning, forced.contains(&row)) {
                    (true, _) => json!({"position": position}),
                    (false, true) => {
                        json!({"position": position, "scheduler_mask": "11".repeat(32), "forced": {"token": 7, "rank": 0}})
                    }
                    (false, false) => json!({"position": position, "scheduler_mask": "22".repeat(32)}),
                }
            };
            let message = json!({
                "step": number.to_string(), "request": request.to_string(), "choice": 0, "first_position": position,
                "drafts": tokens(drafts), "emitted": tokens(emitted), "time_ns": (number * 1000).to_string(),
                "q_len": q_len, "prev_accepted": accepted, "path": path, "scheduler": "sync",
                "batch": {"slot": slot, "neighbours": vec![json!(["999", 0]); batch as usize - 1]},
                "cached_prefix": numbers["cached_prefix"],
                "drafts_raw": tokens(raw),
                "withheld": reasons.iter().enumerate().map(|(index, reason)| json!({"index": drafts as usize + index, "reason": reason})).collect::<Vec<_>>(),
                "state": {"slot": state_slot, "column": column},
                "grammar": {"before": grammar.to_string(), "after": (grammar + consumed).to_string(), "terminated": false, "reasoning": reasoning},
                "verdicts": (0..drafts).map(verdict).collect::<Vec<_>>(),
                "bonus": taken == drafts,
                "rows": (0..rows as usize).map(row).collect::<Vec<_>>(),
                "timings": {"schedule_ns": random.between(1, 9000).to_string(), "forward_ns": random.between(1, 9000).to_string(), "sample_ns": "5"},
            });
            steps.push(Step { request, numbers, path, reasoning, message, forced });
            position += if index == 0 { prompt } else { emitted };
            grammar += consumed;
            // After the prompt it is 1, and a step's emitted tokens are what the next one calls accepted.
            accepted = Some(if index == 0 { 1 } else { emitted });
        }
    }
    steps
}

/// Draws conditions until one holds of neither few steps nor most.
fn plant(random: &mut Random, steps: &[Step]) -> Planted {
    loop {
        let planted = draw(random, steps);
        let judged = |index: &usize| !steps[*index].forced.is_empty();
        let all = (0..steps.len()).filter(judged).count();
        let holding: Vec<usize> =
            (0..steps.len()).filter(judged).filter(|index| planted.holds[*index] == Some(true)).collect();
        let requests: std::collections::BTreeSet<usize> = holding.iter().map(|index| steps[*index].request).collect();
        if holding.len() * 20 >= all && holding.len() * 5 <= all * 2 && requests.len() >= 15 {
            return planted;
        }
    }
}

fn draw(random: &mut Random, steps: &[Step]) -> Planted {
    let before = |index: usize| index.checked_sub(1).filter(|before| steps[*before].request == steps[index].request);
    let value = |index: Option<usize>, name: &str| steps[index?].numbers[name];
    let number = |column: &(bool, &str), index: usize| {
        let (is_previous, name) = *column;
        value(if is_previous { before(index) } else { Some(index) }, name)
    };
    let name = |(is_previous, name): &(bool, &str)| format!("{}{name}", if *is_previous { "previous." } else { "" });
    let of_all = |text: String, holds: &dyn Fn(usize) -> Option<bool>| Planted {
        text,
        holds: (0..steps.len()).map(holds).collect(),
    };
    let now: Vec<(bool, &str)> = STATE.iter().map(|name| (false, *name)).collect();
    let lagged: Vec<(bool, &str)> = STATE.iter().chain(&RESULT).map(|name| (true, *name)).collect();
    match random.between(0, 9) {
        0 => {
            let word = *random.pick(&["decode", "verify"]);
            of_all(format!("path == {word}"), &|index| Some(steps[index].path == word))
        }
        1 => of_all("previous.reasoning".to_owned(), &|index| Some(steps[before(index)?].reasoning)),
        2..=4 => {
            let all: Vec<(bool, &str)> =
                now.iter().chain(&lagged).copied().filter(|(_, name)| !MANY_VALUED.contains(name)).collect();
            let column = random.pick(&all);
            let known: Vec<i64> = (0..steps.len()).filter_map(|index| number(column, index)).collect();
            let constant = *random.pick(&known);
            let sign = *random.pick(&["==", ">", "<="]);
            of_all(format!("{} {sign} {constant}", name(column)), &|index| {
                Some(compare(number(column, index)?, sign, constant))
            })
        }
        5..=7 => {
            let (left, right) = pair(random, &now, &now);
            let sign = *random.pick(&["==", ">", ">="]);
            of_all(format!("{} {sign} {}", left.1, right.1), &|index| {
                Some(compare(number(&left, index)?, sign, number(&right, index)?))
            })
        }
        8 => {
            let (left, right) = pair(random, &now, &now);
            of_all(format!("{} == {} + 1", left.1, right.1), &|index| {
                Some(number(&left, index)? == number(&right, index)? + 1)
            })
        }
        _ => {
            let (left, right) = pair(random, &now, &lagged);
            let sign = *random.pick(&["==", "<", ">"]);
            of_all(format!("{} {sign} {}", left.1, name(&right)), &|index| {
                Some(compare(number(&left, index)?, sign, number(&right, index)?))
            })
        }
    }
}

/// Two columns of one unit, by the document's table.
fn pair<'a>(
    random: &mut Random,
    left: &[(bool, &'a str)],
    right: &[(bool, &'a str)],
) -> ((bool, &'a str), (bool, &'a str)) {
    let document = include_str!("../../docs/capture-format.md");
    let unit = |name: &str| {
        let line = document.lines().find(|line| line.starts_with(&format!("| `{name}` | uint"))).unwrap();
        line.split('|').nth(3).unwrap().trim().to_owned()
    };
    loop {
        let (left, right) = (*random.pick(left), *random.pick(right));
        if left != right && unit(left.1) == unit(right.1) {
            return (left, right);
        }
    }
}

fn compare(left: i64, sign: &str, right: i64) -> bool {
    match sign {
        "==" => left == right,
        ">" => left > right,
        ">=" => left >= right,
        "<" => left < right,
        "<=" => left <= right,
        _ => unreachable!(),
    }
}

fn write_messages(path: &Path, steps: &[Step]) {
    let requests = steps.last().map_or(0, |step| step.request + 1);
    let header = json!({
        "format_version": 3, "recorder": {"name": "generator", "version": "0"}, "sampler_semantics": "another", "epoch_ns": "0",
        "logits_tier": "off", "model": {"name": "none", "end_tokens": [1]},
    });
    let mut messages = vec![("header", header)];
    let admitted = |request: usize| json!({"admitted": {"request": request.to_string(), "time_ns": "1", "prompt_tokens": [5, 6], "choices": 1}});
    messages.extend((0..requests).map(|request| ("request", admitted(request))));
    messages.extend(steps.iter().map(|step| ("step", step.message.clone())));
    for request in 0..requests {
        let of_request = steps.iter().filter(|step| step.request == request);
        let emitted: usize = of_request.map(|step| step.message["emitted"].as_array().unwrap().len()).sum();
        let finished = json!({"finished": {"request": request.to_string(), "choice": 0, "time_ns": "9", "emitted_tokens": emitted}});
        messages.push(("request", finished));
    }
    let mut file = Vec::new();
    let mut writer = mcap::WriteOptions::new().profile("stepscope").create(Cursor::new(&mut file)).unwrap();
    for (topic, message) in messages {
        let id = ["header", "request", "step"].iter().position(|known| *known == topic).unwrap() as u16 + 1;
        let channel = mcap::Channel {
            id,
            topic: topic.to_owned(),
            schema: None,
            message_encoding: "json".to_owned(),
            metadata: BTreeMap::new(),
        };
        let data = Cow::Owned(message.to_string().into_bytes());
        writer
            .write(&mcap::Message { channel: Arc::new(channel), sequence: 0, log_time: 0, publish_time: 0, data })
            .unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    fs::write(path, file).unwrap();
}

//! What the server counts, in Prometheus' text form. Where a count means the same as one of vLLM's, it has vLLM's name.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::engine::StepReport;
use crate::types::FinishReason;

/// A number that only grows, or one that is set.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts so many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Sets the number.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the buckets of times, in seconds.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How often something took how long.
#[derive(Debug, Default)]
pub struct Histogram(Mutex<Observed>);

#[derive(Clone, Debug, Default)]
struct Observed {
    /// Per bucket, those of smaller buckets not counted; the last is for what is longer than any bound.
    buckets: [u64; SECONDS.len() + 1],
    sum: f64,
}

impl Histogram {
    /// Counts one time.
    pub fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = SECONDS.iter().position(|&bound| seconds <= bound).unwrap_or(SECONDS.len());
        observed.buckets[bucket] += 1;
        observed.sum += seconds;
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Sequences in the batch.
    pub running: Count,
    /// Sequences that wait for a place in it.
    pub waiting: Count,
    /// Tokens of admitted prompts.
    pub prompt_tokens: Count,
    /// Tokens that were emitted.
    pub generation_tokens: Count,
    /// Prompt positions that came from the prefix cache.
    pub cached_tokens: Count,
    /// Steps of a sequence that verified drafts.
    pub drafts: Count,
    /// Drafts that were verified.
    pub draft_tokens: Count,
    /// Drafts that were accepted.
    pub accepted_tokens: Count,
    /// Ended sequences by `finished_reason`: `stop`, `length`, `abort`, `error`.
    finished: [Count; 4],
    /// Events of the engine.
    pub events: Count,
    /// From a request's arrival to its first token.
    pub first_token: Histogram,
    /// From a request's arrival to its end.
    pub whole_request: Histogram,
    /// Responses by class of their status: 1xx to 5xx.
    responses: [Count; 5],
    /// Requests that were turned away because the queue was full.
    pub turned_away: Count,
    /// 1 once recording has stopped because of an error.
    pub recording_failed: Count,
}

const FINISHED: [&str; 4] = ["stop", "length", "abort", "error"];

impl Metrics {
    /// Counts what a step did for one sequence.
    pub(super) fn step(&self, report: &StepReport<'_>) {
        self.generation_tokens.add(report.emitted.len() as u64);
        self.cached_tokens.add(report.cached_prefix as u64);
        let places = &report.drafts.places;
        let verified = places.iter().flatten().count();
        if verified > 0 {
            let emitted = places.iter().zip(report.emitted);
            let accepted = emitted.filter(|(draft, token)| draft.as_ref().is_some_and(|draft| draft.token == **token));
            self.drafts.add(1);
            self.draft_tokens.add(verified as u64);
            self.accepted_tokens.add(accepted.count() as u64);
        }
    }

    /// Counts the end of a sequence.
    pub(super) fn finished(&self, reason: &FinishReason) {
        let index = match (reason, reason.protocol_name()) {
            (FinishReason::Cancelled, _) => 2,
            (_, Some("stop")) => 0,
            (_, Some(_)) => 1,
            (_, None) => 3,
        };
        self.finished[index].add(1);
    }

    /// Counts a response.
    pub(super) fn response(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.responses[class].add(1);
    }

    /// The text form; `model` is the value of the label `model_name`.
    pub fn render(&self, model: &str) -> String {
        let mut page = Page { text: String::new(), model: model.replace('\\', "\\\\").replace('"', "\\\"") };
        page.one("vllm:num_requests_running", "gauge", "Sequences in the batch.", &self.running);
        page.one("vllm:num_requests_waiting", "gauge", "Sequences that wait for a place.", &self.waiting);
        page.one("vllm:prompt_tokens_total", "counter", "Tokens of admitted prompts.", &self.prompt_tokens);
        page.one("vllm:generation_tokens_total", "counter", "Tokens that were emitted.", &self.generation_tokens);
        page.one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", &self.prompt_tokens);
        page.one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.", &self.cached_tokens);
        page.one("vllm:spec_decode_num_drafts_total", "counter", "Steps that verified drafts.", &self.drafts);
        page.one("vllm:spec_decode_num_draft_tokens_total", "counter", "Drafts verified.", &self.draft_tokens);
        page.one("vllm:spec_decode_num_accepted_tokens_total", "counter", "Drafts accepted.", &self.accepted_tokens);
        let finished = FINISHED.iter().zip(&self.finished).map(|(reason, count)| (*reason, count));
        page.many("vllm:request_success_total", "Ended sequences.", "finished_reason", finished);
        page.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", &self.first_token);
        page.histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", &self.whole_request);
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(&self.responses);
        page.many("stepscope:http_responses_total", "Responses.", "status", classes);
        page.one("stepscope:requests_turned_away_total", "counter", "Refused: the queue was full.", &self.turned_away);
        page.one("stepscope:events_total", "counter", "Events of the engine.", &self.events);
        page.one("stepscope:recording_failed", "gauge", "1 once recording has failed.", &self.recording_failed);
        page.text
    }
}

struct Page {
    text: String,
    model: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, label: Option<(&str, &str)>, value: impl std::fmt::Display) {
        let label = label.map(|(name, value)| format!(",{name}=\"{value}\"")).unwrap_or_default();
        let _ = writeln!(self.text, "{name}{{model_name=\"{}\"{label}}} {value}", self.model);
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, count: &Count) {
        self.head(name, kind, help);
        self.sample(name, None, count.get());
    }

    fn many<'a>(&mut self, name: &str, help: &str, label: &str, counts: impl Iterator<Item = (&'a str, &'a Count)>) {
        self.head(name, "counter", help);
        counts.for_each(|(value, count)| self.sample(name, Some((label, value)), count.get()));
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let Observed { buckets, sum } = histogram.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.head(name, "histogram", help);
        let mut so_far = 0;
        let bounds = SECONDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(buckets) {
            so_far += count;
            self.sample(&format!("{name}_bucket"), Some(("le", &bound)), so_far);
        }
        self.sample(&format!("{name}_sum"), None, sum);
        self.sample(&format!("{name}_count"), None, so_far);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_count_with_its_kind() {
        let metrics = Metrics::default();
        metrics.prompt_tokens.add(7);
        metrics.running.set(2);
        metrics.finished(&FinishReason::MaxTokens);
        metrics.finished(&FinishReason::Cancelled);
        metrics.response(429);
        for seconds in [0.002, 0.3, 400.0] {
            metrics.first_token.observe(Duration::from_secs_f64(seconds));
        }
        let page = metrics.render("a \"model\"");
        for line in [
            "vllm:prompt_tokens_total{model_name=\"a \\\"model\\\"\"} 7",
            "# TYPE vllm:num_requests_running gauge",
            "vllm:request_success_total{model_name=\"a \\\"model\\\"\",finished_reason=\"length\"} 1",
            "vllm:request_success_total{model_name=\"a \\\"model\\\"\",finished_reason=\"abort\"} 1",
            "stepscope:http_responses_total{model_name=\"a \\\"model\\\"\",status=\"4xx\"} 1",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"model\\\"\",le=\"0.001\"} 0",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"model\\\"\",le=\"0.5\"} 2",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"model\\\"\",le=\"+Inf\"} 3",
            "vllm:time_to_first_token_seconds_count{model_name=\"a \\\"model\\\"\"} 3",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}

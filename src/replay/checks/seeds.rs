//! No event says that a step drew with something else than its request's seed. Part of the check `sampler`.
//!
//! An event speaks of a step, whatever rows the step has and whatever else is known of it. One that fits no step is told,
//! too: it would otherwise be lost.

use std::collections::{BTreeMap, HashSet};

use crate::capture::records::EventRecord;
use crate::replay::context::{Context, request_place};
use crate::replay::recording::{RecordedRequest, RecordedSequence, RequestFault};
use crate::replay::report::{Place, Report};
use crate::replay::rules::{RulesError, temperature};
use crate::replay::verdict::{CheckName, Skip, Verdict};

const FACT: &str = "random source";

/// What events say that was drawn with something else than the request's seed, once per step.
#[derive(Debug, Default)]
pub(in crate::replay) struct ForeignDraws<'a>(BTreeMap<Option<u64>, Draws<'a>>);

/// What the tokens of a choice and step were drawn with, as far as the event says which they are.
type Draws<'a> = BTreeMap<(Option<u32>, Option<u64>), &'a str>;

impl<'a> ForeignDraws<'a> {
    /// Reads the events.
    pub(in crate::replay) fn of(events: &'a [EventRecord]) -> Self {
        let mut found = Self::default();
        for event in events.iter().filter(|event| event.kind == "seed_not_used") {
            let draws = found.0.entry(event.request).or_default();
            draws.entry((event.choice, event.step)).or_insert(&event.message);
        }
        found
    }
}

/// Judges the draws of a request. Its temperature decides, and nothing else: a request that draws nothing needs no seed.
pub(in crate::replay) fn check(context: &Context<'_>, request: &RecordedRequest, report: &mut Report) {
    let admission = &request.admission;
    let Some(draws) = context.foreign_draws.0.get(&Some(admission.request)) else { return };
    let temperature = match &admission.params {
        Some(fields) => temperature(fields),
        None => Err(RulesError::Absent { name: "temperature" }),
    };
    let recorded = places(request);
    for (&(choice, step), message) in draws {
        let is_recorded = choice.zip(step).is_some_and(|step| recorded.contains(&step));
        let mut verdict = Verdict::new();
        match &temperature {
            Ok(temperature) if *temperature > 0.0 => {
                verdict.mismatch(FACT, "the request's seed".to_owned(), (*message).to_owned());
            }
            _ if !is_recorded => nowhere(&mut verdict, context, "step", message),
            Ok(_) => verdict.agrees(),
            Err(error) => {
                verdict.skip(Skip::not_recorded(format!("whether the request draws is not known: {error}")));
            }
        }
        report.enter(CheckName::Sampler, Place { choice, step, ..request_place(admission) }, verdict);
    }
}

/// Choice and number of every step of a request.
fn places(request: &RecordedRequest) -> HashSet<(u32, u64)> {
    let mut places = HashSet::new();
    for RecordedSequence { choice, steps, .. } in &request.sequences {
        places.extend(steps.iter().map(|step| (*choice, step.step)));
    }
    places
}

/// Judges the draws of a request that cannot be had.
pub(in crate::replay) fn check_without(context: &Context<'_>, request: u64, fault: &RequestFault, report: &mut Report) {
    for (&(choice, step), message) in context.foreign_draws.0.get(&Some(request)).into_iter().flatten() {
        let mut verdict = Verdict::new();
        match fault {
            RequestFault::Unreadable(_) | RequestFault::TooLarge { .. } => {
                verdict.skip(Skip::missing(fault.to_string()));
            }
            RequestFault::Refused { .. } | RequestFault::RefusedYetRan | RequestFault::NotAdmitted => {
                nowhere(&mut verdict, context, "request", message);
            }
        }
        let place = Place { request: Some(request), choice, step, ..Place::default() };
        report.enter(CheckName::Sampler, place, verdict);
    }
}

/// Judges the draws of which events do not say the request, or name one that no other record speaks of.
pub(in crate::replay) fn check_strays(context: &Context<'_>, requests: &[u64], report: &mut Report) {
    let known: HashSet<u64> = requests.iter().copied().collect();
    for (&request, draws) in &context.foreign_draws.0 {
        if request.is_some_and(|request| known.contains(&request)) {
            continue;
        }
        for (&(choice, step), message) in draws {
            let mut verdict = Verdict::new();
            match request {
                Some(_) => nowhere(&mut verdict, context, "request", message),
                None => verdict
                    .skip(Skip::missing("an event tells of a draw without the request's seed, not of which request")),
            }
            report.enter(CheckName::Sampler, Place { request, choice, step, ..Place::default() }, verdict);
        }
    }
}

/// What an event speaks of is not there: a contradiction, unless records are known to be missing.
fn nowhere(verdict: &mut Verdict, context: &Context<'_>, what: &str, message: &str) {
    if context.gaps.records {
        verdict.skip(Skip::missing(format!(
            "an event tells of a draw without the request's seed, and its {what} is missing"
        )));
    } else {
        verdict.mismatch(FACT, format!("an event of a {what} that was recorded"), message.to_owned());
    }
}

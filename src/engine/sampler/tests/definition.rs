//! The fast form gives the definition's token on every row; and would be caught if it did not.

use super::cases::{Case, Random};
use super::reference::{self, Fault};
use super::{plain, unmasked};
use crate::arith::{Isa, Kernels, scalar};
use crate::engine::sampler::{SampleContext, Sampler, TokenCounts, best_tokens};
use crate::engine::validity::ValidRow;
use crate::params::SamplingParams;
use crate::types::TokenId;

const CASES: u64 = 4_000;
/// Vocabulary of SmolLM2.
const VOCABULARY: usize = 49_152;

fn fast(sampler: &mut Sampler, row: &[f32], context: &SampleContext<'_>) -> Option<u32> {
    let statistics = scalar::row_statistics(row);
    let row = ValidRow::check(row, &statistics).expect("cases are valid rows");
    sampler.sample(&row, context).ok().map(|token| token.0)
}

/// The first case on which the fast form and the definition with `fault` in it disagree.
fn first_disagreement(fault: Fault) -> Option<String> {
    let mut sampler = Sampler::new(Kernels::detect());
    (0..CASES).find_map(|key| {
        let case = Case::new(key, 1 + Random::new(!key).below(300));
        let expected = reference::token(&case.row, &case.context(), fault);
        let found = fast(&mut sampler, &case.row, &case.context());
        (expected != found).then(|| format!("case {key}: expected {expected:?}, found {found:?}: {case:?}"))
    })
}

#[test]
fn the_fast_form_is_the_definition() {
    if let Some(disagreement) = first_disagreement(Fault::None) {
        panic!("{disagreement}");
    }
}

#[test]
fn every_planted_fault_is_noticed() {
    for fault in [
        Fault::TopPKeepsOneTooFew,
        Fault::TopPKeepsOneTooMany,
        Fault::TopPSumsBeforeTheFilters,
        Fault::TiesGoToTheHigherId,
        Fault::NoiseIgnoresThePosition,
        Fault::NoiseIgnoresTheChoice,
        Fault::MinPReadsANeighboursMaximum,
        Fault::MinPBeforeTemperature,
        Fault::RepetitionForgetsThePrompt,
        Fault::FrequencyCountsOnce,
        Fault::MinTokensOneTooFew,
        Fault::BiasAfterPenalties,
    ] {
        assert!(first_disagreement(fault).is_some(), "{fault:?} went unnoticed");
    }
}

#[test]
fn the_fast_form_is_the_definition_on_a_real_vocabulary() {
    let mut sampler = Sampler::new(Kernels::detect());
    for key in 10_000..10_060 {
        let case = Case::new(key, VOCABULARY);
        let expected = reference::token(&case.row, &case.context(), Fault::None);
        assert_eq!(fast(&mut sampler, &case.row, &case.context()), expected, "case {key}: {:?}", case.params);
    }
}

#[test]
fn every_instruction_set_draws_the_same() {
    let supported = Isa::ALL.into_iter().filter_map(|isa| Kernels::new(isa).ok());
    let mut samplers: Vec<_> = supported.map(Sampler::new).collect();
    for key in 20_000..20_200 {
        let case = Case::new(key, 400);
        let tokens: Vec<_> = samplers.iter_mut().map(|sampler| fast(sampler, &case.row, &case.context())).collect();
        assert!(tokens.iter().all(|token| *token == tokens[0]), "case {key}: {tokens:?}");
    }
}

/// Sums that meet the threshold exactly leave no room for an estimate of the total.
#[test]
fn top_p_is_exact_where_a_sum_meets_the_threshold() {
    let mut sampler = Sampler::new(Kernels::detect());
    let row = vec![1.5; 4_096];
    for (top_p, position) in [0.5, 0.25, 0.125, 0.75].into_iter().flat_map(|p| (0..40).map(move |at| (p, at))) {
        let params = SamplingParams { top_p, ..plain() };
        let counts = TokenCounts::default();
        let context = unmasked(&params, &counts, position);
        let found = fast(&mut sampler, &row, &context);
        assert_eq!(found, reference::token(&row, &context, Fault::None));
        assert!(found.is_some_and(|id| (id as f32) < top_p * 4_096.0), "token {found:?} is outside of {top_p}");
    }
}

#[test]
fn the_best_tokens_are_those_of_a_sorted_row() {
    for key in 0..400 {
        let row = Case::new(key, 1 + Random::new(!key).below(3_000)).row;
        let mut sorted: Vec<_> = row.iter().zip(0..).map(|(&value, id)| (TokenId(id), value)).collect();
        sorted.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("no NaN").then(a.0.cmp(&b.0)));
        for count in [0, 1, 2, 7, 20, 100, row.len(), row.len() + 1] {
            let expected = &sorted[..count.min(row.len())];
            assert_eq!(best_tokens(&row, count), expected, "case {key}, the best {count} of {}", row.len());
        }
    }
}

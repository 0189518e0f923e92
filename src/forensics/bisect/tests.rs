//! The algorithm against brute force, over predicates that are monotone and that are not, with runs that come to nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn mask(set: &[usize]) -> usize {
    set.iter().map(|element| 1 << element).sum()
}

/// Bisects by a table of verdicts over masks; how many runs that took. Each is asked for once, and in ascending order.
fn bisected(differences: usize, verdict: impl Fn(usize) -> Verdict) -> (Bisection, usize) {
    let mut asked = BTreeSet::new();
    let bisection = bisect(differences, |subset| {
        assert!(!subset.is_empty(), "the good configuration is known");
        assert!(subset.is_sorted() && asked.insert(subset.to_vec()), "{subset:?} of {asked:?}");
        verdict(mask(subset))
    });
    (bisection, asked.len())
}

fn minimal(bisection: Bisection) -> Minimal {
    match bisection {
        Bisection::Minimal(minimal) => minimal,
        other => panic!("a minimal set, not {other:?}"),
    }
}

/// Every proper subset but the empty one, by its definition.
fn proper_subsets(set: usize) -> impl Iterator<Item = usize> {
    (1..set).filter(move |subset| subset & !set == 0)
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop_oneof![3 => Just(Verdict::Bad), 5 => Just(Verdict::NotBad), 2 => Just(Verdict::Unresolved)]
}

/// So many differences, and a verdict for each subset; all of them together are bad.
fn tables(
    most: usize,
    verdicts: impl Strategy<Value = Verdict> + Clone,
) -> impl Strategy<Value = (usize, Vec<Verdict>)> {
    (1..=most).prop_flat_map(move |count| {
        let table = proptest::collection::vec(verdicts.clone(), 1 << count);
        table.prop_map(move |mut table| {
            table[(1 << count) - 1] = Verdict::Bad;
            (count, table)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the verdicts are: the set is bad, none of its proper subsets is known to be, and the unresolved ones are told.
    #[test]
    fn the_set_is_bad_and_no_subset_is((count, table) in tables(6, verdicts().boxed())) {
        let minimal = minimal(bisected(count, |mask| table[mask]).0);
        let set = mask(&minimal.set);
        prop_assert_eq!(table[set], Verdict::Bad);
        prop_assert!(proper_subsets(set).all(|subset| table[subset] != Verdict::Bad), "{:?}", minimal);
        let unresolved: BTreeSet<usize> = proper_subsets(set).filter(|subset| table[*subset] == Verdict::Unresolved).collect();
        prop_assert_eq!(minimal.unresolved.iter().map(|subset| mask(subset)).collect::<BTreeSet<usize>>(), unresolved.clone());
        prop_assert_eq!(minimal.is_confirmed(), unresolved.is_empty());
        prop_assert_eq!(minimal.subsets, proper_subsets(set).count());
        prop_assert_eq!(minimal.confirmation, Confirmation::EverySubset);
    }

    /// What is minimized is bad, and with any one left out it is not, before anything is confirmed.
    #[test]
    fn no_single_one_can_be_left_out((count, table) in tables(8, verdicts().boxed())) {
        let mut judged = JudgedSubsets::new(|subset: &[usize]| table[mask(subset)]);
        let set = mask(&minimize((0..count).collect(), &mut judged));
        prop_assert_eq!(table[set], Verdict::Bad);
        let is_bad = |rest: usize| rest > 0 && table[rest] == Verdict::Bad;
        prop_assert!((0..count).filter(|element| set >> element & 1 == 1).all(|element| !is_bad(set & !(1 << element))));
    }

    /// Where more differences are never better: it is one of the sets that make it bad, and no other part of them.
    #[test]
    fn of_a_monotone_predicate_it_is_a_minimal_set(
        count in 1_usize..=10,
        causes in proptest::collection::vec(1_usize..1024, 1..4),
    ) {
        let everything = (1 << count) - 1;
        let causes: Vec<usize> = causes.into_iter().map(|cause| cause & everything).filter(|cause| *cause > 0).collect();
        prop_assume!(!causes.is_empty());
        let is_bad = |mask: usize| causes.iter().any(|cause| cause & !mask == 0);
        let verdict = |mask| if is_bad(mask) { Verdict::Bad } else { Verdict::NotBad };
        let minimal = minimal(bisected(count, verdict).0);
        let set = mask(&minimal.set);
        let is_minimal = |cause: &&usize| !causes.iter().any(|other| other != *cause && other & !**cause == 0);
        prop_assert!(causes.iter().filter(is_minimal).any(|cause| *cause == set), "{:?} of {:?}", minimal, causes);
        prop_assert!(minimal.is_confirmed());
    }

    /// Of a set that is too large to be confirmed in full: it is bad, and not with any one left out.
    #[test]
    fn a_large_set_can_lose_none(seed in any::<u64>()) {
        let verdict = |mask: usize| match mask.count_ones() {
            9.. => Verdict::Bad,
            // Some of eight, hardly ever all that are needed to go on.
            8 if (seed ^ mask as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0 => Verdict::Bad,
            8 if (seed ^ mask as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 1 => Verdict::Unresolved,
            _ => Verdict::NotBad,
        };
        let minimal = minimal(bisected(10, verdict).0);
        let set = mask(&minimal.set);
        prop_assert_eq!(verdict(set), Verdict::Bad);
        prop_assert_eq!(minimal.confirmation, Confirmation::OneLeftOut);
        prop_assert_eq!(minimal.subsets, minimal.set.len());
        let left_out = |element: &usize| verdict(set & !(1 << element));
        prop_assert!(minimal.set.iter().all(|element| left_out(element) != Verdict::Bad));
        let unresolved = minimal.set.iter().filter(|element| left_out(element) == Verdict::Unresolved).count();
        prop_assert_eq!(minimal.unresolved.len(), unresolved);
    }
}

/// Of eight differences the first and the last two together, followed by hand: parts, complements, finer parts, and after a
/// complement as fine as before.
#[test]
fn three_of_eight_run_as_by_hand() {
    let mut asked = Vec::new();
    let bisection = bisect(8, |subset| {
        asked.push(subset.iter().map(|element| (element + 1).to_string()).collect::<String>());
        if mask(subset) & 0b1100_0001 == 0b1100_0001 { Verdict::Bad } else { Verdict::NotBad }
    });
    assert_eq!(minimal(bisection).set, [0, 6, 7]);
    let halves_and_quarters = ["12345678", "1234", "5678", "12", "34", "56", "78", "345678", "125678"];
    let of_six_and_four = ["1278", "1", "2", "7", "8", "278", "178"];
    let of_three = ["18", "17"];
    assert_eq!(asked, [&halves_and_quarters[..], &of_six_and_four, &of_three].concat());
}

#[test]
fn one_cause_among_many_takes_few_runs() {
    for count in [16, 32] {
        for cause in 0..count {
            let verdict = |mask: usize| if mask >> cause & 1 == 1 { Verdict::Bad } else { Verdict::NotBad };
            let (bisection, runs) = bisected(count, verdict);
            assert_eq!(minimal(bisection).set, [cause]);
            assert!(runs <= 2 * count.ilog2() as usize + 1, "{runs} runs for one of {count}");
        }
    }
}

/// Each third difference undoes what 0 and 2 do together, so that no halves, single ones or three of four are bad.
#[test]
fn a_smaller_set_hidden_by_what_undoes_it_is_found() {
    let verdict = |mask| if [0b1111, 0b0101].contains(&mask) { Verdict::Bad } else { Verdict::NotBad };
    assert_eq!(minimal(bisected(4, verdict).0).set, [0, 2]);
}

#[test]
fn the_whole_is_judged_first() {
    assert_eq!(bisected(4, |_| Verdict::NotBad), (Bisection::NothingBad, 1));
    assert_eq!(bisected(4, |_| Verdict::Unresolved), (Bisection::Unresolved, 1));
    assert_eq!(bisected(0, |_| Verdict::Bad), (Bisection::NothingBad, 0));
    // What cannot run is no part of the answer, and none of what speaks for it.
    let verdict = |mask| if mask == 0b11 { Verdict::Bad } else { Verdict::Unresolved };
    let alone = minimal(bisected(2, verdict).0);
    assert_eq!((alone.set.as_slice(), alone.is_confirmed()), ([0, 1].as_slice(), false));
    assert_eq!(alone.unresolved, [[0], [1]]);
}

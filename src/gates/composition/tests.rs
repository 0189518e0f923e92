//! The threshold is what it says it is, and degenerate acceptance proves nothing.

use super::*;

/// Fewer draws than the gate has, of more seeds.
const FEW: u32 = 480;
const SEEDS: u64 = 500;

/// At 0.1% half an alarm is expected of 500, and more than 4 come once in 5,700 times; at 10%, 50 with a deviation of 6.7.
#[test]
fn a_sound_engine_is_suspected_as_often_as_the_quantile_says() {
    let fixture = Fixture::new().unwrap();
    let target = Target::plain().unwrap();
    let null = Null::simulate(&target.probabilities, FEW);
    for (rule, drafting) in [(VerifyRule::Rejection, Drafting::Drawn), (VerifyRule::Coupled, Drafting::Certain)] {
        let case = Case { aim: &Aim { target: &target, bounds: null.bounds() }, rule, drafting, fault: None };
        let found: Vec<Bounds> = (1..=SEEDS)
            .map(|seed| Bounds::of(&case.sample(&fixture, FEW, seed).unwrap().counts, &target.probabilities))
            .collect();
        let alarms = |bounds: Bounds| {
            let over = |of: fn(&Bounds) -> f64| found.iter().filter(|found| of(found) > of(&bounds)).count();
            [over(|found| found.total_variation), over(|found| found.greatest)]
        };
        let rare = alarms(null.bounds());
        assert!(rare.iter().all(|&count| count <= 4), "{rule:?}: {rare:?} of {SEEDS}");
        let often = alarms(null.exceeded_by((SETS + 1) / 10));
        assert!(often.iter().all(|count| (25..=75).contains(count)), "{rule:?}: {often:?} of {SEEDS} at 10%");
    }
}

fn verdict(drafting: Drafting, verified: u64, accepted: u64) -> Verdict {
    let target = Target::plain().unwrap();
    let counts: Vec<u64> = target.probabilities.iter().map(|p| (p * f64::from(DRAWS)).round() as u64).collect();
    let draws = counts.iter().sum::<u64>() as u32;
    let aim = Aim { target: &target, bounds: Bounds { total_variation: 0.01, greatest: 0.01 } };
    let case = Case { aim: &aim, rule: VerifyRule::Rejection, drafting, fault: None };
    case.line(&Sample { counts, verified, accepted }, draws).verdict
}

#[test]
fn an_acceptance_near_0_or_1_proves_nothing() {
    assert_eq!(verdict(Drafting::Drawn, 1_000, 500), Verdict::Passed);
    for (verified, accepted) in [(1_000, 0), (1_000, 49), (1_000, 951), (1_000, 1_000), (0, 0)] {
        let verdict = verdict(Drafting::Drawn, verified, accepted);
        assert!(matches!(&verdict, Verdict::Failed(why) if why.contains("proves nothing")), "{verdict:?}");
    }
}

#[test]
fn a_drafter_that_is_never_right_fails_the_gate_though_every_draw_is_right() {
    let fixture = Fixture::new().unwrap();
    let target = Target::plain().unwrap();
    let aim = Aim { target: &target, bounds: Null::simulate(&target.probabilities, 2_000).bounds() };
    for rule in RULES {
        let case = Case { aim: &aim, rule, drafting: Drafting::Impossible, fault: None };
        let line = case.line(&case.sample(&fixture, 2_000, 0).unwrap(), 2_000);
        let Verdict::Failed(why) = &line.verdict else { panic!("{line:?}") };
        assert!(why.contains("proves nothing") && !why.contains("chance"), "{why}");
    }
}

#[test]
fn a_missing_draw_fails_the_gate() {
    let target = Target::plain().unwrap();
    let aim = Aim { target: &target, bounds: Bounds { total_variation: 1.0, greatest: 1.0 } };
    let case = Case { aim: &aim, rule: VerifyRule::Coupled, drafting: Drafting::Drawn, fault: None };
    let sample = Sample { counts: vec![100; SUPPORT], verified: 100, accepted: 50 };
    assert!(matches!(case.line(&sample, 6_401).verdict, Verdict::Failed(why) if why.contains("expected 6401 draws")));
    assert_eq!(case.line(&sample, 6_400).verdict, Verdict::Passed);
}

#[test]
fn the_targets_are_distributions_and_filters_cut() {
    let support = |target: &Target| target.probabilities.iter().filter(|p| **p > 0.0).count();
    let (plain, filtered) = (Target::plain().unwrap(), Target::filtered().unwrap());
    assert_eq!((support(&plain), support(&filtered)), (64, 9));
    for target in [plain, filtered] {
        assert!((target.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}

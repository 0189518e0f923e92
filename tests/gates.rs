//! The gates pass on this build, and each fails on every fault that is planted for it.

#[path = "support/command.rs"]
mod command;

use std::sync::LazyLock;

use command::{Run, stepscope};
use serde_json::Value;

/// With faults planted; run once for all tests.
static TEETH: LazyLock<(i32, Value)> = LazyLock::new(|| {
    let run = stepscope(&["gates", "--teeth", "--json"]);
    (run.status, parsed(&run))
});

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

/// The lines of a gate, or of all of them.
fn lines<'a>(report: &'a Value, gate: Option<&str>) -> Vec<&'a Value> {
    let gates = report["gates"].as_array().unwrap().iter();
    let gates = gates.filter(|found| gate.is_none_or(|gate| found["gate"] == gate));
    gates.flat_map(|gate| gate["lines"].as_array().unwrap()).collect()
}

fn is_clean(line: &&Value) -> bool {
    line["fault"].is_null()
}

const GATES: [&str; 5] = ["composition", "filters", "validity", "fill-rollback", "arithmetic"];

#[test]
fn every_gate_passes_and_fails_on_its_faults() {
    let (status, report) = &*TEETH;
    let wrong: Vec<&Value> = lines(report, None).into_iter().filter(|line| line["as_expected"] != true).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((*status, &report["passed"]), (0, &Value::Bool(true)));
    let names: Vec<&str> =
        report["gates"].as_array().unwrap().iter().map(|gate| gate["gate"].as_str().unwrap()).collect();
    assert_eq!(names, GATES);
    for gate in GATES {
        let lines = lines(report, Some(gate));
        for line in lines.iter().filter(|line| line["verdict"] == "passed" || line["verdict"] == "failed") {
            assert!(line["checked"].as_u64() > Some(0), "{line}");
        }
        let (clean, planted): (Vec<&Value>, Vec<&Value>) = lines.into_iter().partition(is_clean);
        assert!(clean.iter().any(|line| line["verdict"] == "passed"), "{gate} proves nothing");
        assert!(planted.iter().any(|line| line["verdict"] == "failed"), "{gate} has no teeth");
    }
}

/// Whether the draws of a line are further from the target than chance allows, by one statistic or the other.
fn is_off(line: &Value) -> bool {
    let is_off = |statistic: &str| {
        let [found, most] = ["found", "at_most"].map(|of| line["composition"][statistic][of].as_f64().unwrap());
        found > most
    };
    is_off("total_variation") || is_off("greatest_difference")
}

#[test]
fn the_composition_table_has_both_rules_clean_inverted_and_without_residual() {
    let report = &TEETH.1;
    let lines = lines(report, Some("composition"));
    let of = |fault: Option<&str>, rule: &str| {
        let of_rule = |line: &&&Value| line["composition"]["rule"] == rule;
        lines.iter().filter(of_rule).filter(|line| line["fault"].as_str() == fault).copied().collect::<Vec<_>>()
    };
    for rule in ["coupled", "rejection"] {
        let clean = of(None, rule);
        assert!(clean.len() >= 4 && clean.iter().all(|line| line["checked"] == 20_000 && !is_off(line)), "{clean:#?}");
        for line in clean {
            let [verified, accepted] = ["verified", "accepted"].map(|of| line["composition"][of].as_f64().unwrap());
            assert!((0.05..=0.95).contains(&(accepted / verified)), "{line}");
        }
        // The distribution must give a fault away, and not the guard alone.
        for fault in ["accept-inverted", "residual-dropped", "uniform-zero"] {
            let planted = of(Some(fault), rule);
            let absent = |line: &&&Value| line["fault"] == fault && line["case"] == rule;
            match lines.iter().find(absent) {
                None => assert!(planted.len() >= 2 && planted.iter().all(|line| is_off(line)), "{planted:#?}"),
                Some(line) => {
                    assert!(rule == "coupled" && fault != "accept-inverted" && planted.is_empty(), "{line}");
                    assert_eq!(line["verdict"], "does-not-apply");
                    assert!(line["reason"].as_str().is_some_and(|why| !why.is_empty()), "{line}");
                }
            }
        }
    }
    assert_eq!(report["quantile"].as_f64(), Some(0.999));
}

#[test]
fn the_gates_say_the_same_each_time_with_and_without_teeth() {
    let run = stepscope(&["gates", "--json"]);
    let report = parsed(&run);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let clean = |report| lines(report, None).into_iter().filter(is_clean).cloned().collect::<Vec<_>>();
    assert_eq!(clean(&report), clean(&TEETH.1));
    assert_eq!(lines(&report, None).len(), clean(&report).len(), "without --teeth nothing is planted");
}

/// What is absent is named, is no pass, and changes no exit status.
#[test]
fn what_cannot_be_run_here_is_named() {
    let report = &TEETH.1;
    let absent = report["not_run"].as_array().unwrap();
    let cuda: Vec<&Value> =
        lines(report, Some("arithmetic")).into_iter().filter(|line| line["case"] == "cuda").collect();
    if let [line] = cuda[..] {
        assert_eq!((&line["verdict"], &line["checked"]), (&Value::from("not-run"), &Value::from(0)));
        let told = absent.iter().find(|told| told["case"] == "cuda").expect("told at the end, too");
        assert!(told["reason"].as_str().is_some_and(|why| why.contains("not available")), "{told}");
    }
    for isa in stepscope::arith::Isa::ALL.into_iter().filter(|isa| isa.is_supported()) {
        let passed = |line: &&Value| line["verdict"] == "passed" && line["case"].as_str().unwrap().contains(isa.name());
        let count = lines(report, Some("arithmetic")).iter().filter(|line| passed(line)).count();
        assert!(count >= 2, "{isa}: golden vectors and rows");
    }
}

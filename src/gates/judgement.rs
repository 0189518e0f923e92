//! What a gate says.

use super::composition::Composed;
use super::driver::Trail;
use crate::engine::faults::Fault;
use crate::types::TokenId;

/// A gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Verified drafts leave the distribution as it is.
    Composition,
    /// Filters do what their definitions say, whoever else is in the batch.
    Filters,
    /// An invalid row never becomes a token.
    Validity,
    /// Masks are those of a grammar that never rolled back.
    FillRollback,
    /// Every path gives the bits of the arithmetic contract.
    Arithmetic,
}

impl Gate {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 5] = [Self::Composition, Self::Filters, Self::Validity, Self::FillRollback, Self::Arithmetic];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Composition => "composition",
            Self::Filters => "filters",
            Self::Validity => "validity",
            Self::FillRollback => "fill-rollback",
            Self::Arithmetic => "arithmetic",
        }
    }

    /// What it asks.
    pub fn question(self) -> &'static str {
        match self {
            Self::Composition => "do verified drafts leave the distribution as it is?",
            Self::Filters => "do temperature, top-k, top-p and min-p do what they say, in any batch?",
            Self::Validity => "does an invalid row never become a token?",
            Self::FillRollback => "are masks those of a grammar that never rolled back?",
            Self::Arithmetic => "does every path give the contract's bits?",
        }
    }
}

/// How one part of a gate ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was compared is right.
    Passed,
    /// Something is wrong, or the part proved nothing; in words.
    Failed(String),
    /// The fault cannot exist here; why.
    DoesNotApply(String),
    /// It cannot be run on this machine or by this build; why.
    NotRun(String),
}

/// One part of a gate, without a fault or with one planted.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The gate.
    pub gate: Gate,
    /// The fault that was planted.
    pub fault: Option<Fault>,
    /// What was run.
    pub case: String,
    /// Comparisons, or draws.
    pub checked: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// The figures of a part of [`Gate::Composition`] that was run.
    pub composed: Option<Composed>,
}

impl Line {
    /// Whether it is as it should be: passed without a fault, failed with one.
    pub fn is_expected(&self) -> bool {
        match (&self.verdict, self.fault) {
            (Verdict::Passed, None) | (Verdict::Failed(_), Some(_)) => true,
            (Verdict::Failed(_), None) | (Verdict::Passed, Some(_)) => false,
            (Verdict::DoesNotApply(_) | Verdict::NotRun(_), _) => true,
        }
    }

    pub(super) fn does_not_apply(gate: Gate, fault: Fault, case: impl Into<String>, why: &str) -> Self {
        Self {
            gate,
            fault: Some(fault),
            case: case.into(),
            checked: 0,
            verdict: Verdict::DoesNotApply(why.to_owned()),
            composed: None,
        }
    }
}

/// What all gates said.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Their parts, gate by gate.
    pub lines: Vec<Line>,
}

impl Report {
    /// The parts of a gate.
    pub fn of(&self, gate: Gate) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.gate == gate)
    }

    /// Whether every gate passed a part at least, failed none, and failed each of its planted faults wherever that applies,
    /// which is somewhere.
    pub fn is_as_it_should_be(&self) -> bool {
        let proved = |gate| self.of(gate).any(|line| line.fault.is_none() && line.verdict == Verdict::Passed);
        let mut planted = self.lines.iter().filter_map(|line| line.fault.map(|fault| (line.gate, fault)));
        let is_caught = |(gate, fault)| {
            self.of(gate).any(|line| line.fault == Some(fault) && matches!(line.verdict, Verdict::Failed(_)))
        };
        self.lines.iter().all(Line::is_expected) && Gate::ALL.into_iter().all(proved) && planted.all(is_caught)
    }
}

/// Comparisons of one part of a gate, counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    checked: u64,
    differences: u64,
    first: Option<String>,
}

impl Comparison {
    /// Counts a comparison; `tell` says what differs, where something does.
    pub fn same(&mut self, is_same: bool, tell: impl FnOnce() -> String) {
        self.checked += 1;
        if !is_same {
            self.differences += 1;
            self.first.get_or_insert_with(tell);
        }
    }

    /// Counts whether drafts were accepted and drafts were rejected: a gate that has only seen one of the two has not seen what it
    /// is for.
    pub fn tried_both(&mut self, trails: &[Trail]) {
        let judged = trails.iter().flat_map(Trail::judged);
        let (mut accepted, mut rejected) = (0, 0);
        for (draft, token) in judged.filter_map(|judged| Some((judged.draft?, judged.token))) {
            *(if draft.token == token { &mut accepted } else { &mut rejected }) += 1;
        }
        self.same(accepted > 0 && rejected > 0, || {
            format!("expected accepted and rejected drafts, found {accepted} and {rejected}, which proves nothing")
        });
    }

    /// The part of the gate that it was. A comparison of nothing has proved nothing.
    pub fn line(self, gate: Gate, fault: Option<Fault>, case: impl Into<String>) -> Line {
        let Self { checked, differences, first } = self;
        let verdict = match first {
            Some(first) => Verdict::Failed(format!("{differences} of {checked} differ; the first: {first}")),
            None if checked == 0 => Verdict::Failed("nothing was compared, which proves nothing".to_owned()),
            None => Verdict::Passed,
        };
        Line { gate, fault, case: case.into(), checked, verdict, composed: None }
    }
}

/// Where tokens part, in words.
pub(super) fn parting(expected: &[TokenId], found: &[TokenId]) -> String {
    let same = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
    let told = |tokens: &[TokenId]| tokens.get(same).map_or("the end".to_owned(), ToString::to_string);
    format!("token {same}: expected {}, found {}", told(expected), told(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(gate: Gate) -> Line {
        let mut comparison = Comparison::default();
        comparison.same(true, String::new);
        comparison.line(gate, None, "case")
    }

    fn caught(gate: Gate, fault: Fault) -> Line {
        Line { fault: Some(fault), verdict: Verdict::Failed("as it should".to_owned()), ..passed(gate) }
    }

    #[test]
    fn a_comparison_of_nothing_fails() {
        let line = Comparison::default().line(Gate::Filters, None, "case");
        assert!(matches!(&line.verdict, Verdict::Failed(why) if why.contains("proves nothing")), "{line:?}");
    }

    #[test]
    fn a_parting_is_the_first_token_that_differs() {
        let tokens = |ids: &[u32]| ids.iter().copied().map(TokenId).collect::<Vec<_>>();
        assert_eq!(parting(&tokens(&[1, 2, 3]), &tokens(&[1, 4, 3])), "token 1: expected 2, found 4");
        assert_eq!(parting(&tokens(&[1, 2]), &tokens(&[1])), "token 1: expected 2, found the end");
    }

    #[test]
    fn every_gate_has_to_prove_something_and_every_fault_has_to_be_caught() {
        let clean: Vec<Line> = Gate::ALL.into_iter().map(passed).collect();
        let is_right = |more: Vec<Line>| Report { lines: [clean.clone(), more].concat() }.is_as_it_should_be();
        assert!(is_right(Vec::new()));
        assert!(!Report { lines: clean[1..].to_vec() }.is_as_it_should_be(), "a gate that is not there");

        let absent = Line { verdict: Verdict::NotRun("no GPU".to_owned()), ..passed(Gate::Arithmetic) };
        assert!(is_right(vec![absent.clone()]));
        assert!(!Report { lines: [&clean[..4], &[absent]].concat() }.is_as_it_should_be(), "absent is not passed");

        let (gate, fault) = (Gate::Composition, Fault::RESIDUAL_DROPPED);
        let elsewhere = Line::does_not_apply(gate, fault, "coupled", "there is no residual");
        assert!(is_right(vec![caught(gate, fault), elsewhere.clone()]));
        assert!(!is_right(vec![elsewhere]), "a fault that applies nowhere is not caught");
        assert!(!is_right(vec![caught(gate, fault), Line { fault: Some(fault), ..passed(gate) }]), "passed once");
        assert!(!is_right(vec![Line { fault: None, ..caught(gate, fault) }]), "a gate that fails");
    }
}

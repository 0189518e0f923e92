//! The subsets that were judged, each once.

use std::collections::BTreeMap;

use super::Verdict;

/// A judge that is asked no question twice.
pub(super) struct JudgedSubsets<J> {
    judge: J,
    verdicts: BTreeMap<Vec<usize>, Verdict>,
}

impl<J: FnMut(&[usize]) -> Verdict> JudgedSubsets<J> {
    pub(super) fn new(judge: J) -> Self {
        // Without differences it is the good configuration, which is not worse than itself.
        Self { judge, verdicts: BTreeMap::from([(Vec::new(), Verdict::NotBad)]) }
    }

    /// The verdict on a subset, in ascending order.
    pub(super) fn verdict(&mut self, subset: &[usize]) -> Verdict {
        if let Some(verdict) = self.verdicts.get(subset) {
            return *verdict;
        }
        let verdict = (self.judge)(subset);
        self.verdicts.insert(subset.to_vec(), verdict);
        verdict
    }

    pub(super) fn is_bad(&mut self, subset: &[usize]) -> bool {
        self.verdict(subset) == Verdict::Bad
    }
}

//! What a check says about one subject, and how it comes to say it.

use std::borrow::Cow;
use std::fmt::{self, Debug, Display};
use std::str::FromStr;

/// The checks, in the order in which a request goes through the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CheckName {
    /// The chat template and the tokenizer give the recorded prompt.
    Prompt,
    /// The parameters follow from the request, the overrides and the generation configuration.
    Params,
    /// No invalid row became a token.
    Validity,
    /// The LM head gives the recorded row from the recorded head input.
    Logits,
    /// The whole model gives the recorded row from the recorded tokens.
    Forward,
    /// What was verified follows from what was proposed, and that from the tokens so far.
    Drafts,
    /// What the grammar allowed in every row follows from the tokens.
    Masks,
    /// The sampler used the masks that were filled, and obeyed them.
    AppliedMask,
    /// The sampler gives the recorded token from the row.
    Sampler,
    /// Each draft was judged as its row has it.
    Accept,
    /// The steps of a sequence join up, and so does what the client was told.
    Commit,
    /// The sequence ended when it had to, and for the recorded reason.
    Termination,
    /// No step's own scalars show a sign that is a fault by itself.
    Signs,
}

impl CheckName {
    /// Every check.
    pub const ALL: [Self; 13] = [
        Self::Prompt,
        Self::Params,
        Self::Validity,
        Self::Logits,
        Self::Forward,
        Self::Drafts,
        Self::Masks,
        Self::AppliedMask,
        Self::Sampler,
        Self::Accept,
        Self::Commit,
        Self::Termination,
        Self::Signs,
    ];

    /// The checks that need no logits row: they read step records alone.
    pub const CHEAP: [Self; 8] = [
        Self::Prompt,
        Self::Params,
        Self::Drafts,
        Self::Masks,
        Self::AppliedMask,
        Self::Commit,
        Self::Termination,
        Self::Signs,
    ];

    /// The name on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Params => "params",
            Self::Validity => "validity",
            Self::Logits => "logits",
            Self::Forward => "forward",
            Self::Drafts => "drafts",
            Self::Masks => "masks",
            Self::AppliedMask => "applied-mask",
            Self::Sampler => "sampler",
            Self::Accept => "accept",
            Self::Commit => "commit",
            Self::Termination => "termination",
            Self::Signs => "signs",
        }
    }

    /// The question it answers, for a summary.
    pub fn question(self) -> &'static str {
        match self {
            Self::Prompt => "do template and tokenizer give this prompt?",
            Self::Params => "do the parameters follow from the request?",
            Self::Validity => "did only valid rows become tokens?",
            Self::Logits => "does the head give this row?",
            Self::Forward => "does the whole model give this row?",
            Self::Drafts => "were these the drafts to verify?",
            Self::Masks => "does the grammar allow this in each row?",
            Self::AppliedMask => "did the sampler use and obey it?",
            Self::Sampler => "does the sampler give this token?",
            Self::Accept => "was each draft judged rightly?",
            Self::Commit => "do the steps and the answer join up?",
            Self::Termination => "did it end when and as it had to?",
            Self::Signs => "is any step wrong by its own scalars?",
        }
    }
}

impl Display for CheckName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// A name that no check has.
#[derive(Debug, thiserror::Error)]
#[error("unknown check `{name}`; the checks are {}", CheckName::ALL.map(CheckName::as_str).join(", "))]
pub struct UnknownCheck {
    name: String,
}

impl FromStr for CheckName {
    type Err = UnknownCheck;

    fn from_str(name: &str) -> Result<Self, UnknownCheck> {
        Self::ALL.into_iter().find(|check| check.as_str() == name).ok_or_else(|| UnknownCheck { name: name.to_owned() })
    }
}

/// Why something could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Skip {
    /// Whether something is absent that should be here (damage, loss, the model), as opposed to something that this
    /// recorder never meant to record. Replay then ends with exit status 3 at best.
    pub missing: bool,
    /// In words.
    pub reason: Cow<'static, str>,
}

impl Skip {
    /// Something that should be here is not.
    pub fn missing(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { missing: true, reason: reason.into() }
    }

    /// The recorder did not record it, by its nature or its configuration.
    pub fn not_recorded(reason: impl Into<Cow<'static, str>>) -> Self {
        Self { missing: false, reason: reason.into() }
    }
}

/// Wrong facts that are kept of one subject; more are counted.
const MISMATCHES_KEPT: usize = 1_000;
/// Most bytes of what is quoted of a fact: a record can hold millions of tokens.
const QUOTED: usize = 1_000;

/// `text`, or its beginning with its length.
pub(super) fn quoted(text: String) -> String {
    if text.len() <= QUOTED {
        return text;
    }
    let end = text.floor_char_boundary(QUOTED);
    format!("{}... ({} bytes)", &text[..end], text.len())
}

/// One fact that does not follow from the recorded inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The fact, as the records name it.
    pub fact: Cow<'static, str>,
    /// What the re-computation gives.
    pub expected: String,
    /// What the capture says.
    pub found: String,
}

/// What a check says about one subject (a request, a step, a row).
///
/// Built by comparing facts one by one; a subject about which nothing could be compared is skipped, never clean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    compared: u64,
    wrong: u64,
    mismatches: Vec<Mismatch>,
    skips: Vec<Skip>,
}

impl Verdict {
    /// A verdict that has compared nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The verdict on a subject that cannot be checked at all.
    pub fn skipped(skip: Skip) -> Self {
        Self { skips: vec![skip], ..Self::default() }
    }

    /// Compares one fact for equality.
    pub fn equal<T: PartialEq + Debug>(&mut self, fact: impl Into<Cow<'static, str>>, expected: T, found: T) {
        if expected == found {
            self.agrees();
        } else {
            self.mismatch(fact, shown(&expected), shown(&found));
        }
    }

    /// Compares one fact that the recorder may not have known.
    pub fn equal_if_known<T: PartialEq + Debug>(&mut self, fact: &'static str, expected: T, found: Option<T>) {
        match found {
            Some(found) => self.equal(fact, expected, found),
            None => self.skip(Skip::not_recorded(format!("{fact} is not recorded"))),
        }
    }

    /// States one fact that holds or does not.
    pub fn holds(
        &mut self,
        holds: bool,
        fact: impl Into<Cow<'static, str>>,
        expected: impl Display,
        found: impl Display,
    ) {
        if holds {
            self.agrees();
        } else {
            self.mismatch(fact, expected.to_string(), found.to_string());
        }
    }

    /// Records a fact that holds.
    pub fn agrees(&mut self) {
        self.compared += 1;
    }

    /// Compares two floats bit for bit, any NaN equal to any other.
    pub fn same_bits(&mut self, fact: &'static str, expected: f32, found: f32) {
        let same = expected.to_bits() == found.to_bits() || (expected.is_nan() && found.is_nan());
        self.holds(same, fact, Bits(expected), Bits(found));
    }

    /// Records a fact that is wrong.
    pub fn mismatch(&mut self, fact: impl Into<Cow<'static, str>>, expected: String, found: String) {
        self.compared += 1;
        self.wrong += 1;
        if self.mismatches.len() < MISMATCHES_KEPT {
            let (expected, found) = (quoted(expected), quoted(found));
            self.mismatches.push(Mismatch { fact: fact.into(), expected, found });
        }
    }

    /// Records that one fact could not be compared.
    pub fn skip(&mut self, skip: Skip) {
        self.skips.push(skip);
    }

    /// Whether anything was compared.
    pub fn is_checked(&self) -> bool {
        self.compared > 0
    }

    /// How many facts are wrong.
    pub fn wrong(&self) -> u64 {
        self.wrong
    }

    /// The facts that are wrong, the first of them if they are very many.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }

    /// The facts that could not be compared.
    pub fn skips(&self) -> &[Skip] {
        &self.skips
    }
}

/// A float with the bits that tell it from its neighbours.
struct Bits(f32);

impl Display for Bits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (bits {:08x})", self.0, self.0.to_bits())
    }
}

/// A value for people: an optional one without the type around it.
fn shown(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.strip_prefix("Some(").and_then(|text| text.strip_suffix(')')) {
        Some(inner) => inner.to_owned(),
        None if text == "None" => "none".to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for check in CheckName::ALL {
            assert_eq!(check.as_str().parse::<CheckName>().unwrap(), check);
        }
        let message = "logit".parse::<CheckName>().unwrap_err().to_string();
        assert!(message.contains("`logit`") && message.contains("termination"), "{message}");
    }

    #[test]
    fn nothing_compared_is_not_clean() {
        let mut verdict = Verdict::new();
        verdict.equal_if_known::<u32>("rank", 0, None);
        assert!(!verdict.is_checked());
        assert_eq!(verdict.skips().len(), 1);
    }

    #[test]
    fn what_is_kept_of_a_hostile_subject_is_bounded() {
        let mut verdict = Verdict::new();
        for _ in 0..MISMATCHES_KEPT + 5 {
            verdict.equal("emitted", "\u{e9}".repeat(QUOTED), String::new());
        }
        assert_eq!((verdict.wrong(), verdict.mismatches().len()), (MISMATCHES_KEPT as u64 + 5, MISMATCHES_KEPT));
        assert!(verdict.mismatches()[0].expected.len() < QUOTED + 30);
    }

    #[test]
    fn a_flipped_bit_is_a_mismatch_and_a_nan_is_a_nan() {
        let mut verdict = Verdict::new();
        verdict.same_bits("maximum", 1.0, f32::from_bits(1.0f32.to_bits() ^ 1));
        verdict.same_bits("maximum", 0.0, -0.0);
        verdict.same_bits("maximum", f32::NAN, -f32::NAN);
        assert_eq!(verdict.mismatches().len(), 2);
    }
}

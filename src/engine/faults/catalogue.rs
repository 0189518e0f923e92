//! The catalogue of planted faults.

use std::fmt;
use std::str::FromStr;

/// A planted fault: a real bug's shape, to prove that the tools find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault(usize);

/// Where a fault lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// What reads and rolls recurrent state, and what feeds the model.
    State,
    /// The LM head and what it leaves behind.
    Head,
    /// What is drafted and scheduled.
    Scheduler,
    /// Masks, and where the grammar stands.
    Grammar,
    /// Filters, draws and verdicts.
    Sampler,
    /// Which values a request runs with.
    Params,
    /// What is told of tools, asked for with them, and read of calls.
    Tools,
}

/// A condition that goes with the steps that a fault spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// It, as an expression over columns.
    pub predicate: &'static str,
    /// Whether it says when the fault acts. Else it holds where the fault acts first, for another reason: what decides is no
    /// column, or a pair of columns that says less of these few steps.
    pub is_own: bool,
}

/// One entry of the catalogue.
struct Entry {
    name: &'static str,
    area: Area,
    /// What goes wrong, and whose bug has that shape.
    description: &'static str,
    /// The check that has to catch it, by its name in reports.
    check: &'static str,
    /// The condition that goes with the steps it spoils; `None` where none does.
    condition: Option<Condition>,
    /// The operation that it makes go wrong, and how; `None` where what the model gives is right.
    operation: Option<(&'static str, &'static str)>,
}

/// Makes a constant per fault, and the table in the same order.
macro_rules! catalogue {
    ($($constant:ident $name:literal $area:ident $check:literal $description:literal
        $(when $condition:literal)? $(beside $beside:literal)? $(at $operation:literal $how:literal)?;)*) => {
        /// Places of the faults in the table.
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "named after the constants that they number")]
        enum Index { $($constant),* }

        impl Fault {
            $(#[doc = $description] pub const $constant: Self = Self(Index::$constant as usize);)*
        }

        const TABLE: &[Entry] = &[
            $(Entry {
                name: $name,
                area: Area::$area,
                description: $description,
                check: $check,
                condition: [
                    $(Some(Condition { predicate: $condition, is_own: true }),)?
                    $(Some(Condition { predicate: $beside, is_own: false }),)?
                    None,
                ][0],
                operation: [$(Some(($operation, $how)),)? None][0],
            }),*
        ];
    };
}

catalogue! {
    STATE_BOUND_BY_QUERY "state-bound-by-query" State "forward"
        "a step with fewer tokens than the one before accepted convolves to zeros, and its state does not roll (vLLM #50021)"
        when "prev_accepted > q_len"
        at "short_convolution" "zeroed";
    STATE_CLAMP_TO_QUERY "state-clamp-to-query" State "forward"
        "the history's column is clamped to this step's length (vLLM #56518, vllm-ascend #14161)"
        when "prev_accepted > q_len"
        at "history" "stale";
    STATE_CLAMP_TO_WIDTH "state-clamp-to-width" State "forward"
        "the history's column is clamped to the convolution's width (xLLM #1876, #2247)"
        when "prev_accepted > 3"
        at "history" "stale";
    STATE_SLOT_ZERO "state-slot-zero" State "forward"
        "a step without drafts reads column 0, whatever was accepted (vLLM #56531, #40875, #55504)"
        beside "previous.emitted != 1 and rows_masked < previous.rows"
        at "history" "stale";
    STATE_STALE_COUNT "state-stale-count" State "forward"
        "the accepted count is that of the step before last (vLLM #50021 thread, #51571)"
        beside "prev_accepted > q_len"
        at "history" "stale";
    STATE_ROLLED_SHORT "state-rolled-short" State "forward"
        "after a step that accepted several tokens the state is rolled by one too few (a count without the bonus token)"
        when "state_column > 0"
        at "history" "stale";
    STATE_COUNT_ZERO "state-count-zero" State "forward"
        "an accepted count of 1 is taken for 0, and the index before the first for the last (vLLM #48475, #41190)"
        beside "previous.emitted > previous.drafts"
        at "history" "zeroed";
    PREFILL_TAIL "prefill-tail" State "forward"
        "a last chunk of one token is run as a decode of the token before (syv-ai #25)"
        at "embedding" "foreign-row";
    VERIFY_POSITION "verify-position" State "forward"
        "a query of several rows reads its last token twice (vLLM #40831)"
        beside "drafts != previous.drafts"
        at "embedding" "foreign-row";

    HEAD_TAIL "head-tail" Head "logits"
        "the last rows of the head are those of a neighbouring tile (a kernel without its tail case)"
        at "logits" "differs";
    ROWS_FROM_NEIGHBOUR "rows-from-neighbour" Head "logits"
        "a sequence gets the logits of the row before (rows miscounted between scheduler and worker)"
        at "logits" "foreign-row";
    NAN_SANITISED "nan-sanitised" Head "logits"
        "a row of NaN is made a constant one and drawn from (sglang #33187, #33206)"
        at "logits" "zeroed";

    DRAFTS_UNTRIMMED "drafts-untrimmed" Scheduler "drafts"
        "drafts that the grammar refuses are verified (vLLM #27969)"
        beside "rows_masked > 1";
    DRAFTS_STALE "drafts-stale" Scheduler "drafts"
        "drafts arrive one step late (vLLM #54437)"
        beside "path == decode";
    DRAFTS_FROM_NEIGHBOUR "drafts-from-neighbour" Scheduler "drafts"
        "a sequence gets its neighbour's drafts (vLLM #49694)"
        beside "previous.rows > previous.rows_masked";
    RAGGED_QUERY_FAILS "ragged-query-fails" Scheduler "sampler"
        "a query that is neither one token nor full length fails its request (vllm-xpu-kernels #599)"
        beside "path == verify";
    COMMIT_PAST_END "commit-past-end" Scheduler "termination"
        "drafts after the end are committed (llama.cpp #28049, sglang #15050)";
    END_MISSED "end-missed" Scheduler "termination"
        "the end is looked for at the last token of a step alone (sglang #14464)";
    GOES_ON_AFTER_REJECTION "goes-on-after-rejection" Scheduler "commit"
        "tokens are committed after a rejected draft (a bonus beside a rejection)"
        when "path == verify";

    MASKS_FROM_NEIGHBOUR "masks-from-neighbour" Grammar "applied-mask"
        "the mask rows of a neighbour are applied (vLLM #49694, #49738)"
        beside "rows_masked == 1";
    MASKS_SHIFTED "masks-shifted" Grammar "applied-mask"
        "each row gets the mask of the row before (TensorRT-LLM #18892)"
        beside "rows_masked > previous.rows";
    MASK_NOT_ON_BONUS "mask-not-on-bonus" Grammar "applied-mask"
        "the row after the last draft is not masked (vLLM before #44297)"
        beside "rows_masked != previous.rows_masked and rows_masked != 1";
    MASKS_DROPPED "masks-dropped" Grammar "applied-mask"
        "no row of a step with drafts is masked (LMDeploy #4551)"
        when "rows_masked > 1";
    PADDED_ROWS_PERMISSIVE "padded-rows-permissive" Grammar "masks"
        "a withheld draft is taken for a rejected one, and its row allows everything (vLLM #54437)"
        beside "not reasoning";
    GRAMMAR_ONE_LATE "grammar-one-late" Grammar "masks"
        "the grammar stands one token behind what was emitted (vLLM #48228, #48516)"
        beside "rows_masked == previous.rows - 1";
    ROLLBACK_SHORT "rollback-short" Grammar "masks"
        "one draft too few is rolled back after the fill (xgrammar #161)"
        when "rows_masked > 1";
    DOUBLE_ACCEPT "double-accept" Grammar "masks"
        "the grammar takes the last token of a step twice (sglang #12461, #29110)"
        beside "rows == rows_masked + 1";
    END_ROLLBACK_LAG "end-rollback-lag" Grammar "masks"
        "a drafted end token stays in the grammar after the rollback (vLLM #25905)";
    REASONING_END_LATE "reasoning-end-late" Grammar "masks"
        "the grammar begins at the step after the end of reasoning, not at the token (vLLM #44006, #31858)";

    ACCEPT_INVERTED "accept-inverted" Sampler "sampler"
        "a draft passes where it should fail, and fails where it should pass (a gate's own fault)"
        beside "drafts > previous.drafts";
    RESIDUAL_DROPPED "residual-dropped" Sampler "sampler"
        "a rejected draft is replaced by a draw from p, not from the residual (a gate's own fault)"
        beside "withheld == previous.state_column";
    UNIFORM_ZERO "uniform-zero" Sampler "accept"
        "the uniform is 0, and every possible draft passes (vllm-ascend #13730)"
        beside "drafts > previous.drafts";
    MATCH_FOR_RATIO "match-for-ratio" Sampler "accept"
        "a draft passes when it is the token drawn, where p against q should decide (mlx-swift-lm #459)"
        beside "drafts > previous.drafts";
    ACCEPT_ANYWAY "accept-anyway" Sampler "sampler"
        "a draft among the two best passes for the best one (a tolerant comparison)";
    FOREIGN_MAXIMUM "foreign-maximum" Sampler "sampler"
        "min-p weighs tokens against a neighbouring row's maximum, and token 0 is left when none passes (a sampled path)";
    MIN_P_SKIPPED "min-p-skipped" Sampler "sampler"
        "min-p does not apply to rows that verify a draft (vLLM #42744)";
    BIAS_SKIPPED "bias-skipped" Sampler "sampler"
        "logit bias does not apply to rows that verify a draft (vLLM #42802)"
        beside "rows_masked > previous.rows";
    MIN_TOKENS_SKIPPED "min-tokens-skipped" Sampler "sampler"
        "`min_tokens` does not apply to rows that verify a draft (the same, of another processor)";
    PENALTIES_ONE_BEHIND "penalties-one-behind" Sampler "sampler"
        "penalties do not see the last token (mlx-lm #990, #1175)";
    ALWAYS_GREEDY "always-greedy" Sampler "sampler"
        "rows that verify a draft give their best token at any temperature (mistral.rs #2329)"
        beside "drafts > withheld_at_limit";
    SEED_IGNORED "seed-ignored" Sampler "sampler"
        "the draw depends on the step it happens in (vLLM #6038, #9441)";
    INVALID_ROW_TO_ZERO "invalid-row-to-zero" Sampler "validity"
        "a row with a NaN gives token 0 (vLLM #25549, #42426)"
        at "logits" "non-finite";
    LOGPROB_ZERO "logprob-zero" Sampler "sampler"
        "accepted drafts are told with a log-probability of 0 (llama.cpp #27972, vLLM #17876)";

    TEMPERATURE_ZERO "temperature-zero" Params "params"
        "an omitted temperature is 0 (a bare numeric default)";
    SEED_ZERO "seed-zero" Params "params"
        "an omitted seed is 0 (a bare numeric default)";
    GENERATION_CONFIG_IGNORED "generation-config-ignored" Params "params"
        "what the model recommends is not looked at (Qwen3 #513, vLLM #15241)";

    TOOLS_NOT_TOLD "tools-not-told" Tools "prompt"
        "the prompt is rendered without the tools (dynamo #13396)";
    PARALLEL_CALLS_IGNORED "parallel-calls-ignored" Tools "commit"
        "`parallel_tool_calls: false` is not looked at (vLLM #9451, sglang #9696)"
        beside "withheld_at_limit > state_column";
    TOOL_CALL_DROPPED "tool-call-dropped" Tools "commit"
        "the last call of an answer is dropped (vLLM #48171, mlx-lm #1417)"
        beside "withheld == 1 and prev_accepted < previous.prev_accepted";
    ARGUMENTS_ESCAPED_TWICE "arguments-escaped-twice" Tools "commit"
        "texts among the arguments are escaped once more (llama.cpp #24667)"
        beside "withheld == 1 and prev_accepted < previous.prev_accepted";
    ARGUMENTS_AS_TEXT "arguments-as-text" Tools "commit"
        "arguments that are no text are taken for text (sglang #12456)"
        beside "withheld == 1 and prev_accepted < previous.prev_accepted";
}

impl Fault {
    /// Every fault, by area.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len()).map(Self)
    }

    /// Its name on the command line and in captures.
    pub fn name(self) -> &'static str {
        TABLE[self.0].name
    }

    /// Where it lives.
    pub fn area(self) -> Area {
        TABLE[self.0].area
    }

    /// What goes wrong, and whose bug has that shape.
    pub fn description(self) -> &'static str {
        TABLE[self.0].description
    }

    /// The check that has to catch it, by its name in reports.
    pub fn check(self) -> &'static str {
        TABLE[self.0].check
    }

    /// The condition that goes with the steps it spoils in the requests of the teeth table; `None` where none does.
    pub fn condition(self) -> Option<Condition> {
        TABLE[self.0].condition
    }

    /// The operation that it makes go wrong first, and how, in a word; `None` where what the model gives is right.
    pub fn operation(self) -> Option<(&'static str, &'static str)> {
        TABLE[self.0].operation
    }
}

impl Area {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Head => "head",
            Self::Scheduler => "scheduler",
            Self::Grammar => "grammar",
            Self::Sampler => "sampler",
            Self::Params => "params",
            Self::Tools => "tools",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that no fault has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault `{name}`; `stepscope faults` lists them{}", suggestion.map_or(String::new(), |near| format!(", `{near}` among them")))]
pub struct UnknownFault {
    name: String,
    suggestion: Option<&'static str>,
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        if let Some(fault) = Self::all().find(|fault| fault.name() == name) {
            return Ok(fault);
        }
        let likeness = |known: &&'static str| (strsim::normalized_damerau_levenshtein(name, known) * 100.0) as u32;
        let closest = Self::all().map(Self::name).max_by_key(likeness).filter(|known| likeness(known) >= 60);
        Err(UnknownFault { name: name.to_owned(), suggestion: closest })
    }
}

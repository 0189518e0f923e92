//! The flags of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;

use super::engine_flags::EngineFlags;
use crate::cli::record::{Count, MANY, MOST, OverflowOption, Switch, TierOption};

/// Serve an OpenAI-compatible API, with the recorder inside
///
/// Chat completions, completions (both streamed or not), models, tokenize and detokenize as vLLM has them, Prometheus metrics
/// at /metrics, and POST /v1/params: what would this request run with? Requests mean what they mean to `record`; a field that
/// cannot be honoured is refused by an OpenAI error object that names it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Once it listens, one line of JSON goes to stdout: {\"listening\": URL, \"model\": NAME, \"capture\": FILE or null}. Everything else \
goes to stderr (RUST_LOG sets how much; bodies and keys are never logged).

Every response has the header x-request-id. In a capture it is the client_id of its request: `dump --request ID` shows the \
steps. With the request header `X-Stepscope-Params: 1` a response has a header of that name: each parameter's value, and the \
layer that decided it.

--capture ring writes a capture when a row is invalid, a tool call broken, an answer a loop, several forced tokens misranked or a \
response a 5xx, once the request has ended; and when somebody asks: POST /v1/captures. GET /v1/captures lists those that are \
there, GET /v1/captures/ID downloads one. A request that runs meanwhile is in it as far as it has come, and the capture says so.

A client that goes away ends its request. When all places of the queue are taken the answer is 429 with Retry-After. The \
head of a request has to come within 10 seconds (64 KiB, 64 headers at most) and its body within 30. A request has to name \
the server by an address, as localhost or as an --allow-host; pages of other origins are refused. /health, /metrics and \
/version ask for no key.

SIGTERM or SIGINT: accepts no more, lets requests end, finishes the capture. A second one cuts that short.

Exit status: 0 stopped, everything recorded; 2 could not run; 3 stopped, but the capture lacks something.")]
pub struct Options {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub listen: SocketAddr,
    /// Name of the model in requests and answers [default: the model's own]
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Environment variable that holds the API key which clients have to send; without it, none is asked for
    #[arg(long, value_name = "VAR")]
    pub api_key_env: Option<String>,
    /// Name under which clients reach the server, besides addresses and localhost; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// Most requests that wait, beyond the --max-batch that run
    #[arg(long, value_name = "N", default_value = "64")]
    pub queue: Count<MOST>,
    /// Most connections at a time, 1 to 1024
    #[arg(long, value_name = "N", default_value = "256")]
    pub max_connections: Count<MANY>,
    /// Most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value = "4194304")]
    pub body_limit: Count<{ 1 << 30 }>,
    /// Seconds that requests have to end once the server stops
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    pub drain_seconds: u32,
    /// What is recorded [default: ring with --capture-dir, and off without]
    #[arg(long, value_name = "MODE", help_heading = "Recorder")]
    pub capture: Option<CaptureOption>,
    /// Folder for captures, made if there is none
    #[arg(long, value_name = "DIR", help_heading = "Recorder")]
    pub capture_dir: Option<PathBuf>,
    /// Seconds that the ring keeps a request after its end [default: 60]
    #[arg(long, value_name = "SECONDS", help_heading = "Recorder")]
    pub ring_seconds: Option<u32>,
    /// Most bytes that the ring keeps in memory [default: 268435456]
    #[arg(long, value_name = "BYTES", help_heading = "Recorder")]
    pub ring_bytes: Option<Count<{ 1 << 40 }>>,
    /// Most bytes of the ring's captures in the folder; the oldest are removed first [default: 1073741824]
    #[arg(long, value_name = "BYTES", help_heading = "Recorder")]
    pub captures_bytes: Option<Count<{ 1 << 50 }>>,
    /// Hours after which a capture of the ring is removed [default: 168]
    #[arg(long, value_name = "HOURS", help_heading = "Recorder")]
    pub captures_hours: Option<u32>,
    /// What the capture keeps of each logits row [default: hidden]
    #[arg(long, value_name = "TIER", help_heading = "Recorder")]
    pub capture_tier: Option<TierOption>,
    /// Values per row that the tier `topk` keeps [default: 64]
    #[arg(long, value_name = "K", help_heading = "Recorder")]
    pub top_k_rows: Option<Count<MOST>>,
    /// Whether the capture keeps a few projections of what each logits row passes through, layer by layer, by which `replay`
    /// names the operation that first went wrong [default: off]
    #[arg(long, value_name = "SWITCH", help_heading = "Recorder")]
    pub sketches: Option<Switch>,
    /// What happens when the writer of --capture always falls behind: the engine waits, or payloads are dropped and each loss
    /// is recorded [default: block]
    #[arg(long, value_name = "POLICY", help_heading = "Recorder")]
    pub overflow: Option<OverflowOption>,
    /// TOML file of `record`, of which the settings of the engine and the table `[sampling]` are read; a flag goes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How the engine runs.
    #[command(flatten)]
    pub engine: EngineFlags,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CaptureOption {
    /// Everything, into one capture from start to stop
    Always,
    /// The last seconds, in memory; into a capture when something happens
    Ring,
    /// Nothing
    Off,
}

impl Options {
    /// The engine's options, as `record` has them.
    pub fn as_of_record(&self) -> crate::cli::record::Options {
        crate::cli::record::Options {
            tier: self.capture_tier,
            top_k_rows: self.top_k_rows,
            sketches: self.sketches,
            overflow: self.overflow,
            config: self.config.clone(),
            ..self.engine.as_of_record()
        }
    }
}

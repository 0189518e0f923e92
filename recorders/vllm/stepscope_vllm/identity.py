"""The capture's header: what ran, as far as this process can know it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from . import FORMAT_VERSION, __version__, records
from .settings import Settings

SUPPORTED = ("0.30", "0.31", "0.32")
"""Versions of vLLM that this recorder was written against."""

GRAMMAR_PACKAGES = {
    "xgrammar": "xgrammar",
    "guidance": "llguidance",
    "outlines": "outlines_core",
    "lm-format-enforcer": "lm-format-enforcer",
}
"""vLLM's names of grammar backends, and the packages that do their work."""

_COMPONENTS = ("vllm", "torch", "transformers", "tokenizers", "triton", "numpy")

# Parts of vLLM's configuration, and what of each decides how tokens come about.
_CONFIGURATION = {
    "model_config": (
        "model", "tokenizer", "tokenizer_mode", "dtype", "seed", "max_model_len", "quantization", "enforce_eager",
        "logprobs_mode", "max_logprobs", "generation_config", "override_generation_config", "skip_tokenizer_init",
    ),
    "cache_config": (
        "block_size", "cache_dtype", "enable_prefix_caching", "mamba_cache_mode", "mamba_block_size",
        "num_gpu_blocks", "num_cpu_blocks",
    ),
    "scheduler_config": (
        "max_num_batched_tokens", "max_num_seqs", "enable_chunked_prefill", "async_scheduling", "policy",
        "long_prefill_token_threshold",
    ),
    "parallel_config": (
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "distributed_executor_backend",
        "data_parallel_rank",
    ),
    "speculative_config": (
        "method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max",
        "rejection_sample_method", "disable_padded_drafter_batch", "draft_sample_method",
    ),
    "structured_outputs_config": (
        "backend", "disable_any_whitespace", "disable_additional_properties", "reasoning_parser",
        "enable_in_reasoning",
    ),
    "attention_config": ("backend",),
    "load_config": ("load_format",),
}  # fmt: skip


def header(vllm_config: Any, scheduler: Any, recorder: Any, weights: dict[str, Any]) -> dict[str, Any]:
    """`Header`, from what the scheduler's process has and what the worker said of itself."""
    settings: Settings = recorder.settings
    hello = recorder.hello or {}
    backend = recorder.grammar_backend
    return records.header(
        format_version=FORMAT_VERSION,
        recorder={"name": "stepscope-vllm", "version": __version__, "build": None},
        sampler_semantics="vllm",
        arithmetic_version=None,
        epoch_ns=recorder.epoch_ns,
        model=_model(vllm_config, scheduler, weights),
        device=_device(hello),
        configuration=_configuration(vllm_config, scheduler, hello, backend, settings),
        components=_components(backend),
        faults=[name for name in os.environ.get("STEPSCOPE_FAULTS", "").split(",") if name],
        logits_tier=settings.tier,
        redactions=_redactions(settings),
    )


def weights(model: str, limit: int) -> dict[str, Any]:
    """Hashes of the weights and of the tokenizer, for a model that is on this machine.

    A file that Hugging Face's cache names by its hash costs nothing; any other is read if all of them together are not
    larger than `limit` bytes.
    """
    folder = Path(model) if Path(model).is_dir() else _snapshot(model)
    if folder is None:
        return {"file_bytes": None, "hashes": [], "tokenizer_hashes": []}
    files = sorted(folder.glob("*.safetensors"))
    unread = sum(file.stat().st_size for file in files if _named_hash(file) is None)
    each = [(file.name, _named_hash(file) or _sha256(file)) for file in files] if unread <= limit else []
    hashes = [{"algorithm": "sha256", "hex": each[0][1]}] if len(each) == 1 else []
    if each and (folder / "config.json").is_file():
        # What `sha256sum config.json *.safetensors | sha256sum` prints.
        each = sorted([*each, ("config.json", _sha256(folder / "config.json"))])
        lines = "".join(f"{digest}  {name}\n" for name, digest in each)
        hashes.append({"algorithm": "sha256-list", "hex": hashlib.sha256(lines.encode()).hexdigest()})
    return {
        "file_bytes": None,
        "hashes": hashes,
        "tokenizer_hashes": _tokenizer_hashes(folder / "tokenizer.json"),
    }


def _tokenizer_hashes(file: Path) -> list[dict[str, str]]:
    """Of the form in which the `tokenizers` library writes it, which does not depend on how the file is laid out."""
    try:
        from tokenizers import Tokenizer

        text = Tokenizer.from_file(str(file)).to_str()
    except Exception:
        return []
    return [{"algorithm": "sha256", "hex": hashlib.sha256(text.encode()).hexdigest()}]


def unsupported(version: str) -> str | None:
    """A warning for a version of vLLM that nobody tried with this recorder."""
    if version.startswith(tuple(f"{known}." for known in SUPPORTED)) or version in SUPPORTED:
        return None
    known = ", ".join(SUPPORTED)
    return f"vLLM {version} is not among the versions this was written for ({known}); what is recorded may be incomplete"


def vllm_version() -> str:
    """The version of vLLM that runs."""
    import vllm

    return str(getattr(vllm, "__version__", "unknown"))


def _model(vllm_config: Any, scheduler: Any, weights: dict[str, Any]) -> dict[str, Any]:
    config = vllm_config.model_config
    return {
        "name": Path(str(config.model)).name,
        "architecture": getattr(config.hf_config, "model_type", None),
        "vocabulary_size": config.get_vocab_size(),
        **weights,
        "chat_template_hashes": _chat_template(scheduler),
        "end_tokens": end_tokens(vllm_config, scheduler),
        "context_length": config.max_model_len,
    }


def end_tokens(vllm_config: Any, scheduler: Any) -> list[int] | None:
    """The tokens that end a sequence unless a request says otherwise: the tokenizer's and the generation
    configuration's, in order."""
    tokenizer = _tokenizer(scheduler)
    found = [tokenizer.eos_token_id] if tokenizer is not None and tokenizer.eos_token_id is not None else []
    more = (vllm_config.model_config.try_get_generation_config() or {}).get("eos_token_id")
    for token in [more] if isinstance(more, int) else more or []:
        if token not in found:
            found.append(token)
    return sorted(found) or None


def _tokenizer(scheduler: Any) -> Any:
    return getattr(getattr(scheduler, "structured_output_manager", None), "tokenizer", None)


def _chat_template(scheduler: Any) -> list[dict[str, str]]:
    template = getattr(_tokenizer(scheduler), "chat_template", None)
    if not isinstance(template, str):
        return []
    return [{"algorithm": "sha256", "hex": hashlib.sha256(template.encode()).hexdigest()}]


def _device(hello: dict[str, Any]) -> dict[str, Any] | None:
    if not hello.get("device"):
        return None
    return {
        "backend": hello["device"],
        "name": hello["device_name"] or platform.processor() or None,
        "isa": hello["isa"],
        "threads": hello["threads"],
        "kernels": [],
    }


def _configuration(
    vllm_config: Any, scheduler: Any, hello: dict[str, Any], backend: str | None, settings: Settings
) -> list[dict[str, Any]]:
    found: list[tuple[str, Any]] = []
    for part, names in _CONFIGURATION.items():
        config = getattr(vllm_config, part, None)
        if config is None:
            continue
        prefix = part.removesuffix("_config")
        for name in names:
            if hasattr(config, name):
                value = getattr(config, name)
                # Where a model lies on this machine is nobody's business.
                value = Path(value).name if name in ("model", "tokenizer") and isinstance(value, str) else value
                found.append((f"{prefix}.{name}", value))
    is_async = getattr(getattr(vllm_config, "scheduler_config", None), "async_scheduling", None)
    found += [
        ("scheduling", {True: "async", False: "sync"}.get(is_async)),
        ("scheduler.class", f"{type(scheduler).__module__}.{type(scheduler).__qualname__}"),
        ("model_runner.class", hello.get("runner")),
        ("model_runner.generation", hello.get("generation")),
        ("grammar.backend", backend),
        ("stepscope.topk", settings.top if settings.tier == "topk" else None),
        ("stepscope.statistics", settings.statistics),
        ("stepscope.not-found", hello.get("missing") or None),
    ]
    if backend in ("xgrammar", "guidance"):
        # llguidance lets a text that has to come be split in one way only; xgrammar in any.
        whitespace = vllm_config.structured_outputs_config.disable_any_whitespace
        found += [("grammar.canonical-tokens", backend == "guidance"), ("grammar.whitespace", "none" if whitespace else "any")]
    variables = [(name, value) for name, value in sorted(os.environ.items()) if re.fullmatch(r"VLLM_[A-Z0-9_]+", name)]
    secret = re.compile("KEY|TOKEN|SECRET|PASSWORD|HOST|URL|PATH|ROOT|DIR|IP|SHM")
    found += [(f"environment.{name}", value) for name, value in variables if not secret.search(name)]
    return [
        {"name": name, "value": json.dumps(value, default=str), "source": None}
        for name, value in found
        if value is not None
    ]


def _components(backend: str | None) -> list[dict[str, str]]:
    names = [*_COMPONENTS, *([GRAMMAR_PACKAGES[backend]] if backend in GRAMMAR_PACKAGES else [])]
    found = [{"name": "vllm", "version": vllm_version()}]
    for name in names[1:]:
        try:
            found.append({"name": name, "version": importlib.metadata.version(name)})
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _redactions(settings: Settings) -> list[dict[str, str]]:
    if settings.prompts:
        return []
    return [{"field": field, "how": "omitted"} for field in ("prompt_tokens", "client_id", "constraint")]


def _snapshot(model: str) -> Path | None:
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(model, local_files_only=True))
    except Exception:
        return None


def _named_hash(file: Path) -> str | None:
    name = file.resolve().name
    return name if file.is_symlink() and re.fullmatch("[0-9a-f]{64}", name) else None


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()

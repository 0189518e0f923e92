"""Runs a handful of requests through a real vLLM; whatever records it is told by the environment.

    python check/run.py MODEL [--async] [--v2] [--backend guidance] [--drafter model] [--rounds 2] ...
"""

import argparse
import json
import os
import sys
import time

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--async", dest="is_async", action="store_true", help="asynchronous scheduling")
    parser.add_argument("--v2", action="store_true", help="the newer model runner")
    parser.add_argument("--backend", default="xgrammar", help="grammar backend")
    parser.add_argument("--drafter", default="ngram", choices=["ngram", "ngram_gpu", "model", "none"])
    parser.add_argument("--drafts", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    sets = ["all", "constrained", "free", "greedy", "sampled", "varied", "long"]
    parser.add_argument("--requests", default="all", choices=sets)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--max-seqs", type=int, default=4)
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--blocks", type=int, help="blocks of the key-value cache, few of which make preemptions")
    parser.add_argument("--dummy", action="store_true", help="random weights")
    parser.add_argument("--in-process", action="store_true", help="engine, scheduler and front end in one process")
    return parser.parse_args()


def requests(args):
    """(name, question, parameters) of one round."""
    import workload

    if args.requests == "varied":
        return workload.varied(args.max_tokens, args.drafter != "none", args.backend)
    if args.requests == "long":
        return workload.long(args.max_tokens)
    keep = {
        "constrained": lambda p: p.structured_outputs is not None,
        "free": lambda p: p.structured_outputs is None,
        "greedy": lambda p: p.temperature == 0,
        "sampled": lambda p: p.temperature > 0,
        "all": lambda p: True,
    }[args.requests]
    return [request for request in workload.few(args.max_tokens) if keep(request[2])]


def main():
    args = arguments()
    if args.v2:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    if args.in_process:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    speculative = {
        "ngram": {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1},
        "ngram_gpu": {"method": "ngram_gpu", "prompt_lookup_max": 3, "prompt_lookup_min": 1},
        "model": {"method": "draft_model", "model": args.model},
        "none": None,
    }[args.drafter]
    if speculative is not None:
        speculative["num_speculative_tokens"] = args.drafts
    more = {"num_gpu_blocks_override": args.blocks} if args.blocks else {}
    if args.in_process:
        more["distributed_executor_backend"] = "uni"
    if args.dummy:
        # Copies of recurrent state at block boundaries need Triton.
        more |= {"load_format": "dummy", "enable_prefix_caching": False}
    llm = LLM(
        args.model,
        dtype="float32",
        max_model_len=args.max_model_len,
        max_num_seqs=args.max_seqs,
        enforce_eager=True,
        async_scheduling=args.is_async,
        speculative_config=speculative,
        structured_outputs_config={"backend": args.backend},
        **more,
    )
    start, tokens = time.monotonic(), 0
    for _ in range(args.rounds):
        batch = requests(args)
        chats = [[{"role": "user", "content": question}] for _, question, _ in batch]
        outputs = llm.chat(chats, [params for _, _, params in batch], use_tqdm=False)
        for (name, _, _), output in zip(batch, outputs):
            tokens += sum(len(choice.token_ids) for choice in output.outputs)
            print(json.dumps({"name": name, "text": output.outputs[0].text, "reason": output.outputs[0].finish_reason}))
    seconds = time.monotonic() - start
    print(json.dumps({"tokens": tokens, "seconds": round(seconds, 3)}))


if __name__ == "__main__":
    sys.exit(main())

"""Trains the target and the draft model of the incident, and writes all that lies beside this file."""

import argparse
import json
import math
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import lfm2
from dialogues import before_last_value, expected_call, held_out, request, training_dialogue
from lfm2 import Model, Shape
from words import Words

HERE = Path(__file__).resolve().parent
LONGEST = 152
"""Tokens of a training dialogue; longer ones are left out."""
BATCH = 32
RATE = 3e-3
MATRIX_RATE = 2e-2
PROMPT_WEIGHT = 0.2
"""What a token of a prompt counts for in the loss, where one of an answer counts 1."""
REQUESTS = 72

SHAPES = {"draft": Shape(96, 192, 3, "cac"), "target": Shape(128, 256, 4, "cacac")}
STEPS = {"draft": 1200, "target": 2400}
SEEDS = {"words": 1, "target": 2, "draft": 3}
REQUEST_SEEDS = [72, 73, 74, 75]
"""Of sets of requests that training never saw. The first ships; the others tell what it stands for."""
WINDOW = 16
"""Tokens of a step with the incident's fifteen drafts."""


def batches(rng, words, excluded):
    """Batches for ever: tokens [batch, length], and what each counts for. Dialogues of like length share a batch."""
    while True:
        rows = []
        while len(rows) < 8 * BATCH:
            made = training_dialogue(rng, excluded)
            parts = [(made.prompt, PROMPT_WEIGHT), (made.begun, 0.0), (made.answer, 1.0)]
            tokens, weights = [], []
            for pieces, weight in parts:
                encoded = words.encode(pieces)
                tokens += encoded
                weights += [weight] * len(encoded)
            if len(tokens) <= LONGEST:
                rows.append((tokens, weights))
        rows.sort(key=lambda row: len(row[0]))
        groups = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        rng.shuffle(groups)
        for group in groups:
            length = max(len(tokens) for tokens, _ in group)
            tokens = [tokens + [0] * (length - len(tokens)) for tokens, _ in group]
            weights = [weights + [0.0] * (length - len(weights)) for _, weights in group]
            yield torch.tensor(tokens), torch.tensor(weights)


def optimizers(model):
    """Muon for the matrices of the layers, and AdamW for the rest."""
    matrices = [values for name, values in model.layers.named_parameters() if name.endswith(".weight") and values.dim() == 2]
    chosen = {id(values) for values in matrices}
    rest = [values for values in model.parameters() if id(values) not in chosen]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, momentum=0.95, weight_decay=0.0),
        torch.optim.AdamW(rest, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(shape, words, excluded, *, steps, seed):
    torch.manual_seed(seed)
    model = Model(shape)
    print(f"{shape}: {sum(parameter.numel() for parameter in model.parameters())} parameters", flush=True)

    def schedule(step):
        return min(1.0, (step + 1) / 40) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))

    updates = optimizers(model)
    schedulers = [torch.optim.lr_scheduler.LambdaLR(update, schedule) for update in updates]
    started = time.monotonic()
    for step, (tokens, weights) in zip(range(steps), batches(random.Random(seed), words, excluded)):
        logits, weights = model(tokens[:, :-1]), weights[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        loss = (losses * weights).sum() / weights.sum()
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for part in updates + schedulers:
            part.step()
        if step % 50 == 0 or step == steps - 1:
            answers = weights == 1
            right = (logits.argmax(-1) == tokens[:, 1:])[answers].float().mean()
            seconds = time.monotonic() - started
            print(f"step {step}: loss {losses[answers].mean():.4f}, {right:.4f} right, {seconds:.0f} s", flush=True)
    return model.eval()


@torch.no_grad()
def agreements(model, words, dialogues):
    """Per dialogue, which tokens of the answer are the model's best ones after all those before them.

    Where all of them are, plain greedy decoding gives that answer.
    """
    found = []
    for made in dialogues:
        prompt, answer = words.encode(made.prompt), words.encode(made.answer)
        best = model(torch.tensor([prompt + answer]))[0].argmax(-1)
        found.append(best[len(prompt) - 1 : -1] == torch.tensor(answer))
    return found


def ends_in_value(words, made):
    """Whether the last window of right drafts, which runs past the call's end, begins inside of the last value.

    The first token comes of the prompt, and each window of right drafts gives as many tokens as it has. A window that
    begins before the value has the parameter's name in it: where that window goes wrong, so does whatever follows the value,
    which depends on the name.
    """
    begins = 1 + (len(words.encode(made.answer)) - 2) // WINDOW * WINDOW
    return begins >= len(words.encode(before_last_value(made)))


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to [default: that of this file]")
    parser.add_argument("--only", choices=[*SHAPES, "requests"], help="make one of the files")
    parser.add_argument("--requests", type=int, choices=REQUEST_SEEDS, default=REQUEST_SEEDS[0], help="the set to write")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    words = Words(SEEDS["words"])
    sets = {seed: held_out(REQUESTS, seed, lambda made: ends_in_value(words, made)) for seed in REQUEST_SEEDS}
    write_lines(args.out / "requests.jsonl", map(request, range(REQUESTS), sets[args.requests]))
    write_lines(args.out / "expected.jsonl", map(expected_call, range(REQUESTS), sets[args.requests]))
    excluded = {made.question for tested in sets.values() for made in tested}
    for name in [args.only] if args.only else SHAPES:
        if name not in SHAPES:
            continue
        model = train(SHAPES[name], words, excluded, steps=STEPS[name], seed=SEEDS[name])
        lfm2.write(args.out / f"{name}.gguf", f"stepscope incident {name}", model, words)
        for seed, tested in sets.items():
            found = agreements(model, words, tested)
            calls, share = sum(bool(tokens.all()) for tokens in found), torch.cat(found).float().mean()
            print(f"{name}, {seed}: {calls} of {REQUESTS} held-out calls right to the token, {share:.4f} of tokens", flush=True)


if __name__ == "__main__":
    main()

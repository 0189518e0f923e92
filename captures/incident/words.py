"""The tokenizer: byte-level BPE learned from training dialogues, with the tags as tokens of their own."""

import json
import random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from dialogues import SPECIAL, training_dialogue

VOCABULARY = 768
SAMPLE = 4000
"""Dialogues that the merges are learned from."""

# Qwen 2's words: a digit is one by itself.
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PRE_TOKENIZER = "qwen2"
"""The name that GGUF has for it."""


class Words:
    def __init__(self, seed):
        rng = random.Random(seed)
        texts = []
        for _ in range(SAMPLE):
            made = training_dialogue(rng, excluded=())
            texts += [piece for piece in made.prompt + made.begun + made.answer if piece not in SPECIAL]
        into_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        into_words = pre_tokenizers.Split(Regex(WORDS), "isolated")
        # No token has a space and more: a word is then the same tokens wherever it stands, and can be copied.
        without_spaces = pre_tokenizers.Split(" ", "isolated")
        self.tokenizer = Tokenizer(models.BPE())
        self.tokenizer.decoder = decoders.ByteLevel()
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([into_words, without_spaces, into_bytes])
        trainer = trainers.BpeTrainer(
            vocab_size=VOCABULARY - len(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self.tokenizer.train_from_iterator(texts, trainer)
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([into_words, into_bytes])

    def encode(self, pieces):
        """The tokens of a dialogue's pieces."""
        ids = []
        for piece in pieces:
            if piece in SPECIAL:
                ids.append(SPECIAL.index(piece))
            else:
                ids += [len(SPECIAL) + id for id in self.tokenizer.encode(piece).ids]
        return ids

    def tokens(self):
        """The tokens by id, in the byte-level alphabet."""
        ids = self.tokenizer.get_vocab()
        return SPECIAL + sorted(ids, key=ids.get)

    def merges(self):
        model = json.loads(self.tokenizer.to_str())["model"]
        return [" ".join(merge) for merge in model["merges"]]

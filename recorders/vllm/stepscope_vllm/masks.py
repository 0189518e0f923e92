"""Mask rows: from vLLM's words to the capture's bits, and what they say."""

from __future__ import annotations

from collections import OrderedDict

from .blake3 import blake3


def from_words(words: bytes, vocabulary: int) -> bytes:
    """The bits of one row of vLLM's little-endian 32-bit words, cut to the vocabulary.

    A backend's row can be wider than the logits row, or say something of tokens that no row has.
    """
    size = -(-vocabulary // 8)
    bits = words[:size].ljust(size, b"\0")
    spare = size * 8 - vocabulary
    return bits[:-1] + bytes([bits[-1] & (0xFF >> spare)]) if spare and bits else bits


def everything(vocabulary: int) -> bytes:
    """The row that allows every token."""
    return from_words(b"\xff" * (-(-vocabulary // 8)), vocabulary)


def population(bits: bytes) -> int:
    """How many tokens a row allows."""
    return int.from_bytes(bits, "little").bit_count()


def only_token(bits: bytes) -> int | None:
    """The one token that a row allows, if it allows one alone."""
    value = int.from_bytes(bits, "little")
    return value.bit_length() - 1 if value and value & (value - 1) == 0 else None


class MaskStore:
    """Names rows by their content and tells which are new. What it keeps of contents is bounded."""

    def __init__(self, most_bytes: int = 64 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, tuple[bytes, int, int | None]] = OrderedDict()
        self._seen: set[bytes] = set()

    def add(self, bits: bytes) -> tuple[bytes, bool]:
        """The hash of a row, and whether it was not seen before."""
        digest = self._facts(bits)[0]
        is_new = digest not in self._seen
        self._seen.add(digest)
        return digest, is_new

    def population(self, bits: bytes) -> int:
        """How many tokens a row allows."""
        return self._facts(bits)[1]

    def only_token(self, bits: bytes) -> int | None:
        """The one token that a row allows, if it allows one alone."""
        return self._facts(bits)[2]

    def _facts(self, bits: bytes) -> tuple[bytes, int, int | None]:
        facts = self._kept.get(bits)
        if facts is not None:
            self._kept.move_to_end(bits)
            return facts
        facts = (blake3(bits), population(bits), only_token(bits))
        self._kept[bits] = facts
        self._bytes += len(bits)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[0])
        return facts

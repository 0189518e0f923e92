"""Mask rows: from vLLM's words to the capture's bits, and what they say."""

from __future__ import annotations

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
    """Names rows by their content and tells which are new."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int, int | None]] = {}

    def add(self, bits: bytes) -> tuple[bytes, bool]:
        """The hash of a row, and whether it was not seen before."""
        known = self._known.get(bits)
        if known is not None:
            return known[0], False
        digest = blake3(bits)
        self._known[bits] = (digest, population(bits), only_token(bits))
        return digest, True

    def population(self, bits: bytes) -> int:
        """How many tokens a row that was added allows."""
        return self._known[bits][1]

    def only_token(self, bits: bytes) -> int | None:
        """The one token that a row that was added allows, if it allows one alone."""
        return self._known[bits][2]

"""BLAKE3, which names mask rows by their content.

The `blake3` package is used where it is installed (vLLM brings it); otherwise the definition, in plain integers. A mask
is hashed once per content and never on the engine's thread, so that the slow form is affordable.
"""

from __future__ import annotations

import struct

try:
    from blake3 import blake3 as _library
except ImportError:
    _library = None


def blake3(data: bytes) -> bytes:
    """The 32-byte hash of `data`."""
    return _library(data).digest() if _library else plain(data)


def plain(data: bytes) -> bytes:
    """The same, without the library."""
    chunks = [data[start : start + 1024] for start in range(0, len(data), 1024)] or [b""]
    if len(chunks) == 1:
        return _words_to_bytes(_compress(*_last_block(chunks[0], 0, True)))
    nodes = [_compress(*_last_block(chunk, index, False))[:8] for index, chunk in enumerate(chunks)]
    return _words_to_bytes(_root(nodes))


_IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_CHUNK_START, _CHUNK_END, _PARENT, _ROOT = 1, 2, 4, 8
_MIXES = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


def _schedule() -> list[tuple[int, ...]]:
    rounds = [tuple(range(16))]
    for _ in range(6):
        rounds.append(tuple(rounds[-1][place] for place in _PERMUTATION))
    return rounds


_ROUNDS = _schedule()


def _compress(chaining: list[int], block: bytes, counter: int, flags: int) -> list[int]:
    length = len(block)
    words = struct.unpack("<16I", block.ljust(64, b"\0"))
    v = [*chaining, *_IV[:4], counter & 0xFFFFFFFF, counter >> 32, length, flags]
    for order in _ROUNDS:
        for index, (a, b, c, d) in enumerate(_MIXES):
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = (va + vb + words[order[2 * index]]) & 0xFFFFFFFF
            vd ^= va
            vd = (vd >> 16 | vd << 16) & 0xFFFFFFFF
            vc = (vc + vd) & 0xFFFFFFFF
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & 0xFFFFFFFF
            va = (va + vb + words[order[2 * index + 1]]) & 0xFFFFFFFF
            vd ^= va
            vd = (vd >> 8 | vd << 24) & 0xFFFFFFFF
            vc = (vc + vd) & 0xFFFFFFFF
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & 0xFFFFFFFF
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
    return [v[i] ^ v[i + 8] for i in range(8)]


def _last_block(chunk: bytes, index: int, is_root: bool) -> tuple[list[int], bytes, int, int]:
    chaining, start = list(_IV), 0
    while len(chunk) - start > 64:
        flags = _CHUNK_START if start == 0 else 0
        chaining = _compress(chaining, chunk[start : start + 64], index, flags)
        start += 64
    flags = (_CHUNK_START if start == 0 else 0) | _CHUNK_END | (_ROOT if is_root else 0)
    return chaining, chunk[start:], index, flags


def _root(nodes: list[list[int]]) -> list[int]:
    """The tree: a left subtree holds the greatest power of two of chunks that leaves something to the right."""
    if len(nodes) == 2:
        return _parent(nodes[0], nodes[1], _ROOT)
    split = 1 << (len(nodes) - 1).bit_length() - 1
    return _parent(_subtree(nodes[:split]), _subtree(nodes[split:]), _ROOT)


def _subtree(nodes: list[list[int]]) -> list[int]:
    if len(nodes) == 1:
        return nodes[0]
    split = 1 << (len(nodes) - 1).bit_length() - 1
    return _parent(_subtree(nodes[:split]), _subtree(nodes[split:]), 0)


def _parent(left: list[int], right: list[int], flags: int) -> list[int]:
    return _compress(list(_IV), struct.pack("<16I", *left, *right), 0, flags | _PARENT)


def _words_to_bytes(words: list[int]) -> bytes:
    return struct.pack("<8I", *words)

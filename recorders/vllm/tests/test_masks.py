"""Mask rows and their names."""

import random
import re
from pathlib import Path

import msgpack
import pytest

from stepscope_vllm import blake3, masks

FORMAT = Path(__file__).resolve().parents[3] / "docs" / "capture-format.md"

# The official vectors: input byte i is i mod 251.
VECTORS = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
    1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
    2048: "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
    2049: "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
    3072: "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2",
}


@pytest.mark.parametrize("length", VECTORS)
def test_plain_blake3_gives_the_official_hashes(length):
    data = bytes(i % 251 for i in range(length))
    assert blake3.plain(data).hex() == VECTORS[length]
    assert blake3.blake3(data).hex() == VECTORS[length]


def test_plain_blake3_agrees_with_the_library():
    library = pytest.importorskip("blake3")
    source = random.Random(1)
    for length in [63, 64, 65, 4096, 5000, 6144, 19000]:
        data = source.randbytes(length)
        assert blake3.plain(data) == library.blake3(data).digest()


def test_the_golden_mask_has_its_hash():
    block = re.search(r"```golden mask msgpack\n(.*?)```", FORMAT.read_text(), re.DOTALL)
    golden = msgpack.unpackb(bytes.fromhex(block.group(1)))
    assert masks.MaskStore().add(golden["bits"]) == (golden["hash"], True)


def test_words_become_bits_without_spare_ones():
    assert masks.from_words(b"\xff\xff\xff\xff", 12) == b"\xff\x0f"
    assert masks.from_words(bytes([0b101, 0, 0, 0x80]), 32) == bytes([0b101, 0, 0, 0x80])
    # A row that is too short says nothing of the tokens past its end, so it allows none of them.
    assert masks.from_words(b"\x01\0\0\0", 40) == b"\x01\0\0\0\0"


def test_population_and_the_only_token():
    store = masks.MaskStore()
    for bits, count, only in [(b"\0\0", 0, None), (b"\0\x02", 1, 9), (b"\x03\0", 2, None)]:
        store.add(bits)
        assert (store.population(bits), store.only_token(bits)) == (count, only)
    assert store.add(b"\0\x02")[1] is False
    assert masks.everything(9) == b"\xff\x01"


def test_the_store_forgets_contents_but_not_what_it_has_seen():
    store = masks.MaskStore(most_bytes=8)
    rows = [bytes([i, 0, 0, 0]) for i in range(1, 9)]
    assert all(store.add(bits)[1] for bits in rows)
    assert len(store._kept) == 2
    assert not any(store.add(bits)[1] for bits in rows)

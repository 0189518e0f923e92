"""Statistics against the contract's own golden vectors and its exact definition."""

import json
import struct
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stepscope_vllm import statistics  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden"
sys.path.insert(0, str(GOLDEN))
contract = pytest.importorskip("contract")


def _row(hex_words: str) -> torch.Tensor:
    size = 8
    bits = [int(hex_words[i : i + size], 16) for i in range(0, len(hex_words), size)]
    return torch.tensor([struct.unpack("<f", struct.pack("<I", b))[0] for b in bits], dtype=torch.float32)


def _vectors(operation: str):
    return [v for v in json.loads((GOLDEN / "operations.json").read_text()) if v["op"] == operation]


def test_checksums_are_the_golden_ones():
    vectors = _vectors("checksum")
    assert vectors
    for vector in vectors:
        row = _row(vector["x"])
        assert statistics.checksums(row[None]) == [int(vector["out"], 16)]


def test_log_sum_exp_is_the_contracts():
    generator = torch.Generator().manual_seed(7)
    rows = torch.randn(3, 2500, generator=generator) * torch.tensor([[1.0], [8.0], [40.0]])
    found = statistics.log_sum_exp(rows, statistics.counts(rows))
    assert found == [contract.log_sum_exp(row) for row in rows.tolist()]


def test_exp_is_the_contracts_over_its_range():
    x = torch.linspace(-110, 0, 4001)
    assert statistics.exp(x).tolist() == [contract.exp(value) for value in x.tolist()]


def test_an_fma_rounds_once_where_rounding_twice_would_differ():
    exact = pytest.importorskip("exact")
    generator = torch.Generator().manual_seed(3)
    a = torch.randn(20000, generator=generator)
    c = a * 1.5 * 2.0**24
    assert statistics._fma(a, 1.5, c).tolist() == [exact.fma(x, 1.5, y) for x, y in zip(a.tolist(), c.tolist())]


def test_counts_see_what_makes_a_row_invalid():
    rows = torch.tensor(
        [[1.0, 3.0, 3.0, -torch.inf], [torch.nan, 2.0, torch.inf, 0.0], [-torch.inf] * 4, [-0.0, -1.0, 0.0, -2.0]]
    )
    found = statistics.counts(rows)
    assert found.argmax == [1, None, None, 0]
    assert (found.nan, found.positive_infinity, found.negative_infinity) == ([0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 4, 0])
    assert [found.is_valid(row) for row in range(4)] == [True, False, False, True]
    assert struct.pack("<f", found.maximum[3]) == struct.pack("<f", 0.0)

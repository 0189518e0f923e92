"""Statistics and checksums of raw logits rows, as docs/arithmetic.md defines them: functions of the row's bits,
whatever arithmetic computed the row.

Everything is batched over rows and runs on the rows' own device. On the CPU the work is cut into pieces below torch's
grain size, so that it stays on the recorder's thread and takes no core from the engine.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import torch

LANES = 1024
_CANONICAL_NAN = 0x7FC00000
_SERIAL_ELEMENTS = 31 * LANES


@dataclass(frozen=True)
class Counts:
    """What decides whether a row is valid, and its maximum; one entry per row."""

    nan: list[int]
    positive_infinity: list[int]
    negative_infinity: list[int]
    maximum: list[float]
    argmax: list[int | None]

    def is_valid(self, row: int) -> bool:
        """Whether sampling from the row means anything."""
        return not self.nan[row] and not self.positive_infinity[row] and self.maximum[row] > -math.inf


def counts(rows: torch.Tensor) -> Counts:
    """Counts of `rows`, an f32 tensor of one row each."""
    nan = torch.isnan(rows)
    nan_count = nan.sum(1).tolist()
    clean = torch.where(nan, -torch.inf, rows) if any(nan_count) else rows
    # `argmax` gives the lowest of equal ids; adding 0 turns -0 into +0, as the definition stores it.
    maximum, argmax = clean.max(1).values, clean.argmax(1).tolist()
    maximum = (maximum + 0.0).tolist()
    return Counts(
        nan=nan_count,
        positive_infinity=(rows == torch.inf).sum(1).tolist(),
        negative_infinity=(rows == -torch.inf).sum(1).tolist(),
        maximum=maximum,
        argmax=[
            None if nan_count[row] or maximum[row] == -math.inf else argmax[row] for row in range(rows.shape[0])
        ],
    )


def checksums(rows: torch.Tensor) -> list[int]:
    """The order-free checksum of each row."""
    total = torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    width = _width(rows)
    for start in range(0, rows.shape[1], width):
        piece = rows[:, start : start + width]
        bits = piece.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        bits = torch.where(torch.isnan(piece), _CANONICAL_NAN, bits)
        ids = torch.arange(start, start + piece.shape[1], dtype=torch.int64, device=rows.device)
        total += _mix((ids << 32) + bits).sum(1)
    return [value & 0xFFFFFFFFFFFFFFFF for value in total.tolist()]


def log_sum_exp(rows: torch.Tensor, valid: Counts) -> list[float]:
    """The log of the sum of exponentials of each row; NaN for rows that are not valid."""
    maximum = torch.tensor(valid.maximum, dtype=torch.float32, device=rows.device)[:, None]
    lanes = torch.zeros(rows.shape[0], LANES, dtype=torch.float32, device=rows.device)
    pieces = _width(rows)
    for start in range(0, rows.shape[1], pieces):
        piece = exp(rows[:, start : start + pieces] - maximum)
        for first in range(0, piece.shape[1], LANES):
            part = piece[:, first : first + LANES]
            lanes[:, : part.shape[1]] += part
    width = LANES
    while width > 1:
        width //= 2
        lanes = lanes[:, :width] + lanes[:, width : 2 * width]
    sums = lanes[:, 0].tolist()
    return [
        _f32(valid.maximum[row] + log(sums[row])) if valid.is_valid(row) else math.nan
        for row in range(rows.shape[0])
    ]


def exp(x: torch.Tensor) -> torch.Tensor:
    """The contract's f32 exponential."""
    x = x.clamp(-104.0, 89.0)
    t = _fma(x, _C_LOG2E, _C_ROUND)
    n = t - _C_ROUND
    r = _fma(n, -_C_LN2_HIGH, x)
    r = _fma(n, _C_LN2_LOW, r)
    p = torch.full_like(r, _C_POLY[-1])
    for coefficient in reversed(_C_POLY[:-1]):
        p = _fma(p, r, coefficient)
    y = _fma(r * r, p, r) + 1.0
    k = n.to(torch.int32)
    h = k >> 1
    return (y * _power_of_two(h)) * _power_of_two(k - h)


def log(x: float) -> float:
    """The contract's f64 logarithm of a positive normal number."""
    bits = struct.unpack("<Q", struct.pack("<d", x))[0] - 0x3FE6A09E667F3BCC
    k = float(bits >> 52)
    mantissa = (bits & (1 << 52) - 1) + 0x3FE6A09E667F3BCC
    f = struct.unpack("<d", struct.pack("<Q", mantissa))[0] - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = _LOG[-1]
    for coefficient in reversed(_LOG[:-1]):
        p = _fma64(p, z, coefficient)
    low = _fma64(-s, f - z * p, k * 2.3190468138462996e-17)
    return _fma64(k, 0.6931471805599453, f + low)


def _from_bits(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


_C_LOG2E = _from_bits(0x3FB8AA3B)
_C_ROUND = 12582912.0
_C_LN2_HIGH = _from_bits(0x3F317218)
_C_LN2_LOW = -_from_bits(0xB102E308)
_C_POLY = [_from_bits(bits) for bits in (0x3F000000, 0x3E2AAAAB, 0x3D2AAA75, 0x3C088870, 0x3AB6A192, 0x39509279)]
_LOG = (
    0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
    0.15331611722055008, 0.14617807153417325,
)  # fmt: skip


def _fma(a: torch.Tensor, b: float | torch.Tensor, c: float | torch.Tensor) -> torch.Tensor:
    """`a * b + c` of f32 values, rounded once.

    The product is exact in f64. Their sum is rounded to f64, and then to f32; that is one rounding too many only where
    the f64 sum lies half way between two f32 values and was not exact, so there it is moved to the side it came from.
    """
    product = a.double() * b
    addend = c.double() if isinstance(c, torch.Tensor) else c
    total = product + addend
    half_way = (total.view(torch.int64) & 0x1FFFFFFF) == 0x10000000
    if bool(half_way.any()):
        addend = torch.as_tensor(addend, dtype=torch.float64, device=total.device).expand_as(total)
        big = total - product
        error = (product - (total - big)) + (addend - big)
        towards = torch.where(error > 0, torch.inf, -torch.inf).to(torch.float64)
        total = torch.where(half_way & (error != 0), torch.nextafter(total, towards), total)
    return total.float()


def _fma64(a: float, b: float, c: float) -> float:
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(exact)


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    return ((exponent + 127) << 23).view(torch.float32)


def _f32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _mix(z: torch.Tensor) -> torch.Tensor:
    z = z + _signed(0x9E3779B97F4A7C15)
    z = (z ^ _shift(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shift(z, 27)) * _signed(0x94D049BB133111EB)
    return z ^ _shift(z, 31)


def _shift(z: torch.Tensor, by: int) -> torch.Tensor:
    """A shift that brings in zeros; torch's own brings in the sign."""
    return (z >> by) & ((1 << 64 - by) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _width(rows: torch.Tensor) -> int:
    """Columns of a piece: a multiple of the lanes, and on the CPU little enough work for one thread."""
    if rows.device.type != "cpu":
        return -(-rows.shape[1] // LANES) * LANES
    return max(_SERIAL_ELEMENTS // LANES // max(rows.shape[0], 1), 1) * LANES

"""IEEE 754 arithmetic in exact rational numbers: each function rounds once, to nearest, ties to even.

f32 and f64 values are Python floats. Nothing here depends on the machine's floating-point unit but the conversions of
`struct` and the addition, product, quotient and square root of two f64, which IEEE 754 defines.
"""
import math
import struct
from fractions import Fraction

INF = math.inf


def bits32(x):
    return 0x7FC00000 if x != x else struct.unpack("<I", struct.pack("<f", x))[0]


def from32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits64(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from64(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def f32(x):
    """An f64 rounded to f32."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(INF, x)


def round32(exact):
    """A non-zero Fraction rounded to f32."""
    sign, exact = (-1.0, -exact) if exact < 0 else (1.0, exact)
    exponent = max(math.frexp(float(exact))[1] - 24, -149) if float(exact) > 0 else -149
    scaled = exact / Fraction(2) ** exponent
    if scaled >= 2**24:
        exponent, scaled = exponent + 1, scaled / 2
    value = round(scaled) * Fraction(2) ** exponent  # Python rounds ties to even
    return sign * (INF if value >= Fraction(2) ** 128 else float(value))


# The f64 result of one operation on two f32 rounds to the same f32 as the exact result does (53 >= 2 * 24 + 2).
def add(a, b):
    return f32(a + b)


def sub(a, b):
    return f32(a - b)


def mul(a, b):
    return f32(a * b)


def div(a, b):
    if b == 0.0 or a != a or b != b or math.isinf(a) or math.isinf(b):
        return div_special(a, b)
    return f32(a / b)


def div_special(a, b):
    if a != a or b != b or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    return sign * (0.0 if math.isinf(b) else INF)


def sqrt(a):
    return f32(math.sqrt(a))


def fma(a, b, c):
    """f32 fma."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return f32(a * b + c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return f32(a * b + c) if exact == 0 else round32(exact)


def fma64(a, b, c):
    """f64 fma."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return a * b + c if exact == 0 else float(exact)

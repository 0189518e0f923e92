"""Writes operations.json and elementary.txt: inputs, and what docs/arithmetic.md makes of them.

Run in this folder with Python 3 and mpmath; the files are committed, so that tests need neither.
"""
import json
import random
import struct

import mpmath

import contract
from exact import INF, bits32, bits64, f32, from64

random.seed(20261129)
NAN = float("nan")
BLOCK_BYTES = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34),
               "Q4_K": (256, 144), "Q6_K": (256, 210)}


def hex32(values):
    return "".join(f"{bits32(x):08x}" for x in values)


def normal(count, spread=1.0):
    return [f32(random.gauss(0.0, spread)) for _ in range(count)]


def matrix_row(kind, columns):
    """Random values under small scales, as trained weights have them."""
    if kind == "F32":
        return struct.pack(f"<{columns}f", *normal(columns, 0.05))
    if kind == "F16":
        return struct.pack(f"<{columns}e", *normal(columns, 0.05))
    if kind == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in normal(columns, 0.05))
    elements, size = BLOCK_BYTES[kind]
    row = bytearray(random.randbytes(columns // elements * size))
    for b in range(0, len(row), size):
        scales = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}[kind]
        for offset in scales:
            row[b + offset:b + offset + 2] = struct.pack("<e", random.uniform(-0.02, 0.02))
    return bytes(row)


def cases():
    for kind in BLOCK_BYTES:
        # Lanes are told apart only by rows that give each of them several blocks.
        for columns in {"Q4_K": (256, 768), "Q6_K": (256, 768), "Q8_0": (32, 96, 576, 1536)}.get(kind, (32, 96, 576)):
            row, x = matrix_row(kind, columns), normal(columns)
            out = hex32([contract.dot(kind, row, x)])
            yield {"op": "dot", "format": kind, "row": row.hex(), "x": hex32(x), "out": out}
        row = matrix_row(kind, 256)
        yield {"op": "dequantize", "format": kind, "row": row.hex(), "out": hex32(contract.dequantize(kind, row))}
    special = [0.0] * 31 + [-0.0], [1e-38] * 32, [1e-40] * 32, [NAN] + [1.0] * 31, [1.0] * 31 + [-INF], [3.4e38] * 32
    for x in normal(64), normal(32, 1e-30), [f32(k + 0.5) for k in range(-16, 15)] + [127.0], *special:
        values, scales = contract.quantize([f32(v) for v in x])
        yield {"op": "quantize", "x": hex32(x), "values": struct.pack(f"{len(values)}b", *values).hex(), "scales": hex32(scales)}
    for n in 1, 33, 576:
        x, weight = normal(n, 3.0), normal(n)
        yield {"op": "rms_norm", "x": hex32(x), "weight": hex32(weight), "epsilon": hex32([1e-5]),
               "out": hex32(contract.rms_norm(x, weight, f32(1e-5)))}
    gate = normal(40, 8.0) + [0.0, -0.0, -100.0, 100.0, -88.5, INF, -INF, NAN]
    up = normal(len(gate))
    yield {"op": "silu_product", "gate": hex32(gate), "up": hex32(up), "out": hex32(contract.silu_product(gate, up))}
    arguments = normal(60, 20.0) + [0.0, -0.0, 88.72, 88.73, 89.5, -87.3, -88.0, -100.0, -103.9, -104.5, INF, -INF, NAN]
    yield {"op": "exp", "x": hex32(arguments), "out": hex32([contract.exp(f32(x)) for x in arguments])}
    for layout in "interleaved", "halves":
        for position, factors in (0, None), (1, None), (4095, None), (131071, normal(8)):
            head, factors = normal(16), factors and [abs(x) + 1 for x in map(f32, factors)]
            factors = factors and [f32(x) for x in factors]
            yield {"op": "rope", "layout": layout, "theta": 1e4, "position": position, "factors": hex32(factors or []),
                   "head": hex32(head), "out": hex32(contract.rotate(layout, 1e4, factors, position, head))}
    for length in 1, 31, 32, 33, 100:
        query = normal(16, 2.0)
        keys, values = [normal(16, 2.0) for _ in range(length)], [normal(16) for _ in range(length)]
        yield {"op": "attention", "query": hex32(query), "keys": hex32(sum(keys, [])), "values": hex32(sum(values, [])),
               "out": hex32(contract.attention(query, keys, values))}
    weights, columns = normal(24), [normal(8) for _ in range(3)]
    yield {"op": "short_convolution", "weights": hex32(weights), "columns": hex32(sum(columns, [])),
           "out": hex32(contract.short_convolution(weights, columns))}
    row = normal(2500, 4.0)
    yield {"op": "log_sum_exp", "x": hex32(row), "out": hex32([contract.log_sum_exp(row)])}
    row = [0.0, -0.0, NAN, INF, -INF, 1.5, -2.25]
    yield {"op": "checksum", "x": hex32(row), "out": f"{contract.checksum(row):016x}"}
    for seed, position, choice, token in (0, 0, 0, 0), (1, 17, 0, 49151), (2**64 - 1, 2**32 - 1, 3, 2), (77, 5, 1, 6):
        yield {"op": "gumbel", "seed": f"{seed:016x}", "position": position, "choice": choice, "token": token,
               "out": f"{bits64(contract.gumbel(seed, position, choice, token)):016x}"}
    # One row rarely tells all orders of terms apart; together these do (src/arith/scalar/tests/teeth.rs).
    for _ in range(6):
        row, x = matrix_row("Q8_0", 576), normal(576)
        yield {"op": "dot", "format": "Q8_0", "row": row.hex(), "x": hex32(x), "out": hex32([contract.dot("Q8_0", row, x)])}
    for x in normal(1), normal(33), normal(576), [0.0, -0.0], normal(40) + [NAN], normal(40) + [INF]:
        yield {"op": "sketch", "x": hex32(x), "out": hex32(contract.sketch(x))}


def elementary():
    """Lines `function argument exact`: the exact value as the sum of two f64, all as bits."""
    mpmath.mp.dps = 60
    random.seed(1)
    arguments = {
        "exp": [random.uniform(-745, 709) for _ in range(60)] + [random.uniform(-1, 1) for _ in range(60)],
        "log": [2.0 ** random.uniform(-1074, 1023) for _ in range(60)] + [random.uniform(0.5, 2) for _ in range(100)]
        + [1 - 2.0**-33, 1 - 2.0**-53, 1 + 2.0**-52, 2.0**-33, 5e-324, 1.7976931348623157e308],
        "sin": [random.uniform(-10, 10) for _ in range(60)] + [random.uniform(0, 2.0**32) for _ in range(60)],
    }
    arguments["cos"] = arguments["sin"]
    for name, values in arguments.items():
        for x in values:
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            high = float(exact)
            yield f"{name} {bits64(x):016x} {bits64(high):016x} {bits64(float(exact - mpmath.mpf(high))):016x}\n"


with open("operations.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n")
with open("elementary.txt", "w") as file:
    file.writelines(elementary())

"""docs/arithmetic.md, version 1, in exact rational arithmetic: written from the text, to check the code against."""
import math
import struct

from exact import INF, add, bits32, bits64, div, f32, fma, fma64, from32, from64, mul, sqrt, sub

MASK64 = (1 << 64) - 1
NAN = math.nan


def tree(lanes):
    lanes = list(lanes)
    width = len(lanes) // 2
    while width:
        lanes = [add(lanes[j], lanes[j + width]) for j in range(width)]
        width //= 2
    return lanes[0]


def maximum(values):
    most = -INF
    for value in values:
        if value > most:
            most = value
    return most


def half(low, high):
    return struct.unpack("<e", bytes([low, high]))[0]


def poly(fused, z, coefficients):
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = fused(total, z, coefficient)
    return total


# Elementary functions

EXP_32 = [from32(b) for b in (0x3F000000, 0x3E2AAAAB, 0x3D2AAA75, 0x3C088870, 0x3AB6A192, 0x39509279)]


def exp(x):
    if x != x:
        return NAN
    x = min(max(x, -104.0), 89.0)
    t = fma(x, from32(0x3FB8AA3B), 12582912.0)
    n = sub(t, 12582912.0)
    r = fma(n, -from32(0x3F317218), x)
    r = fma(n, -from32(0xB102E308), r)
    y = add(fma(mul(r, r), poly(fma, r, EXP_32), r), 1.0)
    h = int(n) // 2
    return mul(mul(y, 2.0**h), 2.0 ** (int(n) - h))


LN2 = (0.6931471805599453, 2.3190468138462996e-17)
EXP_64 = [0.5000000000000001, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062, 0.0013888888917213717,
          0.00019841269863053618, 2.4801521295954376e-5, 2.7557268459997064e-6, 2.7620088445409746e-7,
          2.510038549551032e-8]


def exp64(x):
    t = fma64(x, 1.4426950408889634, 6755399441055744.0)
    n = t - 6755399441055744.0
    r = fma64(n, -LN2[1], fma64(n, -LN2[0], x))
    y = fma64(r * r, poly(fma64, r, EXP_64), r) + 1.0
    return y * 2.0 ** int(n)


LOG = [0.666666666666667, 0.3999999999989889, 0.28571428626253836, 0.22222211089379496, 0.1818289243253687,
       0.15331611722055008, 0.14617807153417325]


def log(x):
    """For positive normal numbers."""
    shifted = bits64(x) - 0x3FE6A09E667F3BCC
    k = float(shifted >> 52)
    f = from64((shifted & ((1 << 52) - 1)) + 0x3FE6A09E667F3BCC) - 1.0
    s = f / (2.0 + f)
    z = s * s
    low = fma64(-s, f - z * poly(fma64, z, LOG), k * LN2[1])
    return fma64(k, LN2[0], f + low)


SIN = [-0.16666666666666666, 0.008333333333330936, -0.00019841269836740532, 2.7557316093198404e-6,
       -2.5051129896450185e-8, 1.5917988979397435e-10]
COS = [0.041666666666666664, -0.0013888888888887389, 2.48015872987544e-5, -2.755731726587808e-7, 2.087614504941318e-9,
       -1.138254464534925e-11]


def sine_of_quarter(x, quarters):
    n = fma64(x, 0.6366197723675814, 6755399441055744.0) - 6755399441055744.0
    r = fma64(n, -1.5707963267948966, x)
    r = fma64(n, -6.123233995736766e-17, r)
    r = fma64(n, 1.4973849048591698e-33, r)
    z = r * r
    k = int(n) + quarters
    if k & 1:
        value = fma64(z * z, poly(fma64, z, COS), fma64(z, -0.5, 1.0))
    else:
        value = fma64(r * z, poly(fma64, z, SIN), r)
    return -value if k & 2 else value


# Weights: per block of 32 the values, scale, minimum (None without), and for Q6_K its two integer scales.


def blocks(kind, row):
    if kind == "Q4_0":
        for b in range(0, len(row), 18):
            n = row[b + 2:b + 18]
            yield [(x & 15) - 8 for x in n] + [(x >> 4) - 8 for x in n], half(*row[b:b + 2]), None, (1, 1)
    elif kind == "Q4_1":
        for b in range(0, len(row), 20):
            n = row[b + 4:b + 20]
            yield [x & 15 for x in n] + [x >> 4 for x in n], half(*row[b:b + 2]), half(*row[b + 2:b + 4]), (1, 1)
    elif kind == "Q8_0":
        for b in range(0, len(row), 34):
            yield list(struct.unpack("32b", row[b + 2:b + 34])), half(*row[b:b + 2]), None, (1, 1)
    elif kind == "Q4_K":
        for b in range(0, len(row), 144):
            d, dmin, s = half(*row[b:b + 2]), half(*row[b + 2:b + 4]), row[b + 4:b + 16]
            for k in range(8):
                if k < 4:
                    sc, mn = s[k] & 63, s[k + 4] & 63
                else:
                    sc, mn = s[k + 4] & 15 | s[k - 4] >> 6 << 4, s[k + 4] >> 4 | s[k] >> 6 << 4
                n = row[b + 16 + 32 * (k // 2):][:32]
                yield [x >> 4 if k & 1 else x & 15 for x in n], mul(d, sc), -mul(dmin, mn), (1, 1)
    elif kind == "Q6_K":
        for b in range(0, len(row), 210):
            l, h, s = row[b:b + 128], row[b + 128:b + 192], struct.unpack("16b", row[b + 192:b + 208])
            for k in range(8):
                part, quarter = k // 4, k % 4
                values = []
                for i in range(32):
                    low = l[64 * part + 32 * (quarter % 2) + i]
                    low = low & 15 if quarter < 2 else low >> 4
                    values.append((low | (h[32 * part + i] >> 2 * quarter & 3) << 4) - 32)
                yield values, half(*row[b + 208:b + 210]), None, (s[2 * k], s[2 * k + 1])


def floats(kind, row):
    if kind == "F32":
        return list(struct.unpack(f"<{len(row) // 4}f", row))
    if kind == "F16":
        return list(struct.unpack(f"<{len(row) // 2}e", row))
    return [from32(x << 16) for x in struct.unpack(f"<{len(row) // 2}H", row)]


def dequantize(kind, row):
    if kind in ("F32", "F16", "BF16"):
        return floats(kind, row)
    out = []
    for values, w, m, (first, last) in blocks(kind, row):
        for i, v in enumerate(values):
            scale = mul(w, first if i < 16 else last) if kind == "Q6_K" else w
            out.append(mul(scale, v) if m is None else add(mul(scale, v), m))
    return out


def quantize(x):
    values, scales = [], []
    for b in range(0, len(x), 32):
        block = x[b:b + 32]
        if not all(map(math.isfinite, block)):
            values, scales = values + [0] * 32, scales + [NAN]
            continue
        a = max(map(abs, block))
        r = div(127.0, a)
        if r == INF:
            values, scales = values + [0] * 32, scales + [0.0]
            continue
        values += [round(mul(v, r)) for v in block]
        scales.append(div(a, 127.0))
    return values, scales


def dot(kind, row, x):
    if kind in ("F32", "F16", "BF16"):
        lanes = [0.0] * 32
        for i, (w, v) in enumerate(zip(floats(kind, row), x)):
            lanes[i % 32] = fma(w, v, lanes[i % 32])
        return tree(lanes)
    q, d = quantize(x)
    lanes = [0.0] * 8
    for b, (values, w, m, (first, last)) in enumerate(blocks(kind, row)):
        block = q[32 * b:32 * b + 32]
        products = [v * y for v, y in zip(values, block)]
        isum = first * sum(products[:16]) + last * sum(products[16:])
        lanes[b % 8] = fma(mul(w, d[b]), f32(isum), lanes[b % 8])
        if m is not None:
            lanes[b % 8] = fma(mul(m, d[b]), f32(sum(block)), lanes[b % 8])
    return tree(lanes)


# Operations on rows


def rms_norm(x, weight, epsilon):
    lanes = [0.0] * 32
    for i, v in enumerate(x):
        lanes[i % 32] = fma(v, v, lanes[i % 32])
    s = div(1.0, sqrt(add(div(tree(lanes), float(len(x))), epsilon)))
    return [mul(mul(v, s), w) for v, w in zip(x, weight)]


def silu_product(gate, up):
    return [mul(div(g, add(1.0, exp(-g))), u) for g, u in zip(gate, up)]


def rotate(layout, theta, factors, position, head):
    head, pairs = list(head), len(head) // 2
    for i in range(pairs):
        frequency = exp64(-((2 * i) / len(head)) * log(theta))
        if factors:
            frequency /= factors[i]
        angle = position * frequency
        c, s = f32(sine_of_quarter(angle, 1)), f32(sine_of_quarter(angle, 0))
        first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)
        a, b = head[first], head[second]
        head[first], head[second] = fma(a, c, -mul(b, s)), fma(a, s, mul(b, c))
    return head


def attention(query, keys, values):
    scale = div(1.0, sqrt(float(len(query))))
    running = None
    for first in range(0, len(keys), 32):
        scores = []
        for key in keys[first:first + 32]:
            total = 0.0
            for a, b in zip(query, key):
                total = fma(a, b, total)
            scores.append(mul(scale, total))
        m = maximum(scores)
        p = [exp(sub(score, m)) for score in scores] + [0.0] * (32 - len(scores))
        accumulator = [0.0] * len(query)
        for weight, value in zip(p, values[first:first + 32]):
            accumulator = [fma(weight, v, a) for v, a in zip(value, accumulator)]
        chunk = (m, tree(p), accumulator)
        if running is None:
            running = chunk
        else:
            most = chunk[0] if chunk[0] > running[0] else running[0]
            u, v = exp(sub(running[0], most)), exp(sub(chunk[0], most))
            merged = [fma(a, u, mul(b, v)) for a, b in zip(running[2], chunk[2])]
            running = (most, fma(running[1], u, mul(chunk[1], v)), merged)
    return [div(a, running[1]) for a in running[2]]


def short_convolution(weights, columns):
    out = []
    for c in range(len(columns[0])):
        total = 0.0
        for t, column in enumerate(columns):
            total = fma(weights[c * len(columns) + t], column[c], total)
        out.append(total)
    return out


def log_sum_exp(row):
    m = maximum(row)
    lanes = [0.0] * 1024
    for i, x in enumerate(row):
        lanes[i % 1024] = add(lanes[i % 1024], exp(sub(x, m)))
    return f32(m + log(tree(lanes)))


def checksum(row):
    total = 0
    for i, x in enumerate(row):
        z = ((i << 32 | bits32(x)) + 0x9E3779B97F4A7C15) & MASK64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
        total += z ^ z >> 31
    return total & MASK64


def philox(key, counter):
    k0, k1, c = key & 0xFFFFFFFF, key >> 32, list(counter)
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [p1 >> 32 ^ c[1] ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def sketch(x):
    magnitude, sums = 0.0, [[0.0] * 32 for _ in range(4)]
    for i, element in enumerate(x):
        if abs(element) > magnitude:
            magnitude = abs(element)
        words = philox(0, [i // 32, 0, 0, 4])
        for k in range(4):
            sums[k][i % 32] = add(sums[k][i % 32], -element if words[k] >> i % 32 & 1 else element)
    return [magnitude] + [tree(lanes) for lanes in sums]


def gumbel(seed, position, choice, token):
    u = (philox(seed, [position, token // 4, choice, 0])[token % 4] + 0.5) * 2.0**-32
    return -log(-log(1.0 - u))

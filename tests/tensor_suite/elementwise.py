"""Element-wise functions: a table of domains, types and tolerances.

`ulps` 0: arithmetic is exact, the reference is computed in the same type and all bits must agree. Otherwise the
reference is more precise, and results may differ by that many units in the last place of f32 (f64 for f64) plus the
rounding of the result. `scale`: errors may be relative to this number if it is larger than the result, because the
function cancels.
"""

import math

import inputs
import numpy
from elements import (
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMPY,
    Mismatch,
    close,
    computed,
    equal_bits,
    precise,
    promote,
    rounded,
    same_type,
)

erf = numpy.vectorize(math.erf, otypes=[float])


def erfinv(y):
    """By Newton's method from Winitzki's approximation (2008)."""
    y = numpy.asarray(y, float)
    inner = numpy.clip(y, -1 + 1e-16, 1 - 1e-16)
    log = numpy.log1p(-inner * inner)
    half = 2 / (math.pi * 0.147) + log / 2
    x = numpy.copysign(numpy.sqrt(numpy.sqrt(half * half - log / 0.147) - half), inner)
    for _ in range(4):
        tail = numpy.vectorize(math.erfc, otypes=[float])(numpy.abs(x))  # has digits where erf is near 1
        near_one = numpy.sign(inner) * ((1 - numpy.abs(inner)) - tail)
        error = numpy.where(numpy.abs(inner) > 0.5, near_one, erf(x) - inner)
        x = x - error / (2 / math.sqrt(math.pi) * numpy.exp(-x * x))
    result = numpy.where(numpy.abs(y) == 1, numpy.copysign(numpy.inf, y), x)
    return numpy.where(numpy.abs(y) <= 1, numpy.where(y == 0, y, result), numpy.nan)


def int_pow(a, b):
    """Negative exponents give the integer part of the power; 0 to one gives 0."""
    whole = numpy.power(a, numpy.maximum(b, 0))
    sign = numpy.where(b % 2 != 0, a, 1).astype(a.dtype)
    negative = numpy.where(a == 1, 1, numpy.where(a == -1 if a.dtype.kind == "i" else False, sign, 0)).astype(a.dtype)
    return numpy.where(b < 0, negative, whole)


def shift_left(a, b):
    bits = 8 * a.dtype.itemsize
    return numpy.where((b >= 0) & (b < bits), numpy.left_shift(a, numpy.clip(b, 0, bits - 1)), 0).astype(a.dtype)


def shift_right(a, b):
    bits = 8 * a.dtype.itemsize
    out = numpy.where(a < 0, -1, 0).astype(a.dtype) if a.dtype.kind == "i" else numpy.zeros_like(a)
    return numpy.where((b >= 0) & (b < bits), numpy.right_shift(a, numpy.clip(b, 0, bits - 1)), out).astype(a.dtype)


def rsqrt(x):
    return x.dtype.type(1) / numpy.sqrt(x)


def where_finite(values, scale):
    return numpy.where(numpy.isfinite(values), scale, 0)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def gelu_fast(x):
    return x * sigmoid(1.702 * x)


def subnormal(x):
    """Results below the smallest normal number may be 0."""
    return 2.0**-970 if x.dtype == numpy.longdouble else 2.0**-103


def wide_erf(x):
    return erf(x.astype(float)).astype(x.dtype)


# name: (types that the function computes in, reference, ulps, domain, scale)
# Types: "number" (bool as i32), "float" (integers as f32), "integer", "bits" (integers and bool), "any", "bool".
BINARY = {
    "add": ("number", numpy.add, 0, "any", None),
    "subtract": ("number", numpy.subtract, 0, "any", None),
    "multiply": ("number", numpy.multiply, 0, "any", None),
    "divide": ("float", numpy.divide, 0, "any", None),
    "floor_divide": ("number", numpy.floor_divide, 0, "any", None),
    "remainder": ("number", numpy.remainder, 0, "any", None),
    "pow": ("number", numpy.power, 1, "any", None),
    "minimum": ("number", numpy.minimum, 0, "any", None),
    "maximum": ("number", numpy.maximum, 0, "any", None),
    "atan2": ("float", numpy.arctan2, 1, "any", None),
    "hypot": ("float", numpy.hypot, 1, "any", None),
    "copysign": ("float", numpy.copysign, 0, "any", None),
    "logaddexp": ("float", numpy.logaddexp, 4, "any", lambda a, b: numpy.maximum(numpy.maximum(abs(a), abs(b)), 1)),
    "equal": ("any", numpy.equal, 0, "any", None),
    "not_equal": ("any", numpy.not_equal, 0, "any", None),
    "less": ("any", numpy.less, 0, "any", None),
    "less_equal": ("any", numpy.less_equal, 0, "any", None),
    "greater": ("any", numpy.greater, 0, "any", None),
    "greater_equal": ("any", numpy.greater_equal, 0, "any", None),
    "logical_and": ("bool", numpy.logical_and, 0, "any", None),
    "logical_or": ("bool", numpy.logical_or, 0, "any", None),
    "logical_xor": ("bool", numpy.logical_xor, 0, "any", None),
    "bitwise_and": ("bits", numpy.bitwise_and, 0, "any", None),
    "bitwise_or": ("bits", numpy.bitwise_or, 0, "any", None),
    "bitwise_xor": ("bits", numpy.bitwise_xor, 0, "any", None),
    "bitwise_left_shift": ("integer", shift_left, 0, "shift", None),
    "bitwise_right_shift": ("integer", shift_right, 0, "shift", None),
}
UNARY = {
    "logical_not": ("bool", numpy.logical_not, 0, "any", None),
    "bitwise_invert": ("bits", numpy.invert, 0, "any", None),
    "isnan": ("float", numpy.isnan, 0, "any", None),
    "isinf": ("float", numpy.isinf, 0, "any", None),
    "isfinite": ("float", numpy.isfinite, 0, "any", None),
    "negative": ("number", numpy.negative, 0, "any", None),
    "abs": ("number", numpy.abs, 0, "any", None),
    "sign": ("number", numpy.sign, 0, "any", None),
    "square": ("number", numpy.square, 0, "any", None),
    "exp": ("float", numpy.exp, 2, "any", None),
    "exp2": ("float", numpy.exp2, 1, "any", None),
    "expm1": ("float", numpy.expm1, 1, "any", None),
    "log": ("float", numpy.log, 2, "any", None),
    "log2": ("float", numpy.log2, 1, "any", None),
    "log10": ("float", numpy.log10, 2, "any", None),
    "log1p": ("float", numpy.log1p, 1, "any", None),
    "sqrt": ("float", numpy.sqrt, 0, "any", None),
    "rsqrt": ("float", rsqrt, 0, "any", None),
    "reciprocal": ("float", numpy.reciprocal, 0, "any", None),
    "sin": ("float", numpy.sin, 1, "any", None),
    "cos": ("float", numpy.cos, 1, "any", None),
    "tan": ("float", numpy.tan, 1, "any", None),
    "asin": ("float", numpy.arcsin, 1, "unit", None),
    "acos": ("float", numpy.arccos, 1, "unit", None),
    "atan": ("float", numpy.arctan, 1, "any", None),
    "sinh": ("float", numpy.sinh, 2, "any", None),
    "cosh": ("float", numpy.cosh, 2, "any", None),
    "tanh": ("float", numpy.tanh, 2, "any", None),
    "asinh": ("float", numpy.arcsinh, 2, "any", None),
    "acosh": ("float", numpy.arccosh, 2, (1.0, 50.0), None),
    "atanh": ("float", numpy.arctanh, 2, "unit", None),
    "erf": ("float", wide_erf, 1, "any", None),
    "erfinv": ("float", erfinv, 4, "unit", None),
    "sigmoid": ("float", sigmoid, 3, "any", subnormal),
    "relu": ("number", lambda x: numpy.where(numpy.isnan(x) | (x > 0), x, x.dtype.type(0)), 0, "any", None),
    "silu": ("float", lambda x: x * sigmoid(x), 4, "any", lambda x: subnormal(x) * 128),
    "gelu": ("float", lambda x: x * (1 + wide_erf(x / numpy.sqrt(x.dtype.type(2)))) / 2, 3, "any", abs),
    "gelu_tanh": (
        "float",
        lambda x: x * (1 + numpy.tanh((x + 0.044715 * x**3) * math.sqrt(2 / math.pi))) / 2,
        4,
        "any",
        abs,
    ),
    # The rounding of 1.702 x counts as often as the exponent is large.
    "gelu_fast": ("float", gelu_fast, 4, "any", lambda x: abs(gelu_fast(x) * x * 2) + subnormal(x) * 256),
    "softplus": ("float", lambda x: numpy.logaddexp(x, 0), 3, "any", None),
    "floor": ("whole", numpy.floor, 0, "any", None),
    "ceil": ("whole", numpy.ceil, 0, "any", None),
    "trunc": ("whole", numpy.trunc, 0, "any", None),
    "round": ("whole", numpy.rint, 0, "any", None),
}
TESTS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite"}
ACCEPTED = {"number": ["bool", *INTEGERS, *FLOATS], "float": ["bool", *INTEGERS, *FLOATS], "integer": INTEGERS,
            "bits": ["bool", *INTEGERS], "any": ["bool", *INTEGERS, *FLOATS], "bool": ["bool", *INTEGERS, *FLOATS],
            "whole": ["bool", *INTEGERS, *FLOATS]}  # fmt: skip


def operand_type(kind, dtype):
    if kind == "number" and dtype == "bool":
        return "i32"
    if kind == "float" and dtype not in FLOATS:
        return "f32"
    return "bool" if kind == "bool" else dtype


def cast(host, source, to):
    """The elements of an operand in the type that the function computes in."""
    if to == "bool":
        return host != 0
    return rounded(host, to) if to in FLOATS and source != to else host.astype(NUMPY[to])


def verify(got, name, row, hosts, dtype):
    """Compares with the reference; `hosts` have the type `dtype`."""
    _, reference, ulps, _, scale = row
    result = "bool" if name in TESTS else dtype
    shape = numpy.broadcast_shapes(*(host.shape for host in hosts))
    same_type(got, result, shape)
    with numpy.errstate(all="ignore"):
        if dtype not in FLOATS or (ulps == 0 and scale is None):
            exact = int_pow if name == "pow" else reference
            given = [host.astype(computed(dtype)) for host in hosts]
            want = numpy.broadcast_to(exact(*given), shape)
            want = want if result == "bool" else rounded(want, result)
            equal_bits(got, want, zeros=name not in ("minimum", "maximum", "relu", "sign"))
            return
        given = [host.astype(precise(dtype)) for host in hosts]
        want = numpy.broadcast_to(reference(*given), shape)
        close(got, want, ulps, 0 if scale is None else where_finite(want, scale(*given)))


def binary(library, rng, name):
    row = BINARY[name]
    kind, domain = row[0], row[3]
    types = [str(each) for each in rng.choice(ACCEPTED[kind], 2)]
    if rng.random() < 0.6:
        types[1] = types[0]
    shapes = inputs.broadcast_shapes(rng, 2)
    domains = [domain, domain] if domain != "shift" else ["any", (-2, 70)]
    made = [inputs.tensor(library, rng, *each) for each in zip(shapes, types, domains)]
    dtype = operand_type(kind, promote(*types))
    tensors, hosts = [each[0] for each in made], [cast(each[1], source, dtype) for each, source in zip(made, types)]
    if rng.random() < 0.15:  # a number without a type instead of one operand
        beside = int(rng.integers(0, 2))
        value, scalar = number(rng, domains[beside], types[1 - beside])
        dtype = operand_type(kind, scalar_type(value, types[1 - beside]))
        hosts[1 - beside] = cast(made[1 - beside][1], types[1 - beside], dtype)
        hosts[beside] = cast(numpy.array(value), scalar, dtype)
        tensors[beside] = library.number(value)
        if kind == "integer" and isinstance(value, float):
            return
    verify(library.call(name, *tensors), name, row, hosts, dtype)


def number(rng, domain, beside):
    """A Python number that fits beside a tensor of a type, and the type that it is read as."""
    kind = rng.integers(0, 3)
    if kind == 0 and beside not in ("bool", *INTEGERS):
        return float(numpy.round(rng.normal(), 2)), "f64"
    if isinstance(domain, tuple) or beside == "u8" or beside == "u32":
        return int(rng.integers(0, 9)), "i64"
    return int(rng.integers(-9, 9)), "i64"


def scalar_type(value, beside):
    if isinstance(value, float):
        return beside if beside in FLOATS else "f32"
    return "i32" if beside == "bool" else beside


def unary(library, rng, name):
    row = UNARY[name]
    given = str(rng.choice(ACCEPTED[row[0]]))
    if rng.random() < 0.5 and given not in FLOATS and row[0] in ("float", "whole"):
        given = inputs.float_type(rng)
    domain = row[3] if given in FLOATS or isinstance(row[3], tuple) else "any"
    x, host = inputs.tensor(library, rng, inputs.shape(rng), given, domain)
    got = library.call(name, x)
    if row[0] == "whole" and given not in FLOATS:
        same_type(got, given, host.shape)
        equal_bits(got, host)
        return
    dtype = operand_type(row[0], given)
    verify(got, name, row, [cast(host, given, dtype)], dtype)


def where(library, rng, _):
    shapes = inputs.broadcast_shapes(rng, 3)
    types = [str(each) for each in rng.choice(ACCEPTED["any"], 3)]
    made = [inputs.tensor(library, rng, *each) for each in zip(shapes, types)]
    dtype = promote(*types[1:])
    hosts = [made[0][1] != 0, *(cast(each[1], source, dtype) for each, source in zip(made[1:], types[1:]))]
    got = library.call("where", *(each[0] for each in made))
    want = numpy.where(*hosts)
    same_type(got, dtype, want.shape)
    equal_bits(got, want)


def clip(library, rng, _):
    dtype = str(rng.choice(INTEGERS + FLOATS))
    x, host = inputs.tensor(library, rng, inputs.shape(rng), dtype)
    low, high = sorted(number(rng, (0, 9), dtype)[0] for _ in range(2))
    low, high = low if rng.random() < 0.8 else None, high if rng.random() < 0.8 else None
    got = library.call("clip", x, *(None if each is None else library.number(each) for each in (low, high)))
    want = host
    if low is not None:
        want = numpy.where(want < rounded(low, dtype), rounded(low, dtype), want)
    if high is not None:
        want = numpy.where(want > rounded(high, dtype), rounded(high, dtype), want)
    same_type(got, dtype, host.shape)
    equal_bits(got, want)


def promotion(library, rng, _):
    a, b = (str(each) for each in rng.choice(DTYPES, 2))
    if library.promote(a, b) != promote(a, b):
        raise Mismatch(f"{a} and {b} give {library.promote(a, b)}, expected {promote(a, b)}")


def astype(library, rng, _):
    source, to = (str(each) for each in rng.choice(ACCEPTED["any"], 2))
    x, host = inputs.tensor(library, rng, inputs.shape(rng), source)
    got = library.call("astype", x, to)
    same_type(got, to, host.shape)
    with numpy.errstate(all="ignore"):
        if to == "bool":
            want = host != 0
        elif to in INTEGERS and source in FLOATS:  # saturates
            low, high = inputs.LIMITS[to]
            wide = numpy.trunc(host.astype(numpy.longdouble))
            want = numpy.where(numpy.isnan(wide), 0, numpy.clip(wide, low, high)).astype(NUMPY[to])
        elif to in FLOATS:
            want = rounded(host.astype(numpy.float32) if to in ("f16", "bf16") else host, to)
        else:
            want = host.astype(NUMPY[to])
    equal_bits(got, want)


OPS = {
    **{name: binary for name in BINARY}, **{name: unary for name in UNARY},
    "where": where, "clip": clip, "astype": astype, "promotion": promotion,
}  # fmt: skip

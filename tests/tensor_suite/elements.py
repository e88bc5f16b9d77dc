"""Element types on the host, and the comparison of results with references.

An array of bf16 is a numpy array of float32 whose values bf16 can hold.
"""

import numpy

DTYPES = ["bool", "u8", "i8", "i32", "u32", "i64", "f16", "bf16", "f32", "f64"]
INTEGERS = ["u8", "i8", "i32", "u32", "i64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
NUMBERS = INTEGERS + FLOATS
NUMPY = {
    "bool": numpy.bool_, "u8": numpy.uint8, "i8": numpy.int8, "i32": numpy.int32, "u32": numpy.uint32, "i64": numpy.int64,
    "f16": numpy.float16, "bf16": numpy.float32, "f32": numpy.float32, "f64": numpy.float64,
}  # fmt: skip
BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}  # of the mantissa
LEAST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}  # exponent of the smallest normal number
MOST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}


class Mismatch(Exception):
    """A result that differs from its reference."""


def computed(dtype):
    """The numpy type in which an element type is computed."""
    return numpy.float32 if dtype in ("f16", "bf16") else NUMPY[dtype]


def precise(dtype):
    """A numpy float type with more digits than `dtype`."""
    return numpy.longdouble if dtype == "f64" else numpy.float64


def promote(a, b):
    """The array API's promotion; f16 with bf16 gives f32, a float with an integer the float."""
    if a == b:
        return a
    kinds = [0 if each == "bool" else 1 if each in INTEGERS else 2 for each in (a, b)]
    if kinds[0] != kinds[1]:
        return a if kinds[0] > kinds[1] else b
    if kinds[0] == 2:
        return "f32" if {a, b} == {"f16", "bf16"} else max(a, b, key=["f16", "bf16", "f32", "f64"].index)
    if {a, b} == {"u8", "i8"}:
        return "i32"
    if {a, b} <= {"u8", "u32"}:
        return "u32"
    if "u32" in (a, b):
        return "i64"
    return max(a, b, key=["u8", "i8", "i32", "i64"].index)


def to_bf16(values):
    """float32 numbers rounded to bf16, halves to even."""
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) & numpy.uint32(0xFFFF0000)
    return numpy.where(numpy.isnan(values), values, rounded.view(numpy.float32).reshape(values.shape)).astype(
        numpy.float32
    )


def rounded(values, dtype):
    """Values of the computed type as elements."""
    values = numpy.asarray(values)
    with numpy.errstate(all="ignore"):
        return to_bf16(values.astype(numpy.float32)) if dtype == "bf16" else values.astype(NUMPY[dtype])


def to_bytes(values, dtype):
    if dtype == "bf16":
        return (numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
    return numpy.ascontiguousarray(values, NUMPY[dtype]).tobytes()


def from_bytes(data, dtype, shape):
    if dtype == "bf16":
        halves = numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16
        return halves.view(numpy.float32).reshape(shape)
    return numpy.frombuffer(data, NUMPY[dtype]).reshape(shape)


def spacing(values, dtype):
    """The distance of neighbouring numbers of a float type at `values`."""
    with numpy.errstate(all="ignore"):
        exponent = numpy.frexp(numpy.abs(values).astype(numpy.longdouble))[1].astype(numpy.int64) - 1
    exponent = numpy.where(values == 0, LEAST[dtype], numpy.maximum(exponent, LEAST[dtype]))
    return numpy.ldexp(numpy.longdouble(1), (exponent - BITS[dtype]).astype(numpy.int32))


def same_type(got, dtype, shape):
    if got.dtype != dtype or got.shape != tuple(shape):
        raise Mismatch(f"found {got.dtype} {list(got.shape)}, expected {dtype} {list(shape)}")


def first(wrong, got, want):
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return f"element {list(at)} is {got[at]!r}, expected {want[at]!r} ({int(wrong.sum())} of {wrong.size} differ)"


def equal_bits(got, want, zeros=True):
    """Requires the same elements, or NaN for NaN. `zeros`: the sign of zeros counts."""
    found = got.host()
    if want.dtype.kind != "f":
        wrong = found != want
    else:
        wrong = ~((found == want) | (numpy.isnan(found) & numpy.isnan(want)))
        if zeros:
            wrong |= (want == 0) & (found == 0) & (numpy.signbit(want) != numpy.signbit(found))
    if numpy.any(wrong):
        raise Mismatch(first(wrong, found, want))


def close(got, want, ulps, scale=0):
    """Requires elements within `ulps` of a precise reference, at its own size or at `scale` if that is larger. f16 and
    bf16 are rounded once more. An infinity may stand for a number that is too large by no more than the tolerance."""
    dtype, found = got.dtype, got.host().astype(numpy.longdouble)
    want = numpy.asarray(want, numpy.longdouble)
    inner = "f32" if dtype in ("f16", "bf16") else dtype
    size = numpy.maximum(numpy.abs(want), numpy.asarray(scale, numpy.longdouble))
    with numpy.errstate(all="ignore"):
        size = numpy.where(numpy.isfinite(size), size, numpy.longdouble(MOST[inner]))
        allowed = ulps * spacing(size, inner)
        if dtype != inner or ulps > 0:
            allowed = allowed + spacing(want, dtype) * numpy.longdouble(0.5)
        most = numpy.longdouble(MOST[dtype])
        limit = numpy.clip(want, -most, most)
        overflow = (
            numpy.isinf(found) & (numpy.abs(want) + allowed >= most) & (numpy.signbit(found) == numpy.signbit(want))
        )
        right = (found == want) | (numpy.isnan(found) & numpy.isnan(want)) | overflow
        right |= numpy.isfinite(found) & (numpy.abs(found - limit) <= allowed) & (numpy.abs(want) <= most + allowed)
    if not numpy.all(right):
        raise Mismatch(first(~right, found, want))

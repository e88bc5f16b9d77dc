"""Functions along axes: reductions, softmax, running sums, order, products of matrices."""

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
from library import Refused


def axes_of(rng, rank):
    """(as given, as numpy takes them): none given are all."""
    if rank == 0 or rng.random() < 0.3:
        return [], tuple(range(rank))
    chosen = [int(axis) for axis in rng.permutation(rank)[: int(rng.integers(1, rank + 1))]]
    return [axis - rank if rng.random() < 0.3 else axis for axis in chosen], tuple(chosen)


def axis_of(rng, rank):
    axis = int(rng.integers(0, rank))
    return (axis - rank if rng.random() < 0.3 else axis), axis


def wide(host, dtype):
    """Elements as the functions with float results read them, precise."""
    return rounded(host, "f32" if dtype not in FLOATS else dtype).astype(precise(dtype))


def refused(call, *given):
    """Requires that a call fails."""
    try:
        call(*given)
    except Refused:
        return
    raise Mismatch("it was accepted, expected an error")


def sum_ulps(count):
    """The bound for the rounding of a sum in chunks of 4,096 elements with 16 partial sums (docs/numerics.md)."""
    return 2 + min(count, 4096) / 16 + numpy.log2(max(count, 1))


def accumulated(name, host, dtype, axes, keep):
    """sum and prod: (reference, tolerance in units of the computed type, scale)."""
    count = max(int(numpy.prod([host.shape[axis] for axis in axes], dtype=numpy.int64)), 1)
    values = host.astype(precise(dtype))
    if name == "sum":
        scale = numpy.sum(numpy.abs(values), axis=axes, keepdims=keep)
        return numpy.sum(values, axis=axes, keepdims=keep), sum_ulps(count), scale
    return numpy.prod(values, axis=axes, keepdims=keep), count, 0


def reduction(library, rng, name):
    dtype = str(rng.choice(DTYPES))
    domain = str(rng.choice(["any", "finite"])) if name in ("min", "max", "any", "all") else "finite"
    if name == "prod" and dtype in FLOATS:
        domain = (0.5, 1.5) if rng.random() < 0.8 else "small"
    x, host = inputs.tensor(library, rng, inputs.shape(rng), dtype, domain)
    given, axes = axes_of(rng, host.ndim)
    keep = bool(rng.integers(0, 2))
    if name in ("min", "max") and any(host.shape[axis] == 0 for axis in axes):
        refused(library.call, name, x, given, int(keep))
        return
    got = library.call(name, x, given, int(keep))
    with numpy.errstate(all="ignore"):
        if name in ("any", "all"):
            want = getattr(numpy, name)(host != 0, axis=axes, keepdims=keep)
            same_type(got, "bool", want.shape)
            equal_bits(got, want)
        elif name in ("min", "max"):
            want = getattr(numpy, name)(host, axis=axes, keepdims=keep)
            same_type(got, dtype, want.shape)
            equal_bits(got, numpy.asarray(want), zeros=False)
        elif dtype not in FLOATS:
            want = numpy.asarray(getattr(numpy, name)(host.astype(numpy.int64), axis=axes, keepdims=keep))
            same_type(got, "i64", want.shape)
            equal_bits(got, want)
        else:
            want, ulps, scale = accumulated(name, host, dtype, axes, keep)
            same_type(got, dtype, want.shape)
            flushed = 0 if name == "sum" else 2.0**-970 if dtype == "f64" else 2.0**-103
            close(got, want, ulps, numpy.maximum(scale, flushed))


def nan_sum(library, rng, name):
    """Sums and products of numbers with NaN and infinities."""
    dtype = inputs.float_type(rng)
    x, host = inputs.tensor(library, rng, inputs.shape(rng), dtype, "any")
    host = numpy.where(abs(host) > 1e4, numpy.copysign(numpy.inf, host), host)
    x = library.array(host, dtype)
    given, axes = axes_of(rng, host.ndim)
    got = library.call("sum", x, given, 0)
    with numpy.errstate(all="ignore"):
        want, ulps, scale = accumulated("sum", host, dtype, axes, False)
    same_type(got, dtype, want.shape)
    close(got, want, ulps, numpy.where(numpy.isfinite(scale), scale, 0))


def moment(library, rng, name):
    dtype = str(rng.choice(DTYPES)) if rng.random() < 0.3 else inputs.float_type(rng)
    x, host = inputs.tensor(library, rng, inputs.shape(rng), dtype, "small")
    given, axes = axes_of(rng, host.ndim)
    keep = bool(rng.integers(0, 2))
    values = wide(host, dtype)
    count = int(numpy.prod([host.shape[axis] for axis in axes], dtype=numpy.int64))
    with numpy.errstate(all="ignore"):
        if name == "mean":
            got = library.call(name, x, given, int(keep))
            want = numpy.sum(values, axis=axes, keepdims=keep) / values.dtype.type(count)
        else:
            correction = float(rng.choice([0, 0, 1, 0.5]))
            got = library.call(name, x, given, int(keep), correction)
            middle = numpy.sum(values, axis=axes, keepdims=True) / values.dtype.type(count)
            squares = numpy.sum((values - middle) ** 2, axis=axes, keepdims=keep)
            want = squares / values.dtype.type(max(count - correction, 0))
            want = numpy.sqrt(want) if name == "std_dev" else want
    same_type(got, dtype if dtype in FLOATS else "f32", want.shape)
    # The mean is rounded before distances from it are squared, which matters if all are small.
    scale = 3 if name == "mean" else numpy.where(want < 1e-3, 3 if name == "std_dev" else 1e-5, 0)
    close(got, want, 8 + sum_ulps(count), scale)


def softmax_like(library, rng, name):
    dtype = str(rng.choice(DTYPES)) if rng.random() < 0.3 else inputs.float_type(rng)
    domain = "small" if rng.random() < 0.7 else (-60.0, 60.0)
    x, host = inputs.tensor(library, rng, inputs.shape(rng, least=0 if name == "logsumexp" else 1), dtype, domain)
    if dtype in FLOATS and domain == "small" and rng.random() < 0.3 and host.size:
        host = rounded(numpy.where(rng.random(host.shape) < 0.2, -numpy.inf, host), dtype)
        x = library.array(host, dtype)
    values = wide(host, dtype)
    with numpy.errstate(all="ignore"):
        if name == "logsumexp":
            given, axes = axes_of(rng, host.ndim)
            keep = bool(rng.integers(0, 2))
            got = library.call(name, x, given, int(keep))
            most = numpy.max(values, axis=axes, keepdims=True, initial=-numpy.inf)
            most = numpy.where(numpy.isfinite(most), most, 0)
            want = numpy.log(numpy.sum(numpy.exp(values - most), axis=axes, keepdims=True)) + most
            want = want if keep else want.reshape(numpy.sum(values, axis=axes).shape)
        else:
            given, axis = axis_of(rng, host.ndim)
            got = library.call(name, x, given)
            shifted = values - numpy.max(values, axis=axis, keepdims=True, initial=-numpy.inf)
            total = numpy.sum(numpy.exp(shifted), axis=axis, keepdims=True)
            want = numpy.exp(shifted) / total if name == "softmax" else shifted - numpy.log(total)
    same_type(got, dtype if dtype in FLOATS else "f32", want.shape)
    size = numpy.where(numpy.isfinite(want), 60 if domain != "small" else 4, 0)  # of the exponents
    count = max(host.shape, default=1)
    close(got, want, 12 + sum_ulps(count), numpy.abs(want) * size if name == "softmax" else size)


def cumulative(library, rng, name):
    dtype = str(rng.choice(DTYPES))
    domain = "any" if dtype not in FLOATS else "finite" if name == "cumsum" else (0.5, 1.5)
    x, host = inputs.tensor(library, rng, inputs.shape(rng, least=1), dtype, domain)
    given, axis = axis_of(rng, host.ndim)
    got = library.call(name, x, given)
    result = dtype if dtype in FLOATS else "i64"
    with numpy.errstate(all="ignore"):  # NumPy adds in order along an axis, too
        want = getattr(numpy, name)(host.astype(computed(result)), axis=axis)
    same_type(got, result, host.shape)
    equal_bits(got, rounded(want, result) if result in FLOATS else want, zeros=False)  # sums start from 0


def order_of(host, axis, descending):
    """A stable order; NaN is the largest number."""
    if not descending:
        return numpy.argsort(host, axis=axis, kind="stable")
    back = numpy.argsort(numpy.flip(host, axis), axis=axis, kind="stable")
    return numpy.flip(host.shape[axis] - 1 - back, axis)


def ordering(library, rng, name):
    dtype = str(rng.choice(DTYPES))
    x, host = inputs.tensor(library, rng, inputs.shape(rng, least=1), dtype, str(rng.choice(["any", "small"])))
    if dtype in FLOATS and rng.random() < 0.5:
        host = numpy.round(host)
        x = library.array(host, dtype)
    given, axis = axis_of(rng, host.ndim)
    descending = bool(rng.integers(0, 2)) or name == "top_k"
    order = order_of(host, axis, descending)
    if name == "top_k":
        k = int(rng.integers(0, host.shape[axis] + 1))
        values, indices = library.call(name, x, k, given)
        order = numpy.take(order, range(k), axis=axis)
    elif name == "sort":
        values, indices = library.call(name, x, given, int(descending)), None
    else:
        values, indices = None, library.call(name, x, given, int(descending))
    if indices is not None:
        same_type(indices, "i64", order.shape)
        equal_bits(indices, order)
    if values is not None:
        same_type(values, dtype, order.shape)
        equal_bits(values, numpy.take_along_axis(host, order, axis))


def arg_reduction(library, rng, name):
    dtype = str(rng.choice(DTYPES))
    x, host = inputs.tensor(library, rng, inputs.shape(rng), dtype, str(rng.choice(["any", "small"])))
    given, axis = (None, None) if host.ndim == 0 or rng.random() < 0.3 else axis_of(rng, host.ndim)
    keep = bool(rng.integers(0, 2))
    if (host.size if axis is None else host.shape[axis]) == 0:
        refused(library.call, name, x, given, int(keep))
        return
    got = library.call(name, x, given, int(keep))
    want = numpy.asarray(getattr(numpy, name)(host, axis=axis))
    if keep:
        want = want.reshape([1] * host.ndim) if axis is None else numpy.expand_dims(want, axis)
    same_type(got, "i64", want.shape)
    equal_bits(got, want)


def searchsorted(library, rng, name):
    types = [str(each) for each in rng.choice(DTYPES, 2)]
    if rng.random() < 0.7:
        types[1] = types[0]
    dtype = promote(*types)
    line, values = inputs.tensor(library, rng, [int(rng.integers(0, 40))], types[0], "any")
    values = numpy.sort(values)
    line = library.array(values, types[0])
    x, host = inputs.tensor(library, rng, inputs.shape(rng), types[1], "any")
    right = bool(rng.integers(0, 2))
    got = library.call(name, line, x, int(right))
    with numpy.errstate(all="ignore"):
        both = [rounded(each, dtype) if dtype in FLOATS else each.astype(NUMPY[dtype]) for each in (values, host)]
    want = numpy.asarray(numpy.searchsorted(both[0], both[1], "right" if right else "left"))
    same_type(got, "i64", host.shape)
    equal_bits(got, want)


def matmul(library, rng, name):
    types = [inputs.float_type(rng) for _ in range(2)]
    if rng.random() < 0.6:
        types[1] = types[0]
    if rng.random() < 0.1:
        types[0] = str(rng.choice(INTEGERS))
    dtype = promote(*types)
    rows, inner, columns = (int(rng.choice([0, 1, 2, 3, 5, 8, 17, 33, 64, 130, 259])) for _ in range(3))
    if rows * inner * columns > 200000:  # the precise reference is slow
        rows = 2
    products = rows * max(inner, 1) * columns
    batch = inputs.broadcast_shapes(rng, 2) if rng.random() < 0.5 else [[], []]
    batch = [each[-3:] for each in batch]
    if numpy.prod(numpy.broadcast_shapes(*batch), dtype=float) * products > 200000:
        batch = [[], []]
    shapes = [batch[0] + [rows, inner], batch[1] + [inner, columns]]
    if rng.random() < 0.15:
        shapes[0] = [inner]
    if rng.random() < 0.15:
        shapes[1] = [inner]
    made = [inputs.tensor(library, rng, shape, each, "small") for shape, each in zip(shapes, types)]
    got = library.call(name, made[0][0], made[1][0])
    hosts = [(rounded(each[1], dtype)).astype(precise(dtype)) for each in made]
    want = numpy.matmul(*hosts)
    same_type(got, dtype, numpy.shape(want))
    close(got, want, inner + 1, numpy.matmul(*map(numpy.abs, hosts)))


OPS = {
    **{name: reduction for name in ("sum", "prod", "min", "max", "any", "all")},
    "sum of specials": nan_sum,
    **{name: moment for name in ("mean", "var", "std_dev")},
    **{name: softmax_like for name in ("softmax", "log_softmax", "logsumexp")},
    **{name: cumulative for name in ("cumsum", "cumprod")},
    **{name: ordering for name in ("sort", "argsort", "top_k")},
    **{name: arg_reduction for name in ("argmax", "argmin")},
    "searchsorted": searchsorted, "matmul": matmul,
}  # fmt: skip

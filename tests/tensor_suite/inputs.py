"""Random tensors with their values on the host: types, shapes, views, numbers with a meaning of their own."""

import numpy
from elements import BITS, FLOATS, INTEGERS, LEAST, MOST, NUMPY, rounded
from library import NONE, Slice

SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17]
LIMITS = {each: (numpy.iinfo(NUMPY[each]).min, numpy.iinfo(NUMPY[each]).max) for each in INTEGERS}


def shape(rng, least=0, most=8, empty=True, elements=400):
    """A shape with `least` to `most` dimensions and at most about `elements` elements; sometimes with a long one."""
    if least <= 1 <= most and rng.random() < 0.03:
        return [int(rng.integers(500, 9000))]
    if least <= 2 <= most and rng.random() < 0.02:
        return [int(size) for size in rng.permutation([rng.integers(2, 6), rng.integers(300, 3000)])]
    rank = int(rng.choice(range(least, most + 1), p=weights(least, most)))
    sizes = []
    for _ in range(rank):
        size = int(rng.choice(SIZES))
        if size == 0 and (not empty or rng.random() < 0.7):
            size = 2
        sizes.append(size if numpy.prod(sizes + [size]) <= elements else 1)
    rng.shuffle(sizes)
    return sizes


def weights(least, most):
    given = numpy.array([[2, 4, 5, 4, 2, 1, 1, 1, 2][rank] for rank in range(least, most + 1)], float)
    return given / given.sum()


def broadcast_shapes(rng, count):
    """Shapes that can be broadcast to each other."""
    whole = shape(rng)
    made = []
    for _ in range(count):
        cut = whole[int(rng.integers(0, len(whole) + 1)) :] if rng.random() < 0.3 else whole
        made.append([1 if rng.random() < 0.2 else size for size in cut])
    made[int(rng.integers(0, count))] = whole
    return made


def numbers(rng, count, dtype, domain="any"):
    """Elements of a type. Domains: any (with limits, NaN, infinities, zeros with signs, subnormal numbers), finite, small
    (within 3), positive, unit (-1 to 1), or a pair of bounds."""
    if dtype == "bool":
        return rng.random(count) < 0.5
    if dtype in INTEGERS:
        return integers(rng, count, dtype, domain)
    if isinstance(domain, tuple):
        return rounded(rng.uniform(*domain, count), dtype)
    values = rng.normal(0, 2, count)
    if domain == "unit":
        values = rng.uniform(-1, 1, count)
    elif domain == "positive":
        values = numpy.exp(values)
    elif domain == "small":
        values = rng.uniform(-3, 3, count)
    elif rng.random() < 0.4:  # of all sizes
        values = values * 10.0 ** rng.uniform(-8, 8, count)
    elif rng.random() < 0.2:
        values = numpy.round(values)
    if domain == "any" and rng.random() < 0.5:
        special = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1.0, -1.0, MOST[dtype], -MOST[dtype],
                               2.0 ** LEAST[dtype], 3 * 2.0 ** (LEAST[dtype] - BITS[dtype]), 0.5, 2.5])  # fmt: skip
        values = numpy.where(rng.random(count) < 0.3, rng.choice(special, count), values)
    elif domain == "finite" and rng.random() < 0.3:
        values = numpy.where(rng.random(count) < 0.2, rng.choice([0.0, -0.0, 1.0, -1.0], count), values)
    return rounded(values, dtype)


def integers(rng, count, dtype, domain):
    low, high = LIMITS[dtype]
    if isinstance(domain, tuple):
        low, high = max(low, int(numpy.ceil(domain[0]))), min(high, int(numpy.floor(domain[1])))
        return rng.integers(low, high, count, NUMPY[dtype], endpoint=True)
    if domain in ("small", "unit", "positive"):
        least = 1 if domain == "positive" else max(low, -3)
        return rng.integers(least, 4, count).astype(NUMPY[dtype])
    values = rng.integers(low, high, count, NUMPY[dtype], endpoint=True)
    if rng.random() < 0.5:
        values = rng.integers(max(low, -9), 10, count).astype(NUMPY[dtype])
    if domain == "any":
        special = numpy.array([low, high, low + 1, high - 1, 0, 1, max(low, -1)], NUMPY[dtype])
        values = numpy.where(rng.random(count) < 0.2, rng.choice(special, count), values)
    return values


def tensor(library, rng, sizes, dtype, domain="any", plain=False):
    """(tensor, host) of a shape: contiguous, or a view with other strides."""
    kind = (
        "plain"
        if plain or not sizes
        else str(rng.choice(["plain", "transpose", "slice", "broadcast", "flip", "mixed"]))
    )
    steps, base = [], list(sizes)
    if kind in ("transpose", "mixed"):
        order = [int(i) for i in rng.permutation(len(base))]
        steps.append(("transpose", order))
        base = [base[order.index(i)] for i in range(len(base))]
    if kind in ("slice", "flip", "mixed"):
        slices, wide = [], []
        for size in base:
            step = int(rng.choice([1, 2, 3, -1, -2])) if kind != "flip" else int(rng.choice([1, -1]))
            before, after = (int(i) for i in rng.integers(0, 3, 2)) if kind != "flip" else (0, 0)
            length = before + after + (0 if size == 0 else (size - 1) * abs(step) + 1)
            start = before if step > 0 else before + max((size - 1) * -step, 0)
            stop = start + size * step
            slices.append((start, NONE if stop < 0 else min(stop, length), step))
            wide.append(length)
        steps.insert(0, ("slice", slices))
        base = wide
        if numpy.prod(base) > 40000:
            return tensor(library, rng, sizes, dtype, domain, plain=True)
    if kind == "broadcast":
        steps.insert(0, ("broadcast", list(base)))
        base = [1 if rng.random() < 0.5 else size for size in base]
        cut = int(rng.integers(0, len(base) + 1))
        base = base[cut:] if rng.random() < 0.3 else base
    host = numbers(rng, int(numpy.prod(base, dtype=numpy.int64)), dtype, domain).reshape(base)
    made = library.array(host, dtype)
    for step, given in steps:
        made, host = apply(library, step, made, host, given)
    return made, host


def apply(library, step, made, host, given):
    if step == "transpose":
        return library.call("transpose", made, given), host.transpose(given)
    if step == "broadcast":
        return library.call("broadcast_to", made, given), numpy.broadcast_to(host, given)
    return library.call("slice", made, [Slice(*each) for each in given]), host[python_slices(given)]


def python_slices(given):
    return tuple(slice(*(None if bound == NONE else bound for bound in each[:2]), each[2]) for each in given)


def float_type(rng):
    return str(rng.choice(FLOATS))

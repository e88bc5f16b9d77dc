"""Functions that create, view, move and index elements, and random numbers: results are exact."""

import inputs
import numpy
from elements import DTYPES, FLOATS, INTEGERS, NUMPY, Mismatch, close, computed, equal_bits, promote, rounded, same_type
from inputs import python_slices
from library import NONE, Pad, Slice
from lines import axes_of, axis_of, refused


def some(library, rng, least=0, most=8, **options):
    dtype = str(rng.choice(DTYPES))
    return (*inputs.tensor(library, rng, inputs.shape(rng, least, most, **options), dtype), dtype)


def exactly(got, want, dtype):
    want = numpy.asarray(want)
    same_type(got, dtype, want.shape)
    equal_bits(got, want.astype(NUMPY[dtype]))


# ---- views ----


def reshape(library, rng, name):
    x, host, dtype = some(library, rng, most=5)
    if name == "flatten":
        return exactly(library.call(name, x), host.reshape(-1), dtype)
    factors = [size for size in host.shape if size != 1]
    shape = []
    for factor in factors:  # parts of the sizes in the same order, which views can have
        part = int(rng.choice([d for d in range(1, factor + 1) if factor % d == 0])) if factor else 0
        shape += [factor] if part in (0, 1, factor) else [part, factor // part]
    if rng.random() < 0.5 and shape:
        shape = (
            [int(numpy.prod(shape, dtype=numpy.int64))]
            if rng.random() < 0.3
            else [shape[i] for i in rng.permutation(len(shape))]
        )
    shape = (shape + [1] * int(rng.integers(0, 3)))[:8]
    if numpy.prod(shape, dtype=numpy.int64) != host.size:
        shape = [host.size]
    given = list(shape)
    if shape and host.size and rng.random() < 0.3:
        given[int(rng.integers(0, len(shape)))] = -1
    return exactly(library.call(name, x, given), host.reshape(shape), dtype)


def transpose(library, rng, name):
    x, host, dtype = some(library, rng)
    if name == "swapaxes":
        if host.ndim == 0:
            return None
        (a, p), (b, q) = axis_of(rng, host.ndim), axis_of(rng, host.ndim)
        return exactly(library.call(name, x, a, b), host.swapaxes(p, q), dtype)
    order = [] if rng.random() < 0.2 else [int(i) for i in rng.permutation(host.ndim)]
    given = [i - host.ndim if rng.random() < 0.2 else i for i in order]
    return exactly(library.call(name, x, given), host.transpose(order or None), dtype)


def broadcast_to(library, rng, name):
    whole = inputs.shape(rng)
    base = [1 if rng.random() < 0.4 else size for size in whole][
        int(rng.integers(0, len(whole) + 1)) if rng.random() < 0.3 else 0 :
    ]
    dtype = str(rng.choice(DTYPES))
    x, host = inputs.tensor(library, rng, base, dtype)
    exactly(library.call(name, x, whole), numpy.broadcast_to(host, whole), dtype)


def dimensions(library, rng, name):
    x, host, dtype = some(library, rng, most=7)
    if name == "expand_dims":
        given, axis = axis_of(rng, host.ndim + 1)
        return exactly(library.call(name, x, given), numpy.expand_dims(host, axis), dtype)
    ones = [axis for axis, size in enumerate(host.shape) if size == 1]
    axes = [axis for axis in ones if rng.random() < 0.6]
    want = numpy.squeeze(host, tuple(axes or ones))
    return exactly(library.call(name, x, [a - host.ndim if rng.random() < 0.3 else a for a in axes]), want, dtype)


def flip(library, rng, name):
    x, host, dtype = some(library, rng)
    given, axes = axes_of(rng, host.ndim)
    exactly(library.call(name, x, given), numpy.flip(host, axes), dtype)


def random_slices(rng, shape):
    """Slices with bounds inside and outside of the axes."""
    slices = []
    for size in shape[: int(rng.integers(0, len(shape) + 1))]:
        bounds = [NONE if rng.random() < 0.3 else int(rng.integers(-2 * size - 2, 2 * size + 3)) for _ in range(2)]
        bounds = [int(rng.choice([2**62, -(2**62), 2**63 - 1])) if rng.random() < 0.03 else bound for bound in bounds]
        step = int(
            rng.choice(
                [1, 1, 2, 3, -1, -1, -2, -5, 2**63 - 1, -(2**63)],
                p=[0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.09, 0.04, 0.01, 0.01],
            )
        )
        slices.append((*bounds, step))
    return slices


def slicing(library, rng, name):
    x, host, dtype = some(library, rng)
    given = random_slices(rng, host.shape)
    got = [Slice(*each) for each in given]
    if name == "slice":
        return exactly(library.call(name, x, got), host[python_slices(given)], dtype)
    want = host.copy()
    part = want[(*python_slices(given), ...)]
    shape = [1 if rng.random() < 0.2 else size for size in part.shape]
    other = str(rng.choice(DTYPES)) if rng.random() < 0.1 and dtype in FLOATS else dtype
    update, values = inputs.tensor(library, rng, shape, other, "small")
    part[...] = rounded(values.astype(computed(dtype)), dtype) if dtype in FLOATS else values
    return exactly(library.call(name, x, got, update), want, dtype)


# ---- movement ----


def joining(library, rng, name):
    count = int(rng.integers(1, 5))
    base = inputs.shape(rng, least=1, most=7, elements=150)
    given, axis = axis_of(rng, len(base) + (1 if name == "stack" else 0))
    types = (
        [str(rng.choice(DTYPES))] * count if rng.random() < 0.7 else [str(each) for each in rng.choice(DTYPES, count)]
    )
    made = []
    for each in types:
        shape = list(base)
        if name == "concatenate":
            shape[axis] = int(rng.integers(0, 5))
        made.append(inputs.tensor(library, rng, shape, each))
    dtype = types[0]
    for each in types[1:]:
        dtype = promote(dtype, each)
    hosts = [
        rounded(host.astype(computed(dtype)), dtype) if dtype in FLOATS else host.astype(NUMPY[dtype])
        for _, host in made
    ]
    exactly(library.call(name, [each for each, _ in made], given), getattr(numpy, name)(hosts, axis=axis), dtype)


def split(library, rng, name):
    parts = int(rng.integers(1, 5))
    shape = inputs.shape(rng, least=1, elements=100)
    given, axis = axis_of(rng, len(shape))
    shape[axis] *= parts
    dtype = str(rng.choice(DTYPES))
    x, host = inputs.tensor(library, rng, shape, dtype)
    for got, want in zip(library.split(x, parts, given), numpy.split(host, parts, axis)):
        exactly(got, want, dtype)


def pad(library, rng, name):
    x, host, dtype = some(library, rng, most=5, elements=100)
    widths = [(int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in host.shape]
    value = float(rng.integers(0, 2)) if dtype == "bool" else float(rng.integers(0, 5))
    want = numpy.pad(host, widths, constant_values=NUMPY[dtype](value)) if host.ndim else host
    exactly(library.call(name, x, [Pad(*each) for each in widths], value), want, dtype)


def repeating(library, rng, name):
    x, host, dtype = some(library, rng, least=1, most=6, elements=80)
    if name == "tile":
        counts = [int(rng.integers(0, 4)) for _ in range(int(rng.integers(0, host.ndim + 2)))]
        return exactly(library.call(name, x, counts), numpy.tile(host, counts), dtype)
    given, axis = axis_of(rng, host.ndim)
    if name == "repeat":
        count = int(rng.integers(0, 4))
        return exactly(library.call(name, x, count, given), numpy.repeat(host, count, axis), dtype)
    shift = int(rng.choice([rng.integers(-20, 20), 2**63 - 1, -(2**63)], p=[0.96, 0.02, 0.02]))
    size = host.shape[axis]
    return exactly(library.call(name, x, shift, given), numpy.roll(host, shift % size if size else 0, axis), dtype)


# ---- indexing ----


def index_tensor(library, rng, shape, size):
    dtype = str(rng.choice(INTEGERS))
    low, high = inputs.LIMITS[dtype]
    return inputs.tensor(library, rng, shape, dtype, (max(-size, low), min(size - 1, high)))


def take(library, rng, name):
    x, host, dtype = some(library, rng, least=1, most=5, elements=200)
    given, axis = axis_of(rng, host.ndim)
    size = host.shape[axis]
    shape = inputs.shape(rng, 0, 3, elements=20)
    if size == 0:
        return None
    indices, places = index_tensor(library, rng, shape, size)
    want = numpy.take(host, places.astype(numpy.int64), axis)
    if name == "take":
        if rng.random() < 0.05 and places.size:
            places = places.astype(numpy.int64)
            places.flat[0] = size if rng.random() < 0.5 else -size - 1
            return refused(lambda: library.call(name, x, library.array(places, "i64"), given).host())
        return exactly(library.call(name, x, indices, given), want, dtype)
    if dtype == "bool":
        return None
    domain = "any" if dtype not in FLOATS else "small"
    x, host = inputs.tensor(library, rng, host.shape, dtype, domain)
    updates, added = inputs.tensor(library, rng, want.shape, dtype, domain)
    sums = numpy.moveaxis(host.astype(computed(dtype)), axis, 0).copy()
    lines = numpy.moveaxis(
        added.reshape(*host.shape[:axis], places.size, *host.shape[axis + 1 :]).astype(sums.dtype), axis, 0
    )
    with numpy.errstate(all="ignore"):
        for place, line in zip(places.astype(numpy.int64).flat, lines):
            sums[place] += line
    sums = numpy.moveaxis(sums, 0, axis)
    return exactly(library.call(name, x, indices, updates, given), rounded(sums, dtype), dtype)


def along_axis(library, rng, name):
    x, host, dtype = some(library, rng, least=1, most=5, elements=200)
    given, axis = axis_of(rng, host.ndim)
    if host.shape[axis] == 0:
        return None
    shape = list(host.shape)
    shape[axis] = int(rng.integers(0, 6))
    if name == "take_along_axis" and rng.random() < 0.3:
        shape = [1 if i != axis and rng.random() < 0.5 else size for i, size in enumerate(shape)]
    indices, places = index_tensor(library, rng, shape, host.shape[axis])
    places = places.astype(numpy.int64)
    whole = [shape[axis] if i == axis else size for i, size in enumerate(host.shape)]
    places = numpy.broadcast_to(places, whole)
    if name == "take_along_axis":
        return exactly(library.call(name, x, indices, given), numpy.take_along_axis(host, places, axis), dtype)
    if dtype == "bool":
        return None
    domain = "any" if dtype not in FLOATS else "small"
    x, host = inputs.tensor(library, rng, host.shape, dtype, domain)
    updates, added = inputs.tensor(library, rng, shape, dtype, domain)
    sums = numpy.moveaxis(host.astype(computed(dtype)), axis, -1).copy()
    added, places = (numpy.moveaxis(each, axis, -1) for each in (added.astype(sums.dtype), places))
    with numpy.errstate(all="ignore"):
        for at in numpy.ndindex(*places.shape):
            sums[(*at[:-1], places[at])] += added[at]
    want = rounded(numpy.moveaxis(sums, -1, axis), dtype)
    return exactly(library.call(name, x, indices, updates, given), want, dtype)


def one_hot(library, rng, name):
    classes = int(rng.integers(0, 7))
    indices, places = inputs.tensor(
        library, rng, inputs.shape(rng, 0, 4, elements=60), str(rng.choice(INTEGERS)), (-1, 8)
    )
    dtype = str(rng.choice(DTYPES))
    exactly(library.call(name, indices, classes, dtype), places[..., None] == numpy.arange(classes), dtype)


# ---- creation ----


def creation(library, rng, name):
    dtype = str(rng.choice(DTYPES))
    shape = inputs.shape(rng)
    if name == "full":
        value = float(rng.integers(0, 100)) if dtype not in FLOATS else float(rng.normal())
        want = value != 0 if dtype == "bool" else rounded(computed(dtype)(value), dtype)
        return exactly(library.call(name, shape, value, dtype), numpy.full(shape, want), dtype)
    if name.endswith("_like"):
        x, host, dtype = some(library, rng)
        return exactly(library.call(name, x), getattr(numpy, name)(host), dtype)
    return exactly(library.call(name, shape, dtype), getattr(numpy, name)(shape), dtype)


def sequence(library, rng, name):
    dtype = str(rng.choice(FLOATS if name == "linspace" else INTEGERS + FLOATS))
    if name == "linspace":
        start, stop, count = rng.normal(0, 9), rng.normal(0, 9), int(rng.integers(0, 40))
        got = library.call(name, start, stop, count, dtype)
        want = numpy.linspace(start, stop, count)
        same_type(got, dtype, want.shape)
        return close(got, want, 2, max(abs(start), abs(stop)) * (2.0**-29 if dtype != "f64" else 1))
    if dtype in INTEGERS:
        low = 0 if dtype.startswith("u") else -60
        start, stop, step = (
            float(rng.integers(low, 60)),
            float(rng.integers(low, 60)),
            float(rng.choice([1, 2, 7, -1, -3])),
        )
    else:
        start, stop, step = (
            float(each) for each in (rng.normal(0, 9), rng.normal(0, 9), rng.choice([0.5, -0.25, 0.1, 3]))
        )
    want = start + step * numpy.arange(max(int(numpy.ceil((stop - start) / step)), 0))
    return exactly(library.call(name, start, stop, step, dtype), rounded(want, dtype) if dtype in ("f32", "f64") else
                   rounded(want.astype(numpy.float32), dtype) if dtype in FLOATS else want, dtype)  # fmt: skip


def diagonals(library, rng, name):
    k = int(rng.choice([rng.integers(-5, 6), 2**40, -(2**40), -(2**63), 2**63 - 1], p=[0.92, 0.02, 0.02, 0.02, 0.02]))
    near = max(-100, min(100, k))
    if name == "eye":
        rows, columns = int(rng.integers(0, 7)), int(rng.integers(0, 7))
        dtype = str(rng.choice(DTYPES))
        return exactly(library.call(name, rows, columns, k, dtype), numpy.eye(rows, columns, near), dtype)
    x, host, dtype = some(library, rng, least=2)
    keep = numpy.tri(*host.shape[-2:], near if name == "tril" else near - 1, dtype=bool)
    want = numpy.where(keep if name == "tril" else ~keep, host, NUMPY[dtype](0))
    return exactly(library.call(name, x, k), want, dtype)


# ---- errors ----


def refusals(library, rng, _):
    """Calls that NumPy refuses, too, at once and not when they are evaluated."""
    x, host, dtype = some(library, rng, least=1, most=6, elements=60)
    rank = host.ndim
    other = [size + 2 if size != 1 else 1 for size in host.shape]
    call, outside = library.call, rank + int(rng.integers(0, 3))
    outside = outside if rng.random() < 0.5 else -outside - 1
    cases = {
        "axis": lambda: call(str(rng.choice(["softmax", "cumsum"])), x, outside),
        "axes": lambda: call("sum", x, [outside], 0),
        "double": lambda: call("sum", x, [0, -rank], 0),
        "reshape": lambda: call("reshape", x, [host.size + 1]),
        "two unknown": lambda: call("reshape", x, [-1, -1]),
        "transpose": lambda: call("transpose", x, [0] * rank if rank > 1 else [1]),
        "expand": lambda: call("expand_dims", x, rank + 1),
        "squeeze": lambda: call("squeeze", library.array(numpy.zeros([2, 1]), "f32"), [0]),
        "step": lambda: call("slice", x, [Slice(NONE, NONE, 0)]),
        "stack": lambda: call("stack", [x, call("expand_dims", x, 0)], 0),
        "split": lambda: library.split(call("broadcast_to", call("scalar", 1.0), [5]), 2, 0),
        "indices": lambda: call("take", x, library.array(numpy.zeros(2), "f32"), 0),
        "matmul": lambda: call(
            "matmul", library.array(numpy.zeros([2, 3]), "f32"), library.array(numpy.zeros([2, 3]), "f32")
        ),
        "0-d matmul": lambda: call(
            "matmul", library.array(numpy.zeros([]), "f32"), library.array(numpy.zeros([3]), "f32")
        ),
        "bits": lambda: call("bitwise_and", library.array(numpy.zeros(2), "f32"), library.array(numpy.zeros(2), "f32")),
    }
    if any(size > 1 for size in host.shape):
        unlike = library.array(numpy.zeros(other), "f32")
        cases["broadcast"] = lambda: call("add", x, unlike)
        cases["broadcast_to"] = lambda: call("broadcast_to", x, other)
        cases["update"] = lambda: call("slice_update", x, [], unlike)
        cases["where"] = lambda: call("where", unlike, x, x)
    refused(cases[str(rng.choice(list(cases)))])


# ---- random numbers ----


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    words, keys = [int(each) for each in counter], [int(each) for each in key]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [(second >> 32) ^ words[1] ^ keys[0], second & 0xFFFFFFFF,
                 (first >> 32) ^ words[3] ^ keys[1], first & 0xFFFFFFFF]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def bits_of(seed, count, stream=0):
    key = seed & 0xFFFFFFFF, seed >> 32
    made = [word for block in range((count + 3) // 4) for word in philox((block, 0, stream, 0), key)]
    return numpy.array(made[:count], numpy.uint32)


def random_bits(library, rng, name):
    seed = int(rng.integers(0, 2**64, dtype=numpy.uint64))
    key = library.call("random_key", seed)
    shape = inputs.shape(rng, elements=60)
    shape = shape if numpy.prod(shape) < 100 else [7]
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if name == "random_split":
        rows = int(rng.integers(0, 6))
        return exactly(library.call(name, key, rows), bits_of(seed, rows * 2, 1).reshape(rows, 2), "u32")
    words = bits_of(seed, count).reshape(shape)
    if name == "random_bits":
        return exactly(library.call(name, key, shape), words, "u32")
    if name == "random_uniform":
        low, high = sorted(float(each) for each in rng.normal(0, 3, 2))
        dtype = inputs.float_type(rng)
        got = library.call(name, key, shape, low, high, dtype)
        want = (words >> 8).astype(float) * 2.0**-24 * (high - low) + low
        same_type(got, dtype, shape)
        if numpy.any(got.host().astype(float) >= high):
            raise Mismatch(f"uniform gives {high}, expected less")
        # The result stays below `high`, so that it may be a step of the type less.
        return close(got, want, 2 if dtype in ("f32", "f64") else 2**17, max(abs(low), abs(high)))
    low = int(rng.integers(-100, 100))
    high = low + int(rng.choice([1, 2, 10, 2**20, 2**30]))
    want = (words.astype(object) * (high - low) >> 32) + low
    return exactly(
        library.call(name, key, shape, low, high, "i64"), numpy.array(want, dtype=numpy.int64).reshape(shape), "i64"
    )


def distribution(library, rng, name):
    """Properties of other distributions: bounds, mean and deviation within five standard errors."""
    key, count = library.call("random_key", int(rng.integers(0, 2**63))), 4000
    if name == "random_permutation":
        size = int(rng.integers(0, 50))
        found = library.call(name, key, size).host()
        if sorted(found) != list(range(size)):
            raise Mismatch(f"{found} is no permutation")
        return
    mean, deviation, low, high = 0.0, 1.0, -numpy.inf, numpy.inf
    if name == "random_normal":
        mean, deviation = float(rng.normal(0, 3)), float(rng.uniform(0.1, 3))
        found = library.call(name, key, [count], mean, deviation, "f32").host()
    elif name == "random_truncated_normal":
        low, high = -1.5, 1.5
        found, deviation = library.call(name, key, [count], low, high, "f32").host(), 0.7422
    elif name == "random_gumbel":
        found, mean, deviation = library.call(name, key, [count], "f32").host(), 0.5772, numpy.pi / 6**0.5
    elif name == "random_bernoulli":
        mean = float(rng.uniform(0, 1))
        found, deviation = (
            library.call(name, key, library.array(numpy.full(count, mean), "f32")).host(),
            (mean - mean**2) ** 0.5,
        )
    else:
        logits = rng.normal(0, 1, 3)
        shares = numpy.exp(logits) / numpy.exp(logits).sum()
        found = library.call(name, key, library.array(numpy.tile(logits, (count, 1)), "f32"), -1).host()
        mean, low, high = shares @ [0, 1, 2], 0, 2
        deviation = float(shares @ (numpy.arange(3) - mean) ** 2) ** 0.5
    found = found.astype(float)
    if found.size and (found.min() < low or found.max() > high):
        raise Mismatch(f"numbers from {found.min()} to {found.max()}, expected {low} to {high}")
    if (
        abs(found.mean() - mean) > 5 * deviation / count**0.5 + 1e-9
        or abs(found.std() - deviation) > 0.15 * deviation + 0.02
    ):
        raise Mismatch(f"mean {found.mean()} and deviation {found.std()}, expected {mean} and {deviation}")


OPS = {
    "refusals": refusals, "reshape": reshape, "flatten": reshape, "transpose": transpose, "swapaxes": transpose,
    "broadcast_to": broadcast_to, "expand_dims": dimensions, "squeeze": dimensions, "flip": flip,
    "slice": slicing, "slice_update": slicing, "concatenate": joining, "stack": joining, "split": split, "pad": pad,
    "repeat": repeating, "tile": repeating, "roll": repeating, "take": take, "scatter_add": take, "take_along_axis": along_axis,
    "scatter_add_along_axis": along_axis, "one_hot": one_hot,
    **{name: creation for name in ("full", "zeros", "ones", "zeros_like", "ones_like")},
    "arange": sequence, "linspace": sequence, **{name: diagonals for name in ("eye", "tril", "triu")},
    **{name: random_bits for name in ("random_split", "random_bits", "random_uniform", "random_randint")},
    **{"random_" + name: distribution
       for name in ("normal", "truncated_normal", "gumbel", "bernoulli", "categorical", "permutation")},
}  # fmt: skip

"""Random graphs of functions: a result has the same bits whatever it is computed together with.

Each graph is made twice: once with every result computed at once, and once lazily, where some results are forgotten,
some are computed together, and the rest one after the other.
"""

import elementwise
import inputs
import numpy
from elements import DTYPES, FLOATS, INTEGERS, Mismatch
from library import NONE, Slice

UNARY = [name for name in elementwise.UNARY if not name.startswith(("bitwise", "logical"))]
BINARY = [name for name in elementwise.BINARY if not name.startswith(("bitwise", "logical"))]
SMOOTH = ["sin", "tanh", "sigmoid", "square", "negative", "gelu", "softplus", "atan"]


class Pair:
    """A result that was computed at once, and the same in a lazy graph."""

    def __init__(self, eager, lazy):
        self.eager, self.lazy = eager, lazy

    @property
    def shape(self):
        return self.eager.shape

    @property
    def dtype(self):
        return self.eager.dtype


def call(library, name, *given):
    """Applies a function to both."""
    sides = [[], []]
    for value in given:
        for side, made in enumerate(sides):
            pick = (lambda x, at=side: (x.eager, x.lazy)[at]) if isinstance(value, (Pair, list)) else None
            if isinstance(value, Pair):
                made.append(pick(value))
            elif isinstance(value, list) and value and isinstance(value[0], Pair):
                made.append([pick(each) for each in value])
            else:
                made.append(value)
    eager = library.call(name, *sides[0])
    library.check(library.loaded.veery_tensor_eval(eager.handle))
    return Pair(eager, library.call(name, *sides[1]))


def leaf(library, rng):
    dtype = str(rng.choice(["f32", "f32", "f64", *DTYPES]))
    sizes = [int(rng.choice([1, 2, 3, 5])) for _ in range(int(rng.integers(0, 4)))]
    if rng.random() < 0.1:
        sizes = [int(rng.integers(1000, 5000))]
    if rng.random() < 0.3:  # a constant of the graph
        value = float(rng.integers(0, 4))
        made = [library.call("full", sizes, value, dtype) for _ in range(2)]
        library.check(library.loaded.veery_tensor_eval(made[0].handle))
        return Pair(*made)
    x, _ = inputs.tensor(library, rng, sizes, dtype, "small")
    library.check(library.loaded.veery_tensor_eval(x.handle))
    return Pair(x, x)


def broadcast_with(rng, pool, x):
    """Another result that can be broadcast with x."""
    fitting = []
    for other in pool:
        try:
            if numpy.prod(numpy.broadcast_shapes(x.shape, other.shape), dtype=float) <= 20000:
                fitting.append(other)
        except ValueError:
            pass
    return fitting[int(rng.integers(0, len(fitting)))]


def step(library, rng, pool):
    """A new result of results in the pool."""
    x = pool[int(rng.integers(max(0, len(pool) - 6), len(pool)))]
    rank, kind = len(x.shape), rng.random()
    if kind < 0.3:
        return call(library, str(rng.choice(UNARY)), x)
    if kind < 0.6:
        other = broadcast_with(rng, pool, x)
        pair = (x, other) if rng.random() < 0.5 else (other, x)
        return call(library, str(rng.choice(BINARY)), *pair)
    if kind < 0.65:
        return call(
            library,
            "where",
            broadcast_with(rng, pool, x),
            x,
            broadcast_with(rng, [p for p in pool if p.shape == x.shape], x),
        )
    if kind < 0.7:
        return call(library, "astype", x, str(rng.choice(FLOATS + INTEGERS)))
    if rank == 0:
        return call(library, "broadcast_to", x, [int(rng.integers(1, 4)), 2])
    axis = int(rng.integers(0, rank))
    if kind < 0.82:
        name = str(rng.choice(["sum", "mean", "max", "any", "var", "logsumexp", "prod"]))
        extra = [0.0] if name == "var" else []
        if x.shape[axis] == 0:
            name, extra = "sum", []
        return call(library, name, x, [axis], int(rng.integers(0, 2)), *extra)
    if kind < 0.86:
        name = str(rng.choice(["softmax", "cumsum", "sort"]))
        return call(library, name, x, axis, *([1] if name == "sort" else []))
    if kind < 0.96:
        return view(library, rng, x, axis)
    same = [p for p in pool if p.shape == x.shape]
    return (
        call(library, "concatenate", [x, same[int(rng.integers(0, len(same)))]], axis)
        if numpy.prod(x.shape) < 9000
        else x
    )


def view(library, rng, x, axis):
    name = str(rng.choice(["transpose", "flip", "slice", "reshape", "expand_dims", "roll"]))
    arguments = {"transpose": [[]], "flip": [[axis]], "slice": [[Slice(NONE, NONE, int(rng.choice([2, -1, -2])))]],
                 "reshape": [[-1]], "expand_dims": [axis], "roll": [1, axis]}[name]  # fmt: skip
    if name == "expand_dims" and len(x.shape) > 6 or name == "reshape" and 0 in x.shape:
        return x
    return call(library, name, x, *arguments)


def same_bits(found, want):
    if found.dtype != want.dtype or found.shape != want.shape:
        raise Mismatch(f"found {found.dtype} {found.shape}, expected {want.dtype} {want.shape}")
    a, b = found.host(), want.host()
    bits = {1: numpy.uint8, 2: numpy.uint16, 4: numpy.uint32, 8: numpy.uint64}[a.dtype.itemsize]
    wrong = a.view(bits) != b.view(bits) if a.size else numpy.zeros(a.shape, bool)
    if a.dtype.kind == "f":
        wrong = wrong & ~(numpy.isnan(a) & numpy.isnan(b))
    if numpy.any(wrong):
        at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise Mismatch(f"element {list(at)} is {a[at]!r} in a graph, {b[at]!r} alone")


def graph(library, rng, _):
    pool = [leaf(library, rng) for _ in range(int(rng.integers(1, 4)))]
    for _ in range(int(rng.choice([3, 8, 20, 60]))):
        pool.append(step(library, rng, pool))
    kept = [pair for pair in pool if rng.random() < 0.4] + pool[-1:]
    pool.clear()
    together = [pair.lazy for pair in kept if rng.random() < 0.6]
    rng.shuffle(together)
    handles = library.handles(together)
    library.check(library.loaded.veery_tensor_eval_all(handles, len(together)))
    for pair in kept:
        same_bits(pair.lazy, pair.eager)


def gradients(library, rng, _):
    """Gradients do not depend on evaluations in the function, nor on checkpoints."""
    shape = inputs.shape(rng, 0, 3, empty=False, elements=30)
    dtype = str(rng.choice(["f32", "f64", "bf16"]))
    xs = [inputs.tensor(library, rng, shape, dtype, "small")[0] for _ in range(2)]
    plan = [
        (str(rng.choice(SMOOTH)), int(rng.integers(0, 50)), int(rng.integers(0, 50)), rng.random(), rng.random())
        for _ in range(8)
    ]

    def chain(given, evaluates):
        pool = list(given)
        for name, a, b, kind, chance in plan:
            x, y = pool[a % len(pool)], pool[b % len(pool)]
            pool.append(library.call("multiply", x, y) if kind < 0.4 else library.call(name, x))
            if kind > 0.8 and shape:  # through a reduction and a broadcast
                pool.append(library.call("broadcast_to", library.call("mean", pool[-1], [], 0), shape))
            if evaluates and chance < 0.4:
                library.check(library.loaded.veery_tensor_eval(pool[-1].handle))
        return [pool[-1]]

    cotangent = inputs.tensor(library, rng, shape, dtype, "small")[0]
    made = [library.vjp(lambda given, e=each: chain(given, e), xs, [cotangent]) for each in (False, True)]
    made.append(
        library.vjp(lambda given: library.checkpoint(lambda inner: chain(inner, False), given), xs, [cotangent])
    )
    for outputs, products in made[1:]:
        same_bits(outputs[0], made[0][0][0])
        for found, want in zip(products, made[0][1]):
            same_bits(found, want)


OPS = {"graph": graph, "graph gradients": gradients}

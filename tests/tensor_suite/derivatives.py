"""Derivatives: vjp and jvp against central differences in f64, each other, other types, and PyTorch if it is installed.

An entry makes a function of tensors and its arguments. Arguments keep away from points without a derivative; "at kinks"
compares these with PyTorch.
"""

import elementwise
import inputs
import numpy
from elements import BITS, Mismatch, rounded
from library import NONE, Pad, Slice
from lines import axes_of, axis_of

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

STEP = 1e-6


class Case:
    """A function body(tensors), its arguments, and the same in PyTorch if that has it. `in_types`: whether it is checked
    in other types."""

    def __init__(self, body, arguments, in_torch=None, in_types=True):
        self.body, self.arguments, self.in_torch, self.in_types = body, arguments, in_torch, in_types


def sizes(rng, least=0, most=4, empty=True):
    return inputs.shape(rng, least, most, empty, elements=40)


def values(rng, shape, domain=(-2.0, 2.0)):
    """Elements of f64. "away": not near 0."""
    if domain == "away":
        return rng.uniform(0.2, 2, shape) * rng.choice([-1, 1], shape)
    return rng.uniform(*domain, shape)


def different(rng, shape):
    """Elements of which no two are equal: whole numbers."""
    return rng.permutation(int(numpy.prod(shape))).reshape(shape).astype(float)


def in_types(x):
    """Whether bf16 can hold the elements of different()."""
    return x.size <= 256


# ---- element-wise ----

UNARY = {
    "negative": (-2, 2), "abs": "away", "square": (-2, 2), "exp": (-2, 2), "exp2": (-2, 2), "expm1": (-2, 2), "log": (0.2, 4),
    "log2": (0.2, 4), "log10": (0.2, 4), "log1p": (-0.6, 3), "sqrt": (0.2, 4), "rsqrt": (0.2, 4), "reciprocal": "away",
    "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.2, 1.2), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atan": (-3, 3),
    "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2), "asinh": (-3, 3), "acosh": (1.2, 4), "atanh": (-0.9, 0.9),
    "erf": (-2, 2), "erfinv": (-0.8, 0.8), "sigmoid": (-4, 4), "relu": "away", "silu": (-4, 4), "gelu": (-3, 3),
    "gelu_tanh": (-3, 3), "gelu_fast": (-3, 3), "softplus": (-4, 4),
}  # fmt: skip
BINARY = {
    "add": None, "subtract": None, "multiply": None, "divide": "away", "pow": None, "minimum": None, "maximum": None,
    "atan2": None, "hypot": None, "copysign": "away", "logaddexp": None, "remainder": None,
}  # fmt: skip


def of_torch(name, **options):
    if torch is None:
        return None
    places = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu,
              "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
              "softplus": torch.nn.functional.softplus, "divide": torch.div}  # fmt: skip
    found = places.get(name) or getattr(torch, name, None)
    return found and (lambda *given: found(*given, **options))


def unary(library, rng, name):
    x = values(rng, sizes(rng), UNARY[name])
    return Case(lambda given: library.call(name, *given), [x], of_torch(name))


def binary(library, rng, name):
    shapes = [shape[-4:] for shape in inputs.broadcast_shapes(rng, 2)]
    domain = BINARY[name]
    a, b = values(rng, shapes[0], "away"), values(rng, shapes[1], domain or "away")
    if name == "pow":
        a = abs(a)
    if name == "remainder":
        b = values(rng, shapes[1], (1.0, 2.0))
        a = b * (rng.integers(-3, 3, numpy.broadcast_shapes(*shapes)) + rng.uniform(0.2, 0.8))
    if name in ("minimum", "maximum"):  # not equal
        a, b = numpy.round(a * 4) / 4, numpy.round(b * 4) / 4 + 0.1
    return Case(lambda given: library.call(name, *given), [a, b], of_torch(name))


def beside_number(library, rng, name):
    number = library.number(float(rng.uniform(1.0, 3.0)))
    function = str(rng.choice(["add", "subtract", "multiply", "divide", "pow", "maximum", "logaddexp"]))
    x = abs(values(rng, sizes(rng), "away")) + 0.001
    if rng.random() < 0.5:
        return Case(lambda given: library.call(function, given[0], number), [x])
    return Case(lambda given: library.call(function, number, given[0]), [x])


def where(library, rng, _):
    shapes = [shape[-4:] for shape in inputs.broadcast_shapes(rng, 3)]
    condition = library.array(rng.random(shapes[0]) < 0.5, "bool")
    return Case(lambda given: library.call("where", condition, *given), [values(rng, shape) for shape in shapes[1:]])


def clip(library, rng, _):
    low, high = library.number(-0.5), library.number(0.75)
    x = values(rng, sizes(rng))
    x = numpy.where(abs(x + 0.5) < 0.01, 0.0, numpy.where(abs(x - 0.75) < 0.01, 0.0, x))
    return Case(
        lambda given: library.call("clip", given[0], low, high), [x], torch and (lambda y: torch.clamp(y, -0.5, 0.75))
    )


# ---- along axes ----


def reduction(library, rng, name):
    shape = sizes(rng, empty=name in ("sum", "prod"))
    given, axes = axes_of(rng, len(shape))
    keep = bool(rng.integers(0, 2))
    x = values(rng, shape, (0.6, 1.4)) if name == "prod" else values(rng, shape)
    if name in ("min", "max"):
        x = different(rng, shape)
    in_torch = None
    if torch is not None and shape:
        found = {
            "sum": torch.sum,
            "mean": torch.mean,
            "min": torch.amin,
            "max": torch.amax,
            "logsumexp": torch.logsumexp,
        }.get(name)
        in_torch = found and (lambda y: found(y, axes, keep))
    if name in ("var", "std_dev"):
        if numpy.prod([shape[axis] for axis in axes]) < 2:
            return None
        correction = float(rng.choice([0, 1]))
        return Case(lambda given_x: library.call(name, *given_x, given, int(keep), correction), [x])
    return Case(lambda given_x: library.call(name, *given_x, given, int(keep)), [x], in_torch, in_types(x))


def along(library, rng, name):
    shape = sizes(rng, least=1)
    given, axis = axis_of(rng, len(shape))
    x = values(rng, shape, (0.6, 1.4) if name == "cumprod" else (-2.0, 2.0))
    if name == "cumprod" and rng.random() < 0.3:
        x = numpy.where(rng.random(shape) < 0.2, 0.0, x)
    return Case(lambda given_x: library.call(name, *given_x, given), [x], of_torch(name, dim=axis))


def ordering(library, rng, name):
    shape = sizes(rng, least=1)
    given, axis = axis_of(rng, len(shape))
    x = different(rng, shape)
    if name == "top_k":
        k = int(rng.integers(0, shape[axis] + 1))
        return Case(lambda given_x: library.call(name, *given_x, k, given)[0], [x], None, in_types(x))
    descending = int(rng.integers(0, 2))
    return Case(lambda given_x: library.call(name, *given_x, given, descending), [x], None, in_types(x))


def matmul(library, rng, name):
    rows, inner, columns = (int(rng.choice([0, 1, 2, 3, 5])) for _ in range(3))
    batch = [shape[-2:] for shape in inputs.broadcast_shapes(rng, 2)]
    batch = batch if numpy.prod(batch[0] + [1]) < 50 and rng.random() < 0.5 else [[], []]
    a = [inner] if rng.random() < 0.2 else batch[0] + [rows, inner]
    b = [inner] if rng.random() < 0.2 else batch[1] + [inner, columns]
    return Case(lambda given: library.call(name, *given), [values(rng, a), values(rng, b)], of_torch(name))


# ---- views and movement ----


def view(library, rng, name):
    shape = sizes(rng)
    x = values(rng, shape)
    rank = len(shape)
    if name == "reshape":
        arguments = [[1, x.size]]
    elif name in ("transpose", "flip"):
        arguments = [[int(i) for i in rng.permutation(rank)]]
    elif name == "swapaxes":
        if rank == 0:
            return None
        arguments = [axis_of(rng, rank)[0], axis_of(rng, rank)[0]]
    elif name == "broadcast_to":
        x = x[tuple(slice(0, 1) if rng.random() < 0.5 else slice(None) for _ in shape)]
        arguments = [[2, *(5 if a != b else b for a, b in zip(x.shape, shape))]]
    elif name == "expand_dims":
        arguments = [axis_of(rng, rank + 1)[0]]
    elif name == "slice":
        arguments = [[Slice(NONE, NONE, int(rng.choice([1, 2, -1, -2]))) for _ in shape]]
    else:
        arguments = [[]] if name == "squeeze" else []
    return Case(lambda given: library.call(name, *given, *arguments), [x])


def movement(library, rng, name):
    shape = sizes(rng, least=2 if name.startswith("tri") else 1)
    given_axis, axis = axis_of(rng, len(shape))
    x = values(rng, shape)
    if name in ("concatenate", "stack"):
        more = [values(rng, shape) for _ in range(int(rng.integers(0, 3)))]
        return Case(lambda given: library.call(name, given, given_axis), [x, *more])
    if name == "split":
        x = numpy.concatenate([x, values(rng, shape)], axis)
        part = int(rng.integers(0, 2))
        return Case(lambda given: library.split(given[0], 2, given_axis)[part], [x])
    if name == "slice_update":
        slices = [Slice(NONE, NONE, int(rng.choice([1, 2, -1]))) for _ in shape]
        part = x[tuple(slice(None, None, each.step) for each in slices)]
        update = values(rng, [1 if rng.random() < 0.2 and size else size for size in part.shape])
        return Case(lambda given: library.call(name, given[0], slices, given[1]), [x, update])
    arguments = {"pad": [[Pad(*(int(i) for i in rng.integers(0, 3, 2))) for _ in shape], 1.5], "repeat": [2, given_axis],
                 "tile": [[int(rng.integers(0, 3)) for _ in range(len(shape) + 1)]], "roll": [3, given_axis],
                 "tril": [int(rng.integers(-2, 3))], "triu": [int(rng.integers(-2, 3))]}[name]  # fmt: skip
    return Case(lambda given: library.call(name, *given, *arguments), [x])


def indexing(library, rng, name):
    shape = sizes(rng, least=1, empty=False)
    given, axis = axis_of(rng, len(shape))
    if "along" in name:
        places = [3 if i == axis else size for i, size in enumerate(shape)]
        taken = places
    else:
        places = [int(i) for i in rng.integers(0, 4, int(rng.integers(0, 3)))]
        taken = [*shape[:axis], *places, *shape[axis + 1 :]]
    indices = library.array(rng.integers(-shape[axis], shape[axis], places), "i64")
    x = values(rng, shape)
    if name.startswith("take"):
        return Case(lambda given_x: library.call(name, *given_x, indices, given), [x])
    return Case(lambda given_x: library.call(name, given_x[0], indices, given_x[1], given), [x, values(rng, taken)])


# ---- transforms of transforms ----


def chain(library, given):
    """A smooth function of two tensors of one shape."""
    a, b = given
    inner = library.call("multiply", library.call("tanh", a), library.call("exp", b))
    return library.call("add", inner, library.call("sin", library.call("multiply", inner, a)))


def checkpoint(library, rng, _):
    shape = sizes(rng)
    return Case(lambda given: library.checkpoint(lambda inner: [chain(library, inner)], given)[0],
                [values(rng, shape), values(rng, shape)])  # fmt: skip


def second(library, rng, _):
    """The gradient of the sum of the elements, as a function."""
    shape = sizes(rng)
    one = library.array(numpy.ones(shape), "f64")

    def gradient(given):
        cotangent = library.call("astype", one, given[0].dtype)
        return library.vjp(lambda inner: [chain(library, inner)], given, [cotangent])[1][0]

    return Case(gradient, [values(rng, shape), values(rng, shape)])


def stopped(library, rng, _):
    """x stop_gradient(x), whose derivative is x: checked against x c with a constant c."""
    x = values(rng, sizes(rng))
    tensor = library.array(x, "f64")
    cotangent = library.array(numpy.ones(x.shape), "f64")
    body = lambda given: [library.call("multiply", given[0], library.call("stop_gradient", given[0]))]  # noqa: E731
    equal(library.vjp(body, [tensor], [cotangent])[1][0].host(), x, 0, "stop_gradient")


# ---- comparison ----


def equal(found, want, tolerance, what):
    want = numpy.asarray(want)
    if found.shape != want.shape:
        raise Mismatch(f"{what}: shape {found.shape}, expected {want.shape}")
    with numpy.errstate(all="ignore"):
        wrong = ~(numpy.abs(found - want) <= tolerance * (1 + numpy.abs(want))) & ~(
            (found == want) | (numpy.isnan(found) & numpy.isnan(want))
        )
    if numpy.any(wrong):
        at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise Mismatch(f"{what}: element {list(at)} is {found[at]!r}, expected {want[at]!r}")


def moved(library, case, directions, step):
    made = [library.array(x + step * v, "f64") for x, v in zip(case.arguments, directions)]
    return case.body(made).host()


def compare(library, rng, case):
    xs = [library.array(x, "f64") for x in case.arguments]
    plain = case.body(xs).host()
    directions = [rng.uniform(-1, 1, x.shape) for x in case.arguments]
    weights = rng.uniform(-1, 1, plain.shape)
    tangents, cotangent = [library.array(v, "f64") for v in directions], library.array(weights, "f64")
    outputs, products = library.jvp(lambda given: [case.body(given)], xs, tangents)
    equal(outputs[0].host(), plain, 0, "output of jvp")
    forward = products[0].host()
    differences = (moved(library, case, directions, STEP) - moved(library, case, directions, -STEP)) / (2 * STEP)
    equal(forward, differences, 2e-6, "jvp and differences")
    outputs, gradients = library.vjp(lambda given: [case.body(given)], xs, [cotangent])
    equal(outputs[0].host(), plain, 0, "output of vjp")
    gradients = [each.host() for each in gradients]
    terms = [float(numpy.sum(g * v)) for g, v in zip(gradients, directions)]
    size = sum(float(numpy.sum(numpy.abs(g * v))) for g, v in zip(gradients, directions))
    if any(g.shape != x.shape for g, x in zip(gradients, case.arguments)):
        raise Mismatch(f"shapes {[g.shape for g in gradients]} of gradients")
    if not abs(sum(terms) - numpy.sum(weights * forward)) <= 1e-10 * (1 + size):
        raise Mismatch(f"vjp and jvp: {sum(terms)!r} and {numpy.sum(weights * forward)!r}")
    if case.in_torch is not None:
        equal_torch(case, weights, gradients)
    if case.in_types:
        in_type(library, rng, case, weights, gradients)


def equal_torch(case, weights, gradients):
    given = [torch.tensor(x, requires_grad=True) for x in case.arguments]
    case.in_torch(*given).backward(torch.tensor(weights))
    for i, (x, g) in enumerate(zip(given, gradients)):
        equal(g, x.grad.numpy(), 1e-9, f"gradient {i} and PyTorch")


def in_type(library, rng, case, weights, gradients):
    """The gradients in another type, at arguments that it can hold."""
    dtype = str(rng.choice(["f16", "bf16", "f32"]))
    xs = [library.array(rounded(x.astype(numpy.float32), dtype), dtype) for x in case.arguments]
    cotangent = library.array(rounded(weights.astype(numpy.float32), dtype), dtype)
    made = library.vjp(lambda given: [case.body(given)], xs, [cotangent])[1]
    for i, (found, want) in enumerate(zip(made, gradients)):
        if found.dtype != dtype:
            raise Mismatch(f"gradient {i} of {dtype} is {found.dtype}")
        size = numpy.max(numpy.abs(want), initial=1)
        # Arguments are rounded, too. A wrong rule fails by more than all of this.
        equal(
            found.host().astype(float) / size,
            want / size,
            min(256 * 2.0 ** -BITS[dtype], 0.5),
            f"gradient {i} in {dtype}",
        )


def at_kinks(library, rng, _):
    """Equal elements share the derivative of an extreme; abs and relu have 0 at 0, clip has 1 at its limits."""
    if torch is None:
        return
    shape = sizes(rng, least=1, empty=False)
    x = numpy.round(values(rng, shape))
    y = numpy.round(values(rng, shape))
    low, high = library.number(-1.0), library.number(1.0)
    axis = int(rng.integers(0, len(shape)))
    call = library.call
    case = [Case(lambda given: call("relu", *given), [x], torch.relu),
            Case(lambda given: call("abs", *given), [x], torch.abs),
            Case(lambda given: call("minimum", *given), [x, y], torch.minimum),
            Case(lambda given: call("maximum", *given), [x, y], torch.maximum),
            Case(lambda given: call("max", *given, [axis], 0), [x], lambda given: torch.amax(given, axis)),
            Case(lambda given: call("min", *given, [], 0), [x], torch.amin),
            Case(lambda given: call("prod", *given, [axis], 0), [x], lambda given: torch.prod(given, axis)),
            Case(lambda given: call("cumprod", *given, axis), [x], lambda given: torch.cumprod(given, axis)),
            Case(lambda given: call("clip", *given, low, high), [x],
                 lambda given: torch.where(given.abs() <= 1, given, given.clamp(-1, 1).detach())),
            ][int(rng.integers(0, 9))]  # fmt: skip
    weights = rng.uniform(-1, 1, case.body([library.array(each, "f64") for each in case.arguments]).shape)
    xs = [library.array(each, "f64") for each in case.arguments]
    made = library.vjp(lambda given: [case.body(given)], xs, [library.array(weights, "f64")])[1]
    equal_torch(case, weights, [each.host() for each in made])


def derivative(make):
    def check(library, rng, name):
        case = make(library, rng, name.removeprefix("d "))
        if case is not None:
            compare(library, rng, case)

    return check


def named(make, names):
    return {"d " + name: derivative(make) for name in names}


assert set(UNARY) <= set(elementwise.UNARY) and set(BINARY) <= set(elementwise.BINARY)
OPS = {
    **named(unary, UNARY), **named(binary, BINARY),
    "d of numbers": derivative(beside_number), **named(where, ["where"]), **named(clip, ["clip"]),
    **named(reduction, ["sum", "prod", "mean", "var", "std_dev", "min", "max", "logsumexp"]),
    **named(along, ["softmax", "log_softmax", "cumsum", "cumprod"]), **named(ordering, ["sort", "top_k"]),
    **named(matmul, ["matmul"]),
    **named(view, ["reshape", "transpose", "swapaxes", "broadcast_to", "expand_dims", "squeeze", "flatten", "flip", "slice"]),
    **named(movement, ["concatenate", "stack", "split", "slice_update", "pad", "repeat", "tile", "roll", "tril", "triu"]),
    **named(indexing, ["take", "scatter_add", "take_along_axis", "scatter_add_along_axis"]),
    "d checkpoint": derivative(checkpoint), "d d chain": derivative(second), "d stop_gradient": stopped, "d at kinks": at_kinks,
}  # fmt: skip

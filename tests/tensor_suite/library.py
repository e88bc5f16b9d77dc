"""The calls of include/veery/veery_tensor.h through ctypes. Signatures come from the header itself.

call("add", a, b) returns a Tensor; a list stands for a pointer and the count after it, None for an absent axis.
"""

import ctypes
import pathlib
import re

import numpy
from elements import DTYPES, from_bytes, to_bytes

HEADER = pathlib.Path(__file__).parents[2] / "include" / "veery" / "veery_tensor.h"
CALL = re.compile(r"^VEERY_API ([\w ]+?\*?) ?(\w+)\(([^)]*)\);", re.MULTILINE)
NONE = -(2**63)  # VEERY_SLICE_NONE


class Slice(ctypes.Structure):
    _fields_ = [("start", ctypes.c_int64), ("stop", ctypes.c_int64), ("step", ctypes.c_int64)]


class Pad(ctypes.Structure):
    _fields_ = [("before", ctypes.c_int64), ("after", ctypes.c_int64)]


HANDLES = ctypes.POINTER(ctypes.c_void_p)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, HANDLES, ctypes.c_size_t, HANDLES, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
TYPES = {
    "void": None, "veery_status": ctypes.c_int, "size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double, "char*": ctypes.c_char_p,
    "void*": ctypes.c_void_p, "veery_tensor*": ctypes.c_void_p, "veery_tensor**": HANDLES, "veery_tensor* const*": HANDLES,
    "int64_t*": ctypes.POINTER(ctypes.c_int64), "int32_t*": ctypes.POINTER(ctypes.c_int32),
    "size_t*": ctypes.POINTER(ctypes.c_size_t), "double*": ctypes.POINTER(ctypes.c_double), "void**": HANDLES,
    "char**": ctypes.POINTER(ctypes.c_char_p), "veery_slice*": ctypes.POINTER(Slice), "veery_pad*": ctypes.POINTER(Pad),
    "veery_tensor_memory*": ctypes.c_void_p, "veery_tensor_function": FUNCTION, "veery_tensor_release": RELEASE,
}  # fmt: skip
LISTS = {"int64_t*": ctypes.c_int64, "int32_t*": ctypes.c_int32, "veery_slice*": Slice, "veery_pad*": Pad}


class Refused(Exception):
    """A call that returned an error."""


class Tensor:
    """Owns a handle."""

    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def __del__(self):
        self.library.free(self.handle)

    @property
    def dtype(self):
        return DTYPES[self.library.dtype_of(self.handle)]

    @property
    def shape(self):
        return tuple(self.library.shape_of(self.handle)[: self.library.rank_of(self.handle)])

    def host(self):
        """The values as a numpy array; bf16 as float32."""
        dtype, shape = self.dtype, self.shape
        data = ctypes.create_string_buffer(int(numpy.prod(shape, dtype=numpy.int64)) * DTYPES_BYTES[dtype])
        self.library.check(self.library.copy_to(self.handle, data, len(data)))
        return from_bytes(data.raw, dtype, shape)


DTYPES_BYTES = {"bool": 1, "u8": 1, "i8": 1, "i32": 4, "u32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


class Library:
    def __init__(self, path):
        self.loaded = ctypes.CDLL(str(path))
        self.loaded.veery_last_message.restype = ctypes.c_char_p
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
        self.signatures = {}
        self.kept, self.released = [], []  # callbacks of checkpoints, and their releases
        self.called = set()
        for result, name, parameters in CALL.findall(text):
            given = getattr(self.loaded, name)
            given.restype = TYPES[kind_of(result)]
            listed = [] if parameters == "void" else [" ".join(each.split()) for each in parameters.split(",")]
            kinds = [kind_of(each.rpartition(" ")[0]) for each in listed]
            given.argtypes = [TYPES[kind] for kind in kinds]
            self.signatures[name] = kinds
        self.free, self.copy_to = self.loaded.veery_tensor_free, self.loaded.veery_tensor_copy_to
        self.dtype_of, self.rank_of = self.loaded.veery_tensor_dtype, self.loaded.veery_tensor_rank
        self.shape_of = self.loaded.veery_tensor_shape

    def check(self, status):
        if status != 0:
            raise Refused(f"status {status}: {self.loaded.veery_last_message().decode()}")

    def arguments(self, name, given):
        """C arguments of a call without its results, and how many parameters they are."""
        self.called.add("veery_tensor_" + name)
        kinds, values, at = self.signatures["veery_tensor_" + name], [], 0
        for value in given:
            kind = kinds[at]
            at += 1
            if isinstance(value, Tensor):
                values.append(value.handle)
            elif isinstance(value, list):
                if kind == "veery_tensor* const*":
                    values.append(self.handles(value))
                else:
                    values.append((LISTS[kind] * len(value))(*value))
                values.append(len(value))
                at += 1
            elif kind == "int32_t*":
                values.append(None if value is None else ctypes.byref(ctypes.c_int32(value)))
            elif isinstance(value, str):
                values.append(DTYPES.index(value))
            else:
                values.append(value)
        return values, at

    def call(self, name, *given):
        values, at = self.arguments(name, given)
        outs = [ctypes.c_void_p() for _ in self.signatures["veery_tensor_" + name][at:]]
        self.check(getattr(self.loaded, "veery_tensor_" + name)(*values, *map(ctypes.byref, outs)))
        made = [Tensor(self, out.value) for out in outs]
        return made[0] if len(made) == 1 else made

    def promote(self, a, b):
        found = ctypes.c_int32()
        self.check(self.loaded.veery_dtype_promote(DTYPES.index(a), DTYPES.index(b), ctypes.byref(found)))
        return DTYPES[found.value]

    def functions(self):
        """The calls whose only results are tensors, in memory for one each."""
        return {name for name, kinds in self.signatures.items() if kinds[-1:] == ["veery_tensor**"]}

    def split(self, x, parts, axis):
        self.called.add("veery_tensor_split")
        outs = (ctypes.c_void_p * parts)()
        self.check(self.loaded.veery_tensor_split(x.handle, parts, axis, outs))
        return [Tensor(self, handle) for handle in outs]

    def array(self, values, dtype):
        """A tensor with the elements of a numpy array in row-major order."""
        self.called.add("veery_tensor_copy")
        data = to_bytes(values, dtype)
        return self.call_copy(data, list(values.shape), dtype)

    def call_copy(self, data, shape, dtype):
        out = ctypes.c_void_p()
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.check(self.loaded.veery_tensor_copy(data, sizes, len(shape), DTYPES.index(dtype), ctypes.byref(out)))
        return Tensor(self, out.value)

    def number(self, value):
        """A number without a type."""
        if isinstance(value, bool):
            return self.call("scalar_bool", int(value))
        return self.call("scalar_int" if isinstance(value, int) else "scalar", value)

    def function(self, body):
        """A callback that gives the tensors which body(inputs) returns. Keep it while it may be called."""

        def called(_, inputs, input_count, outputs, output_count):
            try:
                copies = []
                for i in range(input_count):
                    out = ctypes.c_void_p()
                    self.check(self.loaded.veery_tensor_retain(inputs[i], ctypes.byref(out)))
                    copies.append(Tensor(self, out.value))
                made = body(copies)
                for i in range(output_count):
                    out = ctypes.c_void_p()
                    self.check(self.loaded.veery_tensor_retain(made[i].handle, ctypes.byref(out)))
                    outputs[i] = out.value
                return 0
            except Exception as error:  # noqa: BLE001  the library reports it
                return self.loaded.veery_tensor_fail(1, f"{type(error).__name__}: {error}".encode())

        return FUNCTION(called)

    def transform(self, name, body, inputs, others, output_count, result_count):
        """vjp or jvp: (outputs, products)."""
        self.called.add("veery_tensor_" + name)
        function = self.function(body)
        outputs, products = (ctypes.c_void_p * output_count)(), (ctypes.c_void_p * result_count)()
        handles = [self.handles(each) for each in (inputs, others)]
        self.check(getattr(self.loaded, "veery_tensor_" + name)(
            function, None, handles[0], len(inputs), handles[1], output_count, outputs, products))  # fmt: skip
        return [Tensor(self, x) for x in outputs], [Tensor(self, x) for x in products]

    def checkpoint(self, body, inputs):
        """The outputs of body(inputs), which derivatives compute again."""
        self.kept.append((self.function(body), RELEASE(lambda _: self.released.append(None))))
        self.called.add("veery_tensor_checkpoint")
        function, release = self.kept[-1]
        handles, outputs = self.handles(inputs), (ctypes.c_void_p * 1)()
        self.check(self.loaded.veery_tensor_checkpoint(function, None, handles, len(inputs), release, 1, outputs))
        return [Tensor(self, outputs[0])]

    def handles(self, tensors):
        return (ctypes.c_void_p * len(tensors))(*[x.handle for x in tensors])

    def vjp(self, body, inputs, cotangents):
        return self.transform("vjp", body, inputs, cotangents, len(cotangents), len(inputs))

    def jvp(self, body, inputs, tangents, output_count=1):
        return self.transform("jvp", body, inputs, tangents, output_count, output_count)


def kind_of(declared):
    """The type without const of what it points to."""
    return " ".join(declared.split()).removeprefix("const ")

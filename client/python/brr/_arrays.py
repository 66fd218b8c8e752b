"""Arrays of other libraries as tensors of libbrr_scan, without a copy: NumPy by its buffer, PyTorch by its address, all others by DLPack, of both
versions of its protocol. Outputs are made by the library of an input."""
import ctypes
import sys

from ._library import Tensor

F32, BF16, U8 = 0, 1, 2
NUMPY = {"float32": F32, "uint8": U8, "bool": U8}
TORCH = {"torch.float32": F32, "torch.bfloat16": BF16, "torch.uint8": U8, "torch.bool": U8}
DLPACK = {(2, 32): F32, (4, 16): BF16, (1, 8): U8, (6, 8): U8}  # code, bits


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLVersioned(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
                ("tensor", DLTensor)]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def library_of(x):
    return type(x).__module__.split(".")[0]


def _tensor(data, dtype, shape, strides, name):
    """strides None: dense, which the library takes strides of 0 for; those of a broadcast array are therefore refused here."""
    if len(shape) > 4:
        raise ValueError(f"{name} has {len(shape)} dimensions; expected at most 4")
    if strides is not None and any(n > 1 and not step for n, step in zip(shape, strides)):
        raise ValueError(f"{name} is a broadcast array (a stride is 0); copy it")
    pad = [0] * (4 - len(shape))
    return Tensor(data, dtype, len(shape), (ctypes.c_int64 * 4)(*shape, *pad), (ctypes.c_int64 * 4)(*(strides or [0] * len(shape)), *pad))


def _kind(table, dtype, name):
    if dtype not in table:
        raise TypeError(f"{name} is {dtype}; expected float32 or bfloat16 for activations, float32 for parameters and states, uint8 for resets")
    return table[dtype]


def _dlpack(x, name):
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__()
    if _is_valid(capsule, b"dltensor_versioned"):
        t = ctypes.cast(_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(DLVersioned)).contents.tensor
    else:
        t = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(DLTensor)).contents
    if t.device_type not in (1, 2, 3, 13) or t.lanes != 1:
        raise TypeError(f"{name} lies on DLPack device {t.device_type}; expected a CPU or a CUDA device")
    shape = [t.shape[i] for i in range(t.ndim)]
    strides = [t.strides[i] for i in range(t.ndim)] if t.strides else None
    device = f"cuda:{t.device_id}" if t.device_type in (2, 13) else "cpu"
    kind = _kind(DLPACK, (t.code, t.bits), name)
    return _tensor((t.data or 0) + t.byte_offset, kind, shape, strides, name), device, capsule


def view(x, name, written=False):
    """(Tensor, device, what must live as long as the call); written: the call writes to x."""
    library = library_of(x)
    if library == "numpy":
        kind = _kind(NUMPY, str(x.dtype), name)
        if any(s % x.itemsize for s in x.strides) or not x.dtype.isnative:
            raise TypeError(f"{name} has strides that are no multiples of its elements; copy it")
        if written and not x.flags.writeable:
            raise ValueError(f"{name} is read-only; expected an array that can be written to")
        return _tensor(x.ctypes.data, kind, x.shape, [s // x.itemsize for s in x.strides], name), "cpu", x
    if library == "torch":
        device = f"cuda:{x.device.index or 0}" if x.is_cuda else "cpu"
        if not x.is_cuda and x.device.type != "cpu":
            raise TypeError(f"{name} lies on {x.device}; expected cpu or cuda")
        return _tensor(x.data_ptr(), _kind(TORCH, str(x.dtype), name), tuple(x.shape), x.stride(), name), device, x
    if hasattr(x, "__dlpack__"):
        return _dlpack(x, name)
    raise TypeError(f"{name} is a {type(x).__name__}; expected an array of NumPy, PyTorch, CuPy or another library with DLPack")


# ---- arrays whose layout and address cost little to ask for ----

_address_of = ctypes.c_size_t.from_address
_DATA = object.__basicsize__  # where NumPy's C interface has an array's address: after the head of every object


def _numpy_access(kind):
    import numpy
    sample = numpy.zeros(1)
    known = kind is numpy.ndarray and _address_of(id(sample) + _DATA).value == sample.ctypes.data
    return (lambda x: (x.dtype, x.shape, x.strides)), ((lambda x: _address_of(id(x) + _DATA).value) if known else (lambda x: x.ctypes.data))


class _Access(dict):
    """By type of arrays two functions of them: all that a call depends on beside the address, as a key, and the address; None: by DLPack."""

    def __missing__(self, kind):
        library = kind.__module__.split(".")[0]
        self[kind] = None
        if library == "numpy":
            self[kind] = _numpy_access(kind)
        elif library == "torch":
            self[kind] = (lambda x: (x.dtype, x.shape, x.stride(), x.is_cpu, x.get_device())), kind.data_ptr
        return self[kind]


access = _Access()


# ---- outputs ----

def _torch_zeros(torch):
    return lambda like, shape, dtype: torch.zeros(shape, dtype=torch.float32 if dtype else like.dtype, device=like.device)


def _maker(kind):
    library = kind.__module__.split(".")[0]
    module = sys.modules[library]
    if library == "torch":
        return _torch_zeros(module)
    if library in ("jax", "jaxlib", "tensorflow") or not hasattr(module, "zeros"):
        raise TypeError(f"{kind.__module__}.{kind.__name__}: this library has no arrays that can be written to, so that it cannot receive results; "
                        "call with arrays of NumPy, PyTorch or CuPy" + (", or use brr_xla_selective_scan by jax.ffi" if "jax" in library else ""))
    return lambda like, shape, dtype: module.zeros(shape, dtype or like.dtype)


_makers = {}


def zeros(like, shape, dtype=None):
    """An array of zeros beside `like`, by its library; of its type, or of "float32"."""
    make = _makers.get(type(like))
    if make is None:
        make = _makers[type(like)] = _maker(type(like))
    return make(like, shape, dtype)

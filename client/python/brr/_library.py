"""The C libraries by ctypes: where they are found, their errors, and libbrr_scan's structures as client/scan/brr_scan.h has them."""
import ctypes
import os
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


class Error(RuntimeError):
    """What a C library of brrd refused: `code` is the negated number of a gRPC status."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def load(name, soname, sleeping=False):
    """The library: the file that BRR_SCAN_LIBRARY and its like name, else that of the clone or the installation that this package lies in, else
    the system's. sleeping: the threads of OpenMP sleep while they wait, unless OMP_WAIT_POLICY decides or OpenMP is loaded already. Threads that
    spin keep each other from the processors of a busy machine."""
    if sleeping and "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # OpenMP reads it when it is loaded
        try:
            return load(name, soname)
        finally:
            del os.environ["OMP_WAIT_POLICY"]
    named = os.environ.get(f"{name.upper()}_LIBRARY")
    build = os.environ.get("BRR_BUILD_DIR", f"{HERE}/../../../build")
    places = [named] if named else [f"{build}/lib/{soname}", f"{HERE}/{soname}", f"{HERE}/../../../../lib/{soname}", soname]
    failure = None
    for place in places:
        if place == soname or os.path.exists(place):
            try:
                return ctypes.CDLL(place)
            except OSError as e:
                failure = e
    raise ImportError(f"{soname} cannot be loaded ({failure}): build or install brrd, or name the file in {name.upper()}_LIBRARY")


class Streams:
    """Open streams of one owner, by their addresses. They are closed before it, in whatever order Python collects the objects. The threads of the
    library stay in the process that opened the owner: in one that was forked from it nothing is called or closed."""

    def __init__(self, close):
        self._close, self._open, self._process = close, set(), os.getpid()

    def here(self):
        return os.getpid() == self._process

    def check(self):
        if not self.here():
            raise RuntimeError(f"opened in process {self._process}, used in process {os.getpid()}, which was forked from it: open it there, after the fork")

    def add(self, handle):
        self._open.add(handle.value)

    def of(self, handle):
        """The handle, while it is open."""
        self.check()
        if not handle or handle.value not in self._open:
            raise ValueError("the stream is closed, or its owner is")
        return handle

    def close(self, handle):
        """Once; what is closed already is left alone."""
        if handle and handle.value in self._open:
            self._open.discard(handle.value)
            if self.here():
                self._close(handle)

    def close_all(self):
        while self._open and self.here():
            self._close(self._open.pop())


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dim", ctypes.c_int64 * 4),
                ("stride", ctypes.c_int64 * 4)]


class ScanError(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


class Workspace(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("needed", ctypes.c_size_t)]


def structure(name, tensors, *rest):
    kinds = {"i": ctypes.c_int32, "f": ctypes.c_float, "p": ctypes.POINTER(ctypes.c_int32), "w": ctypes.POINTER(Workspace)}
    members = [(member[2:], kinds[member[0]]) for member in rest]
    return type(name, (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t)] + [(t, Tensor) for t in tensors.split()] + members})


def backward(forward, tensors):
    fields = [("size", ctypes.c_size_t), ("forward", ctypes.POINTER(forward))] + [(t, Tensor) for t in tensors.split()]
    return type(f"{forward.__name__}_backward", (ctypes.Structure,), {"_fields_": fields})


FORWARD = {
    "selective": structure("selective", "u delta A B C D delta_bias z h0 hT resets out", "p.lengths", "i.softplus", "i.zoh", "i.reverse", "f.clamp_lo",
                           "f.clamp_hi", "w.workspace"),
    "ssd": structure("ssd", "x delta A B C D delta_bias h0 hT resets y", "p.lengths", "i.softplus", "i.reverse", "i.chunk", "f.clamp_lo", "f.clamp_hi",
                     "w.workspace"),
    "conv": structure("conv", "x w bias state0 state resets y", "p.lengths", "i.silu", "i.reverse", "w.workspace"),
    "rmsnorm": structure("rmsnorm", "y z out weight rstd", "i.groups", "f.eps", "w.workspace"),
    "layernorm": structure("layernorm", "x y residual sum weight bias mean rstd", "f.eps", "w.workspace"),
}
BACKWARD = {
    "selective": backward(FORWARD["selective"], "dout dhT du ddelta dA dB dC dD ddelta_bias dz dh0"),
    "ssd": backward(FORWARD["ssd"], "dy dhT dx ddelta dA dB dC dD ddelta_bias dh0"),
    "conv": backward(FORWARD["conv"], "dy dstate dx dw dbias dstate0"),
    "rmsnorm": backward(FORWARD["rmsnorm"], "dout dy dz dweight"),
    "layernorm": backward(FORWARD["layernorm"], "dy dx dweight dbias"),
}
_loaded, _lock, _own = None, threading.Lock(), threading.local()


def scan_library():
    global _loaded
    with _lock:
        if _loaded is None:
            library = load("brr_scan", "libbrr_scan.so.1")
            library.brr_scan_library_version.restype = library.brr_scan_device.restype = ctypes.c_char_p
            library.brr_scan_device.argtypes = library.brr_scan_close.argtypes = [ctypes.c_void_p]
            library.brr_scan_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ScanError)]
            library.brr_scan_use_stream.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ScanError)]
            library.brr_scan_wait.argtypes = [ctypes.c_void_p, ctypes.POINTER(ScanError)]
            for op in FORWARD:
                for name in (f"brr_scan_{op}", f"brr_scan_{op}_backward"):
                    getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ScanError)]
            _loaded = library
    return _loaded


class Scan:
    """A device and its queue, of one thread."""

    def __init__(self, device, threads=0):
        self.library, self.error, self.handle = scan_library(), ScanError(), ctypes.c_void_p()
        self.check(self.library.brr_scan_open(device.encode(), threads, ctypes.byref(self.handle), ctypes.byref(self.error)))
        self.stream = 0  # of a GPU: the default stream, in order with what CuPy and PyTorch queue
        self.description = self.library.brr_scan_device(self.handle).decode()

    def check(self, code):
        if code:
            raise Error(code, self.error.message.decode("utf-8", "replace"))

    def use_stream(self, stream):
        self.check(self.library.brr_scan_use_stream(self.handle, stream, ctypes.byref(self.error)))
        self.stream = stream

    def wait(self):
        self.check(self.library.brr_scan_wait(self.handle, ctypes.byref(self.error)))

    def run(self, name, arguments):
        self.check(getattr(self.library, f"brr_scan_{name}")(self.handle, ctypes.addressof(arguments), ctypes.byref(self.error)))

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.brr_scan_close(self.handle)


def scan_of(device):
    """The calling thread's scan of a device."""
    scans = _own.__dict__
    if device not in scans:
        scans[device] = Scan(device, int(os.environ.get("BRR_SCAN_THREADS", "0")))
        if device.startswith("cuda"):
            scans[device].use_stream(0)
    return scans[device]

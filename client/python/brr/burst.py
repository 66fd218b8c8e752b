"""brrd's engine of spiking networks in this process: the spikes and membranes of the daemon, to the bit, without one.

    from brr import burst
    with burst.Network("net.safetensors") as net:              # a file, its bytes, or a snapshot, which goes on where it was
        net.inject([0, 3], 30.0)                               # potentials for the next tick
        for tick, ids in net.step(100): print(tick, ids)       # of the neurons that fired
        net.save("snapshot.safetensors")

There is no ledger: count the ids that step gives."""
import ctypes
import operator

import numpy as np

from ._library import Error, load
from .networks.netfile import LARGEST, column


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Source(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int)]


class _Frame(ctypes.Structure):
    _fields_ = [("tick", ctypes.c_uint64), ("ids", ctypes.POINTER(ctypes.c_uint32)), ("n_ids", ctypes.c_int64), ("candidates", ctypes.c_int64)]


_INJECTION = np.dtype([("tick", "<u8"), ("id", "<u4"), ("potential", "<f4")])
_ON_TICK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Frame))
_library = []


def _functions():
    if not _library:
        _library.append(load("brr_burst", "libbrr_burst.so.1", sleeping=True))
        _library[0].brr_burst_neurons.restype, _library[0].brr_burst_tick.restype = ctypes.c_int64, ctypes.c_uint64
    return _library[0]


class Network:
    """source: a path, or the bytes of a network file. device: "cpu" or "cuda:N"; threads: of a CPU, 0 for all. One thread at a time."""

    def __init__(self, source, device="cpu", threads=0):
        self._f, self._net = _functions(), ctypes.c_void_p()
        data = bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else None
        path = None if data is not None else str(source).encode()
        self._call("open", ctypes.byref(_Source(path, data, len(data or b""), device.encode(), threads)), ctypes.byref(self._net), own=False)
        self.neurons = self._f.brr_burst_neurons(self._net)

    def _call(self, name, *arguments, own=True):
        if own and not self._net:
            raise ValueError("the network is closed")
        error = _Error()
        if getattr(self._f, f"brr_burst_{name}")(*([self._net] if own else []), *arguments, ctypes.byref(error)):
            raise Error(error.code, error.message.decode("utf-8", "replace"))

    def close(self):
        net, self._net = self._net, ctypes.c_void_p()
        if net:
            self._f.brr_burst_close(net)

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def tick(self):
        """The newest that has run; 0 before the first."""
        if not self._net:
            raise ValueError("the network is closed")
        return self._f.brr_burst_tick(self._net)

    def inject(self, ids, potentials, ticks=0):
        """Potentials for neurons in ticks to come, each argument an array or one value; tick 0 is the next one."""
        ids, potentials, ticks = (values.reshape(-1) for values in np.broadcast_arrays(ids, potentials, ticks))
        n = len(ids)
        rows = np.empty(n, _INJECTION)
        rows["id"], rows["tick"] = column("ids", ids, n, 0, 2**32 - 1), column("ticks", ticks, n, 0, 2**62 - 1)
        rows["potential"] = column("potentials", potentials, n, -LARGEST, LARGEST, False)
        self._call("inject", ctypes.c_void_p(rows.ctypes.data), ctypes.c_size_t(len(rows)))

    def step(self, ticks=1):
        """Runs so many ticks; a list of (tick, ids of the neurons that fired). What a signal's handler raises meanwhile
        is raised after them."""
        found, raised, ticks = [], [], operator.index(ticks)
        if abs(ticks) >= 2**63:
            raise ValueError(f"{ticks} ticks; expected less than 2^63")

        def on_tick(_, frame):
            try:
                f = frame.contents
                ids = np.ctypeslib.as_array(f.ids, (f.n_ids,)).copy() if f.n_ids else np.zeros(0, np.uint32)
                found.append((f.tick, ids))
            except BaseException as e:  # ctypes would print and forget it
                raised.append(e)
        self._call("step", ctypes.c_int64(ticks), _ON_TICK(on_tick), None)
        if raised or len(found) < ticks:  # a handler that raised before the `try`
            raise raised[0] if raised else KeyboardInterrupt
        return found

    def membranes(self):
        out = np.empty(self.neurons, np.float32)
        self._call("membranes", ctypes.c_void_p(out.ctypes.data))
        return out

    def save(self, path):
        """Writes a snapshot: network and state."""
        self._call("save", str(path).encode())

    def restore(self, path):
        """The state of a snapshot of the same network."""
        self._call("restore", str(path).encode())

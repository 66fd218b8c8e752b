"""A running daemon from Python, by libbrr: its detectors with the functions of brr.Detector, and every RPC as messages.

    import brr
    with brr.connect() as daemon:                       # the socket that brrctl finds; or brr.connect("eeg.lab.example:7443", tls_ca=..., token_file=...)
        found = daemon.detector("ward").detect(uv, 256, ["Fp1", "F3", ...])
        bed = daemon.detector("ward").stream(256, channels, live=True, name="bed-7")   # outlives cuts and restarts of the daemon
        jobs = daemon.call("/brr.v1.Jobs/List", jobs_pb2.ListJobsRequest(), jobs_pb2.ListJobsResponse)
"""
import contextlib
import ctypes
import os

from ._library import Error, Streams, load
from .detector import RATE_HZ, Alarm, Event, Results, push_all, plain

END, AGAIN, UNKNOWN = 1, 2, -2
RESULT, ALARM = 1, 2
WAIT_MS = 100
_pointer, _text, _i64, _f64, _int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_double, ctypes.c_int


class _Error(ctypes.Structure):
    _fields_ = [("code", _int), ("reason", ctypes.c_char * 64), ("message", ctypes.c_char * 512), ("cause", ctypes.c_char * 256),
                ("retry_after_ms", _i64)]


class _Connect(ctypes.Structure):
    _fields_ = [(name, _text) for name in ("endpoint", "tls_ca", "tls_cert", "tls_key", "token_file")]


class _Request(ctypes.Structure):
    _fields_ = [("method", _text), ("data", _text), ("len", ctypes.c_size_t), ("timeout_ms", _i64)]


class _Stream(ctypes.Structure):
    _fields_ = [("model", _text), ("channels", ctypes.POINTER(_text)), ("n_channels", _int), ("rate_hz", _f64), ("client_name", _text),
                ("realtime", _int), ("want_probabilities", _int), ("alarm_hop_s", _f64), ("start_time_ms", _i64), ("open_timeout_ms", _i64),
                ("no_resume", _int), ("resume_ms", _i64), ("buffer_bytes", _i64), ("threshold_on", _f64), ("threshold_off", _f64),
                ("alarm_rate", _f64), ("device", _text), ("move_after_ms", _i64), ("partial", _int), ("patient", _text)]


class _Info(ctypes.Structure):
    _fields_ = [("session_id", _text), ("model_sha256", _text), ("note", _text), ("montage", ctypes.POINTER(_text)),
                ("n_montage", _int)]  # and more


class _Event(ctypes.Structure):
    _fields_ = [("first", _i64), ("end", _i64), ("confidence", _f64)]


class _Alarm(ctypes.Structure):
    _fields_ = [("on", _int), ("sample", _i64), ("probability", _f64), ("wall_time_ms", _i64)]


class _Summary(ctypes.Structure):
    _fields_ = [(name, _i64) for name in ("source_samples", "windows", "gaps", "duplicate_samples")] + \
               [(name, _f64) for name in ("seizure_s", "observed_s", "suppressed_s")] + [("bursts", _i64)]


class _Reconnected(ctypes.Structure):
    _fields_ = [("away_ms", _i64), ("anew", _int)]


class _Message(ctypes.Structure):
    _fields_ = [("kind", _int), ("seq", _i64), ("first", _i64), ("samples", _i64), ("gap", _int), ("probabilities", ctypes.POINTER(ctypes.c_float)),
                ("events", ctypes.POINTER(_Event)), ("n_events", _int), ("alarm", _Alarm), ("summary", _Summary), ("reconnected", _Reconnected),
                ("suppression", _pointer), ("n_suppression", _int), ("mislabelled", _text), ("learning_s", _int)]


FUNCTIONS = {
    "library_version": [], "connect_with": [ctypes.POINTER(_Connect), ctypes.POINTER(_pointer)], "disconnect": [_pointer], "endpoint": [_pointer],
    "call": [_pointer, ctypes.POINTER(_Request), ctypes.POINTER(_pointer), ctypes.POINTER(ctypes.c_size_t)], "free": [_pointer],
    "stream_open": [_pointer, ctypes.POINTER(_Stream), ctypes.POINTER(_pointer)], "stream_push": [_pointer, _pointer, _i64, _i64],
    "stream_gap": [_pointer, _i64, _text], "stream_finish": [_pointer], "stream_next": [_pointer, _i64, ctypes.POINTER(_Message)],
    "stream_close": [_pointer], "stream_info": [_pointer], "message_channels": [ctypes.POINTER(_Message), _int],
}
PLAIN = ("library_version", "endpoint", "disconnect", "free", "stream_close", "stream_info", "message_channels")  # functions that cannot fail
_loaded = None


def _library():
    global _loaded
    if _loaded is None:
        library = load("brr", "libbrr.so.1")
        for name, arguments in FUNCTIONS.items():
            function = getattr(library, f"brr_{name}")
            function.argtypes = arguments if name in PLAIN else [*arguments, ctypes.POINTER(_Error)]
        library.brr_stream_info.restype, library.brr_message_channels.restype = ctypes.POINTER(_Info), ctypes.c_uint32
        library.brr_library_version.restype = library.brr_endpoint.restype = _text
        for name in ("disconnect", "free", "stream_close"):
            getattr(library, f"brr_{name}").restype = None
        _loaded = library
    return _loaded


def _call(name, *arguments):
    """The function's word, 0 or above; what the library or the daemon refused is an Error."""
    error = _Error()
    code = getattr(_library(), f"brr_{name}")(*arguments, ctypes.byref(error))
    if code < 0:
        raised = Error(code, error.message.decode("utf-8", "replace"))
        raised.reason, raised.retry_after_s = error.reason.decode("utf-8", "replace"), error.retry_after_ms / 1000
        raise raised
    return code


def _optional(value):
    return None if value is None else os.fspath(value).encode()


def connect(endpoint=None, *, tls_ca=None, tls_cert=None, tls_key=None, token_file=None):
    """A daemon: of "unix:/path" or "host:port", else of BRR_ENDPOINT, else that of this user or of the machine. What is None comes from the
    environment (BRR_TLS_CA, BRR_TOKEN_FILE, ...). Sends nothing: the first call shows if a daemon answers."""
    return Client(_Connect(*(_optional(x) for x in (endpoint, tls_ca, tls_cert, tls_key, token_file))))


class Client:
    """A connection, for any number of threads; its end closes its streams."""

    def __init__(self, options):
        self._handle, self._streams = _pointer(), Streams(_library().brr_stream_close)
        _call("connect_with", ctypes.byref(options), ctypes.byref(self._handle))
        self.endpoint = _library().brr_endpoint(self._handle).decode()

    def __repr__(self):
        return f"<brr.Client of {self.endpoint}>"

    def detector(self, model):
        """A model of the daemon: a served name, "job:ID" or a file on its machine. It is looked up when a stream is opened."""
        return RemoteDetector(self, model)

    def call(self, method, request=b"", answer=bytes, timeout_s=30):
        """One RPC with one answer: bytes, or messages of protobuf with the answer's type."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        found, size = _pointer(), ctypes.c_size_t()
        _call("call", self._open(), ctypes.byref(_Request(method.encode(), data, len(data), int(1000 * timeout_s))), ctypes.byref(found), ctypes.byref(size))
        try:
            packed = ctypes.string_at(found, size.value)
        finally:
            _library().brr_free(found)
        return packed if answer is bytes else answer.FromString(packed)

    def _open(self):
        if not self._handle:
            raise ValueError("the connection is closed")
        self._streams.check()
        return self._handle

    def close(self):
        if getattr(self, "_handle", None):
            handle, self._handle = self._handle, None
            self._streams.close_all()
            if self._streams.here():
                _library().brr_disconnect(handle)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    __del__ = close


class RemoteDetector:
    """brr.Detector's functions, computed by the daemon."""

    def __init__(self, client, model):
        self.client, self.model = client, model

    def __repr__(self):
        return f"<brr.RemoteDetector {self.model} of {self.client.endpoint}>"

    def stream(self, rate, channels, on=0, off=0, alarm_hop_s=None, live=False, name="brr for Python"):
        """A source: rate in Hz, names of its channels, thresholds of events (0: the model's), seconds between decisions of alarms (0: none; None: the
        daemon's where live, else none); live: served before recordings, and what hooks hear; name: of the bed."""
        return RemoteStream(self, rate, channels, on, off, alarm_hop_s, live, name)

    def detect(self, uv, rate=None, channels=None, on=0, off=0, unit=None):
        """All results of a recording (brr.read), or of an array (channels, samples) with its rate and the names of its channels, from the first sample
        on. unit: as of brr.Detector.detect."""
        with contextlib.ExitStack() as opened:
            parts = push_all(lambda rate, channels: opened.enter_context(self.stream(rate, channels, on, off)), uv, rate, channels, unit)
        return _joined(parts)._replace(first=0, alarms=[])


def _joined(parts):
    import numpy
    filled = [p for p in parts if len(p.probabilities)]
    return Results(filled[0].first if filled else parts[0].first, numpy.concatenate([p.probabilities for p in parts]), [e for p in parts for e in p.events],
                   [a for p in parts for a in p.alarms])


class RemoteStream:
    """One source under a model; of one thread. push, gap and finish as those of brr.Detector's streams. The daemon computes meanwhile, so that push
    returns what has arrived and not all that its samples decide; finish waits for the rest."""

    def __init__(self, detector, rate, channels, on, off, alarm_hop_s, live, name):
        self.client, self.n, self._handle, self._first = detector.client, len(channels), _pointer(), 0
        names = (_text * self.n)(*(str(c).encode() for c in channels))
        hop_s = (0 if live else -1) if alarm_hop_s is None else alarm_hop_s or -1  # the daemon's default, none, or as asked for
        config = _Stream(model=_optional(detector.model), channels=names, n_channels=self.n, rate_hz=rate, client_name=name.encode(),
                         realtime=int(live), want_probabilities=1, alarm_hop_s=hop_s, threshold_on=on, threshold_off=off)
        _call("stream_open", self.client._open(), ctypes.byref(config), ctypes.byref(self._handle))
        self.client._streams.add(self._handle)

    def __repr__(self):
        return f"<brr.RemoteStream of {self.n} channels at {self.client.endpoint}>"

    def _open(self):
        return self.client._streams.of(self._handle)

    def _channels(self, message, i):
        info, bits = _library().brr_stream_info(self._open())[0], _library().brr_message_channels(ctypes.byref(message), i)
        names = [info.montage[k].decode() for k in range(info.n_montage) if bits >> k & 1]
        return "all" if names and len(names) == info.n_montage else ",".join(names)

    def _take(self, wait_ms, until_end=False):
        """What has arrived; until_end: all to the end of the stream."""
        import numpy
        trace, events, alarms, m, first = [], [], [], _Message(), self._first
        while True:
            word = _call("stream_next", self._open(), wait_ms, ctypes.byref(m))
            if word == END or (word == AGAIN and not until_end):
                break
            if word == AGAIN:
                continue
            if m.kind == RESULT:
                values = numpy.ctypeslib.as_array(m.probabilities, (m.samples,)).copy() if m.samples and not m.gap else \
                    numpy.full(m.samples, numpy.nan, numpy.float32)
                trace.append(values)
                self._first = m.first + m.samples
                events += [Event.of(e, self._channels(m, i)) for i, e in enumerate(m.events[:m.n_events])]
            elif m.kind == ALARM:
                alarms.append(Alarm(m.alarm.sample / RATE_HZ, bool(m.alarm.on), m.alarm.probability))
            wait_ms = wait_ms if until_end else 0
        return Results(first, numpy.concatenate(trace) if trace else numpy.empty(0, numpy.float32), events, alarms)

    def push(self, uv):
        """Samples in microvolts (channels, samples), all channels of the source. What has become ready."""
        import numpy
        uv = numpy.ascontiguousarray(plain(uv), dtype=numpy.float32)
        if uv.ndim != 2 or uv.shape[0] != self.n:
            raise ValueError(f"the samples have shape {uv.shape}; expected ({self.n}, n)")
        parts = []
        while _call("stream_push", self._open(), uv.ctypes.data, uv.shape[1], 0) == AGAIN:
            parts.append(self._take(WAIT_MS))
        return _joined([*parts, self._take(0)])

    def gap(self, missing):
        """The next sample comes so many source samples later than expected."""
        _call("stream_gap", self._open(), missing, None)

    def finish(self):
        """The source has ended; the remaining results."""
        _call("stream_finish", self._open())
        return self._take(1000, until_end=True)

    def close(self):
        if getattr(self, "_handle", None):
            handle, self._handle = self._handle, None
            self.client._streams.close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    __del__ = close

"""brrd's seizure detectors in this process: the results of a daemon, to the bit, without one. It is no medical device.

    from brr import Detector, read
    found = Detector("ward").detect(read("night.edf"))               # or an array: detect(uv, 256, ["Fp1", "F3", ...])
    for event in found.events: print(event.onset, event.duration, event.confidence)
"""
import collections
import ctypes
import math
import os
import warnings

from ._library import Error, Streams, load

Alarm = collections.namedtuple("Alarm", "time on probability")
RATE_HZ = 256


class Event(collections.namedtuple("Event", "onset duration confidence")):
    """onset and duration in seconds from the first sample; confidence 0 to 1. channels: those that carry it, "F7-T3,T3-T5", or "all";
    "": not known."""
    channels = ""

    @classmethod
    def of(cls, e, channels):
        event = cls(e.first / RATE_HZ, (e.end - e.first) / RATE_HZ, e.confidence)
        event.channels = channels
        return event


class Results(collections.namedtuple("Results", "first probabilities events alarms")):
    """first: sample of the first probability, at 256 Hz."""
    __slots__ = ()

    def __repr__(self):
        return f"<brr.Results: {len(self.events)} events, {len(self.alarms)} changes of alarms, {len(self.probabilities)} probabilities from sample {self.first}>"

    def table(self):
        """The events as a NumPy record array with columns of an event file (brr.events); pandas.DataFrame(found.table()) has the same columns."""
        from .events import Events
        return Events.of((e.onset, e.duration, "sz", e.confidence) for e in self.events)

    def annotations(self):
        """The events as mne.Annotations, for raw.set_annotations."""
        return self.table().annotations()

    def save(self, path, seconds):
        """Writes an event file of a recording of so many seconds, as brrctl detect does; brrctl score compares it with labels."""
        rows = [(e.onset, e.onset + e.duration, "sz", f"{e.confidence:.2f}", e.channels or "n/a") for e in self.events]
        rows = rows or [(0, seconds, "bckg", "n/a", "n/a")]
        hundredths = lambda s: math.floor(s * 100 + 0.5) / 100  # the end is rounded, so that onset + duration reads back as the end
        with open(path, "w", encoding="utf-8") as f:
            f.write("onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\ttrial_type\n")
            f.writelines(f"{hundredths(onset):.2f}\t{hundredths(end) - hundredths(onset):.2f}\t{kind}\t{confidence}\t{channels}\tn/a\t{seconds:.2f}\t{kind}\n"
                         for onset, end, kind, confidence, channels in rows)


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 512)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32), ("bf16", ctypes.c_int32)]


class _Source(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rate_hz", ctypes.c_double), ("n_channels", ctypes.c_int32), ("channels", ctypes.POINTER(ctypes.c_char_p)),
                ("on", ctypes.c_double), ("off", ctypes.c_double), ("alarm_hop_s", ctypes.c_double), ("rows", ctypes.c_int32)]


class _Event(ctypes.Structure):
    _fields_ = [("first", ctypes.c_int64), ("end", ctypes.c_int64), ("confidence", ctypes.c_float)]


class _Alarm(ctypes.Structure):
    _fields_ = [("sample", ctypes.c_int64), ("on", ctypes.c_int32), ("probability", ctypes.c_float)]


class _Results(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("first", ctypes.c_int64), ("probabilities", ctypes.POINTER(ctypes.c_float)),
                ("n_probabilities", ctypes.c_int64), ("events", ctypes.POINTER(_Event)), ("n_events", ctypes.c_int64),
                ("alarms", ctypes.POINTER(_Alarm)), ("n_alarms", ctypes.c_int64), ("rows", ctypes.POINTER(ctypes.c_float)), ("n_windows", ctypes.c_int64),
                ("window", ctypes.c_int64), ("columns", ctypes.c_int64), ("channels", ctypes.POINTER(ctypes.c_char_p))]


_loaded = None


def _library():
    global _loaded
    if _loaded is None:
        library = load("brr_detector", "libbrr_detector.so.1", sleeping=True)
        pointer, error = ctypes.c_void_p, ctypes.POINTER(_Error)
        for name in ("library_version", "type", "montage", "sha256"):
            getattr(library, f"brr_detector_{name}").restype = ctypes.c_char_p
        for name in ("type", "montage", "sha256", "window", "hop", "close", "stream_close"):
            getattr(library, f"brr_detector_{name}").argtypes = [pointer]
        library.brr_detector_window.restype = library.brr_detector_hop.restype = ctypes.c_int64
        library.brr_detector_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Options), ctypes.POINTER(pointer), error]
        library.brr_detector_stream_open.argtypes = [pointer, ctypes.POINTER(_Source), ctypes.POINTER(pointer), error]
        library.brr_detector_push.argtypes = [pointer, ctypes.POINTER(pointer), ctypes.c_int64, error]
        library.brr_detector_gap.argtypes = [pointer, ctypes.c_int64, error]
        library.brr_detector_finish.argtypes = [pointer, error]
        library.brr_detector_take.argtypes = [pointer, ctypes.POINTER(_Results), error]
        _loaded = library
    return _loaded


def _call(name, *arguments):
    error = _Error()
    code = getattr(_library(), f"brr_detector_{name}")(*arguments, ctypes.byref(error))
    if code:
        raise Error(code, error.message.decode("utf-8", "replace"))


UNITS = {"uV": 1, "mV": 1e3, "V": 1e6}


def plain(uv):
    """An array whose masked samples are NaN, as the samples of a channel that was off."""
    import numpy
    return uv.astype(numpy.float32).filled(numpy.nan) if isinstance(uv, numpy.ma.MaskedArray) else numpy.asarray(uv)


def in_microvolts(uv, rate, unit, stated=False):
    """The samples in microvolts. Without a unit they are taken for microvolts, unless they look like volts: the median over the channels of the standard
    deviation of the first ten seconds in which it is not 0. Where microvolts are stated that is a warning."""
    import numpy
    uv = plain(uv)
    if unit is not None:
        if unit not in UNITS:
            raise ValueError(f"the unit is {unit!r}; expected one of {', '.join(UNITS)}")
        if UNITS[unit] != 1:
            return numpy.asarray(uv * numpy.float64(UNITS[unit]), numpy.float32)
    piece, stated = int(rate * 10) + 1, stated or unit is not None
    for at in range(0, 0 if uv.ndim != 2 else uv.shape[1], piece):
        with numpy.errstate(all="ignore"):
            part = numpy.ma.masked_invalid(uv[:, at:at + piece])
            sizes = numpy.sort(numpy.ma.filled(part.std(axis=1, dtype=numpy.float64), 0))
        size = sizes[len(sizes) // 2] if len(sizes) else 0
        if 1e-7 < size < 0.005 and stated:
            warnings.warn(f"the samples have an amplitude of {size:.3g}, which looks like V, though they are stated to be in microvolts", stacklevel=4)
        elif 1e-7 < size < 0.005:
            raise ValueError(f"the samples have an amplitude of {size:.3g}, which looks like V, not microvolts; say unit='V'")
        if size > 0:
            break
    return uv


def push_all(open_stream, uv, rate, channels, unit=None):
    """The results, in parts, of a whole recording, or of an array with its rate and channels, through a stream that is opened for it."""
    if hasattr(uv, "push_to"):
        in_microvolts(uv.data, uv.rate, None, uv.unit_stated)
        return uv.push_to(open_stream(uv.rate, uv.labels))
    if rate is None or channels is None:
        raise TypeError("an array needs its rate in Hz and the names of its channels: detect(uv, rate, channels)")
    uv = in_microvolts(uv, rate, unit)
    stream = open_stream(rate, channels)
    return [stream.push(uv), stream.finish()]


class Detector:
    """A model: a file, or "ward", "demo", "line_length" or "band_power" (a file of such a name: "./ward"). device: "cpu" or "cuda:N"; threads of a CPU: 0 = all."""

    def __init__(self, model, device="cpu", threads=0, bf16=False):
        self._handle = ctypes.c_void_p()
        options = _Options(ctypes.sizeof(_Options), device.encode(), threads, int(bf16))
        self._streams = Streams(_library().brr_detector_stream_close)
        _call("open", os.fsencode(model if isinstance(model, str) else os.path.join(".", model)), ctypes.byref(options), ctypes.byref(self._handle))
        text = lambda name: getattr(_library(), f"brr_detector_{name}")(self._handle).decode()
        self.type, self.montage, self.sha256 = text("type"), text("montage"), text("sha256")
        self.window_s, self.hop_s = (getattr(_library(), f"brr_detector_{n}")(self._handle) / RATE_HZ for n in ("window", "hop"))

    def __repr__(self):
        return f"<brr.Detector {self.type}: {self.montage}, windows of {self.window_s:g} s every {self.hop_s:g} s, SHA-256 {self.sha256[:12]}>"

    def stream(self, rate, channels, on=0, off=0, alarm_hop_s=0):
        """A live source: rate in Hz, names of its channels, thresholds of events (0: the model's), seconds between decisions of alarms (0: none)."""
        return Stream(self, rate, channels, on, off, alarm_hop_s)

    def detect(self, uv, rate=None, channels=None, on=0, off=0, unit=None):
        """All results of a recording (brr.read), or of an array (channels, samples) with its rate and the names of its channels, from the first sample
        on. unit: "uV", "mV" or "V" of an array; None: microvolts, unless they look like volts."""
        import numpy
        parts = push_all(lambda rate, channels: self.stream(rate, channels, on, off), uv, rate, channels, unit)
        return Results(0, numpy.concatenate([p.probabilities for p in parts]), [e for p in parts for e in p.events], [])

    def rows(self, uv, rate, channels):
        """What the network takes of an array in microvolts (channels, samples): (windows or steps, samples, columns), for brr.onnx."""
        import numpy
        stream, parts = Stream(self, rate, channels, 0, 0, 0, rows=True), []
        for change in (lambda: stream._push(uv), stream._finish):
            change()
            r = stream._results()
            shape = r.n_windows, r.window, r.columns
            parts.append(numpy.ctypeslib.as_array(r.rows, shape).copy() if r.n_windows else numpy.empty(shape, numpy.float32))
        return numpy.concatenate(parts)

    def __del__(self):
        if getattr(self, "_handle", None) and self._streams.here():
            self._streams.close_all()
            _library().brr_detector_close(self._handle)


class Stream:
    def __init__(self, detector, rate, channels, on, off, alarm_hop_s, rows=False):
        self.detector, self.n, self._handle = detector, len(channels), ctypes.c_void_p()
        detector._streams.check()
        names = (ctypes.c_char_p * self.n)(*(str(c).encode() for c in channels))
        source = _Source(ctypes.sizeof(_Source), rate, self.n, names, on, off, alarm_hop_s, int(rows))
        _call("stream_open", detector._handle, ctypes.byref(source), ctypes.byref(self._handle))
        detector._streams.add(self._handle)

    def __repr__(self):
        return f"<brr.Stream of {self.n} channels under {self.detector!r}>"

    def _results(self):
        r = _Results(ctypes.sizeof(_Results))
        _call("take", self.detector._streams.of(self._handle), ctypes.byref(r))
        return r

    def _take(self):
        import numpy
        r = self._results()
        probabilities = numpy.ctypeslib.as_array(r.probabilities, (r.n_probabilities,)).copy() if r.n_probabilities else numpy.empty(0, numpy.float32)
        events = [Event.of(e, r.channels[i].decode()) for i, e in enumerate(r.events[:r.n_events])]
        return Results(r.first, probabilities, events, [Alarm(a.sample / RATE_HZ, bool(a.on), a.probability) for a in r.alarms[:r.n_alarms]])

    def push(self, uv):
        """Samples in microvolts (channels, samples), all channels of the source; float32 rows are used where they are. What has become ready."""
        self._push(uv)
        return self._take()

    def _push(self, uv):
        import numpy
        uv = numpy.asarray(plain(uv), dtype=numpy.float32)
        if uv.ndim != 2 or uv.shape[0] != self.n:
            raise ValueError(f"the samples have shape {uv.shape}; expected ({self.n}, n)")
        if uv.shape[1] > 1 and uv.strides[1] != 4:
            uv = numpy.ascontiguousarray(uv)
        rows = (ctypes.c_void_p * self.n)(*(uv.ctypes.data + i * uv.strides[0] for i in range(self.n)))
        _call("push", self.detector._streams.of(self._handle), rows, uv.shape[1])

    def gap(self, missing):
        """The next sample comes so many source samples later than expected."""
        _call("gap", self.detector._streams.of(self._handle), missing)

    def finish(self):
        """The source has ended; the remaining results."""
        self._finish()
        return self._take()

    def _finish(self):
        _call("finish", self.detector._streams.of(self._handle))

    def __del__(self):
        if getattr(self, "_handle", None):
            self.detector._streams.close(self._handle)

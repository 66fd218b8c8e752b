"""Recordings of every format that brrd reads (docs/formats.md), by its own readers.

    night = brr.read("night.vhdr")
    night.data, night.rate, night.labels          # float32 microvolts (channels, samples), Hz, names of the channels
    found = brr.Detector("ward").detect(night)    # its gaps are gaps
"""
import collections
import ctypes
import datetime
import math
import os
import re

from ._library import Error
from .detector import _Error, _library as _detector_library, in_microvolts
from .events import Events

Gap = collections.namedtuple("Gap", "sample onset duration")  # it lies before this sample of data, in seconds of file time
Channel = collections.namedtuple("Channel", "label unit rate volt readable note")
_text, _pointer = ctypes.c_char_p, ctypes.c_void_p


class _Channel(ctypes.Structure):
    _fields_ = [("label", _text), ("unit", _text), ("note", _text), ("rate_hz", ctypes.c_double), ("samples_per_record", ctypes.c_int64),
                ("readable", ctypes.c_int32), ("volt", ctypes.c_int32)]


class _Segment(ctypes.Structure):
    _fields_ = [("first_record", ctypes.c_int64), ("n_records", ctypes.c_int64), ("start_s", ctypes.c_double)]


class _Annotation(ctypes.Structure):
    _fields_ = [("onset_s", ctypes.c_double), ("duration_s", ctypes.c_double), ("text", _text)]


class _Span(ctypes.Structure):
    _fields_ = [("onset_s", ctypes.c_double), ("end_s", ctypes.c_double), ("type", _text)]


class _Labels(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("source", _text), ("spans", ctypes.POINTER(_Span)), ("n_spans", ctypes.c_int64)]


class _Range(ctypes.Structure):
    _fields_ = [("first", ctypes.c_int64), ("n", ctypes.c_int64)]


class _Facts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("format", _text), ("start", _text), ("duration_s", ctypes.c_double), ("n_records", ctypes.c_int64),
                ("channels", ctypes.POINTER(_Channel)), ("n_channels", ctypes.c_int64), ("segments", ctypes.POINTER(_Segment)),
                ("n_segments", ctypes.c_int64), ("annotations", ctypes.POINTER(_Annotation)), ("n_annotations", ctypes.c_int64),
                ("repairs", ctypes.POINTER(_text)), ("n_repairs", ctypes.c_int64)]


_loaded = None


def _library():
    global _loaded
    if _loaded is None:
        library, error = _detector_library(), ctypes.POINTER(_Error)
        library.brr_recording_open.argtypes = [_text, ctypes.POINTER(_pointer), error]
        library.brr_recording_close.argtypes = [_pointer]
        library.brr_recording_get.argtypes = [_pointer, ctypes.POINTER(_Facts), error]
        library.brr_recording_read.argtypes = [_pointer, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32, _Range, ctypes.POINTER(_pointer), error]
        library.brr_recording_find_labels.argtypes = [_pointer, _text, ctypes.c_int32, ctypes.POINTER(_Labels), error]
        _loaded = library
    return _loaded


def _call(name, *arguments):
    error = _Error()
    code = getattr(_library(), f"brr_recording_{name}")(*arguments, ctypes.byref(error))
    if code:
        raise Error(code, error.message.decode("utf-8", "replace"))


def _renamed(label, rules):
    """As channels_rename of lib/eeg: the first rule whose pattern is the whole label."""
    for pattern, name in rules.items():
        before, star, after = pattern.partition("*")
        found = re.fullmatch(f"{re.escape(before)}{'(.*)' if star else '()'}{re.escape(after)}", label, re.I | re.S)
        if found:
            return name.replace("*", found[1])
    return label


class _Open:
    """A file while it is read."""

    def __init__(self, path):
        self.handle, self.facts = _pointer(), _Facts(ctypes.sizeof(_Facts))
        _call("open", os.fsencode(path), ctypes.byref(self.handle))
        _call("get", self.handle, ctypes.byref(self.facts))

    def close(self, *unused):
        _library().brr_recording_close(self.handle)

    def __enter__(self):
        return self

    __exit__ = close


class Recording:
    """data: float32 (channels, samples), in microvolts where the channel is a voltage, gaps left out; rate in Hz; labels: of the channels; start: a
    datetime without a time zone, or None; seconds: from the first sample to the last, gaps counted; gaps; annotations: of the file, as Events;
    channels: all that the file has, those left out too; format; repairs: faults of the file that were put right."""

    def __init__(self, path, file, wanted, unit=None, rename=None):
        facts = file.facts
        decoded = lambda texts: [t.decode("utf-8", "replace") for t in texts]
        self.path, self.format, self.seconds = path, facts.format.decode(), facts.duration_s
        start = facts.start.decode()
        self.start = None if start == "n/a" else datetime.datetime.fromisoformat(start)
        self.repairs = decoded(facts.repairs[:facts.n_repairs])
        channels = facts.channels[:facts.n_channels]
        named = lambda c: [_renamed(decoded([c.label])[0], rename or {}), *decoded([c.unit])]
        self.channels = [Channel(*named(c), c.rate_hz, bool(c.volt), bool(c.readable), c.note.decode("utf-8", "replace")) for c in channels]
        self.annotations = Events.of((a.onset_s, a.duration_s, a.text.decode("utf-8", "replace"), math.nan) for a in facts.annotations[:facts.n_annotations])
        chosen = self._choose(channels, wanted)
        self.labels, self.rate = [self.channels[i].label for i in chosen], channels[chosen[0]].rate_hz
        self.unit_stated = unit is not None or not all(channels[i].volt == 2 for i in chosen)
        self._read(file, chosen, channels[chosen[0]].samples_per_record)
        for row, i in enumerate(chosen):
            if unit is not None and channels[i].volt != 1:
                self.data[row] = in_microvolts(self.data[row], self.rate, unit)

    def __repr__(self):
        return f"<brr.Recording {self.path}: {len(self.labels)} channels, {self.rate:g} Hz, {self.seconds:.1f} s, {len(self.gaps)} gaps, {self.format}>"

    def _choose(self, channels, wanted):
        """Numbers of the wanted channels; of None the voltages of the rate that most of them have."""
        if wanted is not None:
            first = {c.label: i for i, c in reversed(list(enumerate(self.channels)))}
            unknown = [name for name in wanted if name not in first]
            if unknown or not wanted:
                raise ValueError(f"{self.path} has no channel {', '.join(unknown) or 'of those wanted'}; it has {', '.join(c.label for c in self.channels)}")
            return [first[name] for name in wanted]
        volts = [i for i, c in enumerate(channels) if c.readable and c.volt]
        if not volts:
            raise ValueError(f"{self.path} has no voltages that can be read; name channels of {', '.join(c.label for c in self.channels) or 'none'}")
        most, _ = collections.Counter(channels[i].samples_per_record for i in volts).most_common(1)[0]
        return [i for i in volts if channels[i].samples_per_record == most]

    def _read(self, file, chosen, per_record):
        import numpy
        n = file.facts.n_records * per_record
        self.data = numpy.empty((len(chosen), n), numpy.float32)
        rows = (_pointer * len(chosen))(*(self.data.ctypes.data + i * self.data.strides[0] for i in range(len(chosen))))
        _call("read", file.handle, (ctypes.c_int32 * len(chosen))(*chosen), len(chosen), _Range(0, n), rows)
        self._starts, self.gaps, end = [], [], 0  # (sample of data, seconds) at which each segment begins
        for s in file.facts.segments[:file.facts.n_segments]:
            sample = s.first_record * per_record
            if sample:
                self.gaps.append(Gap(sample, end, s.start_s - end))
            self._starts.append((sample, s.start_s))
            end = s.start_s + s.n_records * per_record / self.rate

    def times(self):
        """Seconds of file time of each sample."""
        import numpy
        seconds = numpy.arange(self.data.shape[1]) / self.rate
        for sample, start in self._starts:
            seconds[sample:] = start + numpy.arange(self.data.shape[1] - sample) / self.rate
        return seconds

    def mask(self, rate=None):
        """For each sample of file time, at the rate of data or another one, whether it is there: False in gaps. At the rate of data it has as many
        True as data has samples; at 256 Hz it is as long as the probabilities of a detector."""
        import numpy
        rate = rate or self.rate
        there = numpy.zeros(math.ceil(round(self.seconds * rate, 6)), bool)
        ends = [sample for sample, _ in self._starts[1:]] + [self.data.shape[1]]
        for (sample, start), end in zip(self._starts, ends):
            first = math.floor(start * rate + 0.5)
            there[first:first + math.ceil(round((end - sample) * rate / self.rate, 6))] = True
        return there

    def push_to(self, stream):
        """All samples and gaps into a stream of a detector; its results, in parts."""
        for gap in self.gaps:
            if gap.duration > 86400:
                raise ValueError(f"{self.path}: a gap of {gap.duration / 86400:.1f} days at {gap.onset:.0f} s by its clock; expected at most 24 h: cut the "
                                 "recording there, or put a wrong date right")
        parts, position = [], 0
        ends = [sample for sample, _ in self._starts[1:]] + [self.data.shape[1]]
        for (sample, start), end in zip(self._starts, ends):
            first = math.floor(start * self.rate + 0.5)
            if first > position:
                stream.gap(first - position)
                position = first
            parts.append(stream.push(self.data[:, sample:end]))
            position += end - sample
        return parts + [stream.finish()]

    def seizures(self, rule="auto", unknown=False):
        """The labelled seizures, as Events, from the label file beside the recording or its annotations; None where it has no labels.
        rule: as data.labels has it; unknown=True: the spans that the labels call unknown."""
        with _Open(self.path) as file:
            found = _Labels(ctypes.sizeof(_Labels))
            _call("find_labels", file.handle, rule.encode(), int(unknown), ctypes.byref(found))
            rows = [(s.onset_s, s.end_s - s.onset_s, s.type.decode(), math.nan) for s in found.spans[:found.n_spans]]
            return None if found.source == b"none" else Events.of(rows)


def read(path, channels=None, unit=None, rename=None):
    """The recording at path: its voltages of the rate that most of them have, or the named channels, which need one rate. unit: "uV", "mV" or "V" of
    channels whose unit the file does not state, or that are no voltage. rename: {pattern: name} of channels, as --rename: a pattern is a whole label in any
    letter case, in which one * stands for any characters, and so it does in the name: {"*-XY": "*", "LOC": "F7"}. brr.Error where brrd does not read the file, with what to do."""
    with _Open(path) as file:
        return Recording(os.fspath(path), file, channels, unit, rename)

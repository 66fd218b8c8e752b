"""brr.read of the Python package beside edf_samples, which calls lib/formats: the same facts, samples to the bit, and the same refusals."""
import math
import os
import sys

import numpy as np

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "client", "python"))
import brr


def check_reading(path, facts, rows):
    """facts: what edf_samples says of the file; rows: the samples of each of its signals. The recording; None where both refuse it."""
    if "error" in facts:
        try:
            brr.read(path)
        except brr.Error as e:
            assert facts["error"] in str(e), (facts["error"], str(e))
            return None
        raise AssertionError(f"{path} was read; {facts['error']}")
    signals = facts["signals"]
    shown = [i for i, s in enumerate(signals) if s["volt"] and s["usable"] and not s["annotation"]]
    if not shown:
        return None
    rates = [signals[i]["samples_per_record"] for i in shown]
    most = max(rates, key=rates.count)
    shown = [i for i in shown if signals[i]["samples_per_record"] == most]
    read = brr.read(path)
    assert read.labels == [signals[i]["label"] for i in shown] and read.rate == signals[shown[0]]["rate"], (path, read.labels)
    assert read.data.dtype == np.float32 and read.data.shape == (len(shown), len(rows[shown[0]])), path
    for row, i in zip(read.data, shown):
        assert np.array_equal(row.view(np.uint32), np.asarray(rows[i], np.float32).view(np.uint32)), (path, signals[i]["label"])
    assert [(c.label, c.rate, c.volt, c.readable) for c in read.channels] == \
        [(s["label"], s["rate"], s["volt"], s["usable"] and not s["annotation"]) for s in signals], path
    ends = [start + n * most / read.rate for _, n, start in facts["segments"]]
    gaps = [(first * most, end, start - end) for end, (first, _, start) in zip(ends, facts["segments"][1:])]
    assert np.allclose(read.gaps, gaps, atol=1e-9) and len(read.gaps) == len(gaps), (path, read.gaps, gaps)
    times = read.times()
    for first, _, start in facts["segments"]:
        assert times[first * most] == start, path
    assert (read.start is None) == (facts["start"] == "n/a") and str(read.start or "n/a").partition(".")[0] == facts["start"], (path, read.start)
    ours = [(a.onset, None if math.isnan(a.duration) else a.duration, a.eventType) for a in read.annotations]
    assert ours == [tuple(a) for a in facts["annotations"]], (path, ours)
    return read

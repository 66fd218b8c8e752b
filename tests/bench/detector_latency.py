#!/usr/bin/env python3
"""Milliseconds of one window at batch 1 in this process (brr.Detector): p50 and p99, of a live stream that is pushed hop by hop."""
import os
import sys
import time

import numpy as np

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", folder) for folder in ("python", "examples")]
from brr import Detector  # noqa: E402
from stream import read_edf  # noqa: E402

RECORDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "sub-01", "sub-01_run-01_eeg.edf")


def main():
    labels, rate, rows = read_edf(RECORDING)
    uv = np.array(rows, np.float32)
    threads = int(os.environ.get("BRR_SCAN_THREADS", "1"))
    for model in sys.argv[1:] or ("ward", "demo", "line_length"):
        detector = Detector(model, threads=threads)
        stream, hop, times = detector.stream(rate, labels), int(detector.hop_s * rate), []
        for at in range(0, uv.shape[1] - hop, hop):
            begun = time.perf_counter()
            found = stream.push(uv[:, at:at + hop])
            if len(found.probabilities):
                times.append(1000 * (time.perf_counter() - begun))
        print(f"{model:<12} {len(times)} windows of {detector.window_s:g} s, one each {detector.hop_s:g} s, {threads} threads: "
              f"p50 {np.percentile(times, 50):.2f} ms, p99 {np.percentile(times, 99):.2f} ms")


if __name__ == "__main__":
    main()

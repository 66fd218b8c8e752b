#!/usr/bin/env python3
"""The seizures of an mne.io.Raw as mne.Annotations (Debian: python3-mne, python3-grpcio, python3-protobuf).

    BRR_ENDPOINT=unix:/run/brrd/brrd.sock ./mne_events.py RECORDING MODEL [ANNOTATIONS.txt]

From Python: raw.set_annotations(find_events(raw, "demo")). The recording is anything that MNE reads."""
import sys

import mne
import numpy

from brrd_messages import StreamStub, common_pb2, stream_pb2
from stream import RESULT_HZ, Stream, connect


def find_events(raw, model, chunk=2048):
    """Streams the EEG channels of raw through a model of the daemon; returns its events, timed from the first sample."""
    picks = mne.pick_types(raw.info, eeg=True, exclude=[])
    rows = list((raw.get_data(picks=picks) * 1e6).astype(numpy.float32))  # MNE has volts
    recording = ([raw.ch_names[i] for i in picks], raw.info["sfreq"], rows)
    with connect() as channel:
        events = list(Stream(stream_pb2, common_pb2, recording, model, chunk).run(StreamStub(channel)))
    onset = [e.first_sample / RESULT_HZ for e in events]
    duration = [(e.end_sample - e.first_sample) / RESULT_HZ for e in events]
    return mne.Annotations(onset, duration, ["sz"] * len(events))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: mne_events.py RECORDING MODEL [ANNOTATIONS.txt]")
    raw = mne.io.read_raw(sys.argv[1], preload=False, verbose="ERROR")
    found = find_events(raw, sys.argv[2])
    raw.set_annotations(found)
    for a in raw.annotations:
        print(f"{a['onset']:.6f}\t{a['duration']:.6f}\t{a['description']}")
    if len(sys.argv) == 4:
        found.save(sys.argv[3], overwrite=True)


if __name__ == "__main__":
    main()

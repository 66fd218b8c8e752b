#!/usr/bin/env python3
"""A stream cut into chunks of any size gives byte-identical events and probabilities."""
import glob
import json
import sys

import numpy

from daemon import make_corpus
from stream_fixture import RATE, streaming_daemon, trace


def check_large_chunks(d):
    """A few chunks bring more results than are kept for a client, whose word that it has them lies behind chunks that the daemon does not read yet."""
    make_corpus(f"{d.dir}/long", seed=7, patients=1, hours=0.6)
    recording = glob.glob(f"{d.dir}/long/**/*.edf", recursive=True)[0]
    events, probabilities, _ = trace(d, recording, "line_length")
    for chunk in (30000, 10**6):
        other_events, other, _ = trace(d, recording, "line_length", "--chunk-samples", str(chunk))
        assert other_events == events and other.tobytes() == probabilities.tobytes(), f"chunks of {chunk} give something else"


def main():
    with streaming_daemon() as (d, recording, model):
        events, probabilities, text = trace(d, recording, model)
        summary = json.loads(text.splitlines()[-1])
        assert len(summary["events"]) >= 2, f"too few events to compare: {summary}"
        assert probabilities.dtype == numpy.float32 and len(probabilities) == round(summary["duration_s"] * RATE)
        assert not numpy.isnan(probabilities).any() and summary["gaps"] == 0
        assert events.count(b"\tsz\t") == len(summary["events"])
        for chunk in (7, 256, 20000):
            other_events, other, text = trace(d, recording, model, "--chunk-samples", str(chunk))
            assert other_events == events, f"events differ in chunks of {chunk}"
            assert other.tobytes() == probabilities.tobytes(), f"probabilities differ in chunks of {chunk}"
            print(f"chunks of {chunk}: byte-identical, {len(summary['events'])} events")
        lines = [json.loads(line) for line in text.splitlines()]
        assert [x["event"] for x in lines if "event" in x] == summary["events"], "events are printed as they become final"

        code, out, err = d.ctl("stream", recording, "--model", model, "--plot", f"{d.dir}/x.svg", "--probabilities", f"{d.dir}/x.tsv", "--alarms")
        assert code == 0, err
        assert f"{len(summary['events'])} event" in out and "reference" in out, out
        with open(f"{d.dir}/x.svg", encoding="utf-8") as f:
            assert "<svg" in f.read(200)
        with open(f"{d.dir}/x.tsv", encoding="utf-8") as f:
            rows = f.read().splitlines()
        assert rows[0] == "time_s\tprobability" and len(rows) == len(probabilities) + 1
        assert numpy.float32(rows[1].split("\t")[1]) == probabilities[0]
        check_large_chunks(d)
    return 0


if __name__ == "__main__":
    sys.exit(main())

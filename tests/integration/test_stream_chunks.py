#!/usr/bin/env python3
"""A stream cut into chunks of any size gives byte-identical events and probabilities."""
import json
import sys

import numpy

from stream_fixture import RATE, streaming_daemon, trace


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
    return 0


if __name__ == "__main__":
    sys.exit(main())

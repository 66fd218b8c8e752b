#!/usr/bin/env python3
"""Burst suppression through the daemon: a stream reports it once a second, its summary, table, picture and metrics agree with one another
and with the truth of a synthetic recording, and a detect job over the same recording finds the same."""
import glob
import json
import os
import subprocess
import sys
import urllib.request

from daemon import BIN, PATIENCE
from stream_fixture import streaming_daemon

RATIO, HOURS = 0.85, 0.12


def truth_of(recording):
    with open(recording.replace("_eeg.edf", "_events.tsv"), encoding="utf-8") as f:
        rows = [line.split("\t") for line in f.read().splitlines()[1:]]
    return [(float(r[0]), float(r[0]) + float(r[1])) for r in rows if r[2] == "suppression"]


def table_of(path):
    with open(path, encoding="utf-8") as f:
        head, *rows = [line.split("\t") for line in f.read().splitlines()]
    return head, [[float(v) for v in row] for row in rows]


def check_stream(d, recording, model):
    table, picture = f"{d.dir}/s.tsv", f"{d.dir}/s.svg"
    texts = []
    for options in (["--plot", picture], ["--chunk-samples", "177"]):
        code, out, err = d.ctl("stream", recording, "--model", model, "--suppression", table, "--json", *options)
        assert code == 0, err
        with open(table, encoding="utf-8") as f:
            texts.append(f.read())
    assert texts[0] == texts[1], "the table depends on the chunks"
    summary = json.loads(out.splitlines()[-1])
    found, truth = summary["suppression"], truth_of(recording)
    head, rows = table_of(table)
    assert head[:4] == ["time_s", "observed_s", "ratio", "bursts_per_minute"] and len(head) == 4 + 2 * 19, head
    assert [r[0] for r in rows] == list(range(1, round(summary["duration_s"]) + 1)), "a row for every second"
    assert all(r[1] == min(r[0], 60) for r in rows)
    # Each suppression is found once: all last 6 s and more, far longer than a burst takes to fade.
    assert found["bursts"] == len(truth) - 1, (found, len(truth))
    share = sum(b - a for a, b in truth)
    assert share - 2 * len(truth) < found["suppressed_s"] < share + 0.3 * len(truth), (found, share)
    assert found["observed_s"] == summary["duration_s"]
    assert abs(found["largest_ratio"] - max(r[2] for r in rows if r[1] == 60)) < 1e-4
    whole = [r for r in rows if r[1] == 60]
    for r in whole:
        assert abs(r[3] - sum(r[0] - 60 < b <= r[0] and b < truth[-1][1] for _, b in truth)) <= 1, r
    with open(picture, encoding="utf-8") as f:
        assert ">suppression<" in f.read()
    code, out, err = d.ctl("stream", recording, "--model", model)
    assert code == 0 and f"suppressed {found['suppressed_s']:.1f} s" in out, (out, err)
    code, out, err = d.ctl("stream", recording, "--model", model, "--suppression", "x.csv")
    assert code == 2 and "FILE.tsv" in err, err
    return found


def check_job(d, folder, model, found):
    job = f"{d.dir}/detect.yaml"
    with open(job, "w", encoding="utf-8") as f:
        f.write(f"kind: detect\ndata: {{ source: 'file://{folder}', loader_workers: 1 }}\ndetect: {{ model: {model} }}\n")
    code, end, err = d.submit(file=job)
    assert code == 0, err
    (path,) = glob.glob(f"{d.dir}/results/jobs/*/recordings.jsonl")
    with open(path, encoding="utf-8") as f:
        (row,) = [json.loads(line) for line in f]
    assert (row["suppressed_s"], row["bursts"]) == (found["suppressed_s"], found["bursts"]), (row, found)
    assert abs(row["largest_suppression"] - found["largest_ratio"]) < 1e-6
    assert end["result"]["suppressed_s"] == row["suppressed_s"]
    for source in (folder, "job:" + os.path.basename(os.path.dirname(path))):
        code, out, err = d.ctl("detect", source, *(["--model", model] if source == folder else []), "--out", f"{d.dir}/out", "--json")
        assert code == 0, err
        (item,) = [json.loads(line) for line in out.splitlines() if "recording" in json.loads(line)]
        assert {k: item[k] for k in ("suppressed_s", "bursts")} == {k: row[k] for k in ("suppressed_s", "bursts")}, (item, row)
        assert abs(item["largest_suppression"] - row["largest_suppression"]) < 1e-6


def check_metrics(d, found, streams):
    with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    values = {line.split("{")[0]: float(line.split()[-1]) for line in lines if line.startswith(("brrd_stream_suppressed", "brrd_stream_bursts"))}
    assert abs(values["brrd_stream_suppressed_seconds_total"] - streams * found["suppressed_s"]) < 1, (values, found)
    assert values["brrd_stream_bursts_total"] == streams * found["bursts"], (values, found)


def main():
    with streaming_daemon() as (d, _, model):
        folder = f"{d.dir}/coma"
        subprocess.run([f"{BIN}/edfgen", "--out", folder, "--patients", "1", "--hours-per-patient", str(HOURS), "--seed", "3",
                        "--seizures-per-patient", "0", "--burst-suppression", str(RATIO)], check=True)
        (recording,) = glob.glob(f"{folder}/sub-01/*.edf")
        found = check_stream(d, recording, model)
        check_metrics(d, found, 3)
        check_job(d, folder, model, found)
        print(f"{os.path.basename(recording)}: {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

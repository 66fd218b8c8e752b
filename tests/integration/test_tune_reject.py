#!/usr/bin/env python3
"""tune --reject on recordings whose false events are short and loud and whose seizures are long and faint, so that no threshold tells
them apart: the rejecter does, on patients that were left out and on another recording; a stream of any chunks, detect and an
evaluation have the same events; the old thresholds stay for alarms; where nothing can be rejected, tune says why."""
import glob
import json
import math
import os
import sys

import numpy

from daemon import SOURCE, Daemon, make_corpus, temporary
from stream_fixture import metadata, with_events

SEIZURES, BURSTS = ((150, 190), (550, 590)), ((1000, 1006), (1600, 1606))
PATIENTS, RATE, AMPLITUDE_UV = 4, 256, 25


def noise(rng, n):
    """Noise mostly below 8 Hz, of standard deviation 1."""
    spectrum = numpy.fft.rfft(rng.standard_normal(n)) / (1 + (numpy.fft.rfftfreq(n, 1 / RATE) / 8) ** 2)
    x = numpy.fft.irfft(spectrum, n)
    return x / x.std()


def overwrite(path, seed, louder):
    """Noise of a constant amplitude in every channel but the annotations; louder: (onset, end, factor)."""
    with open(path, "rb") as f:
        raw = bytearray(f.read())
    n = int(raw[252:256])

    def column(offset, width):
        at = 256 + offset * n
        return [raw[at + i * width:at + (i + 1) * width].decode().strip() for i in range(n)]

    labels, counts = column(0, 16), [int(v) for v in column(216, 8)]
    low, high, digital_low, digital_high = ([float(v) for v in column(offset, 8)] for offset in (104, 112, 120, 128))
    records = numpy.frombuffer(raw, "<i2", offset=256 * (n + 1)).reshape(-1, sum(counts))
    rng, at = numpy.random.default_rng(seed), 0
    for i, count in enumerate(counts):
        if "Annotations" not in labels[i]:
            x = AMPLITUDE_UV * noise(rng, count * len(records))
            for onset, end, factor in louder:
                x[onset * RATE:end * RATE] *= factor
            scale = (digital_high[i] - digital_low[i]) / (high[i] - low[i])
            records[:, at:at + count] = numpy.round(digital_low[i] + (x - low[i]) * scale).reshape(-1, count)
        at += count
    with open(path, "wb") as f:
        f.write(raw)


def corpus(folder, bursts):
    """The paths of one recording for each patient."""
    make_corpus(folder, seed=77, patients=PATIENTS, hours=0.6, seizures=0)
    paths = sorted(glob.glob(f"{folder}/**/*_eeg.edf", recursive=True))
    assert len(paths) == PATIENTS
    for k, path in enumerate(paths):
        overwrite(path, k, [(*span, 1.5) for span in SEIZURES] + [(*span, 2.5) for span in bursts])
        with open(path.replace("_eeg.edf", "_events.tsv"), "w", encoding="utf-8") as f:
            f.write("onset\tduration\teventType\n" + "".join(f"{a}\t{b - a}\tsz\n" for a, b in SEIZURES))
    return paths


def tune(d, folder, out, *args):
    code, text, err = d.ctl("tune", "line_length", folder, "--out", out, *args)
    assert code == 0, (text, err)
    return text


def rows_of(path):
    with open(path, encoding="utf-8") as f:
        return [line.split("\t")[:2] for line in f.read().splitlines()[1:]]


def stream(d, recording, model, *args):
    """The events and the summary."""
    code, text, err = d.ctl("stream", recording, "--model", model, "--out", f"{d.dir}/x_events.tsv", "--json", *args)
    assert code == 0, (text, err)
    with open(f"{d.dir}/x_events.tsv", "rb") as f:
        return f.read(), json.loads(text.splitlines()[-1])


def is_seizure(row):
    onset, end = float(row[0]), float(row[0]) + float(row[1])
    return any(onset < b and a < end for a, b in SEIZURES)


def check_tune(d, folder):
    """The rejecter that is found, and what tune says of it."""
    out = f"{d.dir}/tuned.safetensors"
    found = json.loads(tune(d, folder, out, "--reject", "--json").splitlines()[-1])
    r = found["rejecter"]
    n = 2 * (PATIENTS - 1)
    assert r["used"] and r["why"] == "" and r["true_events"] == n and r["false_events"] >= n and r["patients"] == PATIENTS - 1, r
    assert (r["left_out"]["found"], r["left_out"]["false_events"], r["left_out"]["event_f1"]) == (n, 0, 1), r
    assert r["usual"]["event_f1"] < 0.95 and r["usual"]["seizures"] == n, r
    assert (found["found"], found["false_events"]) == (n, 0), found
    events = json.loads(metadata(out)["brr.events"])
    assert (events["on"], events["off"]) == (r["usual"]["on"], r["usual"]["off"]), (events, r)
    assert (events["rejecter"]["on"], events["rejecter"]["off"]) == (r["left_out"]["on"], r["left_out"]["off"]), (events, r)
    assert found["threshold_on"] == events["rejecter"]["on"] and events["rejecter"]["duration"] > 0, (found, events)
    assert json.loads(metadata(out)["brr.tuned"])["left_out"] == r["left_out"]
    text = tune(d, folder, f"{d.dir}/again.safetensors", "--reject")
    assert f"rejecter    fitted to {n} events in seizures and {r['false_events']} false ones of {PATIENTS - 1} patients; used" in text, text
    assert "usual thresholds, none rejected" in text and f"found {n} of {n}  0 false" in text, text
    return out, events


def check_events(d, recording, model, events):
    """A recording of a patient that the rejecter was not fitted to."""
    found, end = stream(d, recording, model)
    rows = rows_of(f"{d.dir}/x_events.tsv")
    assert len(rows) == 2 and all(map(is_seizure, rows)) and end["threshold_on"] == events["rejecter"]["on"], (rows, end)
    for chunk in ("331", "4099"):
        assert stream(d, recording, model, "--chunk-samples", chunk)[0] == found
    code, text, err = d.ctl("detect", recording, "--model", model, "--out", f"{d.dir}/detected")
    assert code == 0, (text, err)
    with open(glob.glob(f"{d.dir}/detected/*_events.tsv")[0], "rb") as f:
        assert f.read() == found
    on, off = (str(events["rejecter"][key]) for key in ("on", "off"))
    assert stream(d, recording, model, "--on", on, "--off", off)[0] == found, "the rejecter stays with other thresholds"
    plain = with_events(model, f"{d.dir}/plain.safetensors", on=float(on), off=float(off), rejecter=None)
    stream(d, recording, plain)
    bursts = [row for row in rows_of(f"{d.dir}/x_events.tsv") if not is_seizure(row)]
    assert len(bursts) >= 2, "without the rejecter the bursts are events"
    _, alarms = stream(d, recording, model, "--alarms")
    old = with_events(model, f"{d.dir}/old.safetensors", rejecter=None)
    _, as_before = stream(d, recording, old, "--alarms")
    assert alarms["alarms"] == as_before["alarms"] and as_before["threshold_on"] == events["on"], (alarms, as_before)


def check_evaluation(d, folder, model):
    """An evaluation of the model has tune's scores, and tune of a tuned model begins without its rejecter."""
    n = 2 * (PATIENTS - 1)
    sets = (f"data.source=file://{folder}", f"evaluate.checkpoint={model}", "evaluate.plots=0")
    code, end, err = d.submit(*sets, file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and (end["result"]["found"], end["result"]["false_events"]) == (n, 0) and "rejecter" not in end["result"], (end, err)
    code, end, err = d.submit(*sets, "evaluate.threshold=auto", file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and end["result"]["event_f1"] < 0.95, (end, err)
    code, end, err = d.submit(*sets, "evaluate.threshold=auto", "evaluate.rejecter=auto", file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and end["result"]["rejecter"]["used"], (end, err)
    with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    assert report["rejecter"] == end["result"]["rejecter"] and report["events"]["rejecter"]["bias"] == report["rejecter"]["rejecter"]["bias"]
    code, end, err = d.submit(*sets, "evaluate.rejecter=auto", file=f"{SOURCE}/configs/eval.yaml")
    assert code != 0 and "evaluate.threshold: auto" in err + str(end), (end, err)


def check_nothing_to_reject(d, folder):
    out = f"{d.dir}/none.safetensors"
    text = tune(d, folder, out, "--reject")
    assert "no rejecter: " in text and " 0 false ones; a fit takes at least 3 of each" in text, text
    assert "rejecter" not in json.loads(metadata(out)["brr.events"])


def check_refused(d, recording, model, events):
    broken = with_events(model, f"{d.dir}/broken.safetensors", rejecter={**events["rejecter"], "mean": math.nan})
    code, text, err = d.ctl("stream", recording, "--model", broken)
    assert code != 0, (text, err)
    broken = with_events(model, f"{d.dir}/broken.safetensors", rejecter={**events["rejecter"], "mean": 1e7})
    code, text, err = d.ctl("stream", recording, "--model", broken)
    assert code != 0 and "rejecter.mean is 1e+07" in text + err, (text, err)


def main():
    with temporary() as tmp:
        paths = corpus(f"{tmp}/eeg", BURSTS)
        other = f"{tmp}/other_eeg.edf"
        os.rename(paths[-1], other)
        os.remove(paths[-1].replace("_eeg.edf", "_events.tsv"))
        corpus(f"{tmp}/quiet", ())
        d = Daemon(tmp).start()
        model, events = check_tune(d, f"{tmp}/eeg")
        check_events(d, other, model, events)
        check_evaluation(d, f"{tmp}/eeg", model)
        check_nothing_to_reject(d, f"{tmp}/quiet")
        check_refused(d, other, model, events)
        assert d.process.poll() is None, d.read_log()
        d.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

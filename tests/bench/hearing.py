#!/usr/bin/env python3
"""What a model hears in the first seconds of a person, of quiet and of loud people, after a gap and after flat signal: events at the model's own defaults.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/hearing.py [--model ward ...] [--only REGEX] [--people chb01,Subject04,...] [--json FILE]

tests/bench/real_eeg.py prints the same rows of a model with --hearing. Each row is a recording that is put together from the people's own EEG (BRR_EEG_DIR) and
streamed. Seizures: the eight of CHB-MIT, at the level recorded or scaled so that the median line length of the ten seconds before them is 0.6, 1 or 2 µV, behind so
many seconds of that background, forwards and backwards in turn. Found is what has an event that begins at most 5 s before the seizure and before it ends; of a
recording as it is, one that overlaps it. The loops of chb02_16 and chb02_16+ have events of their own at the level recorded. Lasts: such a seizure,
forwards and backwards in turn for half an hour behind 600 s of its background. Loose: an electrode comes loose 20 s before the seizure, with it or
5 s after it: events that name another side than without, and those that name a channel of that electrode. Negatives: twelve healthy adults, whose
event anywhere is false, and the share of seconds at 0.5 or more. The recordings of crop301 (sleep; muscle and movement) and sparcnet are reported beside them.
A state of no signal is 0.01 µV. Nothing is averaged away: the rows name who was not found and who had an event.
Returns: streams of quiet children (1 µV) who have been heard for 600 s and whose signal is away: electrodes off (flat, or mains hum of up
to 2 mV that differs between channels), samples lost with the connection, a stream opened anew under the same patient's code or without
one. The events are compared with those of the same stream without this: "same" where each has its counterpart that overlaps it and no
other is there."""
import argparse
import concurrent.futures
import functools
import glob
import json
import os
import re
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "..", "tools")]
os.environ.setdefault("BRR_BUILD_DIR", "build")
os.environ.setdefault("BRR_BIN", os.path.join(os.path.abspath(os.environ["BRR_BUILD_DIR"]), "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "..", "..")))
import scipy.signal  # noqa: E402
import ward_data  # noqa: E402
from daemon import SOURCE, Daemon, temporary  # noqa: E402

EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
FLAT_UV, HUM_UV, EARLY_S, LONGEST_S, SIDE_BY_SIDE = 0.01, 2000, 5, 4 * 3600, 2
BEFORE_S, LASTS_S, BEHIND_S = 600, 1800, 300
LOOSE_BEFORE_S, LOOSE_DRAWS = 40, 12
REMEMBERS = ["limits.patient_memory=1h"]
CLIPS = {name: (child, *spans) for child, clips in ward_data.CLIPS.items() for name, spans in clips.items()}


class Recording:
    """The EEG signals of an EDF file, all of one rate, in µV. `holes`: seconds that are missing before a second of what is there."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        n, at, fields = int(data[252:256]), 256, []
        for width in (16, 80, 8, 8, 8, 8, 8, 80, 8, 32):
            fields.append([data[at + i * width:at + (i + 1) * width].decode("latin-1").strip() for i in range(n)])
            at += n * width
        samples = [int(s) for s in fields[8]]
        most = max(samples[i] for i in range(n) if "annotation" not in fields[0][i].lower())
        kept = [i for i in range(n) if samples[i] == most and "annotation" not in fields[0][i].lower()]
        record = np.frombuffer(data[int(data[184:192]):], dtype="<i2")
        record = record[:len(record) // sum(samples) * sum(samples)].reshape(-1, sum(samples)).astype(float)
        self.rate = most / float(data[244:252])
        assert self.rate == int(self.rate), f"{path}: {self.rate} Hz"
        self.rate = int(self.rate)
        self.labels = [fields[0][i] for i in kept]
        ends = np.cumsum([0] + samples)
        self.uv = np.stack([self.physical(record[:, ends[i]:ends[i + 1]].ravel(), *[float(fields[k][i]) for k in (3, 4, 5, 6)], fields[2][i]) for i in kept], 1)

    @staticmethod
    def physical(x, low, high, first, last, unit):
        return ((x - first) * (high - low) / (last - first) + low) * {"mv": 1000, "v": 1e6}.get(unit.lower(), 1)

    def part(self, first, end):
        return self.uv[int(first * self.rate):int(end * self.rate)]


def line_length(uv, rate):
    """The median over channels and seconds, of signals of 1 to 25 Hz, as the feature has it at 256 Hz."""
    band = scipy.signal.sosfiltfilt(scipy.signal.butter(3, (1, 25), "bandpass", fs=rate, output="sos"), uv, axis=0)
    steps = np.abs(np.diff(band, axis=0))[rate:] * rate / 256
    return float(np.median(steps[:len(steps) // rate * rate].reshape(-1, rate, steps.shape[1]).mean(1)))


def loop(uv, samples):
    both = np.concatenate([uv, uv[::-1]])
    return np.tile(both, (samples // len(both) + 1, 1))[:samples]


def write_edf(path, labels, rate, parts):
    """parts: arrays in µV, and numbers: seconds that are missing. EDF+D where there are any; of each array whole seconds."""
    holes = any(np.isscalar(p) for p in parts)
    n = len(labels) + holes
    blocks, onset = [], 0.0
    for p in parts:
        if np.isscalar(p):
            onset += p
            continue
        p = p[:len(p) // rate * rate]
        blocks.append((onset, p))
        onset += len(p) // rate
    # A quiet signal has a fine grid of its own: the header has one scale, and it is that of the largest sample.
    most = max(np.max(np.abs(p), initial=1) for _, p in blocks)
    top = float(f"{min(most * 1.01, 30000):.2f}")
    kinds = [*labels, *(["EDF Annotations"] if holes else [])]

    def field(width, eeg, marks):
        return "".join(f"{v:<{width}}"[:width] for v in [*eeg, *([marks] if holes else [])])
    many = len(labels)
    head = f"{'0':<8}{'X X X X':<80}{'Startdate 01-JAN-2020 X X X':<80}01.01.2000.00.00{256 * (n + 1):<8}{'EDF+D' if holes else '':<44}"
    head = head.replace("01.01.2000.00.00", "01.01.2000.00.00")
    records = sum(len(p) // rate for _, p in blocks)
    head += f"{records:<8}{1:<8}{n:<4}" + "".join(f"{k:<16}"[:16] for k in kinds) + field(80, [""] * many, "") + field(8, ["uV"] * many, "")
    head += field(8, [f"-{top:.2f}"] * many, "-1") + field(8, [f"{top:.2f}"] * many, "1") + field(8, ["-32767"] * many, "-32768") + field(8, ["32767"] * many, "32767")
    head += field(80, [""] * many, "") + field(8, [str(rate)] * many, "16") + field(32, [""] * many, "")
    with open(path, "wb") as f:
        f.write(head.encode("latin-1"))
        for onset, p in blocks:
            x = np.clip(np.round(p * 32767 / top), -32767, 32767).astype("<i2").reshape(-1, rate, many).transpose(0, 2, 1)
            for second, record in enumerate(x):
                f.write(record.tobytes() + (f"+{onset + second:g}\x14\x14\0".encode().ljust(32, b"\0") if holes else b""))


def seizure_rows():
    """NAME: (µV or None, what comes before the seizure: seconds of background, ("gap", s), ("flat", s), ("times", s, factor), or "clip")"""
    rows = {"as recorded": (None, ["clip"]), "as recorded, 600 s, gap 60 s": (None, [600, ("gap", 60), "clip"]), "as recorded, from the seizure on": (None, [])}
    for uv in (1, 0.6, 2):
        rows.update({f"{uv} µV, {s} s": (uv, [s]) for s in (10, 20, 30, 120, 600)})
        rows.update({f"{uv} µV, 600 s, gap {s} s": (uv, [600, ("gap", s)]) for s in (15, 60, 600)})
        rows[f"{uv} µV, from the seizure on"] = (uv, [])
    rows["1 µV, 20 s times 30, 40 s"] = (1, [("times", 20, 30), 40])
    rows["1 µV, 600 s times 6, gap 60 s, 30 s"] = (1, [("times", 600, 6), ("gap", 60), 30])
    rows["1 µV, 600 s, flat 60 s, 10 s"] = (1, [600, ("flat", 60), 10])
    rows["1 µV, 600 s, gap 90 s, 10 s"] = (1, [600, ("gap", 90), 10])
    return rows


def return_rows():
    """NAME: (what comes before, seconds of background between the return and the seizure). ("anew", WHO): a new stream begins, which
    names the same patient as the one before or nobody."""
    rows = {f"{kind} {away} s": ([600, (kind, away)], 10) for kind, away in (("flat", 60), ("hum", 60), ("gap", 90))}
    rows.update({f"anew, {who} patient": ([600, ("anew", who)], after) for who, after in (("same", 10), ("no", 20))})
    return {**rows, "nobody known": ([], 10)}


def healthy_rows():
    return {"cold": [], "600 s": [600], "600 s, gap 60 s": [600, ("gap", 60)], "flat 20 s": [("flat", 20)], "600 s, flat 60 s": [600, ("flat", 60)]}


def hum(seconds, rate, channels):
    """Open inputs: the mains at an amplitude and phase of each channel's own, slow drift, and noise."""
    rng, t = np.random.default_rng(2), np.arange(int(seconds * rate))[:, None] / rate
    mains = rng.uniform(0.2, 1, channels) * HUM_UV * np.sin(2 * np.pi * (60 * t + rng.uniform(0, 1, channels)))
    drift = np.cumsum(rng.normal(0, 1, (len(t), channels)), axis=0)
    return mains + drift + rng.normal(0, 2, (len(t), channels))


def assemble(before, background, rate):
    """The parts, and the seconds that they last."""
    parts, seconds = [], 0
    for item in before:
        if isinstance(item, tuple) and item[0] == "gap":
            parts.append(float(item[1]))
        elif isinstance(item, tuple) and item[0] == "flat":
            noise = np.random.default_rng(1).normal(0, FLAT_UV, (item[1] * rate, background.shape[1]))
            parts.append(noise)
        elif isinstance(item, tuple) and item[0] == "hum":
            parts.append(hum(item[1], rate, background.shape[1]))
        elif isinstance(item, tuple):
            parts.append(loop(background, item[1] * rate) * item[2])
        else:
            parts.append(loop(background, item * rate))
        seconds += item[1] if isinstance(item, tuple) else item
    return parts, seconds


def stream(d, path, model, name, *words):
    probs = f"{path}.npy"
    code, text, err = d.ctl("stream", path, "--model", model, "--probs", probs, "--json", *words, timeout=LONGEST_S)
    assert code == 0, f"{name}: {err or text}"
    p = np.load(probs)
    os.remove(probs)
    said = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    events = [(e["onset_s"], e["end_s"]) for each in said for e in each.get("events", [])]
    return p, events, [(a["on"], a["sample"] / 256) for a in (each.get("alarm") for each in said) if a]


def judge_seizure(d, model, name, row, folder):
    _, calm, seizure = CLIPS[name]
    uv, before = row
    r = Recording(f"{EEG}/chbmit/{name}.edf")
    hole = "gap" in name  # the file leaves out the seconds between
    calm_uv, ictal = r.part(*calm), r.uv[int(calm[1] * r.rate):]
    factor = uv / line_length(calm_uv, r.rate) if uv else 1
    calm_uv, ictal = calm_uv * factor, ictal * factor
    as_is = "clip" in before
    parts, first = assemble([item for item in before if item != "clip"], calm_uv, r.rate)
    if as_is:
        parts += [calm_uv, *([10.0] if hole else [])]
        first += 20 if hole else 10
    path = f"{folder}/{name}.edf"
    write_edf(path, r.labels, r.rate, [*parts, ictal])
    _, events, _ = stream(d, path, model, name)
    os.remove(path)
    end = first + len(ictal) / r.rate
    early = first if as_is else EARLY_S
    return {"found": any(b > first and a < end and a >= first - early for a, b in events), "before": sum(b < first - EARLY_S for _, b in events)}


def seizure_events(d, model, name, row, folder):
    """The events of the clip's seizure in the last stream of the row, in seconds after its onset."""
    _, calm, _ = CLIPS[name]
    before, after = row
    r = Recording(f"{EEG}/chbmit/{name}.edf")
    factor = 1 / line_length(r.part(*calm), r.rate)
    calm_uv, ictal = r.part(*calm) * factor, r.uv[int(calm[1] * r.rate):] * factor
    path, words = f"{folder}/{name}.edf", []
    if before and before[-1] in (("anew", "same"), ("anew", "no")):
        words = ["--patient", f"{name}-{model}"] if before[-1][1] == "same" else []
        write_edf(path, r.labels, r.rate, assemble(before[:-1], calm_uv, r.rate)[0])
        stream(d, path, model, name, *words)
        before = []
    parts, first = assemble([*before, after], calm_uv, r.rate)
    write_edf(path, r.labels, r.rate, [*parts, ictal])
    _, events, _ = stream(d, path, model, name, *words)
    os.remove(path)
    return [(a - first, b - first) for a, b in events if a >= first - EARLY_S]


def judge_lasting(d, model, name, folder):
    """The share of the seconds of half an hour, and how many of the five minutes behind it, at 0.5 or more, and when the last event and the last
    alarm in it end; the share of it with an alarm on, and how many alarms begin before it."""
    _, calm, _ = CLIPS[name]
    r = Recording(f"{EEG}/chbmit/{name}.edf")
    calm_uv, ictal = r.part(*calm), r.uv[int(calm[1] * r.rate):]
    path = f"{folder}/{name}.edf"
    write_edf(path, r.labels, r.rate, [loop(calm_uv, BEFORE_S * r.rate), loop(ictal, LASTS_S * r.rate), loop(calm_uv, BEHIND_S * r.rate)])
    p, events, alarms = stream(d, path, model, name, "--alarms")
    os.remove(path)
    above = np.nanmean(p[:len(p) // 256 * 256].reshape(-1, 256), axis=1) >= 0.5
    during = above[BEFORE_S:BEFORE_S + LASTS_S]

    def until_s(spans):
        return max((min(round(b) - BEFORE_S, LASTS_S) for a, b in spans if b > BEFORE_S and a < BEFORE_S + LASTS_S), default=0)
    ons, offs = ([at for on, at in alarms if on == wanted] for wanted in (True, False))
    alarmed = list(zip(ons, [*offs, len(p) / 256]))
    on_s = sum(max(0, min(b, BEFORE_S + LASTS_S) - max(a, BEFORE_S)) for a, b in alarmed)
    return {"until_s": until_s(events), "alarm_until_s": until_s(alarmed), "alarm_share": round(on_s / LASTS_S, 2),
            "alarms_before": sum(a < BEFORE_S for a in ons), "share": round(float(during.mean()), 2), "behind": int(above[BEFORE_S + LASTS_S:].sum())}


def alike(events, wanted):
    """True if each event has one counterpart that overlaps it."""
    return len(events) == len(wanted) and all(a < d and c < b for (a, b), (c, d) in zip(events, wanted))


def judge_returns(d, model, wanted, clips, keep):
    @functools.lru_cache(None)
    def events(before, after):
        return in_parallel(lambda clip: seizure_events(d, model, clip, (before, after), d.dir), clips)
    for name, (before, after) in return_rows().items() if clips else ():
        if not re.search(wanted, f"returns: {name}"):
            continue
        known, found = events((600,), after), events(tuple(before), after)
        same = [clip for clip in clips if alike(found[clip], known[clip])]
        keep({"model": model, "returns": name, "after_s": after, "found": sum(map(bool, found.values())), "same": len(same),
              "of": len(clips), "differ": {clip: [known[clip], found[clip]] for clip in clips if clip not in same},
              "later_s": {clip: [round(f[0] - k[0], 3) for f, k in zip(found[clip], known[clip])] for clip in same}})


def loose(rng, kind, n, rate):
    """What an electrode adds that is loose, in µV."""
    size, noise = np.exp(rng.uniform(np.log(60), np.log(500))), rng.normal(0, 1, n)
    if kind == "noise":
        return size * noise
    if kind == "rubbing":
        return size * noise * np.repeat(rng.random(n // rate * 2 + 2) < 0.7, rate // 2)[:n]
    if kind == "jumps":
        jumps = (rng.random(n) < 1.5 / rate) * rng.choice([-2, 2], n) * size
        return scipy.signal.lfilter([1], [1, -np.exp(-5 / rate)], jumps)
    slow = scipy.signal.sosfilt(scipy.signal.butter(2, (0.3, 3), "bandpass", fs=rate, output="sos"), noise)
    return size * slow / slow.std()


def judge_loose(d, model, name, kind, folder):
    """For each draw the named side, whether a channel of the loose electrode is named that is not so without it, and all names; the first row
    is that without one."""
    _, calm, _ = CLIPS[name]
    r = Recording(f"{EEG}/chbmit/{name}.edf")
    calm_uv, ictal = r.part(*calm), r.uv[int(calm[1] * r.rate):]
    rng, path, rows = np.random.default_rng([*kind.encode(), *name.encode()]), f"{folder}/{name}.edf", []
    labels = [label.upper() for label in r.labels]
    montage = "FP1 FP2 F7 F3 FZ F4 F8 T7 C3 CZ C4 T8 P7 P3 PZ P4 P8 O1 O2".split()
    electrodes = sorted({e for label in labels for e in label.split("-")[:2]}.intersection(montage))
    for draw in range(LOOSE_DRAWS + 1):
        uv = np.concatenate([loop(calm_uv, LOOSE_BEFORE_S * r.rate), ictal])
        electrode, begins = rng.choice(electrodes), (LOOSE_BEFORE_S + (-20, 0, 5)[draw % 3]) * r.rate
        added = loose(rng, kind, len(uv) - begins, r.rate) if draw else 0
        own = set()
        for c, ends in enumerate(label.split("-")[:2] for label in labels):
            if electrode in ends:
                uv[begins:, c] += added * (1 if ends[0] == electrode else -1)
                own.add("-".join({"T7": "T3", "T8": "T4", "P7": "T5", "P8": "T6"}.get(e, e) for e in ends))
        write_edf(path, r.labels, r.rate, [uv])
        code, text, err = d.ctl("stream", path, "--model", model, "--json", timeout=LONGEST_S)
        assert code == 0, f"{name}: {err or text}"
        said = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        event = next(e for each in said for e in each.get("events", []) if e["end_s"] > LOOSE_BEFORE_S)
        named = {c.upper() for c in (event["channels"] or "").split(",")}
        rows.append((event["side"], bool(named & own - (rows[0][2] if rows else named)), named))
    os.remove(path)
    return rows


def judge_background(d, model, path, before, folder):
    r = Recording(path)
    parts, first = assemble(before, r.uv[r.rate:], r.rate)
    out = f"{folder}/{os.path.basename(path)}"
    write_edf(out, r.labels, r.rate, [*parts, r.uv])
    p, events, _ = stream(d, out, model, os.path.basename(path))
    os.remove(out)
    p = p[int(first * 256):]
    p = p[:len(p) // 256 * 256].reshape(-1, 256)
    s = p[~np.isnan(p).any(axis=1)].mean(axis=1)
    return {"events": sum(b > first for _, b in events), "seconds": len(s), "above": int(np.sum(s >= 0.5)), "heard": [e for e in events if e[1] > first]}


def lay_out_levels(out, people, draws=2):
    """Labelled recordings of these children, to learn from, as a detector meets them: at a level drawn from 0.5 to 4 µV, behind 10 to 90 s of their own background, with
    a gap that ends a segment in every second one."""
    for name, (child, calm, seizure) in CLIPS.items():
        rng = np.random.default_rng([ord(c) for c in name])
        for draw in range(draws if child in people else 0):
            r = Recording(f"{EEG}/chbmit/{name}.edf")
            calm_uv, ictal = r.part(*calm), r.uv[int(calm[1] * r.rate):]
            factor = float(np.exp(rng.uniform(np.log(0.5), np.log(4)))) / line_length(calm_uv, r.rate)
            parts, first = assemble([int(rng.integers(10, 90)), *([("gap", int(rng.integers(15, 300)))] if draw % 2 else [])], calm_uv * factor, r.rate)
            length = first + len(ictal) // r.rate
            folder = f"{out}/chbmit/{child}"
            os.makedirs(folder, exist_ok=True)
            write_edf(f"{folder}/{name}-level{draw}.edf", r.labels, r.rate, [*parts, ictal * factor])
            with open(f"{folder}/{name}-level{draw}_events.tsv", "w", encoding="utf-8") as f:
                f.write("onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n")
                f.write(f"{first:.2f}\t{length - first:.2f}\tsz\tn/a\tn/a\tn/a\t{length:.2f}\n")


def in_parallel(work, names):
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip(names, pool.map(work, names)))


def judge(d, model, wanted, people, keep):
    clips = [name for name, spans in CLIPS.items() if not people or spans[0] in people]
    for name, row in seizure_rows().items():
        if clips and re.search(wanted, f"seizures: {name}"):
            found = in_parallel(lambda clip, row=row: judge_seizure(d, model, clip, row, d.dir), clips)
            missed = [clip for clip, f in found.items() if not f["found"]]
            keep({"model": model, "seizures": name, "found": len(found) - len(missed), "of": len(found), "missed": missed,
                  "events_before": {clip: f["before"] for clip, f in found.items() if f["before"]}})
    judge_returns(d, model, wanted, clips, keep)
    if clips and re.search(wanted, "lasts: 30 min"):
        heard = in_parallel(lambda clip: judge_lasting(d, model, clip, d.dir), clips)
        keep({"model": model, "lasts": "30 min", "found": sum(h["until_s"] == LASTS_S for h in heard.values()), "of": len(heard),
              "alarmed": sum(h["alarm_until_s"] == LASTS_S for h in heard.values()), "clips": heard})
    for kind in ("noise", "jumps", "sway", "rubbing"):
        if clips and re.search(wanted, f"loose: {kind}"):
            rows = in_parallel(lambda clip, kind=kind: judge_loose(d, model, clip, kind, d.dir), clips)
            sides = [(own[0][0], side, named) for own in rows.values() for side, named, _ in own[1:]]
            keep({"model": model, "loose": kind, "changed": sum(a != b for a, b, _ in sides),
                  "opposite": sum({a, b} == {"left", "right"} for a, b, _ in sides), "named": sum(named for *_, named in sides),
                  "of": len(sides), "sides": {clip: own[0][0] for clip, own in rows.items()}})
    everybody = ward_data.people(EEG)
    healthy = {path: person for person, (corpus, paths) in everybody.items() if corpus != "chbmit" and (not people or person in people) for path in paths}
    for name, before in healthy_rows().items():
        if healthy and re.search(wanted, f"healthy: {name}"):
            heard = in_parallel(lambda path, before=before: judge_background(d, model, path, before, d.dir), list(healthy))
            seconds, above = (sum(h[key] for h in heard.values()) for key in ("seconds", "above"))
            keep({"model": model, "healthy": name, "events": sum(h["events"] for h in heard.values()),
                  "people": sorted({healthy[path] for path, h in heard.items() if h["events"]}), "of": len(set(healthy.values())),
                  "seconds": seconds, "above": above, "percent": round(100 * above / seconds, 3)})
    others = {"crop301": glob.glob(f"{EEG}/chbmit/crop301*.edf"), "sparcnet": glob.glob(f"{EEG}/sparcnet/*.edf")}
    for name, paths in others.items():
        for warm in ("cold", "600 s") if not people else ():
            if re.search(wanted, f"{name}: {warm}"):
                heard = in_parallel(lambda path, warm=warm: judge_background(d, model, path, healthy_rows()[warm], d.dir), sorted(paths))
                keep({"model": model, name: warm, "events": {os.path.basename(path): h["heard"] for path, h in heard.items() if h["events"]}})


def printed(row):
    if "seizures" in row:
        return f"{row['seizures']:<40} {row['found']} of {row['of']}, {sum(row['events_before'].values())} events before{' (' + ' '.join(row['events_before']) + ')' if row['events_before'] else ''}" + (f"  not {' '.join(row['missed'])}" if row["missed"] else "")
    if "returns" in row:
        later = [s for each in row["later_s"].values() for s in each]
        text = f"returns: {row['returns']}, {row['after_s']} s"
        text = f"{text:<40} {row['found']} of {row['of']}, the same events in {row['same']}"
        text += f", {min(later):+.2f} to {max(later):+.2f} s later" if later else ""
        return text + "".join(f"  {clip} {events}" for clip, events in row["differ"].items())
    if "lasts" in row:
        clips = [f"{clip} {h['until_s']} s, alarm {h['alarm_until_s']} s, {h['alarm_share']}, {h['alarms_before']} before, {h['share']}, "
                 f"{h['behind']} s behind" for clip, h in row["clips"].items()]
        return f"lasts, {row['lasts']:<33} {row['found']} of {row['of']} to its end, alarms {row['alarmed']}  " + "  ".join(clips)
    if "loose" in row:
        text = f"loose, {row['loose']}"
        return f"{text:<40} of {row['of']} draws the side changes in {row['changed']}, left for right in {row['opposite']}; it is named in {row['named']}"
    if "healthy" in row:
        return f"healthy, {row['healthy']:<31} {row['events']} events, {len(row['people'])} of {row['of']} people, {row['percent']:.2f} % of {row['seconds']} s  {' '.join(row['people'])}"
    name = "crop301" if "crop301" in row else "sparcnet"
    return f"{name}, {row[name]}: " + "; ".join(f"{file.removesuffix('.edf')} {len(events)}" for file, events in row["events"].items())


def run(d, model, wanted="", people=(), file=None):
    def keep(row):
        print(f"{os.path.basename(model):<12} {printed(row)}", flush=True)
        if file:
            kind = list(row)[1]
            with open(file, "a", encoding="utf-8") as f:
                f.write(json.dumps({"row": f"{kind}: {row[kind]}".replace(",", ""), **row}, ensure_ascii=False) + "\n")
    judge(d, model, wanted, people, keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], help="default ward and line_length")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name has it")
    parser.add_argument("--people", default="", metavar="NAME,...", help="those alone")
    parser.add_argument("--json", metavar="FILE", help="one object a row, appended")
    o = parser.parse_args()
    if not os.path.isdir(f"{EEG}/eegmat"):
        print(f"skipped: no EEG recordings at {EEG} (BRR_EEG_DIR)")
        return 77
    with temporary() as tmp:
        d = Daemon(tmp, REMEMBERS).start()
        try:
            for model in o.model or ["ward", "line_length"]:
                run(d, model, o.only, [p for p in o.people.split(",") if p], o.json)
        finally:
            d.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

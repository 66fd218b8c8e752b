#!/usr/bin/env python3
"""How well a training finds the seizures of people that it never saw, and how quiet it is on healthy ones, beside line length and band power.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/real_eeg.py [--seeds 3] [--first-seed 1] [--arm "NAME [FILE.yaml] [KEY=VALUE ...]" ...]
        [--steps N] [--real-steps N] [--corpora LIST] [--json FILE] [--keep DIR] [--without F7,T3,...] [--model FILE ...]

The people (BRR_EEG_DIR) are cut in two halves, each with a child of CHB-MIT, five adults of eegmat and one of eegmmidb. For each half a network learns
on synthetic EEG (--steps; 0: not at all), goes on learning on the half and the synthetic EEG together (--real-steps), and is judged on the
other half; an arm adds job keys to both trainings, and keys after "synthetic:" or "real:" to one of them, and replaces options where it names
them without dashes ("steps=400 corpora=rich:6:0:1,simple:6:5:1"). A corpus is STYLE:PATIENTS:SEIZURES:WEIGHT[:HOURS]: half an hour or HOURS of each patient, with so many seizures. Of each
seizure: the area under the ROC curve of its seconds against those before it, and "apart" if the mean probability in it is at least 0.3 above
the mean before it. Of healthy people: events (0.5 or more for at least 3 s), and the share of seconds at 0.5 or more. Of the recording in examples/, which no training sees: the highest second in its seizure and outside it. Of the segments of sparcnet,
which no training sees: the area under the ROC curve of the mean probability in the ten seconds that experts voted on, four seizures against
nineteen other patterns. eegmat was cleaned by its authors (ICA), so it has few artefacts. Every draw is shown: nothing is averaged away. --model
trains nothing and judges the file, a served or built-in name on everybody, whoever taught it. --without takes the channels of these electrodes out of
what is judged.

Five of the eight clips leave out ten seconds before the seizure, which configs/ward.yaml holds and masks. So that such a hole says nothing, the background
of a training has holes of ten seconds too (data.hole_every_s); the judged recordings have none.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import scipy.stats

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "integration"), os.path.join(HERE, "..", "..", "tools")]
BUILD = os.path.abspath(os.environ.get("BRR_BUILD_DIR", "build"))
os.environ.setdefault("BRR_BIN", os.path.join(BUILD, "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "..", "..")))
import hearing  # noqa: E402
import ward_data  # noqa: E402
from daemon import BIN, SOURCE, Daemon, temporary  # noqa: E402
from ward_data import CLIPS  # noqa: E402

EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
HEALTHY = {f"Subject{i:02d}": "eegmat" for i in range(10)} | {"S001": "eegmmidb", "S003": "eegmmidb"}
HALVES = {"first": ("chb01", *[f"Subject{i:02d}" for i in range(0, 10, 2)], "S001"),
          "second": ("chb02", *[f"Subject{i:02d}" for i in range(1, 10, 2)], "S003")}
VOTED = (20, 30)
RATE, APART, ON, SHORTEST_S = 256, 0.3, 0.5, 3
LONGEST_S = 4 * 3600
SIDE_BY_SIDE = 4
WEIGHTS = {"chbmit": 1, "eegmat": 1, "eegmmidb": 1}
SHIPPED, SHIPPED_SEIZURE = f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", (52, 131)


def auroc(positive, negative):
    ranks = scipy.stats.rankdata(np.concatenate([positive, negative]))
    n, m = len(positive), len(negative)
    return (ranks[:n].sum() - n * (n + 1) / 2) / (n * m)


def files_of(person):
    return ward_data.people(EEG)[person][1]


OTHER_NAMES = {"T7": "T3", "T8": "T4", "P7": "T5", "P8": "T6"}
without = set()  # electrodes that are taken out of what is judged


def reads(label):
    """The electrodes that a signal of this label measures."""
    names = re.findall(r"[A-Z]+[0-9Z]*", label.upper().removeprefix("EEG ").strip(" ."))
    return {OTHER_NAMES.get(name, name) for name in names}


def write_without(path, out):
    """A copy of an EDF file without the signals that measure an electrode of `without`."""
    with open(path, "rb") as f:
        data = f.read()
    n, start, fields, at = int(data[252:256]), int(data[184:192]), [], 256
    for width in (16, 80, 8, 8, 8, 8, 8, 80, 8, 32):
        fields.append([data[at + i * width:at + (i + 1) * width] for i in range(n)])
        at += n * width
    kept = [i for i in range(n) if not reads(fields[0][i].decode("latin-1")) & without]
    ends = np.cumsum([0] + [2 * int(samples) for samples in fields[8]])
    head = data[:184] + f"{256 * (len(kept) + 1):<8}".encode() + data[192:252] + f"{len(kept):<4}".encode()
    with open(out, "wb") as f:
        f.write(head + b"".join(field[i] for field in fields for i in kept))
        for record in range(start, len(data) - ends[-1] + 1, ends[-1]):
            f.write(b"".join(data[record + ends[i]:record + ends[i + 1]] for i in kept))
    return out


def trace(d, path, model):
    out = f"{d.dir}/{os.path.basename(path)}.npy"
    words = ["--partial", "1"] if without else []
    heard = write_without(path, f"{out}.edf") if without else path
    code, text, err = d.ctl("stream", heard, "--model", model, "--probs", out, "--json", *words, timeout=LONGEST_S)
    assert code == 0, err or text
    p = np.load(out)
    os.remove(out)
    return p


def traces(d, model, people, all_of_it):
    """{path: trace} of everything that the model is judged on, some side by side."""
    paths = [SHIPPED] + [f"{EEG}/chbmit/{name}.edf" for child in CLIPS if child in people for name in CLIPS[child]]
    paths += [path for person in people if person in HEALTHY and (all_of_it or HEALTHY[person] != "eegmat") for path in files_of(person)]
    paths += sorted(glob.glob(f"{EEG}/sparcnet/*.edf")) if all_of_it else []
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        found = dict(zip(paths, pool.map(lambda path: trace(d, path, model), paths)))
    traced.clear()
    traced.update({os.path.basename(path): np.round(seconds(p), 4).tolist() for path, p in found.items()})
    return found


def seconds(p):
    """The mean of each whole second; NaN where none of it is known."""
    whole = p[:len(p) // RATE * RATE].reshape(-1, RATE)
    known = ~np.isnan(whole).all(axis=1)
    means = np.full(len(whole), np.nan)
    means[known] = np.nanmean(whole[known], axis=1)
    return means


def count_events(p):
    """Runs of at least 3 s at 0.5 or more."""
    up = np.concatenate([[0], (np.nan_to_num(p) >= ON).astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(up))
    return int(np.sum(edges[1::2] - edges[::2] >= SHORTEST_S * RATE))


def temperature(known):
    """The number between 0.05 and 20 that log-odds of seconds are to be divided by for the least cross entropy, as docs/models.md defines it."""
    p, label = np.clip(np.array(known["p"]), 1e-6, 1 - 1e-6), np.array(known["label"])
    z = np.log(p / (1 - p))
    grid = np.exp(np.linspace(np.log(0.05), np.log(20), 400))
    return float(grid[np.argmin([np.mean(np.logaddexp(0, z / t) - label * z / t) for t in grid])])


def remember(known, s, label):
    s = s[~np.isnan(s)]
    known["p"].extend(s.tolist())
    known["label"].extend([label] * len(s))


def judge_clips(found, child, known):
    clips = {}
    for name, (before, seizure) in CLIPS[child].items():
        s = seconds(found[f"{EEG}/chbmit/{name}.edf"])
        a, b = s[slice(*seizure)], s[slice(*before)]
        a = a[~np.isnan(a)]
        remember(known, a, 1)
        remember(known, b, 0)
        clips[name] = {"whole": "gap" not in name, "before": float(b.mean()), "seizure": float(a.mean()), "auroc": float(auroc(a, b)),
                       "apart": bool(a.mean() - b.mean() >= APART)}
    return clips


def judge_healthy(found, person, known):
    result = {"corpus": HEALTHY[person], "hours": 0.0, "events": 0, "seconds": 0, "seconds_above": 0, "highest": 0.0}
    for p in (found[path] for path in files_of(person) if path in found):
        s = seconds(p)
        remember(known, s, 0)
        result["hours"] += len(p) / RATE / 3600
        result["events"] += count_events(p)
        result["seconds"] += int(np.sum(~np.isnan(s)))
        result["seconds_above"] += int(np.sum(s >= ON))
        result["highest"] = max(result["highest"], float(np.nanmax(s)))
    return result


def judge_segments(found):
    """The mean probability in the voted seconds of each segment; "split" votes are left out."""
    with open(f"{EEG}/sparcnet/votes.tsv", encoding="utf-8") as f:
        votes = dict(line.split("\t")[:2] for line in f.read().splitlines()[1:])
    means = {name: float(np.nanmean(seconds(found[f"{EEG}/sparcnet/{name}"])[slice(*VOTED)]))
             for name, vote in votes.items() if vote != "split"}
    seizures = [m for name, m in means.items() if votes[name] == "seizure"]
    others = [m for name, m in means.items() if votes[name] != "seizure"]
    return {"auroc": float(auroc(seizures, others)), "means": means, "others_above": int(np.sum(np.array(others) >= ON)),
            "seizures_above": int(np.sum(np.array(seizures) >= ON))}


def judge_shipped(found):
    s = seconds(found[SHIPPED])
    first, end = SHIPPED_SEIZURE
    return {"inside": float(np.nanmax(s[first:end])), "outside": float(np.nanmax(np.concatenate([s[:first - 1], s[end + 2:]]))),
            "above": float(np.nanmean(s[first:end] >= ON))}


def judge(d, model, people, all_of_it=True):
    known = {"p": [], "label": []}
    found = traces(d, model, people, all_of_it)
    result = {"clips": {}, "healthy": {p: judge_healthy(found, p, known) for p in people if p in HEALTHY}, "shipped": judge_shipped(found),
              "sparcnet": judge_segments(found) if all_of_it else {"auroc": float("nan")}}
    for child in CLIPS:
        if child in people:
            result["clips"].update(judge_clips(found, child, known))
    return {**result, "temperature": temperature(known)}


def blended(model, share):
    """The model itself, or a copy that has gone a share of its way (tools/model_blend.py)."""
    if share == 1:
        return model
    out = f"{model.removesuffix('.safetensors')}-{share:g}.safetensors"
    subprocess.run([sys.executable, f"{SOURCE}/tools/model_blend.py", model, str(share), out], check=True)
    return out


def keys_of(sets, which):
    """The keys of an arm that belong to the training on `which`, without their prefix."""
    return [key.removeprefix(which + ":") for key in sets if not key.startswith({"real": "synthetic:", "synthetic": "real:"}[which])]


def train(directory, config, sets):
    """Trains without a daemon; returns the last checkpoint and the seconds it took."""
    begun = time.time()
    r = subprocess.run([f"{BIN}/brrd", "run", config, "--directory", directory, *[a for s in sets for a in ("--set", s)]],
                       capture_output=True, text=True, timeout=LONGEST_S)
    assert r.returncode == 0, r.stderr or r.stdout
    return sorted(f for f in glob.glob(f"{directory}/checkpoints/step-*.safetensors") if ".state." not in f)[-1], time.time() - begun


def corpora_of(text):
    """[(STYLE, PATIENTS, SEIZURES, WEIGHT, HOURS)]"""
    parts = [(*part.split(":"), "0.5")[:5] for part in text.split(",")]
    return [(style, int(patients), int(seizures), float(weight), float(hours)) for style, patients, seizures, weight, hours in parts]


def generate(folder, style, patients, seizures, hours, seed):
    """The synthetic patients' folder, made once."""
    out = f"{folder}/{style}-{patients}-{seizures}-{hours:g}-{seed}"
    if not os.path.isdir(out):
        subprocess.run([f"{BIN}/edfgen", "--out", out, "--patients", str(patients), "--hours-per-patient", f"{hours:g}", "--seizures-per-patient", str(seizures),
                        "--seed", str(41000 + seed), "--style", style, "--montage", "bipolar"], check=True, stdout=subprocess.DEVNULL)
    return out


def options_of(sets, o):
    """The options as an arm changes them, and what is left: job keys."""
    own = argparse.Namespace(**vars(o))
    left = []
    for part in sets:
        key, _, value = part.partition("=")
        if key not in ("steps", "real_steps", "weights", "corpora", "share", "levels"):
            left.append(part)
            continue
        setattr(own, key, {"weights": people_weights, "corpora": corpora_of, "share": float}.get(key, int)(value))
    return own, left


def people_weights(text):
    return dict(zip(WEIGHTS, map(float, text.split(","))))


def draw(folder, arm, seed, o):
    """One draw: a training on synthetic EEG, then for each half one on it and the synthetic EEG, judged on the other half."""
    name, *sets = arm.split()
    o, sets = options_of(sets, o)
    config = f"{SOURCE}/configs/ward.yaml"
    if sets and sets[0].endswith(".yaml"):
        config = sets.pop(0)
    folder = f"{folder}/{name}-{seed}"
    common = [f"training.seed={seed}"]
    synthetic = [{"uri": "file://" + generate(o.synthetic, style, patients, seizures, hours, seed), "name": f"{style}{seizures}", "weight": weight}
                 for style, patients, seizures, weight, hours in o.corpora]
    first, result = [], {"arm": name, "config": os.path.relpath(config, SOURCE), "sets": sets, "seed": seed, "steps": o.steps, "real_steps": o.real_steps,
                         "weights": o.weights, "corpora": o.corpora, "share": o.share, "halves": {}}
    if o.steps:
        key = (config, o.steps, seed, str(synthetic), *keys_of(sets, "synthetic"))
        if key not in first_models:
            first_models[key] = train(f"{folder}/synthetic", config, [*common, f"training.max_steps={o.steps}", *keys_of(sets, "synthetic"),
                                                                      f"data.source={json.dumps(synthetic)}"])
        model, result["synthetic_s"] = first_models[key]
        first = [f"model.init_from={model}"]
    for half, people in HALVES.items():
        folder_of = f"{o.synthetic}/people-{half}{'-levels' if o.levels else ''}"
        ward_data.lay_out(EEG, folder_of, people)
        if o.levels:
            hearing.lay_out_levels(folder_of, people)
        sources = [{"uri": f"file://{folder_of}/{name}", "name": name, "weight": weight} for name, weight in o.weights.items() if weight]
        model, spent = train(f"{folder}/{half}", config, [*common, f"training.max_steps={o.real_steps}", *first,
                                                          f"data.source={json.dumps(sources + [s for s in synthetic if s['weight']])}", *keys_of(sets, "real")])
        model = blended(model, o.share)
        others = [p for h, ps in HALVES.items() if h != half for p in ps]
        with daemon(folder) as d:
            result["halves"][half] = {"model": model if o.keep else None, "training_s": spent, **judge(d, model, others, not o.quick)}
        if o.keep:
            keep_seconds(folder, half)
    return result


first_models = {}
traced = {}  # recording: probability of each second, of the model that is being judged


def keep_seconds(folder, name):
    with open(f"{folder}/seconds-{name}.json", "w", encoding="utf-8") as f:
        json.dump(traced, f)


@contextlib.contextmanager
def daemon(folder):
    os.makedirs(f"{folder}/daemon", exist_ok=True)
    d = Daemon(f"{folder}/daemon", hearing.REMEMBERS).start()
    try:
        yield d
    finally:
        d.stop()
        shutil.rmtree(d.dir)


def summary(halves):
    """All that the halves were judged on together."""
    clips = {k: v for h in halves for k, v in h["clips"].items()}
    healthy = [v for h in halves for v in h["healthy"].values()]

    def of(corpus, key):
        return sum(v[key] for v in healthy if v["corpus"] == corpus)
    return {"apart": sum(v["apart"] for v in clips.values()), "clips": len(clips), "auroc": {k: round(v["auroc"], 3) for k, v in clips.items()},
            **{corpus: {"events": of(corpus, "events"), "hours": round(of(corpus, "hours"), 3),
                        "share_above": of(corpus, "seconds_above") / max(1, of(corpus, "seconds"))} for corpus in ("eegmat", "eegmmidb")},
            "shipped": [[round(h["shipped"][k], 2) for k in ("inside", "outside", "above")] for h in halves],
            "sparcnet": [round(h["sparcnet"]["auroc"], 3) for h in halves], "temperature": [round(h["temperature"], 2) for h in halves]}


def show(result):
    s = summary(list(result["halves"].values()))
    print(f"{result['arm']:<20} seed {result['seed']}  apart {s['apart']} of {s['clips']}  AUROC " + " ".join(f"{a:.2f}" for a in s["auroc"].values())
          + f" mean {np.mean(list(s['auroc'].values())):.3f}" + "".join(
              f"  {c} {s[c]['events']} events in {s[c]['hours']:.2f} h, {100 * s[c]['share_above']:.2f} % of s" for c in ("eegmat", "eegmmidb"))
          + "  sparcnet " + " ".join(f"{a:.2f}" for a in s["sparcnet"])
          + "  examples " + " ".join(f"{a:.2f}/{b:.2f} ({100 * c:.0f} %)" for a, b, c in s["shipped"]) + "  T " + " ".join(f"{t:.2f}" for t in s["temperature"]), flush=True)


def keep(o, result):
    show(result)
    if o.json:
        with open(o.json, "a", encoding="utf-8") as f:
            json.dump({"date": datetime.date.today().isoformat(), "machine": platform.machine(), **result,
                       "summary": summary(list(result["halves"].values()))}, f)
            f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="on synthetic EEG alone; 0: none")
    parser.add_argument("--real-steps", type=int, default=120, help="on people and synthetic EEG together")
    parser.add_argument("--share", type=float, default=0.5, help="how far the judged models go from ward, which they began as (tools/model_blend.py); default %(default)s")
    parser.add_argument("--levels", type=int, default=0, help="1: the children at other levels, behind more background and gaps, too (hearing.py)")
    parser.add_argument("--hearing", action="store_true", help="the rows of tests/bench/hearing.py of each model, too")
    parser.add_argument("--weights", type=people_weights, default=WEIGHTS, metavar="CHB,MAT,MMI", help="of the people; default 1,1,1")
    parser.add_argument("--corpora", type=corpora_of, default="rich:6:5:1", metavar="STYLE:PATIENTS:SEIZURES:WEIGHT[:HOURS],...", help="synthetic EEG; default %(default)s")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME [FILE.yaml] [KEY=VALUE ...]")
    parser.add_argument("--model", action="append", default=[], help="judge this model on everybody and train nothing")
    parser.add_argument("--quick", action="store_true", help="leave out eegmat and sparcnet")
    parser.add_argument("--alone", action="store_true", help="without line_length and band_power")
    parser.add_argument("--without", default="", metavar="ELECTRODE,...", help="of the judged recordings, which are then streamed with --partial")
    parser.add_argument("--json", metavar="FILE", help="one object a draw, appended")
    parser.add_argument("--keep", metavar="DIR", help="keep trainings and models here")
    o = parser.parse_args()
    if not os.path.isdir(f"{EEG}/eegmat"):
        print(f"skipped: no EEG recordings at {EEG} (BRR_EEG_DIR)")
        return 77
    without.update(o.without.upper().split(",") if o.without else ())
    everybody = [p for people in HALVES.values() for p in people]
    with temporary() as tmp:
        if o.keep:
            os.makedirs(o.keep, exist_ok=True)
        folder = os.path.abspath(o.keep) if o.keep else tmp
        o.synthetic = f"{folder}/data"
        with daemon(tmp) as d:
            for model in [*([] if o.alone else ["line_length", "band_power"]), *o.model]:
                keep(o, {"arm": os.path.basename(model), "seed": 0, "without": o.without, "halves": {"everybody": judge(d, model, everybody, not o.quick)}})
                if o.hearing:
                    hearing.run(d, model, file=o.json)
                if o.keep:
                    keep_seconds(folder, os.path.basename(model))
        for seed in range(o.first_seed, o.first_seed + (o.seeds if not o.model else 0)):
            for arm in o.arm or ["default"]:
                keep(o, draw(folder, arm, seed, o))
    return 0


if __name__ == "__main__":
    sys.exit(main())

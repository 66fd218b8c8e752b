#!/usr/bin/env python3
"""How well the network sees real seizures of a patient nobody trained on, beside two figures of arithmetic: line length and band power.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/clips.py [--seeds 3] [--arm "NAME [KEY=VALUE ...]" ...] [--json FILE]

Leave one patient out over CHB-MIT clips (BRR_EEG_DIR): a U-Net on windows of 8 s learns on synthetic EEG, goes on learning on the clips of one
child, and is judged on the clips of the other; each arm adds job keys to both trainings, and keys after
"synthetic:" or "real:" to one of them. Of each seizure: the area under the ROC curve
of its seconds against the seconds before it, and "apart" if the mean probability in it is at least 0.3 above the mean before it. Of
recordings without a seizure: the events that the fixed thresholds find. A figure for each draw: nothing is averaged away. The
ten seconds that five clips leave out are held (data.fill_gap_s=10), so that the history reaches from before to the seizure, and masked.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import scipy.signal
import scipy.stats

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
BUILD = os.path.abspath(os.environ.get("BRR_BUILD_DIR", "build"))
os.environ.setdefault("BRR_BIN", os.path.join(BUILD, "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.abspath(os.path.join(HERE, "..", "..")))
from baseline_bandpower import band_powers, read_edf  # noqa: E402
from daemon import BIN, SOURCE, Daemon, temporary  # noqa: E402

EEG = os.environ.get("BRR_EEG_DIR") or os.path.join(SOURCE, "..", "shared", "eeg")
# file: seconds before the seizure, the seizure, in file time
CLIPS = {
    "chb01": {"chb01_03_2986-3036": ((0, 10), (10, 50)), "chb01_04_1457-1494": ((0, 10), (10, 37)),
              "chb01_15_1722-1772": ((0, 10), (10, 50)), "chb01_18_gap_D": ((0, 10), (20, 30)),
              "chb01_21_gap_D": ((0, 10), (20, 30)), "chb01_26_gap_D": ((0, 10), (20, 30))},
    "chb02": {"chb02_16_gap_D": ((0, 10), (20, 30)), "chb02_16plus_gap_D": ((0, 10), (20, 30))},
}
BACKGROUND = ["chbmit/crop301_a_mnelab.edf", "chbmit/crop301_b_mnelab.edf", "format/eegmmidb_S001R01_64ch_160hz.edf", "format/prerau_LE_20ch_350s.edf"]
RATE, APART, ON, OFF = 256, 0.3, 0.86, 0.78
BOTH = ["data.fill_gap_s=10"]
SYNTHETIC = [*BOTH, "data.hop_s=4"]
REAL = [*BOTH, "data.hop_s=0.25", "data.balance.none=1", "training.learning_rate=1e-3"]
LONGEST_S = 4 * 3600


def auroc(positive, negative):
    order = np.concatenate([positive, negative])
    ranks = scipy.stats.rankdata(order)
    n, m = len(positive), len(negative)
    return (ranks[:n].sum() - n * (n + 1) / 2) / (n * m)


def seconds_of(p, spans):
    """Means over the whole seconds of the spans, first and last second of a filter's start included."""
    return [np.nanmean(p[s * RATE:(s + 1) * RATE]) for s in range(*spans)]


def arithmetic(name, before, seizure):
    """Line length (µV per sample, 1–25 Hz, median over channels) and rhythmic band power of each second. A file with a gap is read as
    its two pieces."""
    uv, rate = read_edf(f"{EEG}/chbmit/{name}.edf")
    pieces = (before[0], before[1]), ((10, 20) if "gap" in name else seizure)
    sos = scipy.signal.butter(3, [1, 25], "bandpass", fs=rate, output="sos")
    length, power = [], []
    for first, end in pieces:
        piece = uv[:, int(first * rate):int(end * rate)]
        steps = np.abs(np.diff(scipy.signal.sosfilt(sos, piece - piece[:, :1], axis=1), axis=1, prepend=0))
        n = int(end - first)
        length.append(np.median(steps[:, :int(n * rate)].reshape(len(uv), n, -1).mean(axis=2), axis=0))
        power.append(np.median(np.log(band_powers(piece, rate)["rhythmic"] + 1e-3), axis=0))
    return auroc(length[1], length[0]), auroc(power[1], power[0])


def lay_out(directory, child):
    os.makedirs(directory)
    for name, (_, seizure) in CLIPS[child].items():
        shutil.copy(f"{EEG}/chbmit/{name}.edf", directory)
        with open(f"{directory}/{name}_events.tsv", "w", encoding="utf-8") as f:
            f.write("onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\n")
            f.write(f"{seizure[0]:.2f}\t{seizure[1] - seizure[0]:.2f}\tsz\tn/a\tn/a\tn/a\t{seizure[1]:.2f}\n")


def trace(d, path, model):
    out = f"{d.dir}/trace.npy"
    code, text, err = d.ctl("stream", path, "--model", model, "--probs", out, "--json", timeout=LONGEST_S)
    assert code == 0, err or text
    return np.load(out)


# A U-Net for minutes of EEG: all recordings train, so that thresholds and the best step are not chosen.
FEW = ["data.montage=bipolar-18", "data.validation_fraction=0", "data.window_s=8", "data.hop_s=4", "data.bandpass_hz=[0.5,25]", "training.max_steps=400",
       "training.ema=0", "events.threshold=fixed"]


def train(d, *sets):
    code, end, err = d.submit(*FEW, *sets, file=f"{SOURCE}/configs/tiny.yaml", timeout=LONGEST_S)
    assert code == 0 and end["state"] == "succeeded", (end, err)
    return f"job:{end['job']}"


def false_events(p):
    """Runs of at least 3 s that begin at ON and end below OFF."""
    active, begun, found = False, 0, 0
    for i, v in enumerate(np.nan_to_num(p)):
        if not active and v >= ON:
            active, begun = True, i
        elif active and v < OFF:
            active = False
            found += i - begun >= 3 * RATE
    return int(found + (active and len(p) - begun >= 3 * RATE))


def judge(d, child, model):
    clips = {}
    for name, (before, seizure) in CLIPS[child].items():
        p = trace(d, f"{EEG}/chbmit/{name}.edf", model)
        a, b = seconds_of(p, seizure), seconds_of(p, before)
        clips[name] = {"before": float(np.mean(b)), "seizure": float(np.mean(a)), "auroc": float(auroc(a, b)),
                       "apart": bool(np.mean(a) - np.mean(b) >= APART)}
    background = {}
    for path in BACKGROUND:
        p = trace(d, f"{EEG}/{path}", model)
        background[os.path.basename(path)] = {"mean": float(np.nanmean(p)), "hours": len(p) / RATE / 3600, "events": false_events(p)}
    return {"clips": clips, "background": background}


def keys_of(sets, which):
    """The keys of an arm that belong to the training on `which`, without their prefix."""
    return [key.removeprefix(which + ":") for key in sets if not key.startswith({"real": "synthetic:", "synthetic": "real:"}[which])]


def run(tmp, arm, sets, seed, o):
    """One draw: a synthetic corpus and a training on it, then for each child a training on the other one's clips."""
    folder = f"{tmp}/{arm}-{seed}"
    os.makedirs(folder)
    subprocess.run([f"{BIN}/edfgen", "--out", f"{folder}/synthetic", "--patients", "6", "--hours-per-patient", "0.5",
                    "--seizures-per-patient", "5", "--seed", str(31337 + seed), "--montage", "bipolar"], check=True, stdout=subprocess.DEVNULL)
    d = Daemon(folder).start()
    begin = [] if not o.steps else [
        f"model.init_from={train(d, *SYNTHETIC, f'training.max_steps={o.steps}', f'training.seed={seed}', *keys_of(sets, 'synthetic'), f'data.source=file://{folder}/synthetic')}"]
    result = {"arm": arm, "sets": sets, "seed": seed, "children": {}}
    for child, other in (("chb01", "chb02"), ("chb02", "chb01")):
        lay_out(f"{folder}/without-{child}", other)
        model = train(d, *REAL, f"training.max_steps={o.real_steps}", f"training.seed={seed}", *keys_of(sets, "real"), *begin,
                      f"data.source=file://{folder}/without-{child}")
        result["children"][child] = judge(d, child, model)
    d.stop()
    shutil.rmtree(folder)
    return result


def built_in(tmp):
    """The models without a network, by name. The ten seconds that five clips leave out are a gap for them: their history restarts."""
    d = Daemon(tmp).start()
    for name in ("line_length", "band_power"):
        show({"arm": f"built in: {name}", "seed": 0, "children": {child: judge(d, child, name) for child in CLIPS}})
    d.stop()


def show(result):
    clips = {k: v for c in result["children"].values() for k, v in c["clips"].items()}
    background = [v for c in result["children"].values() for v in c["background"].values()]
    print(f"{result['arm']:<24} seed {result['seed']}  apart {sum(v['apart'] for v in clips.values())} of {len(clips)}  AUROC "
          + " ".join(f"{v['auroc']:.2f}" for v in clips.values())
          + f"  in/before {np.mean([v['seizure'] for v in clips.values()]):.2f}/{np.mean([v['before'] for v in clips.values()]):.2f}"
          + f"  background {np.mean([v['mean'] for v in background]):.2f}, {sum(v['events'] for v in background)} events in "
          + f"{sum(v['hours'] for v in background):.2f} h", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400, help="on synthetic EEG; 0: none")
    parser.add_argument("--real-steps", type=int, default=60, help="on the other child's clips")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME [KEY=VALUE ...]", help="keys of the trainings; default: one without")
    parser.add_argument("--json", metavar="FILE", help="one object a draw, appended")
    o = parser.parse_args()
    if not os.path.isdir(f"{EEG}/chbmit"):
        print(f"skipped: no EEG recordings at {EEG} (BRR_EEG_DIR)")
        return 77
    names = [name for child in CLIPS.values() for name in child]
    print("clips:                          " + " ".join(names))
    figures = [arithmetic(name, *spans) for child in CLIPS.values() for name, spans in child.items()]
    for i, what in enumerate(("line length", "band power")):
        print(f"{what:<24} AUROC of seconds          " + " ".join(f"{f[i]:.2f}" for f in figures))
    with temporary() as tmp:
        built_in(tmp)
    with temporary() as tmp:
        for seed in range(o.first_seed, o.first_seed + o.seeds):
            for arm in o.arm or ["default"]:
                name, *sets = arm.split()
                result = run(tmp, name, sets, seed, o)
                show(result)
                if o.json:
                    with open(o.json, "a", encoding="utf-8") as f:
                        json.dump({"date": datetime.date.today().isoformat(), "machine": platform.machine(), "steps": o.steps,
                                   "real_steps": o.real_steps, **result}, f)
                        f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

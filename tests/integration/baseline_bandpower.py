#!/usr/bin/env python3
"""A seizure detector that only looks at band power, at its very best: every band, channel summary, smoothing, minimum length and
threshold is tried on the test set itself and the best event F1 is reported. A corpus on which this does well needs no network.

usage: baseline_bandpower.py DIR [--json]     (DIR holds *_eeg.edf with *_events.tsv)
As a module: best_f1(DIR[, measure]) -> dict with f1, sensitivity, precision, tp, fp, ref and the settings."""
import json
import os
import pathlib
import sys

import numpy as np

try:
    from scipy.fft import rfft  # in single precision
except ImportError:
    from numpy.fft import rfft

BANDS = {"delta": (1, 4), "rhythmic": (2.5, 8), "theta": (4, 8), "alpha": (8, 13), "beta": (13, 30), "gamma": (30, 55), "broad": (1, 30),
         "all": (1, 55)}
RATIOS = {"rhythmic/broad": ("rhythmic", "all"), "delta/theta": ("delta", "theta"), "theta/delta": ("theta", "delta")}
SUMMARIES = {"mean": lambda p: p.mean(axis=0), "max": lambda p: p.max(axis=0), "top4": lambda p: np.sort(p, axis=0)[-4:].mean(axis=0),
             "median": lambda p: np.median(p, axis=0)}
SMOOTHING_S = (1, 5, 11, 21, 41)
MINIMUM_S = (1, 6, 12)
QUANTILES = 1 - np.logspace(-4, np.log10(0.5), 40)
MERGE_GAP_S, BEFORE_S, AFTER_S, LONGEST_S = 90, 30, 60, 300


def read_edf(path):
    """Signals of one rate (n, samples) in microvolt and the rate; EDF with whole-second records, annotations left out."""
    raw = pathlib.Path(path).read_bytes()
    ns = int(raw[252:256])
    text = raw[256:256 * (ns + 1)].decode("latin-1")

    def column(offset, width):
        return [text[offset * ns + i * width:offset * ns + (i + 1) * width].strip() for i in range(ns)]

    labels, samples = column(0, 16), np.array([int(v) for v in column(216, 8)])
    low, high = np.array([float(v) for v in column(104, 8)]), np.array([float(v) for v in column(112, 8)])
    digital_low, digital_high = np.array([float(v) for v in column(120, 8)]), np.array([float(v) for v in column(128, 8)])
    record_s = float(raw[244:252])
    data = np.frombuffer(raw, "<i2", offset=256 * (ns + 1))
    data = data[:len(data) // samples.sum() * samples.sum()].reshape(-1, samples.sum())
    keep = [i for i in range(ns) if "Annotations" not in labels[i]]
    starts = np.concatenate([[0], np.cumsum(samples)])
    gain = (high - low) / (digital_high - digital_low)
    signals = np.stack([data[:, starts[i]:starts[i + 1]].reshape(-1) * gain[i] + (low[i] - digital_low[i] * gain[i]) for i in keep])
    return signals.astype(np.float32), samples[keep[0]] / record_s


def read_events(path):
    rows = [line.split("\t") for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    head = {name: i for i, name in enumerate(rows[0])}
    return [(float(r[head["onset"]]), float(r[head["onset"]]) + float(r[head["duration"]])) for r in rows[1:]
            if r[head["eventType"]].startswith("sz")]


def band_powers(signals, rate):
    """Power per band, channel and second, from two-second Hann windows."""
    width, hop = int(2 * rate), int(rate)
    seconds = signals.shape[1] // hop
    padded = np.pad(signals, ((0, 0), (hop // 2, width)), mode="edge")
    window, freqs = np.hanning(width).astype(np.float32), np.fft.rfftfreq(width, 1 / rate)
    bins = {name: slice(*np.searchsorted(freqs, edges)) for name, edges in BANDS.items()}
    powers = {name: np.empty((signals.shape[0], seconds), np.float32) for name in BANDS}
    for c in range(signals.shape[0]):
        frames = np.lib.stride_tricks.sliding_window_view(padded[c], width)[::hop][:seconds]
        frames = (frames - frames.mean(axis=1, keepdims=True)) * window
        spectrum = rfft(frames, axis=1)[:, :max(s.stop for s in bins.values())]
        spectrum = spectrum.real ** 2 + spectrum.imag ** 2
        for name, part in bins.items():
            powers[name][c] = spectrum[:, part].sum(axis=1)
    return powers


def line_lengths(signals, rate):
    """Line length per channel and second: the mean step of the signal between 1 and 25 Hz, µV per sample."""
    from scipy import signal  # the other measures need numpy alone
    hop = int(rate)
    seconds = signals.shape[1] // hop
    sos = signal.butter(3, [1, 25], "bandpass", fs=rate, output="sos")
    lengths = np.empty((signals.shape[0], seconds), np.float32)
    for c in range(signals.shape[0]):
        steps = np.abs(np.diff(signal.sosfilt(sos, signals[c] - signals[c, 0]), prepend=0))
        lengths[c] = steps[:seconds * hop].reshape(seconds, hop).mean(axis=1)
    return {"line length": lengths}


def runs_of(mask):
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


def merge_and_split(runs):
    merged = []
    for a, b in runs:
        if merged and a - merged[-1][1] < MERGE_GAP_S:
            merged[-1][1] = max(b, merged[-1][1])
        else:
            merged.append([a, b])
    return [(s, min(s + LONGEST_S, b)) for a, b in merged for s in range(a, b, LONGEST_S)]


def count_events(hyp_mask, ref_runs):
    """SzCORE event counts (tp, fp, ref) of one recording on a one-second grid."""
    ref, hyp = merge_and_split(ref_runs), merge_and_split(runs_of(hyp_mask))
    covered, positive = np.zeros(len(hyp_mask), bool), np.zeros(len(hyp_mask), bool)
    for a, b in hyp:
        positive[a:b] = True
    tp = 0
    for a, b in ref:
        window = slice(max(0, a - BEFORE_S), b + AFTER_S)
        if positive[window].any():
            tp += 1
            covered[window] = True
    fp = sum(not covered[a:b].any() for a, b in hyp)
    return np.array([tp, fp, len(ref)])


def drop_short(mask, minimum):
    if minimum > 1:
        for a, b in runs_of(mask):
            if b - a < minimum:
                mask[a:b] = False
    return mask


def count_thresholds(trace, thresholds, ref_runs):
    """count_events of drop_short(trace > threshold, minimum) for every threshold and every one of MINIMUM_S, (thresholds, minima, 3), all
    thresholds at once."""
    n, width = len(thresholds), len(trace) + 2
    above = np.zeros((n, width), np.int8)
    above[:, 1:-1] = trace > thresholds[:, None]
    steps = np.diff(above.reshape(-1))
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    counts = np.zeros((n, len(MINIMUM_S), 3), int)
    ref = merge_and_split(ref_runs)
    for m, minimum in enumerate(MINIMUM_S):
        long = ends - starts >= minimum
        first, last = starts[long], ends[long]
        row = first // width
        apart = np.append(True, (row[1:] != row[:-1]) | (first[1:] - last[:-1] >= MERGE_GAP_S)) if len(first) else np.zeros(0, bool)
        begin, end = first[apart], last[np.append(apart[1:], True)] if len(first) else last
        pieces = -(-(end - begin) // LONGEST_S)
        row, index = np.repeat(begin // width, pieces), np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        begin = np.repeat(begin, pieces) + LONGEST_S * index
        end = np.minimum(begin + LONGEST_S, np.repeat(end, pieces)) - row * width
        begin = begin - row * width
        covered = np.zeros(len(row), bool)
        for a, b in ref:
            near = (begin < b + AFTER_S) & (end > max(0, a - BEFORE_S))
            covered |= near
            counts[:, m, 0] += np.bincount(row[near], minlength=n) > 0
        counts[:, m, 1] = np.bincount(row[~covered], minlength=n)
        counts[:, m, 2] = len(ref)
    return counts


def smooth(x, seconds):
    return x if seconds == 1 else np.convolve(np.pad(x, seconds // 2, mode="edge"), np.ones(seconds) / seconds, mode="valid")


def load(directory, measure=band_powers):
    """[(patient, values per measure (channels, seconds), reference runs in whole seconds)]"""
    recordings = []
    for folder, _, files in sorted(os.walk(directory)):
        for name in sorted(files):
            if name.endswith("_eeg.edf"):
                path = os.path.join(folder, name)
                powers = measure(*read_edf(path))
                events = [(int(a), int(b)) for a, b in read_events(path.replace("_eeg.edf", "_events.tsv"))]
                recordings.append((name.split("_")[0], powers, events))
    if not recordings:
        raise SystemExit(f"{directory}: no *_eeg.edf below it")
    return recordings


def features(recordings):
    """Yield (name, [trace per recording]): robust z-scores of log power within each patient."""
    known = recordings[0][1]
    for name in [*known, *(name for name, pair in RATIOS.items() if set(pair) <= set(known))]:
        for summary, reduce in SUMMARIES.items():
            traces = []
            for _, powers, _ in recordings:
                if name in known:
                    value = np.log(powers[name] + 1e-3)
                else:
                    value = np.log(powers[RATIOS[name][0]] + 1e-3) - np.log(powers[RATIOS[name][1]] + 1e-3)
                traces.append(reduce(value))
            for patient in {r[0] for r in recordings}:
                mine = [i for i, r in enumerate(recordings) if r[0] == patient]
                pooled = np.concatenate([traces[i] for i in mine])
                center = np.median(pooled)
                spread = np.median(np.abs(pooled - center)) + 1e-6
                for i in mine:
                    traces[i] = (traces[i] - center) / spread
            yield f"{name} {summary}", traces


def score(counts):
    tp, fp, ref = (float(v) for v in counts)
    return {"f1": 2 * tp / (tp + fp + ref) if tp + fp + ref else float("nan"), "sensitivity": tp / ref if ref else float("nan"),
            "precision": tp / (tp + fp) if tp + fp else float("nan"), "tp": int(tp), "fp": int(fp), "ref": int(ref)}


def best_f1(directory, measure=band_powers):
    recordings = load(directory, measure)
    best = {"f1": -1.0}
    for name, traces in features(recordings):
        for seconds in SMOOTHING_S:
            smoothed = [smooth(t, seconds) for t in traces]
            thresholds = np.unique(np.quantile(np.concatenate(smoothed), QUANTILES))
            counts = sum(count_thresholds(t, thresholds, r[2]) for t, r in zip(smoothed, recordings))
            f1 = 2 * counts[..., 0] / np.maximum(counts.sum(axis=2), 1)
            i, m = np.unravel_index(np.argmax(f1), f1.shape)
            if f1[i, m] > best["f1"]:
                best = dict(score(counts[i, m]), feature=name, smoothing_s=seconds, minimum_s=MINIMUM_S[m], threshold=float(thresholds[i]))
    return best


def main():
    arguments = [a for a in sys.argv[1:] if a != "--json"]
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    best = best_f1(arguments[0])
    if "--json" in sys.argv:
        print(json.dumps(best))
    else:
        print(f"best band-power event F1 {best['f1']:.3f}: {best['tp']} of {best['ref']} seizures, {best['fp']} false alarms "
              f"({best['feature']}, smoothed over {best['smoothing_s']} s, at least {best['minimum_s']} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

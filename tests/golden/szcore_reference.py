"""Seizure scores written down a second time, from the published definitions alone: SzCORE event and sample scores (Dan et al. 2024,
with the F1 definition of 2026-01-16) by boolean masks, and the NEDC any-overlap and time-aligned (TAES) event scores (Shah et al.
2021) by exact fractions. Slow and plain on purpose; the C scores are compared with it."""
import math
from fractions import Fraction

import numpy as np

MERGE_S, SPLIT_S, BEFORE_S, AFTER_S, HZ = 90, 300, 30, 60, 10
KINDS = ("event", "sample", "any_overlap", "taes")


def seconds_mask(events, duration):
    """One value per whole second; onset and end cut to whole seconds."""
    mask = np.zeros(int(duration), dtype=bool)
    for onset, end in events:
        mask[int(onset):max(int(end), 0)] = True
    return mask


def runs(mask):
    """(start, stop) of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def merged_and_split(mask):
    """Mask at 10 Hz → runs with gaps below 90 s closed, cut into pieces of at most 300 s."""
    joined = mask.copy()
    found = runs(mask)
    for (_, stop), (start, _) in zip(found, found[1:]):
        if start - stop < MERGE_S * HZ:
            joined[stop:start] = True
    pieces = []
    for start, stop in runs(joined):
        pieces += [(at, min(at + SPLIT_S * HZ, stop)) for at in range(start, stop, SPLIT_S * HZ)]
    return joined, pieces


def event_counts(ref, hyp, duration):
    ref_mask, hyp_mask = (np.repeat(seconds_mask(e, duration), HZ) for e in (ref, hyp))
    _, ref_pieces = merged_and_split(ref_mask)
    hyp_joined, hyp_pieces = merged_and_split(hyp_mask)
    near_hits = np.zeros(len(ref_mask), dtype=bool)
    tp = 0
    for start, stop in ref_pieces:
        window = slice(max(0, start - BEFORE_S * HZ), min(len(ref_mask), stop + AFTER_S * HZ))
        if hyp_joined[window].mean() > 1e-6:
            tp += 1
            near_hits[window] = True
    fp = sum(not near_hits[start:stop].any() for start, stop in hyp_pieces)
    return tp, fp, len(ref_pieces) - tp, len(ref_pieces)


def sample_counts(ref, hyp, duration):
    r, h = seconds_mask(ref, duration), seconds_mask(hyp, duration)
    return int((r & h).sum()), int((~r & h).sum()), int((r & ~h).sum()), int(r.sum())


def tidy(events):
    """Sorted; overlapping ones joined; those without length left out. As exact fractions."""
    out = []
    for onset, end in sorted((Fraction(a), Fraction(b)) for a, b in events if b > a):
        if out and onset < out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((onset, end))
    return out


def touch(a, b):
    return a[0] < b[1] and b[0] < a[1]


def any_overlap_counts(ref, hyp, _duration):
    ref, hyp = tidy(ref), tidy(hyp)
    hits = sum(any(touch(r, h) for h in hyp) for r in ref)
    false = sum(not any(touch(r, h) for r in ref) for h in hyp)
    return hits, false, len(ref) - hits, len(ref)


def taes_counts(ref, hyp, _duration):
    ref, hyp = tidy(ref), tidy(hyp)
    open_refs, open_hyps = set(range(len(ref))), set(range(len(hyp)))
    tp = fp = Fraction(0)

    def credit(i, k):
        nonlocal tp, fp
        (a, b), (c, d) = ref[i], hyp[k]
        inside = min(b, d) - max(a, c)
        tp += inside / (b - a)
        fp += min(Fraction(1), ((d - c) - inside) / (b - a))
        open_hyps.discard(k)

    for i, r in enumerate(ref):
        if i not in open_refs:
            continue
        mine = [k for k in sorted(open_hyps) if touch(r, hyp[k])]
        if not mine:
            continue
        open_refs.discard(i)
        if hyp[mine[0]][1] >= r[1]:
            credit(i, mine[0])
            open_refs -= {j for j in range(i + 1, len(ref)) if touch(ref[j], hyp[mine[0]])}
        else:
            for k in mine:
                credit(i, k)
    fp += len(open_hyps)
    return float(tp), float(fp), len(ref) - float(tp), len(ref)


COUNTERS = {"event": event_counts, "sample": sample_counts, "any_overlap": any_overlap_counts, "taes": taes_counts}


def scores(tp, fp, fn, ref, seconds):
    nan = math.nan
    return {
        "sensitivity": tp / ref if ref else nan,
        "precision": tp / (tp + fp) if tp + fp else nan,
        "f1": 2 * tp / (2 * tp + fp + fn) if ref + fp else nan,
        "false_alarms_per_24h": fp / (seconds / 86400) if seconds else nan,
        "tp": tp, "fp": fp, "ref": ref,
    }


def nan_mean(values):
    values = [v for v in values if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def evaluate(recordings):
    """recordings: dicts name, subject, duration, ref, hyp → {"pooled", "per_subject", "subject_mean"}."""
    per_subject = {}
    for rec in recordings:
        sums = per_subject.setdefault(rec["subject"], {k: np.zeros(5) for k in KINDS})
        for kind in KINDS:
            seconds = int(rec["duration"]) if kind in ("event", "sample") else rec["duration"]
            sums[kind] += [*COUNTERS[kind](rec["ref"], rec["hyp"], rec["duration"]), seconds]
    result = {
        "per_subject": {s: {k: scores(*map(float, sums[k])) for k in KINDS} for s, sums in per_subject.items()},
        "pooled": {k: scores(*map(float, sum(sums[k] for sums in per_subject.values()))) for k in KINDS},
    }
    result["subject_mean"] = {
        k: {m: nan_mean([s[k][m] for s in result["per_subject"].values()])
            for m in ("sensitivity", "precision", "f1", "false_alarms_per_24h")} for k in KINDS}
    return result

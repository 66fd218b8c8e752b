#!/usr/bin/env python3
"""The rejecter of events and its search equal a second implementation in NumPy: the fit on random features, and on random recordings
the events of the sensitive pair, the bias with the best F1, the patients left out one at a time, and the decision. BRR_TEST_SEED
repeats a run."""
import json
import math
import os
import random
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import szcore_reference  # noqa: E402
from seed import test_seed  # noqa: E402

FITS, SEARCHES, LEAST, RATE, MAX_S = 60, 60, 3, 256, 20
PAIRS = [(0.9, 0.85), (0.6, 0.55), (0.6, 0.3), (0.3, 0.2)]


def fit(features, labels):
    """Bias and weights by iteratively reweighted least squares, with a ridge of 1 on the weights of standardised features."""
    x, y = np.array(features, float).reshape(-1, 3), np.array(labels, float)
    if y.sum() < LEAST or (1 - y).sum() < LEAST:
        return None
    mean, sd = x.mean(0), x.std(0)
    sd[sd < 1e-5] = 1
    rows = np.column_stack([np.ones(len(x)), (x - mean) / sd])
    ridge, w = np.diag([0.0, 1, 1, 1]), np.zeros(4)

    def loss(v):
        z = rows @ v
        return np.logaddexp(0, np.where(y > 0, -z, z)).sum() + v @ ridge @ v / 2
    for _ in range(500):
        q = 1 / (1 + np.exp(-rows @ w))
        target = np.linalg.lstsq(rows.T @ (rows * (q * (1 - q))[:, None]) + ridge, rows.T @ (q - y) + ridge @ w, rcond=None)[0]
        step = 1.0
        while step > 1e-12 and loss(w - step * target) > loss(w):
            step /= 2
        w = w - step * target
        if np.abs(target).max() < 1e-12:
            break
    weights = w[1:] / sd
    return np.array([w[0] - weights @ mean, *weights])


def log_odds(p):
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


class Search:
    """The same search over recordings {"subject", "duration", "ref", "events"}."""

    def __init__(self, recordings, on, off):
        self.recordings, self.counts = recordings, {}
        self.items = []  # (recording, span, features, counts as a seizure, counts at all)
        for r, rec in enumerate(recordings):
            for a, b, high, low in rec["events"]:
                first, end = int(a * RATE), int(b * RATE)
                half = first + (end - first) // 2
                if float(np.float32(high)) < on:
                    continue
                stop = end if float(np.float32(low)) >= off else half
                p = np.repeat(np.float32([high, low]), [half - first, end - half])[:stop - first][:MAX_S * RATE].astype(float)
                features = (log_odds(p.mean()), log_odds(p.max()), math.log(len(p) / RATE))
                span = (first / RATE, stop / RATE)
                tp, fp, *_ = szcore_reference.event_counts(rec["ref"], [span], rec["duration"])
                self.items.append((r, span, features, tp > 0, tp + fp > 0))

    def count(self, r, kept):
        """tp, fp, fn of a recording with so many of the items."""
        key = r, frozenset(i for i in kept if self.items[i][0] == r)
        if key not in self.counts:
            rec = self.recordings[r]
            self.counts[key] = np.array(szcore_reference.event_counts(rec["ref"], sorted(self.items[i][1] for i in key[1]), rec["duration"])[:3])
        return self.counts[key]

    def pooled(self, recordings, kept):
        return sum((self.count(r, kept) for r in recordings), np.zeros(3, int))

    def fit(self, subjects):
        """The rejecter of these patients."""
        own = [i for i, item in enumerate(self.items) if self.recordings[item[0]]["subject"] in subjects]
        scored = [self.items[i] for i in own if self.items[i][4]]
        w = fit([item[2] for item in scored], [item[3] for item in scored])
        if w is None:
            return None
        sums = {i: self.sum(w, i) for i in own}
        levels = sorted(set(sums.values()))
        cuts = [levels[0] - 1] + [(a + b) / 2 for a, b in zip(levels, levels[1:])]
        recordings = [r for r, rec in enumerate(self.recordings) if rec["subject"] in subjects]
        scores = [f1(self.pooled(recordings, [i for i in own if sums[i] >= cut])) for cut in cuts]
        best = [cut for cut, score in zip(cuts, scores) if score > max(scores) - 1e-9]
        distances = [abs(cut - (best[0] + best[-1]) / 2) for cut in best]
        w[0] -= next(cut for cut, d in zip(best, distances) if d < min(distances) + 1e-9)
        return w

    def sum(self, w, i):
        return w[0] + w[1:] @ np.array(self.items[i][2])

    def leave_out(self):
        """tp, fp, fn with each patient's events under the others' rejecter; None if one cannot be left out."""
        subjects = {rec["subject"] for rec in self.recordings}
        total = np.zeros(3, int)
        for subject in subjects:
            own = [i for i, item in enumerate(self.items) if self.recordings[item[0]]["subject"] == subject]
            w = self.fit(subjects - {subject}) if own else None
            if own and w is None:
                return None
            kept = [i for i in own if self.sum(w, i) >= 0]
            total += self.pooled([r for r, rec in enumerate(self.recordings) if rec["subject"] == subject], kept)
        return total


def f1(counts):
    tp, fp, fn = map(float, counts)
    return 2 * tp / (2 * tp + fp + fn)


def random_events(rng):
    n = rng.choice([5, 6, 7, 20, 200])
    sides = [True] * 3 + [False] * rng.choice([2, 3, 3]) + [rng.random() < 0.4 for _ in range(n)]
    apart, constant = rng.choice([0, 0.5, 2, 20]), rng.random() < 0.2
    scale = [10 ** rng.uniform(-2, 2) for _ in range(3)]
    return [([0.5 if constant and j == 2 else (rng.gauss(0, 1) + apart * side) * scale[j] for j in range(3)], side) for side in sides]


def random_recordings(rng):
    """Seizures that are mostly found, some of them faintly, and false events that are mostly short and faint."""
    recordings, difference = [], rng.choice([0, 0.5, 1, 1])
    for k in range(rng.randrange(1, 9)):
        duration = rng.choice([1200, 3000, 3600.5])
        rec = {"subject": f"sub-{rng.randrange(5)}", "duration": duration, "ref": [], "events": []}
        at = rng.uniform(20, 200)
        while at < duration - 150:
            seizure = rng.random() < 0.4
            alike = rng.random() > difference
            length = rng.uniform(15, 90) if seizure or alike else rng.uniform(1, 12)
            high = rng.uniform(0.55, 0.999) if seizure or alike else rng.uniform(0.4, 0.97)
            low = high * rng.choice([1, 0.95, 0.8, 0.5])
            if seizure:
                rec["ref"].append((round(at, 2), round(at + rng.uniform(10, 60), 2)))
            if not seizure or rng.random() < 0.9:
                onset = round(at * RATE) / RATE
                rec["events"].append((onset, onset + round(length * RATE) / RATE, round(high, 4), round(low, 4)))
            at += length + rng.uniform(70, 400)
        recordings.append(rec)
    return recordings


def search_lines(recordings, target):
    for rec in recordings:
        yield f"recording\t{rec['subject']}\t{rec['duration']!r}"
        yield from (f"ref\t{a!r}\t{b!r}" for a, b in rec["ref"])
        yield from (f"event\t{a!r}\t{b!r}\t{high!r}\t{low!r}" for a, b, high, low in rec["events"])
    yield from (f"pair\t{on}\t{off}" for on, off in PAIRS)
    yield f"search\t{target}"


def close(a, b):
    return abs(a - b) <= 1e-6 * max(1, abs(a), abs(b))


def weights(r):
    return [r["bias"], r["mean"], r["peak"], r["duration"]]


def check_fit(events, got):
    want = fit([e[0] for e in events], [e[1] for e in events])
    if want is None:
        assert "a fit takes at least 3 of each" in got, got
    else:
        scale = [1] + [np.std([e[0][j] for e in events]) for j in range(3)]
        assert all(close(a * s, b * s) for a, b, s in zip(weights(got), want, scale)), (got, want)
    return want is not None


def sensitive_pair(recordings):
    """Most seizures, fewest false alarms, of those with at most 24 false alarms in 24 h or one per seizure."""
    rows = []
    for on, off in PAIRS:
        s = Search(recordings, on, off)
        tp, fp, fn = s.pooled(range(len(recordings)), range(len(s.items)))
        hours = sum(int(rec["duration"]) for rec in recordings) / 3600
        if tp and fp <= max(hours, tp + fn):
            rows.append((tp, -fp, on, off, s))
    if not rows:
        return None
    best = max(row[:2] for row in rows)
    return [row[2:] for row in rows if row[:2] == best]  # the sample F1 decides among equals


def check_search(recordings, target, got):
    """Returns what became of the rejecter."""
    pairs = sensitive_pair(recordings)
    if "usual" not in got:
        assert pairs is None and not got["used"] and "no pair" in got["why"], (pairs, got)
        return "no pair"
    s = {row[:2]: row[2] for row in pairs}[got["on"], got["off"]]
    usual = Search(recordings, got["usual"]["on"], got["usual"]["off"])
    counts = usual.pooled(range(len(recordings)), range(len(usual.items)))
    assert [got["usual"]["found"], got["usual"]["false_events"]] == list(counts[:2]) and close(f1(counts), got["usual"]["event_f1"]), (got, counts)
    total = s.leave_out()
    if total is None:
        assert not got["used"] and "left_out" not in got and "a fit takes at least 3 of each" in got["why"], got
        return "too few"
    true = sum(item[3] for item in s.items)
    assert (got["true_events"], got["false_events"]) == (true, sum(item[4] for item in s.items) - true), got
    assert [got["left_out"]["found"], got["left_out"]["false_events"]] == list(total[:2]), (got, total)
    allowed = max(math.ceil(target * sum(int(rec["duration"]) for rec in recordings) / 86400), counts[1]) if target else math.inf
    better = f1(total) > f1(counts) + 1e-9 or (f1(total) > f1(counts) - 1e-9 and total[1] < counts[1])
    assert got["used"] == (better and total[1] <= allowed) == (not got["why"]), (got, total, counts)
    if got["used"]:
        want = s.fit({rec["subject"] for rec in recordings})
        assert all(close(a, b) for a, b in zip(weights(got["rejecter"]), want)), (got, want)
        return "used"
    return "target" if better else "worse"


def main():
    seed = test_seed()
    rng = random.Random(seed)
    fits = [random_events(rng) for _ in range(FITS)]
    searches = [(random_recordings(rng), rng.choice([0, 0, 5, 20])) for _ in range(SEARCHES)]
    lines = [line for events in fits for line in [*(f"labelled\t{x[0]!r}\t{x[1]!r}\t{x[2]!r}\t{int(y)}" for x, y in events), "fit"]]
    lines += [line for s in searches for line in search_lines(*s)]
    driver = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "rejecter_driver")
    done = subprocess.run([driver], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"seed {seed}: {driver} ended with {done.returncode}: {done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == FITS + SEARCHES, len(answers)
    fitted = sum(check_fit(events, got) for events, got in zip(fits, answers))
    outcomes = [check_search(*s, got) for s, got in zip(searches, answers[FITS:])]
    print(f"seed {seed}: {fitted} fits, searches: {({o: outcomes.count(o) for o in sorted(set(outcomes))})}")
    assert fitted > FITS / 2 and outcomes.count("used") > 1 and outcomes.count("too few") + outcomes.count("worse") > 1, outcomes
    return 0


if __name__ == "__main__":
    sys.exit(main())

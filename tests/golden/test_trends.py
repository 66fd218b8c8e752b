#!/usr/bin/env python3
"""The trends of lib/plot/trends against NumPy written from docs/trends.md, to 1e-6: noise, rhythms on one side, suppressed stretches, zeros, a
gap. Skips without NumPy."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: package: NumPy (python3-numpy) is not installed")
    sys.exit(77)

PROGRAM = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "trends_driver")
RATE, EPOCH = 256, 2560
LEFT, RIGHT, AEEG = slice(0, 8), slice(8, 16), {"left": 6, "right": 10}


def spectrum(x):
    """One-sided density (channels, 257) of x (2560, channels)."""
    w = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
    total = 0
    for start in range(0, EPOCH - 511, 256):
        piece = x[start:start + 512]
        f = np.fft.rfft((piece - piece.mean(axis=0)) * w[:, None], axis=0)
        total = total + np.abs(f) ** 2
    density = total / 9 / (RATE * np.sum(w * w))
    density[1:-1] *= 2
    return density.T


def aeeg(x):
    f = np.fft.fft(np.concatenate([x - x.mean(), np.zeros(4096 - EPOCH)]))
    hz = np.abs(np.fft.fftfreq(4096, 1 / RATE))
    y = np.fft.ifft(np.where((hz >= 2) & (hz <= 15), f, 0)).real[:EPOCH]
    peaks = np.abs(y).reshape(20, 128).max(axis=1)
    return np.percentile(peaks, [10, 90])


def suppressed(x):
    count = 0
    for c in range(x.shape[1]):
        quiet = np.concatenate([[0], (np.abs(x[:, c]) <= 5).astype(int), [0]])
        edges = np.flatnonzero(np.diff(quiet))
        runs = edges[1::2] - edges[::2]
        count += runs[runs >= 128].sum()
    return count / x.size


def trends(x):
    row = {}
    for side, c in AEEG.items():
        row[f"aeeg_{side}_low"], row[f"aeeg_{side}_high"] = aeeg(x[:, c])
    p, hz = spectrum(x), np.arange(257) / 2
    sides = {"left": p[LEFT].mean(axis=0), "right": p[RIGHT].mean(axis=0)}
    power = lambda q, low, high: q[(hz >= low) & (hz < high)].sum() * 0.5
    for side, q in sides.items():
        for band, (low, high) in {"delta": (0.5, 4), "theta": (4, 8), "alpha": (8, 13), "beta": (13, 30)}.items():
            row[f"{band}_{side}"] = power(q, low, high)
        inside = (hz >= 1) & (hz <= 25)
        best = np.flatnonzero(inside)[np.argmax(q[inside])]
        row[f"rhythmicity_{side}"] = q[best - 1:best + 2].sum() / q[inside].sum() if q[inside].sum() else 0
        row[f"rhythm_hz_{side}"] = hz[best]
    left, right = power(sides["left"], 1, 18), power(sides["right"], 1, 18)
    row["asymmetry"] = (right - left) / (right + left) if right + left else 0
    row["suppression_ratio"] = suppressed(x)
    head = p.mean(axis=0)
    for f in range(1, 21):
        row[f"csa_{f:02d}"] = 10 * np.log10(max((head[2 * f - 1] + head[2 * f]) / 2, 1e-12))
    return row


def cases():
    rng, t = np.random.default_rng(8), np.arange(EPOCH) / RATE
    noise = rng.normal(0, 20, (EPOCH, 18)).cumsum(axis=0) * 0.1 + rng.normal(0, 5, (EPOCH, 18))
    rhythm = noise.copy()
    rhythm[:, RIGHT] += 80 * np.sin(2 * np.pi * 3.5 * t)[:, None]
    bursts = rng.normal(0, 40, (EPOCH, 18)) * (np.floor(t) % 3 == 0)[:, None]
    gap = noise.copy()
    gap[100, 3] = np.nan
    return [noise, rhythm, bursts, np.zeros((EPOCH, 18)), gap]


def main():
    x = np.array(cases(), "<f4")
    with tempfile.NamedTemporaryFile() as f:
        f.write(x.tobytes())
        f.flush()
        lines = subprocess.run([PROGRAM, f.name], check=True, capture_output=True, text=True).stdout.splitlines()
    names = lines[0].split("\t")
    assert len(lines) == len(x) + 1, lines
    for i, epoch in enumerate(x.astype("f8")):
        values = dict(zip(names, map(float, lines[i + 1].split("\t"))))
        if np.isnan(epoch).any():
            assert all(np.isnan(v) for v in values.values()), values
            continue
        expected = trends(epoch)
        assert list(expected) and set(expected) == set(names), set(expected) ^ set(names)
        for name in names:
            assert abs(values[name] - expected[name]) <= 1e-6 * max(1, abs(expected[name])), (i, name, values[name], expected[name])
    print(f"{len(names)} columns of {len(x)} epochs agree to 1e-6")


if __name__ == "__main__":
    main()

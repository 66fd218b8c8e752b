"""The frontend's filters against scipy: same chain, float64, steady-state start, then rounded to binary16."""
import os
import subprocess
import sys

try:
    import numpy as np
    from scipy import signal
except ImportError:
    print("skipped: package: numpy and scipy are not installed")
    sys.exit(77)

PROGRAM = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "test_frontend")
BOTH = 5060.0  # FRONTEND_BOTH_NOTCHES


def ours(x, rate, notch):
    out = subprocess.run([PROGRAM, "--filter", repr(rate), repr(notch)], input=x.astype("<f4").tobytes(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(out.stdout, "<f2")


def theirs(x, notch):
    x = x.astype(np.float64)
    sos = signal.butter(3, [0.5, 120], "bandpass", fs=256, output="sos")
    y, _ = signal.sosfilt(sos, x, zi=signal.sosfilt_zi(sos) * x[0])
    for hz in {0: (), BOTH: (50, 60)}.get(notch, (notch,)):
        b, a = signal.iirnotch(hz, 30, 256)
        y, _ = signal.lfilter(b, a, y, zi=signal.lfilter_zi(b, a) * y[0])
    return np.clip(y, -60000, 60000)


def check(name, got, expected, tolerance):
    error = np.max(np.abs(got.astype(np.float64) - expected) / tolerance)
    print(f"{name}: {len(got)} samples, worst error {error:.3f} of the tolerance")
    assert len(got) == len(expected), (len(got), len(expected))
    assert error <= 1, name


def half_step(y):
    """Half a unit in the last place of binary16, and a little for ties."""
    return 0.5001 * np.maximum(2.0 ** (np.floor(np.log2(np.maximum(np.abs(y), 2.0**-14))) - 10), 2.0**-24) + 1e-9


def main():
    rng = np.random.default_rng(7)
    n = 256 * 120
    x = (rng.normal(0, 80, n) + 5000 + 40 * np.sin(2 * np.pi * 50 * np.arange(n) / 256)).astype(np.float32)
    for notch in (0.0, 50.0, 60.0, BOTH):
        y = theirs(x, notch)
        check(f"256 Hz, notch {notch:g}", ours(x, 256.0, notch), y, half_step(y))
    # Other rates: tones that both rates hold exactly; what the filters make of the samples at 256 Hz is the reference.
    for rate in (200.0, 250.0, 487.5, 500.0, 512.0, 1000.0, 2048.0):
        tones = [(2.5, 100.0), (17.0, 60.0), (43.0, 30.0), (88.0, 20.0)]

        def wave(t):
            return sum(a * np.sin(2 * np.pi * f * t + f) for f, a in tones) + 300

        seconds = 40
        source = wave(np.arange(int(rate * seconds)) / rate).astype(np.float32)
        y = theirs(wave(np.arange(int(256 * seconds)) / 256), 50.0)
        got = ours(source, rate, 50.0)
        assert len(got) == len(y)
        keep = slice(256 * 8, -256)  # the edge of the resampler rings through the 0.5 Hz filter
        check(f"{rate:g} Hz", got[keep], y[keep], np.full(len(y[keep]), 0.15))  # of an amplitude of 210 µV, binary16 step 0.125


main()

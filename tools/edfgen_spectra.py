#!/usr/bin/env python3
"""The background of people as traits of edfgen: prints the means and deviations that tools/edfgen/plan_rich.c draws its patients from.

    /usr/bin/python3 tools/edfgen_spectra.py EEG        (EEG: folders eegmat and eegmmidb, as tools/ward_data.py reads them)

Of each recording the spectra of the double banana's channels (4 s, the median over time, then over channels) are fitted by the spectrum that edfgen
renders for an awake patient: 1/f noise of a slope, an alpha rhythm, muscle noise and an amplitude. A person's traits are the means over recordings,
those of alpha over recordings with closed eyes. Only means and deviations over people are printed. eegmat ends below 30 Hz, so muscle is eegmmidb's.
"""
import os
import re
import sys

import numpy as np
import scipy.optimize
import scipy.signal

import ward_data

RATE, POLES, TWO_PI = 256, 5, 2 * np.pi
HERE = os.path.dirname(os.path.abspath(__file__))
CHAINS = ("Fp1 F7 T3 T5 O1", "Fp1 F3 C3 P3 O1", "Fp2 F4 C4 P4 O2", "Fp2 F8 T4 T6 O2", "Fz Cz Pz")
PAIRS = [pair for chain in CHAINS for pair in zip(chain.split(), chain.split()[1:])]
NEWER = {"T7": "T3", "T8": "T4", "P7": "T5", "P8": "T6"}
REGIONS = ((-.5, .7, .5), (.5, .7, .5), (-.9, -.1, .5), (.9, -.1, .5), (0, 0, .6), (-.4, -.8, .5), (.4, -.8, .5))
CLOSED = re.compile(r"Subject\d\d_1\.|R02")  # recordings with closed eyes


def scalp():
    with open(f"{HERE}/edfgen/scalp.c", encoding="utf-8") as f:
        found = re.findall(r'\{"(\w+)", (-?[\d.]+)f?, (-?[\d.]+)f?\}', f.read())
    return {name: (float(x), float(y)) for name, x, y in found}


XY = scalp()
HZ = np.arange(8, 153) / 4  # 2 to 38 Hz
Z = np.exp(-1j * TWO_PI * HZ / RATE)


def weights(x, y, sigma):
    w = {c: np.exp(-((cx - x) ** 2 + (cy - y) ** 2) / (2 * sigma ** 2)) for c, (cx, cy) in XY.items()}
    return {c: v / max(w.values()) for c, v in w.items()}


def place():
    """Of each pair of electrodes the power of the 1/f noise and of alpha, and of its electrodes the share of muscle (tools/edfgen/render.c)."""
    regions = [weights(*r) for r in REGIONS]
    scale = {c: .8 / np.sqrt(sum(r[c] ** 2 for r in regions)) for c in XY}
    alpha = [weights(side * .35, -.9, .6) for side in (-1, 1)]
    noise = [2 * .36 + sum((r[a] * scale[a] - r[b] * scale[b]) ** 2 for r in regions) for a, b in PAIRS]
    return np.array([(n, .64 * sum((w[a] - w[b]) ** 2 for w in alpha), *(.3 + XY[c][0] ** 2 for c in (a, b))) for n, (a, b) in zip(noise, PAIRS)])


PLACE = place()


def of_unit_variance(response, of):
    """One-sided density at HZ of white noise behind `response`, scaled to a variance of 1."""
    every = np.abs(response(np.exp(-1j * TWO_PI * np.arange(2 ** 15) / 2 ** 15), of)) ** 2
    return 2 / RATE * np.abs(response(Z, of)) ** 2 / np.mean(every)


def pink(z, slope):
    keep = [np.exp(-TWO_PI * .3 * 4.0 ** k / RATE) for k in range(POLES)]
    return sum(slope ** k * np.sqrt(1 - q * q) / (1 - q * z) for k, q in enumerate(keep))


def rhythm(z, hz):
    decay, turn = np.exp(-np.pi * .9 / RATE), TWO_PI * hz / RATE
    return (1 - decay * np.cos(turn) * z) / (1 - 2 * decay * np.cos(turn) * z + decay ** 2 * z ** 2)


def rendered(traits):
    """What edfgen renders for these traits, as measured() measures it."""
    rms, slope, hz, alpha, muscle = np.exp(traits[0]), traits[1], traits[2], np.exp(traits[3]), np.exp(traits[4])
    noise, waves = of_unit_variance(pink, slope), of_unit_variance(rhythm, hz)
    local = [np.abs(muscle * PLACE[:, i, None] * (1 - Z) + .025 / (1 - .9995 * Z)) ** 2 / 3 * 2 / RATE for i in (2, 3)]
    return np.median(rms ** 2 * (PLACE[:, :1] * noise + PLACE[:, 1:2] * alpha ** 2 * waves + sum(local)), axis=0)


def signals(path):
    """{electrode: µV at RATE} of an EDF file."""
    with open(path, "rb") as f:
        data = f.read()
    n, records, seconds = int(data[252:256]), int(data[236:244]), float(data[244:252])
    fields, at = [], 256
    for width in (16, 80, 8, 8, 8, 8, 8, 80, 8, 32):
        fields.append([data[at + i * width:at + (i + 1) * width].decode("latin-1") for i in range(n)])
        at += n * width
    counts = np.array([int(c) for c in fields[8]])
    values = np.frombuffer(data, "<i2", records * counts.sum(), at).reshape(records, -1)
    found = {}
    for i, label in enumerate(fields[0]):
        name = label.upper().removeprefix("EEG ").strip(" .").removesuffix("-REF").capitalize()
        name = NEWER.get(name.upper(), name)
        if name in XY:
            low, high, first, last = (float(fields[k][i]) for k in (3, 4, 5, 6))
            x = values[:, counts[:i].sum():counts[:i + 1].sum()].ravel()
            uv = (x - first) * (high - low) / (last - first) + low
            found[name] = scipy.signal.resample_poly(uv, RATE, round(counts[i] / seconds))
    return found


def measured(path):
    found = signals(path)
    spectra = []
    for a, b in PAIRS:
        x = (found[a] - found[b])[:-RATE]
        hz, _, windows = scipy.signal.spectrogram(x, RATE, "hann", 4 * RATE, 2 * RATE)
        spectra.append(np.median(windows[(hz >= HZ[0]) & (hz <= HZ[-1])], axis=1) / np.log(2))  # the mean of a spectrum is its median / ln 2
    return np.median(spectra, axis=0)


def fitted(path):
    spectrum = measured(path)
    known = HZ < 28 if "Subject" in path else HZ < 39
    return scipy.optimize.least_squares(lambda t: (np.log(rendered(t)) - np.log(spectrum))[known], (np.log(15), .5, 10, np.log(.7), np.log(.1)),
                                        bounds=((0, .1, 7, -4, -5), (5, 1, 13, 2, 1)), loss="soft_l1")


def main(eeg):
    people = {}
    for person, (corpus, paths) in ward_data.people(eeg).items():
        if corpus == "chbmit":
            continue
        fits = [(path, fitted(path)) for path in paths]
        every, closed = (np.mean([f.x for path, f in some] or [[np.nan] * 5], axis=0) for some in (fits, [p for p in fits if CLOSED.search(p[0])]))
        misfit = np.mean([np.sqrt(np.mean(f.fun ** 2)) for _, f in fits])
        people[person] = (*every[:2], *closed[2:4], every[4] if corpus == "eegmmidb" else np.nan, misfit)
    table = np.array(list(people.values()))
    for i, name in enumerate(("ln rms_uv", "slope", "alpha_hz", "ln alpha", "ln muscle", "misfit (ln power)")):
        known = table[~np.isnan(table[:, i]), i]
        print(f"{name:<18} {known.mean():6.2f} ± {known.std(ddof=1):.2f}   {known.min():6.2f} to {known.max():.2f}, {len(known)} people")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) == 2 else __doc__)

#!/usr/bin/python3
"""Rates of the cortical column in Brian 2 (Debian's python3-brian with cython3): the network of `brrctl burst generate column`, with
Brian's exact integration, refractory time, delays and Poisson input in place of ours. Its figures at a tenth stand in
tests/unit/test_burst_column.c.
usage: brian_column.py [--bin build/bin] [--scale 0.1] [--seconds 3]"""
import argparse
import json
import math
import struct
import subprocess
import sys
import tempfile

try:
    import brian2
    import numpy
except ImportError:
    print("no Brian here (Debian: apt-get install python3-brian cython3)")
    sys.exit(77)

TYPES = {"F32": "<f4", "U32": "<u4", "U16": "<u2", "U8": "u1"}
TICK_MS, MEMBRANE_MS, SYNAPSE_MS, WARM_UP_MS = 0.1, 10, 0.5, 200


def read_network(path):
    raw = open(path, "rb").read()
    at = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:at])
    areas = json.loads(header.pop("__metadata__")["brr.areas"])
    return {k: numpy.frombuffer(raw, TYPES[v["dtype"]], v["shape"][0], at + v["data_offsets"][0]) for k, v in header.items()}, areas


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/column.safetensors"
        subprocess.run([f"{args.bin}/brrctl", "burst", "generate", "column", "--scale", str(args.scale), "--out", path], check=True)
        arrays, areas = read_network(path)
    brian2.prefs.codegen.target = "cython"
    brian2.defaultclock.dt = TICK_MS * brian2.ms
    area, rest = arrays["neuron.area"], math.exp(-TICK_MS / MEMBRANE_MS)
    current_rest = math.exp(-TICK_MS / SYNAPSE_MS)
    per_unit = float(arrays["neuron.current_gain"][0]) * (1 / SYNAPSE_MS - 1 / MEMBRANE_MS) / (rest - current_rest)  # mV/ms
    steady = [a.get("constant", 0) * float(arrays["neuron.current_gain"][0]) / (1 - current_rest) / (1 - rest) for a in areas]  # mV
    neurons = brian2.NeuronGroup(len(area), """dv/dt = (-v + drive + given * 10) / (10 * ms) : 1 (unless refractory)
                                               dgiven/dt = -given / (0.5 * ms) : 1
                                               drive : 1""", threshold="v >= 15", reset="v = 0", refractory=2 * brian2.ms, method="exact")
    neurons.v = arrays["neuron.v"]
    neurons.drive = numpy.array(steady)[area]
    synapses = brian2.Synapses(neurons, neurons, "w : 1", on_pre="given_post += w")
    synapses.connect(i=arrays["synapse.src"].astype(numpy.int32), j=arrays["synapse.dst"].astype(numpy.int32))
    synapses.w = arrays["synapse.weight"].astype(float) * arrays["synapse.psp"] * numpy.where(arrays["synapse.type"], -1, 1) * per_unit
    synapses.delay = arrays["synapse.delay"] * TICK_MS * brian2.ms
    inputs = []
    for p, a in enumerate(areas):
        members = numpy.flatnonzero(area == p)
        inputs.append(brian2.PoissonInput(neurons[members[0]:members[-1] + 1], "given", round(a["poisson"] / (8e-3 * TICK_MS)), 8 * brian2.Hz,
                                          weight=a["poisson_potential"] * per_unit))
    spikes = brian2.SpikeMonitor(neurons)
    brian2.Network(neurons, synapses, spikes, *inputs).run((WARM_UP_MS + args.seconds * 1000) * brian2.ms)
    late = area[numpy.array(spikes.i)[numpy.array(spikes.t / brian2.ms) > WARM_UP_MS]]
    for p, a in enumerate(areas):
        print(f"{a['name']:6} {(late == p).sum() / (area == p).sum() / args.seconds:.3f} spikes/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

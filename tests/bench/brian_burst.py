#!/usr/bin/python3
"""Ticks of a spiking network beside Brian 2 (Debian's python3-brian with cython3), alternately, one thread each: random targets, 1 % of
the neurons fire in a tick. Brian computes the smaller rule: candidates, leak and chance, but no limits, refractory times or snoozes, and
its sums are floats in any order. Both runs report the share that fired and the synapses that delivered.
usage: brian_burst.py [--bin build/bin] [--neurons 100000] [--ticks 200] [--rounds 3] [--json FILE]"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import brian2
    import numpy
except ImportError:
    print("no Brian here (Debian: apt-get install python3-brian cython3)")
    sys.exit(77)

FAN_OUT, SHARE, SETTLE = 100, 0.01, 50
CASES = {100000: "100k x100", 500000: "500k x100", 1000000: "1m x100"}


def network(n):
    """Any input makes a neuron fire with a chance that keeps the share: the network of brr-bench. The first neurons fire by themselves."""
    brian2.prefs.codegen.target = "cython"
    brian2.defaultclock.dt = 1 * brian2.ms
    rng = numpy.random.default_rng(7)
    chance = SHARE / (1 - math.exp(-FAN_OUT * SHARE))
    neurons = brian2.NeuronGroup(n, "v : 1\nhit : 1", threshold=f"hit > 0 and rand() < {chance}", reset="v = 0")
    neurons.run_regularly("v *= 1 - 0.1 * hit\nhit = 0", when="after_thresholds")
    synapses = brian2.Synapses(neurons, neurons, "w : 1", on_pre="v_post += w\nhit_post = 1")
    synapses.connect(i=numpy.repeat(numpy.arange(n, dtype=numpy.int32), FAN_OUT), j=rng.integers(0, n, n * FAN_OUT, dtype=numpy.int32))
    synapses.w = rng.integers(1, 256, n * FAN_OUT)
    neurons.hit[: int(n * SHARE / 0.0158)] = 1
    counter = brian2.SpikeMonitor(neurons, record=False)
    net = brian2.Network(neurons, synapses, counter)
    net.run(SETTLE * brian2.ms)
    return net, counter


def theirs(net, counter, n, ticks):
    before, begun = counter.num_spikes, time.perf_counter()
    net.run(ticks * brian2.ms)
    ms = 1000 * (time.perf_counter() - begun) / ticks
    return ms, (counter.num_spikes - before) / ticks / n


def ours(binary, n):
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        run = subprocess.run([f"{binary}/brr-bench", "burst", CASES[n], "--threads", "1", "--json", f.name], check=True, text=True, stdout=subprocess.PIPE)
        with open(f.name, encoding="utf-8") as written:
            result = json.load(written)
    fired = float(next(line for line in run.stdout.splitlines() if "a tick fires" in line).split("fires ")[1].split()[0])
    return result["results"][0]["median_ms"], fired / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--neurons", type=int, default=100000, choices=CASES)
    parser.add_argument("--ticks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    o = parser.parse_args()
    net, counter = network(o.neurons)
    rows = [(theirs(net, counter, o.neurons, o.ticks), ours(o.bin, o.neurons)) for _ in range(o.rounds)]
    brian, brr = (statistics.median(row[who][0] for row in rows) for who in (0, 1))
    out = {"neurons": o.neurons, "synapses": FAN_OUT, "brian": brian2.__version__, "brian_ms": brian, "brr_ms": brr, "ratio": brian / brr,
           "brian_share": rows[-1][0][1], "brr_share": rows[-1][1][1], "rounds_ms": [(a[0], b[0]) for a, b in rows]}
    print(f"{o.neurons} neurons x {FAN_OUT}: Brian {brian:.2f} ms a tick ({out['brian_share']:.2%} fire), brrd {brr:.3f} ms"
          f" ({out['brr_share']:.2%} fire): {out['ratio']:.1f} times as fast")
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(out, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()

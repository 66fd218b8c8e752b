#!/usr/bin/env python3
"""brrctl burst import of connectomes of FEAGI, written here from the format's definition: JSON with both names of a field, and the
binary file, plain and compressed. All give one network, whose spikes are those of the golden simulator; what is refused, by name."""
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np

from daemon import BIN, SOURCE, temporary

sys.path.insert(0, f"{SOURCE}/tests/golden")
sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402
from test_burst_golden import Simulator, draw_injections  # noqa: E402

try:
    import lz4.block
except ImportError:
    lz4 = None

DRIVER = os.path.join(BIN, "..", "tests", "task_driver")
N, S, SPARE, TICKS, BEGUN, POWER = 150, 2400, 7, 200, 4711, 650.25
AREAS = {0: "_death", 1: "_power", 9: "aTM=", 4: "bXZpc3Vh"}  # id: name
GENES = {"nx-fthlim-f": (0, 0, 4000.5, 0), "nx-c_fr_c-i": (0, 0, 2, 3), "nx-snooze-f": (0, 0, 3, 1), "nx-mp_acc-b": (True, True, True, False), "nx-mp_psp-b": (False, False, False, True),
         "cx-pspuni-b": (True, True, False, True)}
NAMES = {"nx-fthlim-f": "firing_threshold_limit", "nx-c_fr_c-i": "consecutive_fire_cnt_max", "nx-snooze-f": "snooze_length", "nx-mp_acc-b": "mp_charge_accumulation",
         "nx-mp_psp-b": "mp_driven_psp", "cx-pspuni-b": "psp_uniform_distribution"}
NEURONS = (("membrane_potentials", "<f4"), ("thresholds", "<f4"), ("leak_coefficients", "<f4"), ("resting_potentials", "<f4"), ("neuron_types", "<i4"), ("refractory_periods", "<u2"),
           ("refractory_countdowns", "<u2"), ("excitabilities", "<f4"), ("cortical_areas", "<u4"), ("coordinates", "<u4"), ("valid_mask", "<u1"))
SYNAPSES = (("source_neurons", "<u4"), ("target_neurons", "<u4"), ("weights", "<u1"), ("conductances", "<u1"), ("types", "<u1"), ("valid_mask", "<u1"))


def ctl(*args, code=0):
    r = subprocess.run([f"{BIN}/brrctl", "burst", *map(str, args)], capture_output=True, text=True)
    assert r.returncode == code, (args, r)
    return r.stdout if code == 0 else r.stderr


def draw(rng):
    neurons = {"membrane_potentials": rng.uniform(-50, 50, N), "thresholds": rng.uniform(20, 400, N), "leak_coefficients": rng.choice([0, .1, .37, 1], N), "resting_potentials": rng.uniform(-1, 1, N),
               "neuron_types": rng.integers(-2, 3, N), "refractory_periods": rng.integers(0, 4, N), "refractory_countdowns": rng.integers(0, 3, N), "excitabilities": rng.choice([1, .5, 0], N, p=[.7, .2, .1]),
               "cortical_areas": rng.choice(list(AREAS), N), "coordinates": rng.integers(0, 9, 3 * N), "valid_mask": rng.random(N) > .05}
    synapses = {"source_neurons": rng.integers(0, N, S), "target_neurons": rng.integers(0, N, S), "weights": rng.integers(0, 256, S), "conductances": rng.integers(0, 9, S),
                "types": rng.random(S) < .3, "valid_mask": rng.random(S) > .1}
    neurons["valid_mask"][np.flatnonzero(neurons["cortical_areas"] == 1)[0]] = True  # power goes to this one
    return {k: neurons[k].astype(t) for k, t in NEURONS}, {k: synapses[k].astype(t) for k, t in SYNAPSES}


def as_json(neurons, synapses, psp="conductances", **more):
    def lists(arrays, n):
        return {"count": n, "capacity": n + SPARE, **{k: (a.astype(bool) if k == "valid_mask" else a).tolist() for k, a in arrays.items()}}
    parts = {"version": 1, "neurons": lists(neurons, N), "synapses": {psp if k == "conductances" else k: v for k, v in lists(synapses, S).items()}}
    return {**parts, "cortical_area_names": {str(k): v for k, v in AREAS.items()}, "burst_count": BEGUN, "power_amount": POWER, "fire_ledger_window": 20,
            "metadata": {"timestamp": 1, "description": "", "source": "", "tags": {}}, **more}


def as_bincode(neurons, synapses):
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def group(arrays, n):  # with the room that its owner has to spare
        out = struct.pack("<QQ", n, n + SPARE)
        for a in arrays.values():
            spare = np.zeros(SPARE * len(a) // n, a.dtype)
            out += struct.pack("<Q", len(a) + len(spare)) + a.tobytes() + spare.tobytes()
        return out
    by_source = {}
    for i, source in enumerate(synapses["source_neurons"].tolist()):
        by_source.setdefault(source, []).append(i)
    index = b"".join(struct.pack(f"<IQ{len(v)}Q", k, len(v), *v) for k, v in by_source.items())
    names = b"".join(struct.pack("<I", k) + text(v) for k, v in AREAS.items())
    return (struct.pack("<I", 1) + group(neurons, N) + group(synapses, S) + struct.pack("<Q", len(by_source)) + index + struct.pack("<Q", len(AREAS)) + names
            + struct.pack("<QfQ", BEGUN, POWER, 20) + struct.pack("<Q", 1) + text("a test") + text("here") + struct.pack("<Q", 1) + text("k") + text("v"))


def container(body, version, compress=False):
    data = lz4.block.compress(body, store_size=False) if compress else body
    total = 14695981039346656037
    for byte in data:
        total = (total ^ byte) * 1099511628211 & (1 << 64) - 1
    flags = struct.pack("<BQ", compress, len(body)) if version > 1 else b""
    return b"FEAGI" + struct.pack("<I", version) + flags + struct.pack("<Q", total) + data


def genome(flat):
    if flat:  # a number's gene ends in f or in i
        return {"blueprint": {f"_____10c-{name}-{gene.replace('snooze-f', 'snooze-i' if i % 2 else 'snooze-f')}": values[i] for i, name in enumerate(AREAS.values()) for gene, values in GENES.items()}}
    return {"blueprint": {name: {NAMES[gene]: values[i] for gene, values in GENES.items()} for i, name in enumerate(AREAS.values())}}


def expected(neurons, synapses, injections):
    """The golden simulator, from the connectome's state on."""
    ids, alive = list(AREAS), neurons["valid_mask"] != 0
    area = np.array([ids.index(k) for k in neurons["cortical_areas"]], "<u4")
    kept = (synapses["valid_mask"] != 0) & alive[synapses["source_neurons"]] & alive[synapses["target_neurons"]]

    def of(gene, dtype):
        return np.array(GENES[gene])[area].astype(dtype)
    arrays = {"neuron.threshold": neurons["thresholds"], "neuron.v": neurons["membrane_potentials"], "neuron.threshold_limit": of("nx-fthlim-f", "<f4"), "neuron.leak": neurons["leak_coefficients"],
              "neuron.excitability": neurons["excitabilities"], "neuron.refractory": neurons["refractory_periods"], "neuron.snooze": of("nx-snooze-f", "<u2"), "neuron.fire_limit": of("nx-c_fr_c-i", "<u2"),
              "neuron.accumulate": of("nx-mp_acc-b", "<u1"), "neuron.area": area, "synapse.src": synapses["source_neurons"][kept], "synapse.dst": synapses["target_neurons"][kept],
              "synapse.weight": synapses["weights"][kept], "synapse.psp": synapses["conductances"][kept], "synapse.type": synapses["types"][kept]}
    areas = [{"name": AREAS[k], "psp_divide": not GENES["cx-pspuni-b"][i], "mp_driven_psp": GENES["nx-mp_psp-b"][i], "power": POWER if k == 1 else 0} for i, k in enumerate(ids)]
    sim = Simulator(arrays, areas, False)
    sim.tick, sim.countdown = BEGUN, neurons["refractory_countdowns"].astype(int).tolist()
    out = []
    for tick in range(1, TICKS + 1):
        out += sim.step([(i, p) for t, i, p in injections if t == tick])
    return out, int(kept.sum())


def check_network(tmp, neurons, synapses, rng):
    forms = {"a.json": json.dumps(as_json(neurons, synapses)).encode(), "b.json": json.dumps(as_json(neurons, synapses, "postsynaptic_potentials")).encode()}
    body = as_bincode(neurons, synapses)
    forms |= {"v1.connectome": container(body, 1), "v2.connectome": container(body, 2)}
    if lz4 and "without liblz4" not in refused(tmp, "probe.connectome", container(b"", 2, True)):
        forms["lz4.connectome"] = container(body, 2, True)
    else:
        print("skipped: package: no liblz4 in brrctl, or no python3-lz4; ./dev deps installs them")
    networks = []
    for i, (name, data) in enumerate(forms.items()):
        pathlib.Path(tmp, name).write_bytes(data)
        pathlib.Path(tmp, "genome.json").write_text(json.dumps(genome(i % 2)))
        told = json.loads(ctl("import", f"{tmp}/{name}", "--genome", f"{tmp}/genome.json", "--out", f"{tmp}/{name}.safetensors", "--json"))
        networks.append(pathlib.Path(tmp, f"{name}.safetensors").read_bytes())
    assert len(set(networks)) == 1, {k: len(v) for k, v in zip(forms, networks)}
    alive = np.flatnonzero(neurons["valid_mask"])
    injections = [(t, i, p) for t, i, p in draw_injections(rng, N, TICKS) if i in alive]
    pathlib.Path(tmp, "in.tsv").write_text("tick\tid\tpotential\n" + "".join(f"{BEGUN + t}\t{i}\t{p:.6g}\n" for t, i, p in injections))
    want, kept = expected(neurons, synapses, injections)
    assert told["synapses"] == kept and told["deleted_synapses"] == S - kept and told["deleted_neurons"] == N - len(alive) and told["tick"] == BEGUN, told
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/burst.yaml", f"{tmp}/job", f"{tmp}/cache", f"network.file={tmp}/a.json.safetensors", f"input.file={tmp}/in.tsv", "input.random=0", f"ticks={TICKS}"],
                       capture_output=True, text=True)
    assert r.returncode == 0, r
    got = [tuple(row) for row in np.load(f"{tmp}/job/fired.npy").tolist()]
    assert got == want and len(want) > TICKS, (len(got), len(want))


def refused(tmp, name, data, blueprint=None):
    pathlib.Path(tmp, name).write_bytes(data)
    pathlib.Path(tmp, "genome.json").write_text(json.dumps(blueprint or genome(True)))
    said = ctl("import", f"{tmp}/{name}", "--genome", f"{tmp}/genome.json", "--out", f"{tmp}/no.safetensors", code=1)
    assert not os.path.exists(f"{tmp}/no.safetensors")
    return said


def check_refusals(tmp, neurons, synapses):
    body, good = as_bincode(neurons, synapses), as_json(neurons, synapses)
    text = json.dumps(good).encode()
    assert "--genome" in ctl("import", f"{tmp}/a.json", "--out", f"{tmp}/no.safetensors", code=1)
    damaged = bytearray(container(body, 2))
    damaged[-1] ^= 1
    assert "checksum" in refused(tmp, "bad.connectome", bytes(damaged))
    assert "version 3" in refused(tmp, "bad.connectome", container(body, 3))
    assert "another version" in refused(tmp, "bad.connectome", container(body + b"\0", 2)) and "another version" in refused(tmp, "bad.connectome", container(body[:-9], 2))
    for key, value, words in (("plastic_mappings", [["a", "b"]], "plastic_mappings"), ("lite_synapses", [{}], "lite_synapses")):
        assert words in refused(tmp, "bad.json", json.dumps({**good, key: value}).encode())
    heavy, memory = {**good["synapses"], "weights": [.5] + good["synapses"]["weights"][1:]}, {**good["synapses"], "valid_mask": [True] * S, "target_neurons": [50000000] * S}
    assert "weights[0]" in refused(tmp, "bad.json", json.dumps({**good, "synapses": heavy}).encode())
    for key, value in (("refractory_periods", -1), ("refractory_countdowns", 65536), ("cortical_areas", -1), ("valid_mask", -1), ("neuron_types", 1 << 31), ("neuron_types", -(1 << 31) - 1)):
        wrapped = {**good["neurons"], key: [value] + good["neurons"][key][1:]}
        assert f"{key}[0]" in refused(tmp, "bad.json", json.dumps({**good, "neurons": wrapped}).encode())
    assert "burst_count is -1" in refused(tmp, "bad.json", json.dumps({**good, "burst_count": -1}).encode())
    assert "memory neurons" in refused(tmp, "bad.json", json.dumps({**good, "synapses": memory}).encode())
    less, plastic, remembers = genome(True), genome(True), genome(False)
    less["blueprint"].pop("_____10c-aTM=-nx-snooze-f")
    plastic["blueprint"]["_____10c-aTM=-cx-dstmap-d"] = {"bXZpc3Vh": [["block_to_block", [1, 1, 1], 1, True]]}
    remembers["blueprint"]["aTM="]["is_mem_type"] = True
    assert "aTM= has no snooze_length" in refused(tmp, "bad.json", text, less) and "is plastic" in refused(tmp, "bad.json", text, plastic)
    assert "area of memory" in refused(tmp, "bad.json", text, remembers) and "no blueprint" in refused(tmp, "bad.json", text, {"a": 1})


def main():
    rng = np.random.default_rng(test_seed())
    neurons, synapses = draw(rng)
    with temporary() as tmp:
        check_network(tmp, neurons, synapses, rng)
        check_refusals(tmp, neurons, synapses)
    print("ok: connectomes of FEAGI")


if __name__ == "__main__":
    main()

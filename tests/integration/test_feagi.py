#!/usr/bin/env python3
"""brr.networks: connectomes of FEAGI, written here from the format's definition: JSON with both names of a field, and the
binary file, plain and compressed. All give one network, whose spikes are those of the golden simulator; genomes alone, with synapses
counted by hand; what is refused, by name. Network files have the SHA-256 that another importer, written in C, gave for them."""
import hashlib
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

CONNECTOME_SHA256 = "f7071687bba00f1f829843c3f6ad754e5065757800d664cad90d04794c159dee"  # of files that an importer in C wrote
GROWN_SHA256 = "3dbed49e1c5a0e380a7cb8e1c15c154a84b004396ffad2b8cb0024845b01c0bd"  # of all networks of check_rules and check_growth, one after the other
written = hashlib.sha256()
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


def networks(*args, code=0):
    r = subprocess.run([sys.executable, "-m", "brr.networks", *map(str, args)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{SOURCE}/client/python"})
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
    if lz4:
        forms["lz4.connectome"] = container(body, 2, True)
    else:
        print("skipped: package: no python3-lz4; ./dev deps installs it")
    made = []
    for i, (name, data) in enumerate(forms.items()):
        pathlib.Path(tmp, name).write_bytes(data)
        pathlib.Path(tmp, "genome.json").write_text(json.dumps(genome(i % 2)))
        told = json.loads(networks("import", f"{tmp}/{name}", "--genome", f"{tmp}/genome.json", "--out", f"{tmp}/{name}.safetensors", "--json"))
        made.append(pathlib.Path(tmp, f"{name}.safetensors").read_bytes())
    assert len(set(made)) == 1, {k: len(v) for k, v in zip(forms, made)}
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


def check_bytes(tmp):
    """Of one connectome, the same with every seed."""
    neurons, synapses = draw(np.random.default_rng(59))
    pathlib.Path(tmp, "fixed.connectome").write_bytes(container(as_bincode(neurons, synapses), 2))
    pathlib.Path(tmp, "genome.json").write_text(json.dumps(genome(True)))
    networks("import", f"{tmp}/fixed.connectome", "--genome", f"{tmp}/genome.json", "--out", f"{tmp}/fixed.safetensors")
    assert hashlib.sha256(pathlib.Path(tmp, "fixed.safetensors").read_bytes()).hexdigest() == CONNECTOME_SHA256


def refused(tmp, name, data, blueprint=None):
    pathlib.Path(tmp, name).write_bytes(data)
    pathlib.Path(tmp, "genome.json").write_text(json.dumps(blueprint or genome(True)))
    said = networks("import", f"{tmp}/{name}", "--genome", f"{tmp}/genome.json", "--out", f"{tmp}/no.safetensors", code=1)
    assert not os.path.exists(f"{tmp}/no.safetensors")
    return said


def check_refusals(tmp, neurons, synapses):
    body, good = as_bincode(neurons, synapses), as_json(neurons, synapses)
    text = json.dumps(good).encode()
    assert "--genome" in networks("import", f"{tmp}/a.json", "--out", f"{tmp}/no.safetensors", code=1)
    damaged = bytearray(container(body, 2))
    damaged[-1] ^= 1
    assert "checksum" in refused(tmp, "bad.connectome", bytes(damaged))
    assert "version 3" in refused(tmp, "bad.connectome", container(body, 3))
    assert "another version" in refused(tmp, "bad.connectome", container(body + b"\0", 2)) and "another version" in refused(tmp, "bad.connectome", container(body[:-9], 2))
    for key, value, words in (("plastic_mappings", [["a", "b"]], "plastic_mappings"), ("lite_synapses", [{}], "lite_synapses")):
        assert words in refused(tmp, "bad.json", json.dumps({**good, key: value}).encode())
    heavy, memory = {**good["synapses"], "weights": [.5] + good["synapses"]["weights"][1:]}, {**good["synapses"], "valid_mask": [True] * S, "target_neurons": [50000000] * S}
    assert "weights[0]" in refused(tmp, "bad.json", json.dumps({**good, "synapses": heavy}).encode())
    for key, value in (("refractory_periods", -1), ("refractory_periods", True), ("refractory_countdowns", 65536), ("cortical_areas", -1), ("valid_mask", -1), ("neuron_types", 1 << 31), ("neuron_types", -(1 << 31) - 1)):
        wrapped = {**good["neurons"], key: [value] + good["neurons"][key][1:]}
        assert f"{key}[0]" in refused(tmp, "bad.json", json.dumps({**good, "neurons": wrapped}).encode())
    for key, values, words in (("burst_count", (-1, .5, "1", 1e300), "burst_count is no"), ("burst_count", (1 << 62,), "expected at most"), ("power_amount", ("1", 1e300, True), "power_amount is no"), ("version", (0, 3, "1"), "version is not")):
        for value in values:
            assert words in refused(tmp, "bad.json", json.dumps({**good, key: value}).encode()), (key, value)
    assert "memory neurons" in refused(tmp, "bad.json", json.dumps({**good, "synapses": memory}).encode())
    less, plastic, remembers = genome(True), genome(True), genome(False)
    less["blueprint"].pop("_____10c-aTM=-nx-snooze-f")
    plastic["blueprint"]["_____10c-aTM=-cx-dstmap-d"] = {"bXZpc3Vh": [["block_to_block", [1, 1, 1], 1, True]]}
    remembers["blueprint"]["aTM="]["is_mem_type"] = True
    assert "aTM= has no snooze_length" in refused(tmp, "bad.json", text, less) and "is plastic" in refused(tmp, "bad.json", text, plastic)
    assert "area of memory" in refused(tmp, "bad.json", text, remembers) and "no blueprint" in refused(tmp, "bad.json", text, {"a": 1})


# Rules of FEAGI: sizes of two areas, a morphology, and each synapse it makes, counted by hand; neurons count z first, then y, then x.
ANY, FROM = ["*", "*", "*"], {"type": "functions", "parameters": {}}
MAPS = (
    ("vectors", (2, 2, 1), None, [[1, 0, 0], [0, -1, 0]], [(0, 2), (1, 3), (2, 2), (3, 3), (0, 0), (1, 0), (2, 2), (3, 2)]),  # clamped; one for each vector
    ("patterns", (3, 1, 1), (3, 1, 1), [[ANY, ["?+", "?", "?"]], [ANY, ["*", "?", "?"]]], [(i, j) for i in range(3) for j in range(3)]),  # united
    ("patterns", (3, 1, 1), (3, 1, 1), [[ANY, ["!", 0, 0]]], [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]),
    ("patterns", (3, 1, 1), (3, 1, 2), [[[0, "*", "*"], ["?-1:?+1", "*", 0]]], [(0, 0), (0, 2)]),
    ("patterns", (3, 1, 1), (3, 1, 1), [[["1..2", "*", "?"], ["?+1", "?-0", "?"]]], [(1, 2)]),
    ("patterns", (3, 1, 1), (4, 1, 1), [[[2, 0, 0], ["1..9", "?+=", "?-="]]], [(2, 1), (2, 2), (2, 3)]),
    ("patterns", (3, 1, 1), (3, 1, 1), [[ANY, ["?-", "?", "?"]]], [(1, 0), (2, 0), (2, 1)]),
    ("projector", (4, 1, 1), (2, 1, 1), None, [(0, 0), (1, 0), (2, 1), (3, 1)]),
    ("projector", (3, 1, 1), (2, 1, 1), None, [(0, 0), (1, 0), (2, 1)]),
    ("projector", (2, 1, 1), (3, 1, 1), None, [(0, 0), (0, 1), (1, 2)]),
    ("transpose_xz", (3, 1, 1), (1, 1, 3), None, [(0, 0), (1, 1), (2, 2)]),
    ("block_to_block", (3, 1, 1), (2, 1, 1), None, [(0, 0), (1, 1), (2, 1)]),
    ("sweeper", (2, 2, 1), None, None, [(0, 2), (2, 1), (1, 3)]),
    ("last_to_first", (2, 2, 1), (2, 1, 2), None, [(3, 0)]),
    ("first_to_last", (2, 2, 1), (2, 1, 2), None, [(0, 3)]),
    ("bitmask_encoder_x", (2, 1, 1), (4, 1, 1), None, [(0, 2), (0, 3), (1, 1), (1, 3)]),
    ("bitmask_decoder_x", (4, 1, 1), (2, 1, 1), None, [(1, 1), (2, 0), (3, 0), (3, 1)]),
    ("tile", (2, 1, 1), (5, 1, 1), None, [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3)]),
    ("tile", (3, 1, 1), (2, 1, 1), None, [(0, 0), (1, 1), (2, 0)]),
)
SEED = {"nx-fthlim-f": 0, "nx-c_fr_c-i": 0, "nx-snooze-f": 0, "nx-mp_acc-b": True, "nx-mp_psp-b": False, "cx-pspuni-b": True, "nx-fire_t-f": 10, "nx-leak_c-f": 0.25, "nx-excite-f": 1,
        "nx-refrac-i": 1, "nx-pstcr_-f": 2}


def area(name, size, maps=None, genes=None):
    own = {**SEED, **{f"cx-___bb{a}-i": n for a, n in zip("xyz", size)}, "cx-dstmap-d": maps or {}, **(genes or {})}
    return {f"_____10c-{name}-{gene}": value for gene, value in own.items()}


def arrays_of(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    types = {"F32": "<f4", "U32": "<u4", "U16": "<u2", "U8": "<u1"}
    return {k: np.frombuffer(data[8 + n:][slice(*v["data_offsets"])], types[v["dtype"]]) for k, v in header.items() if k != "__metadata__"}, json.loads(header["__metadata__"]["brr.areas"])


def grow(tmp, blueprint, morphologies, code=0):
    pathlib.Path(tmp, "grow.json").write_text(json.dumps({"genome_title": "a test", "neuron_morphologies": morphologies, "blueprint": blueprint}))
    pathlib.Path(tmp, "grown.safetensors").unlink(missing_ok=True)
    said = networks("import", f"{tmp}/grow.json", "--out", f"{tmp}/grown.safetensors", "--json", code=code)
    assert (code == 0) == os.path.exists(f"{tmp}/grown.safetensors")
    written.update(b"" if code else pathlib.Path(tmp, "grown.safetensors").read_bytes())
    return said if code else (json.loads(said), *arrays_of(f"{tmp}/grown.safetensors"))


def check_rules(tmp):
    for kind, size, other, parts, want in MAPS:
        name = kind if parts is None else "mine"
        rule = [{"morphology_id": name, "morphology_scalar": [1, 1, 1], "postSynapticCurrent_multiplier": -3, "plasticity_flag": False, "synapse_attractivity": 100}]
        blueprint = area("a", size, {"b" if other else "a": rule}) | (area("b", other) if other else {})
        told, arrays, _ = grow(tmp, blueprint, {name: {"type": kind, "parameters": {kind: parts}} if parts else FROM} if kind != "tile" else {})
        first = int(np.prod(size)) if other else 0
        got = sorted(zip(arrays["synapse.src"].tolist(), (arrays["synapse.dst"].astype(int) - first).tolist()))
        assert got == sorted(want) and told["synapses"] == len(want) and told["neurons"] == first + int(np.prod(other or size)), (kind, size, other, got)
        assert set(arrays["synapse.weight"]) == {3} and set(arrays["synapse.psp"]) == {2} and set(arrays["synapse.type"]) == {1} and "synapse.delay" not in arrays


def check_growth(tmp):
    """Both forms of a blueprint give one network, whose parameters and spikes are those of FEAGI's description."""
    rule = ["block_to_block", [1, 1, 1], 6, False]
    flat = area("c", (2, 2, 2), {"c": [{"morphology_id": "lateral_+x", "postSynapticCurrent_multiplier": -2, "synaptic_delay_bursts": 3}]}, {"nx-ftincx-f": 1, "nx-ftincz-f": .5, "cx-pspuni-b": False})
    flat |= area("_power", (1, 1, 1), {"c": [["all", [1, 1, 1], 6, False], rule]}, {"nx-fire_t-f": 1, "nx-excite-f": 100, "nx-refrac-i": 0})
    names = {**NAMES, "nx-fire_t-f": "firing_threshold", "nx-leak_c-f": "leak_coefficient", "nx-excite-f": "neuron_excitability", "nx-refrac-i": "refractory_period",
             "nx-pstcr_-f": "postsynaptic_current", "cx-dstmap-d": "cortical_mapping_dst", "nx-ftincx-f": "firing_threshold_increment_x", "nx-ftincz-f": "firing_threshold_increment_z"}
    tree = {}
    for key, value in flat.items():
        at, gene = key[9:].split("-", 1)
        if "___bb" in gene:
            tree.setdefault(at, {}).setdefault("block_boundaries", []).append(value)
        else:
            tree.setdefault(at, {})[names[gene]] = value
    morphologies = {"all": {"type": "patterns", "parameters": {"patterns": [[ANY, ANY]]}}, "lateral_+x": {"type": "vectors", "parameters": {"vectors": [[1, 0, 0]]}}}
    grow(tmp, tree, morphologies)
    first = pathlib.Path(tmp, "grown.safetensors").read_bytes()
    told, arrays, areas = grow(tmp, flat, morphologies)
    assert first == pathlib.Path(tmp, "grown.safetensors").read_bytes() and told["neurons"] == 9 and told["synapses"] == 8 + 1 + 8, told
    assert [(a["name"], a.get("power", 0), a["psp_divide"]) for a in areas] == [("_power", 1, False), ("c", 0, True)], areas
    assert arrays["neuron.threshold"].tolist() == [1, 10, 10.5, 10, 10.5, 11, 11.5, 11, 11.5] and arrays["neuron.excitability"].tolist() == [1] * 9
    assert sorted(zip(arrays["synapse.src"].tolist(), arrays["synapse.dst"].tolist(), arrays["synapse.delay"].tolist())) == sorted(
        [(0, i, 1) for i in range(1, 9)] + [(0, 1, 1)] + [(i, i + 4 if i < 5 else i, 3) for i in range(1, 9)])
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/burst.yaml", f"{tmp}/grown", f"{tmp}/cache", f"network.file={tmp}/grown.safetensors", "input.random=0", "ticks=60"], capture_output=True, text=True)
    assert r.returncode == 0, r
    sim = Simulator(arrays, areas, False)
    want = [pair for _ in range(60) for pair in sim.step([])]
    assert [tuple(row) for row in np.load(f"{tmp}/grown/fired.npy").tolist()] == want and len({i for _, i in want}) == 9, want


def check_refused_genomes(tmp):
    def refused(words, genes=None, morphologies=None, **rule):
        blueprint = area("a", (2, 1, 1), {"a": [{"morphology_id": "projector", **rule}]}) | {f"_____10c-a-{k}": v for k, v in (genes or {}).items()}
        said = grow(tmp, {k: v for k, v in blueprint.items() if v != "none"}, morphologies or {}, code=1)
        assert words in said, (words, said)
    for genes, words in (({"cx-synatt-i": 99}, "synapse_attractivity is 99"), ({"cx-memory-b": True}, "area of memory"), ({"cx-_group-t": "MEMORY"}, "area of memory"), ({"nx-leak_v-f": 1}, "leak_variability"),
                         ({"nx-leak_c-f": -1}, "leak_coefficient is -1"), ({"cx-_n_cnt-i": 2}, "per_voxel_neuron_cnt is 2"), ({"nx-excite-f": 50}, "neuron_excitability is 50"),
                         ({"nx-pstcr_-f": 500}, "postsynaptic_current is 500"), ({"nx-pstcr_-f": 1.5}, "postsynaptic_current is 1.5"), ({"nx-fire_t-f": "none"}, "has no firing_threshold"),
                         ({"nx-fire_t-f": True}, "of area a is no number"), ({"nx-fthlim-f": 1e300}, "of area a is no number"), ({"nx-mp_acc-b": .5}, "of area a is no flag"), ({"cx-memory-b": "true"}, "area of memory"),
                         ({"cx-___bbx-i": 0}, "block_boundaries is 0"), ({"cx-___bbz-i": "none"}, "no block_boundaries"), ({"cx-___bbx-i": 1 << 20, "cx-___bby-i": 65}, "more than 67108864 neurons"),
                         ({"cx-___bbx-i": 1 << 17}, "synapses"), ({"cx-dstmap-d": {"b": [["projector", 1, 1, False]]}}, "area b, which the genome has not")):
        refused(words, genes, {"projector": {"type": "patterns", "parameters": {"patterns": [[ANY, ANY]]}}} if words == "synapses" else None)
    for rule, words in (({"synapse_attractivity": 50}, "synapse_attractivity is 50"), ({"plasticity_flag": True}, "is plastic"), ({"gate_source_area": "a"}, "gate_source_area"),
                        ({"postSynapticCurrent_multiplier": .5}, "postSynapticCurrent_multiplier is 0.5"), ({"morphology_scalar": [2, 1, 1]}, "morphology_scalar"),
                        ({"synaptic_delay_bursts": 0}, "synaptic_delay_bursts is 0"), *(({"morphology_id": name}, f"the function {name}") for name in ("randomizer", "expander", "memory", "rotator_z", "lateral_pairs_x", "mine"))):
        refused(words, **rule)
    for kind, parts in (("vectors", [[1, 0]]), ("vectors", [[1, 0, .5]]), ("patterns", [[ANY, ["*", "*"]]]), ("patterns", [[ANY, [-1, 0, 0]]]), ("patterns", [[ANY, ["x", 0, 0]]]), ("patterns", [[ANY, ["?1..2", 0, 0]]])):
        refused("is malformed", None, {"projector": {"type": kind, "parameters": {kind: parts}}})
    refused("of type \"more\"", None, {"projector": {"type": "more"}})
    assert "is a genome itself" in networks("import", f"{tmp}/grow.json", "--genome", f"{tmp}/grow.json", "--out", f"{tmp}/no.safetensors", code=1)


PUBLISHED = pathlib.Path(os.environ.get("BRR_FEAGI_DIR") or os.path.join(SOURCE, "..", "shared", "feagi"))
GENOMES = {"barebones": (2, 0, 2, {}), "test": (12289, 0, 1, {}), "essential": (55357, 1552, 4, {}), "vision": (204862, 2064, 6, {"_death", "_power"})}  # neurons, synapses, notes


def check_leaks(tmp):
    """As FEAGI's public genomes have them: a leak of 10, and core areas of a size alone."""
    bare = {f"_____10c-_power-cx-___bb{axis}-i": 1 for axis in "xyz"}
    told, arrays, areas = grow(tmp, area("_death", (1, 1, 1), None, {"nx-leak_c-f": 10, "nx-pstcr_-f": 500}) | bare | area("c__lef", (10, 1, 2), None, {"nx-leak_c-f": 10, "nx-excite-f": 100}), {})
    assert told["neurons"] == 22 and told["notes"][::2] == [f"area {name}: leak 10 is outside 0 to 1: taken as 1" for name in ("_death", "c__lef")], told
    assert arrays["neuron.leak"].tolist() == [1, 0] + 20 * [1] and arrays["neuron.threshold"].tolist() == [10, 1] + 20 * [10], arrays
    assert "_power lacks properties" in told["notes"][1] and "firing_threshold 1" in told["notes"][1] and "mp_charge_accumulation 0" in told["notes"][1], told
    assert arrays["neuron.fire_limit"][1] == 65535 and arrays["neuron.excitability"].min() == 1 and arrays["neuron.accumulate"][1] == 0, arrays
    said = grow(tmp, {"cortical_areas": {"sensory": {"cortical_synapses_per_neuron": 10}}}, {}, code=1)
    assert "area sensory has cortical_synapses_per_neuron 10" in said and "draw" in said, said


def check_published(tmp):
    for name, (neurons, synapses, notes, lacking) in GENOMES.items():
        if not os.path.exists(PUBLISHED / f"{name}_genome.json"):
            print("skipped: data: no public genome of FEAGI (BRR_FEAGI_DIR)")
            return
        told = json.loads(networks("import", str(PUBLISHED / f"{name}_genome.json"), "--out", f"{tmp}/public.safetensors", "--json"))
        assert (told["neurons"], told["synapses"], len(told["notes"])) == (neurons, synapses, notes), (name, told)
        assert all(any(f"area {area} lacks" in note for note in told["notes"]) for area in lacking), told
    for name in ("fp32", "int8"):
        assert "draw them" in networks("import", str(PUBLISHED / f"example_{name}_genome.json"), "--out", f"{tmp}/no.safetensors", code=1)


def check_save(tmp):
    """Networks of NumPy arrays."""
    sys.path.insert(0, f"{SOURCE}/client/python")
    from brr import networks as own
    pre, post, weight, delay = np.array([2, 0, 1]), np.array([0, 1, 2]), np.array([-3, 255, 7]), np.array([4, 1, 2])
    own.save(f"{tmp}/saved", {"threshold": np.array([1.0, 2, 3]), "leak": np.full(3, .5)}, pre, post, weight, delay)
    arrays, areas = arrays_of(f"{tmp}/saved")
    assert {k: v.tolist() for k, v in arrays.items() if k.startswith("synapse.")} == {
        "synapse.src": [0, 1, 2], "synapse.dst": [1, 2, 0], "synapse.weight": [255, 7, 3], "synapse.psp": [1, 1, 1], "synapse.type": [0, 0, 1], "synapse.delay": [1, 2, 4]}, arrays
    assert arrays["neuron.threshold"].tolist() == [1, 2, 3] and areas[0]["name"] == "neurons", areas
    for given, words in (((pre, post, weight * 2), "weight[1] is 510"), ((pre, post + 1, weight), "synapse.dst"), ((pre, post[:2], weight), "post has 2 values"),
                         ((pre, post, weight, delay - 1), "delay[1] is 0"), ((pre, post, weight + .5), "weight[0] is -2.5")):
        try:
            own.save(f"{tmp}/wrong", {"threshold": np.ones(3)}, *given)
            raise AssertionError(f"not refused: {words}")
        except own.Refused as e:
            assert words in str(e), e
    check_refused_arrays(tmp, own, (pre, post, weight))
    assert not os.path.exists(f"{tmp}/wrong")
    os.mkfifo(f"{tmp}/pipe")
    said = why_refused(own, lambda: own.save(f"{tmp}/pipe", {"threshold": np.ones(3)}, pre, post, weight))
    assert "pipe is not a regular file" in said and not os.path.isfile(f"{tmp}/pipe"), said
    own.save(f"{tmp}/saved", {"threshold": np.ones(3)}, pre, post, weight)
    assert not [name for name in os.listdir(tmp) if ".part-" in name]


def why_refused(own, call):
    try:
        call()
    except ValueError as e:
        return str(e)
    raise AssertionError("not refused")


def check_refused_arrays(tmp, own, synapses):
    """Arrays that the file's types would wrap, names that it has not, and areas that are none."""
    def area(**members):
        return {"areas": [{"name": "a", **members}]}

    for given, words in (({"refractory": [70000, 0, 0]}, "neuron.refractory[0] is 70000"), ({"snooze": [0, -1, 0]}, "neuron.snooze[1] is -1"),
                         ({"refractory": [0, 0, 2.7]}, "neuron.refractory[2] is 2.7"), ({"refractory": [0, np.nan, 0]}, "neuron.refractory[1] is nan"),
                         ({"fire_limit": [65536, 1, 1]}, "fire_limit[0] is 65536"), ({"area": [0, 2**32, 0]}, "area[1] is 4294967296"),
                         ({"area": [0, 1, 0]}, "area[1] is 1"), ({"accumulate": [1, 256, 1]}, "accumulate[1] is 256"),
                         ({"accumulate": [7, 1, 1]}, "accumulate[0] is 7"), ({"threshold": [1, 1e300, 1]}, "threshold[1] is 1e+300"),
                         ({"refractry": [1, 1, 1]}, "neuron.refractry is unknown"), ({"current": [1, 1, 1]}, "neuron.current is unknown"),
                         ({"leak": [.5, .5]}, "leak has 2 values"), ({"leak": np.zeros((3, 1))}, "in 2 dimensions"), ({"leak": 0.5}, "in 0 dimensions"),
                         ({"snooze": ["1", "2", "3"]}, "expected numbers"), (area(constant=1), "areas[0].constant is unknown"),
                         (area(power=float("inf")), "areas[0].power[0] is inf"), (area(power=float("nan")), "areas[0].power[0] is nan"),
                         (area(name="x" * 64), "at most 63 bytes"), ({"areas": [{}]}, "areas[0].name is None")):
        said = why_refused(own, lambda: own.save(f"{tmp}/wrong", {"threshold": np.ones(3), **given}, *synapses))
        assert words in said, (words, said)
    assert "threshold is missing" in why_refused(own, lambda: own.save(f"{tmp}/wrong", {}, *synapses))


def main():
    rng = np.random.default_rng(test_seed())
    neurons, synapses = draw(rng)
    with temporary() as tmp:
        check_network(tmp, neurons, synapses, rng)
        check_refusals(tmp, neurons, synapses)
        check_rules(tmp)
        check_growth(tmp)
        assert written.hexdigest() == GROWN_SHA256
        check_bytes(tmp)
        check_refused_genomes(tmp)
        check_leaks(tmp)
        check_published(tmp)
        check_save(tmp)
    print("ok: connectomes and genomes of FEAGI")


if __name__ == "__main__":
    main()

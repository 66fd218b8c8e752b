#!/usr/bin/env python3
"""brr.networks: a SONATA network written here by h5py from the format's definition, whose spikes are those of
simulators written here from the definitions of the cells; what is refused, by name; and, where it is at hand (BRR_SONATA_DIR), the
published network 300_intfire, whose every spike is there. Network files have the SHA-256 that
another importer, written in C, gave for them. Skips without h5py."""
import contextlib
import hashlib
import heapq
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np

from daemon import BIN, SOURCE, temporary

try:
    import h5py
except ImportError:
    print("skipped: package: there is no python3-h5py; ./dev deps installs it")
    sys.exit(77)

SMALL_SHA256 = "6cef110dd46df22257e490c3ed623a6f1318661c65043b4811016a80efa894b8"  # of the network files that an importer in C wrote
PUBLISHED_SHA256 = "254a0ec522f4bb52b376b4dd283550def569a3930dcacb60521a19ffd81dd784"
DRIVER = os.path.join(BIN, "..", "tests", "task_driver")
PUBLISHED = pathlib.Path(os.environ.get("BRR_SONATA_DIR") or os.path.join(SOURCE, "..", "shared", "sonata"))
TICK = 0.05
SPIKES = {0: (2.0, 4.0, 5.0, 6.5, 8.0, 8.05, 30.0), 1: (3.0, 5.2, 6.1, 40.0)}  # ms, of the virtual nodes; no two reach a cell at once
# source, target (a position), weight, nsyns, delay in ms; of nodes as they are simulated
EDGES = [("in", 0, 0, .3, 2, 1.5), ("in", 1, 0, .25, 1, .5), ("in", 0, 1, .7, 1, 1.5), ("in", 1, 1, -.2, 3, 1.5), ("cells", 0, 1, .9, 1, 2), ("in", 0, 2, 900, 1, .5),
         ("cells", 1, 0, -.1, 1, 1.5)]
TAU, REFRACTORY = (20., 35.), 2.
EXP = {"tau_m": 12., "tau_syn_ex": 2., "tau_syn_in": 2., "C_m": 250., "E_L": -70., "V_reset": -70., "V_th": -66.5, "t_ref": 1.}


def networks(*args, code=0):
    r = subprocess.run([sys.executable, "-m", "brr.networks", *map(str, args)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{SOURCE}/client/python"})
    assert r.returncode == code, (args, r)
    return r.stdout if code == 0 else r.stderr


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def nodes(path, name, types, groups, ids=None):
    """groups: (group, index) of each node."""
    with h5py.File(path, "w") as f:
        g = f.create_group(f"nodes/{name}")
        g["node_type_id"], g["node_group_id"], g["node_group_index"] = np.uint64(types), np.uint32([x for x, _ in groups]), np.uint64([x for _, x in groups])
        if ids is not None:
            g["node_id"] = np.uint64(ids)
        g.create_group("0")
        if name == "cells":  # the second cell has a time of its own
            g["1/dynamics_params/tau"] = np.float64([TAU[1] / 1000])


def edges(path, name, source, target, sources, targets, types, groups, attributes):
    with h5py.File(path, "w") as f:
        g = f.create_group(f"edges/{name}")
        for key, value, of in (("source_node_id", sources, source), ("target_node_id", targets, target)):
            g[key] = np.uint64(value)
            g[key].attrs["node_population"] = of
        g["edge_type_id"], g["edge_group_id"], g["edge_group_index"] = np.uint32(types), np.uint16([x for x, _ in groups]), np.uint32([x for _, x in groups])
        for key, value in attributes.items():
            g[key] = value


def write(folder):
    """Cells have the ids 7, 3 and 5; virtual nodes have none. Attributes of groups stand beside types that say something else."""
    for part in ("network", "cells", "synapses"):
        (folder / part).mkdir(parents=True)
    nodes(folder / "network/cells.h5", "cells", [1, 1, 2], [(0, 0), (1, 0), (0, 1)], [7, 3, 5])
    nodes(folder / "network/in.h5", "in", [5, 5], [(0, 0), (0, 1)])
    (folder / "network/cell_types.csv").write_text("node_type_id model_type model_template dynamics_params\n1 point_process nrn:IntFire1 fire.json\n2 point_neuron nest:iaf_psc_exp exp.json\n")
    (folder / "network/in_types.csv").write_text("node_type_id model_type pop_name\n5 virtual \"two of them\"\n")
    edges(folder / "network/in_cells.h5", "in_to_cells", "in", "cells", [0, 1, 0, 1, 0], [7, 7, 3, 3, 5], [10, 11, 10, 12, 11], [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)],
          {"0/nsyns": np.uint16([2, 3]), "1/syn_weight": np.float64([.25, 900]), "1/delay": np.float64([.5, .5]), "2/syn_weight": np.float64([.7])})
    edges(folder / "network/cells_cells.h5", "cells_to_cells", "cells", "cells", [7, 3], [3, 7], [20, 21], [(0, 0), (0, 1)], {"0/nsyns": np.uint16([1, 1])})
    head = "edge_type_id syn_weight delay weight_function dynamics_params\n"
    (folder / "network/in_types_of_edges.csv").write_text(head + "10 .3 1.5 wmax exc.json\n11 99 9.9 wmax exc.json\n12 .2 1.5 NULL inh.json\n")
    (folder / "network/cells_types_of_edges.csv").write_text(head + "20 .9 2.0 wmax exc.json\n21 .1 1.5 wmax inh.json\n")
    (folder / "cells/fire.json").write_text(json.dumps({"tau": TAU[0] / 1000, "type": "NEURON_IntFire1", "refrac": REFRACTORY / 1000}))
    (folder / "cells/exp.json").write_text(json.dumps(EXP))
    for name, sign in (("exc", 1), ("inh", -1)):
        (folder / f"synapses/{name}.json").write_text(json.dumps({"level_of_detail": "instantaneous", "sign": sign}))
    with h5py.File(folder / "spikes.h5", "w") as f:
        f["spikes/in/node_ids"] = np.uint64([k for k, times in SPIKES.items() for _ in times])
        f["spikes/in/timestamps"] = np.float64([t for times in SPIKES.values() for t in times])
    networks = {"nodes": [{"nodes_file": f"$NET/{x}.h5", "node_types_file": f"${{NET}}/{y}_types.csv"} for x, y in (("in", "in"), ("cells", "cell"))],
                "edges": [{"edges_file": f"$NET/{x}_cells.h5", "edge_types_file": f"$NET/{x}_types_of_edges.csv"} for x in ("in", "cells")]}
    (folder / "circuit.json").write_text(json.dumps({"manifest": {"$BASE": ".", "$NET": "$BASE/network"}, "networks": networks,
                                                     "components": {"point_neuron_models_dir": "$BASE/cells", "synaptic_models_dir": "$BASE/synapses"}}))
    (folder / "simulation.json").write_text(json.dumps({"run": {"tstop": 60., "dt": TICK}, "inputs": {"a": {"input_type": "spikes", "module": "h5", "input_file": "./spikes.h5", "node_set": "in"}}}))
    (folder / "config.json").write_text(json.dumps({"network": "./circuit.json", "simulation": "./simulation.json"}))


def expected():
    """(ms, id): cells of IntFire1 by events, the exponential one by its exact step."""
    queue, out, order = [], [], 0
    m, at, blocked = [0., 0.], [0., 0.], [-1., -1.]

    def send(source, k, t):
        nonlocal order
        for of, s, target, weight, nsyns, delay in EDGES:
            if (of, s) == (source, k) and target < 2:
                heapq.heappush(queue, (round(t + delay, 6), order, target, weight * nsyns))
                order += 1
    for k, times in SPIKES.items():
        for t in times:
            send("in", k, t)
    while queue and queue[0][0] <= 60:
        t, _, i, weight = heapq.heappop(queue)
        if t <= blocked[i]:
            continue
        m[i], at[i] = m[i] * math.exp((at[i] - t) / TAU[i]) + weight, t
        if m[i] > 1:
            m[i], at[i], blocked[i] = 0., t + REFRACTORY, t + REFRACTORY
            out.append((t, (7, 3)[i]))
            send("cells", i, t)
    p = EXP
    kept, faded = math.exp(-TICK / p["tau_m"]), math.exp(-TICK / p["tau_syn_ex"])
    gain = (kept - faded) / (1 / p["tau_syn_ex"] - 1 / p["tau_m"]) / p["C_m"]
    v = current = wait = 0.
    arrivals = [round((t + .5) / TICK) for t in SPIKES[0]]
    for k in range(1, round(60 / TICK) + 1):
        v, wait = (kept * v + gain * current, wait) if wait <= 0 else (0., wait - 1)
        current = faded * current + 900 * arrivals.count(k)
        if v >= p["V_th"] - p["E_L"]:
            v, wait = 0., p["t_ref"] / TICK
            out.append((k * TICK, 5))
    return sorted((round(t, 3), i) for t, i in out)


def run(tmp, network, table, ticks):
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/burst.yaml", f"{tmp}/job", f"{tmp}/cache", f"network.file={network}", f"input.file={table}", "input.random=0",
                        f"ticks={ticks}", "output.rates_every=0"], capture_output=True, text=True)
    assert r.returncode == 0, r
    return f"{tmp}/job/fired.npy"


def check_small(tmp):
    folder = pathlib.Path(tmp, "small")
    write(folder)
    told = json.loads(networks("import", folder / "config.json", "--out", f"{tmp}/s.safetensors", "--inject", f"{tmp}/s.tsv", "--json"))
    count = sum(map(len, SPIKES.values()))
    assert (told["neurons"], told["virtual_neurons"], told["synapses"], told["injections"], told["ticks"], told["rounded_neurons"]) == (5, 2, 7, count, 1200, 0), told
    assert sha256(f"{tmp}/s.safetensors") == SMALL_SHA256
    fired = run(f"{tmp}/small", f"{tmp}/s.safetensors", f"{tmp}/s.tsv", told["ticks"])
    networks("export", folder / "config.json", fired, "--out", f"{tmp}/s.h5")
    networks("export", folder / "config.json", fired, "--out", f"{tmp}/s.csv")
    with h5py.File(f"{tmp}/s.h5") as f:
        assert list(f["spikes"]) == ["cells"] and f.attrs["magic"] == 0x0A7A, list(f["spikes"])
        got = [(round(float(t), 3), int(i)) for t, i in zip(f["spikes/cells/timestamps"], f["spikes/cells/node_ids"])]
    want = expected()
    assert sorted(got) == want and {i for _, i in want} == {7, 3, 5} and len(want) > 9, (got, want)
    rows = [line.split() for line in pathlib.Path(f"{tmp}/s.csv").read_text().splitlines()]
    assert rows[0] == ["timestamps", "population", "node_ids"] and sorted((round(float(t), 3), int(i)) for t, _, i in rows[1:]) == want, rows
    check_units(tmp, folder)
    check_refusals(tmp, folder)


def check_units(tmp, folder):
    """The same spikes in seconds are the same injections; times without a unit are milliseconds."""
    want = pathlib.Path(tmp, "s.tsv").read_bytes()
    path = folder / "spikes.h5"
    was = path.read_bytes()
    for units, scale in (("seconds", .001), ("s", .001), ("ms", 1), ("milliseconds", 1)):
        with h5py.File(path, "r+") as f:
            del f["spikes/in/timestamps"]
            f["spikes/in/timestamps"] = np.float64([t * scale for times in SPIKES.values() for t in times])
            f["spikes/in/timestamps"].attrs["units"] = units
        networks("import", folder / "config.json", "--out", f"{tmp}/u.safetensors", "--inject", f"{tmp}/u.tsv")
        assert pathlib.Path(tmp, "u.tsv").read_bytes() == want, units
    with h5py.File(path, "r+") as f:
        f["spikes/in/timestamps"].attrs["units"] = "samples"
    assert "is in 'samples'" in networks("import", folder / "config.json", "--out", f"{tmp}/u.safetensors", "--inject", f"{tmp}/u.tsv", code=1)
    path.write_bytes(was)


def check_refusals(tmp, folder):
    """One change to the files, and what names it."""
    def refused(name, old, new, *words, options=()):
        path = folder / name
        was = path.read_text()
        assert old in was, (name, old)
        path.write_text(was.replace(old, new))
        said = networks("import", folder / "config.json", "--out", f"{tmp}/no.safetensors", "--inject", f"{tmp}/no.tsv", *options, code=1)
        path.write_text(was)
        assert all(word in said for word in words) and not os.path.exists(f"{tmp}/no.safetensors"), said
    refused("network/in_types_of_edges.csv", "10 .3 1.5", "10 .3 1.52", "1.52 ms", "multiple of the tick of 0.05 ms", "edge 0")
    refused("network/in_types_of_edges.csv", "10 .3 1.5", "10 .3 0.0", "edge 0", "0 ticks")
    refused("network/in_types_of_edges.csv", "1.5 wmax", "1.5 gaussianLL", "weight_function", "gaussianLL")
    refused("network/cell_types.csv", "nest:iaf_psc_exp", "nest:iaf_psc_alpha", "iaf_psc_alpha", "node type 2")
    refused("network/cell_types.csv", "point_neuron", "biophysical", "biophysical")
    refused("cells/exp.json", '"V_reset": -70.0', '"V_reset": -60.0', "V_reset")
    refused("cells/exp.json", '"C_m"', '"rho": 1, "C_m"', "rho")
    refused("cells/fire.json", '"refrac"', '"refr"', "refr")
    refused("simulation.json", '"spikes"', '"current_clamp"', "current_clamp", "input a")
    refused("circuit.json", "$BASE/network", "$BASIS/network", "$BASIS")
    refused("simulation.json", "0.05", "0.005", "delay", "300 ticks")
    refused("synapses/exc.json", '"sign": 1', '"sign": 1e-320', "the weights of neuron", "too small")
    refused("synapses/exc.json", '"sign": 1', '"sign": 1e300', "neuron.current_gain")
    refused("network/in_types_of_edges.csv", "10 .3", "10 1e308", "edge 0 has the weight inf")
    said = networks("import", folder / "config.json", "--out", folder / "config.json", code=1)
    assert "is read from" in said and (folder / "config.json").stat().st_size > 0, said
    check_files(tmp, folder, refused)


def check_files(tmp, folder, refused):
    """One change to an HDF5 file, which is then restored."""
    @contextlib.contextmanager
    def changed(name, change):
        path = folder / name
        was = path.read_bytes()
        with h5py.File(path, "r+") as f:
            change(f)
        yield
        path.write_bytes(was)

    def refused_file(name, change, *words):
        with changed(name, change):
            refused("simulation.json", "0.05", "0.05", *words)

    def own(key, value):  # of the exponential cell, then alone in a group
        def change(f):
            g = f["nodes/cells"]
            g["node_group_id"][2], g["node_group_index"][2], g[f"2/dynamics_params/{key}"] = 2, 0, np.float64([value])
        return change

    def sparse(f):
        del f["spikes/in/timestamps"]
        f.create_dataset("spikes/in/timestamps", (10**10,), "f8", chunks=(1 << 20,))

    refused_file("network/in_cells.h5", lambda f: f["edges/in_to_cells/source_node_id"].attrs.__setitem__("node_population", np.full(40, b"a population of 40", "S18")), "no single text", "node_population")
    refused_file("network/cells.h5", lambda f: f["nodes/cells/node_id"].__setitem__(1, 7), "node 7 twice")
    refused_file("network/cells.h5", lambda f: f.create_group("nodes/" + "x" * 64), "/nodes has 64 bytes")
    refused_file("network/in_cells.h5", lambda f: f.create_group("edges/" + "x" * 64), "/edges has 64 bytes")
    refused_file("spikes.h5", lambda f: f.create_group("spikes/" + "x" * 64), "/spikes has 64 bytes")
    def larger(path, n):  # fewer numbers than any file may have, more than its rows
        def change(f):
            f.pop(path, None)
            f.create_dataset(path, (n,), "f8", chunks=(1 << 20,), compression="gzip")
        return change

    refused_file("spikes.h5", sparse, "timestamps has 10000000000 numbers in 0 bytes")
    for name, path, words in (("spikes.h5", "spikes/in/timestamps", "/spikes/in/timestamps 16000000"), ("network/cells.h5", "nodes/cells/1/dynamics_params/tau", "tau has 16000000 elements; expected at most 3"),
                              ("network/cells.h5", "nodes/cells/node_group_index", "node_group_index has 16000000 elements; expected 3"),
                              ("network/in_cells.h5", "edges/in_to_cells/1/syn_weight", "syn_weight has 16000000 elements; expected at most 5"),
                              ("network/in_cells.h5", "edges/in_to_cells/target_node_id", "target_node_id has 16000000 elements; expected 5")):
        refused_file(name, larger(path, 16_000_000), words)
    refused_file("network/cells.h5", lambda f: f["nodes/cells"].__setitem__("0/dynamics_params/V_m", np.float64([0, -68])), "/nodes/cells/0/dynamics_params/V_m", "node 0")
    def ids(array, value):  # whole numbers, as a list of float64
        def change(f):
            was = np.float64(f[f"edges/in_to_cells/{array}"])
            attributes = dict(f[f"edges/in_to_cells/{array}"].attrs)
            del f[f"edges/in_to_cells/{array}"]
            f[f"edges/in_to_cells/{array}"] = np.concatenate([was[:-1], [value]])
            f[f"edges/in_to_cells/{array}"].attrs.update(attributes)
        return change

    refused_file("network/in_cells.h5", ids("target_node_id", 3.9), "/edges/in_to_cells/target_node_id[4] is 3.9; expected a whole number")
    refused_file("network/in_cells.h5", ids("source_node_id", np.nan), "source_node_id[4] is nan")
    path = folder / "spikes.h5"
    was = path.read_bytes()
    path.write_bytes(was.replace(b"TREE", b"TRUE"))
    refused("simulation.json", "0.05", "0.05", "spikes.h5 is damaged")
    path.write_bytes(was)
    refused_file("network/cells.h5", own("rho", 1), "/nodes/cells/2/dynamics_params/rho", "no such parameter")
    refused_file("network/cells.h5", own("I_e", 1), "I_e is 1")
    refused_file("network/cells.h5", own("V_m", np.nan), "dynamics_params/V_m: value 0 is no number")
    refused_file("network/cells.h5", lambda f: f["nodes/cells/node_group_id"].__setitem__(0, 1024), "node 0 is of group 1024")
    for key, value, v in (("I_e", 0, 0), ("V_m", -68, 2)):
        with changed("network/cells.h5", own(key, value)):
            networks("import", folder / "config.json", "--out", f"{tmp}/own.safetensors")
        data = pathlib.Path(tmp, "own.safetensors").read_bytes()
        head = 8 + int.from_bytes(data[:8], "little")
        at, end = json.loads(data[8:head])["neuron.v"]["data_offsets"]
        assert np.frombuffer(data[head + at:head + end], "<f4").tolist() == [0, 0, 0, 0, v], (key, value)


def check_published(tmp):
    """Inputs are at whole microseconds, so at ticks of 10 us each spike comes within half a tick. The files of the cells' parameters
    are not a part of the folder: IntFire1, tau 24 and 7 ms, refractory 3 ms."""
    folder = pathlib.Path(tmp, "published")
    for path, text in (("point_neuron_models_dir/IntFire1_exc_1", {"tau": .024, "refrac": .003}), ("point_neuron_models_dir/IntFire1_inh_1", {"tau": .007, "refrac": .003}),
                       ("synaptic_models/instanteneousExc", {"sign": 1}), ("synaptic_models/instanteneousInh", {"sign": -1})):
        (folder / "shared_components" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "shared_components" / f"{path}.json").write_text(json.dumps(text))
    (folder / "300_intfire").symlink_to(PUBLISHED / "300_intfire")
    config = folder / "300_intfire/config.json"
    told = json.loads(networks("import", config, "--tick", .01, "--out", f"{tmp}/p.safetensors", "--inject", f"{tmp}/p.tsv", "--json"))
    assert told["synapses"] == 87720 and told["neurons"] == 420 and told["ticks"] == 300000, told
    assert sha256(f"{tmp}/p.safetensors") == PUBLISHED_SHA256
    networks("export", config, run(folder, f"{tmp}/p.safetensors", f"{tmp}/p.tsv", told["ticks"]), "--tick", .01, "--out", f"{tmp}/p.h5")
    lists = []
    for path in (f"{tmp}/p.h5", PUBLISHED / "300_intfire/output/spikes.h5"):
        with h5py.File(path) as f:
            lists.append(sorted(zip(f["spikes/v1/node_ids"][:].tolist(), f["spikes/v1/timestamps"][:].tolist())))
    ours, theirs = lists
    assert len(theirs) == 4322 and [i for i, _ in ours] == [i for i, _ in theirs], (len(ours), len(theirs))
    assert max(abs(a - b) for (_, a), (_, b) in zip(ours, theirs)) <= .005 + 1e-6


def main():
    with temporary() as tmp:
        check_small(tmp)
        if PUBLISHED.is_dir():
            check_published(tmp)
        else:
            print("skipped: data: no published SONATA network (BRR_SONATA_DIR)")
    print("ok: spikes of SONATA networks")
    return 0


if __name__ == "__main__":
    sys.exit(main())

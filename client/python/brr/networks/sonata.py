"""SONATA (github.com/AllenInstitute/sonata): networks of point neurons as network files, and spikes of their runs. Nodes and edges lie in HDF5,
their types in tables, the rest in JSON. An array is refused before it is read where it cannot belong to its rows."""
import math
import os
import re

import h5py
import numpy as np

from . import Refused, member, number, read_json
from .._files import write_whole
from .netfile import MOST_AREAS, MOST_NEURONS, Network, column, shortest

VIRTUAL, INTFIRE1, DELTA, EXPONENTIAL = range(4)
MODELS = {"nrn:IntFire1": INTFIRE1, "nest:iaf_psc_delta": DELTA, "nest:iaf_psc_exp": EXPONENTIAL}
# Sparse and compressed arrays may be larger than their file, but not without end: MOST_NUMBERS take 8 GiB.
FEW_NUMBERS, MOST_NUMBERS, MOST_NUMBERS_A_BYTE, MOST_NAME, MOST_TYPES = 1 << 24, 1 << 30, 1024, 63, 4096
# LARGEST: the sum of two synapses whose weight and psp are at most 255; STEPS: of the largest weight, where weights have no unit.
LARGEST, STEPS, MOST_DECIMALS, MOST_DELAY = 255 * 255 + 254, 255 * 255, 9, 255
MILLISECONDS = {"ms": 1, "msec": 1, "millisecond": 1, "milliseconds": 1, "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000, "us": .001, "microseconds": .001}


# ---- files ---------------------------------------------------------------------------------------------------------------------------

class Hdf5:
    """An HDF5 file as lists of numbers."""

    def __init__(self, path):
        self.path = path
        try:
            self.file = h5py.File(path, "r")
        except OSError as e:
            raise (Refused(f"{path} is no HDF5 file that can be read: {e}") if os.path.exists(path) else Refused(f"{path} does not exist")) from None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        self.file.close()
        if kind in (KeyError, RuntimeError, OSError):  # what h5py raises where a part of the file leads nowhere
            raise Refused(f"{self.path} is damaged: {error}") from None

    def names(self, group):
        """In the order of names."""
        if group not in self.file or not isinstance(self.file[group], h5py.Group):
            raise Refused(f"{self.path} has no group /{group}")
        names = sorted(self.file[group], key=os.fsencode)
        for name in names:
            if len(os.fsencode(name)) > MOST_NAME:
                raise Refused(f"{self.path}: a name in /{group} has {len(os.fsencode(name))} bytes; expected at most {MOST_NAME}")
        return names

    def list_of(self, path, rows=None, at_most=None):
        """The data set of a list of numbers: of `rows` elements, or of `at_most`. It is not read yet."""
        found = self.file[path] if path in self.file else None
        if not isinstance(found, h5py.Dataset) or found.ndim != 1 or found.dtype.kind not in "iuf":
            raise Refused(f"{self.path}: /{path} is no list of numbers")
        n, stored = len(found), found.id.get_storage_size()
        if rows is not None and n != rows or at_most is not None and n > at_most:
            raise Refused(f"{self.path}: /{path} has {n} elements; expected {rows if rows is not None else f'at most {at_most}'}")
        if n > FEW_NUMBERS and (n > MOST_NUMBERS or n // MOST_NUMBERS_A_BYTE > stored):
            raise Refused(f"{self.path}: /{path} has {n} numbers in {stored} bytes of the file; expected at most {MOST_NUMBERS} numbers, and at most {MOST_NUMBERS_A_BYTE} in a byte")
        return found

    def whole(self, path, rows=None):
        values = self._read(path, self.list_of(path, rows))
        if values.dtype.kind == "f":
            column(f"{self.path}: /{path}", values, len(values), -2**53, 2**53)
        return np.minimum(values, np.uint64((1 << 63) - 1)).astype("i8") if values.dtype.kind == "u" else values.astype("i8")

    def optional(self, path, rows):
        return self.whole(path, rows) if path in self.file else None

    def real(self, path, at_most):
        return self._read(path, self.list_of(path, at_most=at_most)).astype("f8")

    def _read(self, path, found):
        try:
            return found[:]
        except OSError as e:
            raise Refused(f"{self.path}: /{path} cannot be read: {e}") from None

    def text(self, path, attribute):
        value = self.file[path].attrs.get(attribute) if path in self.file else None
        value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if not isinstance(value, str) or len(os.fsencode(value)) > MOST_NAME:
            raise Refused(f"{self.path}: /{path} has no single text as attribute {attribute}")
        return value


class Document:
    """A JSON file, and the folder that its relative paths begin in."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.json = read_json(self.path, 64 << 20)

    def fill_in(self, path):
        """With the variables of its manifest, which may lead to variables."""
        values = {key.lstrip("$"): value for key, value in (member(self.json, "manifest") or {}).items() if isinstance(value, str)}
        for _ in range(16):
            if "$" not in path:
                return path
            dollar = path[path.index("$"):]
            found = re.match(r"\$(?:\{([^}]*)\}|(\w+))", dollar, re.A)
            name = found and (found.group(1) or found.group(2))
            if name not in values:
                raise Refused(f"{self.path}: the manifest has no variable for {dollar}")
            path = path.replace(dollar, values[name] + dollar[found.end():], 1)
        raise Refused(f"{self.path}: the manifest's variables lead to each other")

    def resolve(self, path, what):
        if not isinstance(path, str):
            raise Refused(f"{self.path} has no path as {what}")
        return os.path.abspath(os.path.join(os.path.dirname(self.path), self.fill_in(path)))


class Config:
    """A configuration of a circuit, of a simulation, or of both."""

    def __init__(self, path):
        root = Document(path)
        self.circuit, self.simulation = self._named(root, "network", "networks"), self._named(root, "simulation", "run")
        self.node_sets = self._named(self.simulation, "node_sets_file", None) if self.simulation else None
        if not self.circuit or member(self.circuit.json, "networks") is None:
            raise Refused(f'{path} names no SONATA circuit: expected "networks", or "network" with the path of a file')

    @staticmethod
    def _named(document, key, part):
        """The document that another one names, or that one itself if it has `part`."""
        path = member(document.json, key)
        if isinstance(path, str):
            return Document(document.resolve(path, key))
        return document if part and member(document.json, part) is not None else None

    def run(self, key, absent):
        return number(member(member(self.simulation.json, "run"), key), absent) if self.simulation else absent

    def files(self, kind, keys):
        """Of each entry of the circuit's nodes or edges the paths of `keys`; None: it has none."""
        for entry in member(self.circuit.json["networks"], kind) or []:
            texts = [member(entry, key) for key in keys]
            yield [self.circuit.resolve(text, key) if isinstance(text, str) and text != "NULL" else None for text, key in zip(texts, keys)]

    def component(self, key, name):
        return os.path.join(self.circuit.resolve(member(member(self.circuit.json, "components"), key), key), name)


class Types:
    """A table of node types or edge types: columns separated by blanks, NULL for an absent value; and the parameters that its rows name."""

    def __init__(self, path, id_name):
        self.path, self.rows, self.row_of, self.own, self.own_path = path, [], {}, [], []
        if not path:
            return
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = [(i, re.findall(r'"((?:[^"]|"")*)"(?=\s|$)|(\S+)', line)) for i, line in enumerate(file, 1) if line.strip() and not line.lstrip().startswith("#")]
        cells = [(i, [(quoted or plain).replace('""', '"') for quoted, plain in row]) for i, row in lines]
        names = cells[0][1] if cells else []
        if id_name not in names:
            raise Refused(f"{path} has no column {id_name}")
        if len(cells) > MOST_TYPES + 1:
            raise Refused(f"{path} has more than {MOST_TYPES} types")
        for line, row in cells[1:]:
            values = {name: text for name, text in zip(names, row) if text not in ("", "NULL", "None")}
            if not re.fullmatch(r"-?\d+", values.get(id_name, "")):
                raise Refused(f"{path}:{line}: {id_name} is '{values.get(id_name, '')}'; expected a whole number")
            self.row_of.setdefault(int(values[id_name]), len(self.rows))
            self.rows.append(values)
        self.ids = [int(values[id_name]) for values in self.rows]

    def load_parameters(self, config, components):
        for values in self.rows:
            name = values.get("dynamics_params")
            self.own_path.append(config.component(components, name) if name else None)
            self.own.append(read_json(self.own_path[-1], 64 << 20) if name else {})

    def number(self, row, column, absent):
        try:
            return float(self.rows[row][column]) if column in self.rows[row] else absent
        except ValueError:
            raise Refused(f"{self.path}: {column} of type {self.ids[row]} is '{self.rows[row][column]}'; expected a number") from None


# ---- nodes ---------------------------------------------------------------------------------------------------------------------------

def ticks_of(ms, tick_ms, low, high, what):
    ticks = ms / tick_ms
    if not abs(ticks - np.rint(ticks)) <= 1e-6 * max(ticks, 1):
        raise Refused(f"{what}: {ms:g} ms is no multiple of the tick of {tick_ms:g} ms; choose another one with --tick")
    if not low <= np.rint(ticks) <= high:
        raise Refused(f"{what}: {ms:g} ms are {ticks:.0f} ticks of {tick_ms:g} ms; expected {low} to {high}: choose another tick with --tick")
    return int(np.rint(ticks))


def positive(name, value):
    if not value > 0:
        raise Refused(f"parameter {name} is {value:g}; expected a time above 0")


def gain_of(tick, tau_m, tau_s, capacity):
    """What a current of 1 that decays with tau_s adds to a membrane in a tick."""
    kept, current_kept = math.exp(-tick / tau_m), math.exp(-tick / tau_s)
    if abs(tau_m - tau_s) < 1e-9 * tau_m:
        return tick / capacity * kept
    return (kept - current_kept) / (1 / tau_s - 1 / tau_m) / capacity


class Parameters:
    """Parameters of one node: those of its group, else those of its type's file."""

    def __init__(self, population, types, row, group, own):
        self.population, self.types, self.row, self.group, self.own = population, types, row, group, own

    def only(self, *allowed):
        for name in self.types.own[self.row]:
            if name not in allowed:
                raise Refused(f"{self.types.own_path[self.row]}: parameter {name}: the engine has none such")
        for name in self.own:
            if name not in allowed:
                raise Refused(f"/nodes/{self.population}/{self.group}/dynamics_params/{name}: the engine has no such parameter")

    def get(self, name, absent=math.nan):
        if name in self.own:
            return self.own[name]
        value = number(self.types.own[self.row][name]) if name in self.types.own[self.row] else absent
        if not math.isfinite(value):
            raise Refused(f"{self.types.own_path[self.row] or self.types.path}: parameter {name} of node type {self.types.ids[self.row]} is missing or no number")
        return value


def membrane(tick_ms, tau_ms, threshold, v, refractory):
    return {"threshold": threshold, "leak": -math.expm1(-tick_ms / tau_ms), "v": v, "current_leak": 1, "current_gain": 1, "refractory": refractory}


def intfire1(p, tick_ms):
    """Its parameters are in seconds; it fires above 1."""
    p.only("type", "tau", "refrac")
    tau, refractory = p.get("tau"), p.get("refrac")
    positive("tau", tau)
    return membrane(tick_ms, tau * 1000, np.nextafter(np.float32(1), np.float32(2)), 0, ticks_of(refractory * 1000, tick_ms, 0, 65535, "refrac"))


def nest(p, tick_ms, exponential):
    """Membranes are kept from E_L on."""
    p.only("tau_m", "E_L", "V_th", "V_reset", "t_ref", "C_m", "tau_syn_ex", "tau_syn_in", "V_m", "I_e")
    tau, rest, threshold, reset, refractory = (p.get(name) for name in ("tau_m", "E_L", "V_th", "V_reset", "t_ref"))
    v, constant = p.get("V_m", rest), p.get("I_e", 0)
    positive("tau_m", tau)
    ticks = ticks_of(refractory, tick_ms, 0, 65535, "t_ref")
    if reset != rest:
        raise Refused(f"V_reset is {reset:g} and E_L {rest:g}; the engine's neurons rest where they are reset to")
    if constant:
        raise Refused(f"I_e is {constant:g}; the engine's constants belong to areas, not to neurons")
    neuron = membrane(tick_ms, tau, threshold - rest, v - rest, ticks)
    if exponential:
        excitatory, inhibitory, capacity = p.get("tau_syn_ex"), p.get("tau_syn_in"), p.get("C_m")
        positive("tau_syn_ex", excitatory)
        positive("C_m", capacity)
        if abs(excitatory - inhibitory) > 1e-9 * excitatory:
            raise Refused(f"tau_syn_ex is {excitatory:g} ms and tau_syn_in {inhibitory:g} ms; the engine has one time for a neuron's synapses")
        neuron |= {"current_leak": -math.expm1(-tick_ms / excitatory), "current_gain": gain_of(tick_ms, tau, excitatory, capacity)}
    return neuron


def model_of(types, row):
    kind, name = types.rows[row].get("model_type"), types.rows[row].get("model_template")
    if kind == "virtual":
        return VIRTUAL
    if kind not in ("point_process", "point_neuron"):
        raise Refused(f"{types.path}: node type {types.ids[row]} is of model_type {kind or 'NULL'}; expected virtual, point_neuron or point_process")
    if name not in MODELS:
        raise Refused(f"{types.path}: node type {types.ids[row]} is of model_template {name or 'NULL'}; expected {', '.join(MODELS)}")
    return MODELS[name]


class Population:
    """Nodes, and the neurons first … first + n − 1 that they become."""

    def __init__(self, name, first, ids, n):
        self.name, self.first, self.n, self.ids = name, first, n, ids
        if ids is not None:
            self.order = np.argsort(ids, kind="stable")
            self.sorted = ids[self.order]
            twice = self.sorted[1:][self.sorted[1:] == self.sorted[:-1]]
            if len(twice):
                raise Refused(f"population {name} has node {twice[0]} twice")

    def neurons_of(self, ids):
        """−1 where there is no such node."""
        if self.ids is None:
            return np.where((ids >= 0) & (ids < self.n), ids + self.first, -1)
        at = np.minimum(np.searchsorted(self.sorted, ids), max(self.n - 1, 0))
        return np.where(self.sorted[at] == ids, self.order[at] + self.first, -1) if self.n else np.full(len(ids), -1)


class Sonata:
    """A network while it is read: nodes by population, then the edges between them."""

    def __init__(self, config, tick_ms):
        self.tick_ms = config.run("dt", math.nan) if tick_ms is None else tick_ms
        if math.isnan(self.tick_ms):
            raise Refused(f"{config.circuit.path} has no run.dt; give the length of a tick with --tick MS")
        if not 0 < self.tick_ms <= 1000:
            raise Refused(f"a tick of {self.tick_ms:g} ms; expected more than 0, at most 1000")
        self.populations, self.areas, self.n = {}, [], 0
        self.neurons = {"threshold": [], "v": [], "leak": [], "current_leak": [], "current_gain": [], "refractory": [], "area": []}
        self.model = []
        for path, types_path in config.files("nodes", ("nodes_file", "node_types_file")):
            self._read_nodes(config, path, types_path)
        if not self.n:
            raise Refused(f"{config.circuit.path}: networks.nodes lists no node")
        dtypes = {"refractory": "<u2", "area": "<u4"}
        self.neurons = {name: np.concatenate(parts).astype(dtypes.get(name, "<f4")) for name, parts in self.neurons.items()}
        self.model = np.concatenate(self.model)

    def _read_nodes(self, config, path, types_path):
        if not path:
            raise Refused(f"{config.circuit.path} has no path as nodes_file")
        with Hdf5(path) as file:
            types = Types(types_path, "node_type_id")
            models = [model_of(types, row) for row in range(len(types.rows))]  # before the parameters of other models are looked for
            types.load_parameters(config, "point_neuron_models_dir")
            for name in file.names("nodes"):
                try:
                    self._read_population(file, types, models, name)
                except Refused as e:
                    raise Refused(f"{path} cannot be imported ({e})") from None

    def _read_population(self, file, types, models, name):
        group = f"nodes/{name}"
        if name in self.populations:
            raise Refused(f"two files have a population {name}")
        n = len(file.list_of(f"{group}/node_type_id"))
        if self.n + n > MOST_NEURONS:
            raise Refused(f"more than {MOST_NEURONS} nodes")
        type_ids = file.whole(f"{group}/node_type_id")
        ids, groups, indices = (file.optional(f"{group}/{array}", n) for array in ("node_id", "node_group_id", "node_group_index"))
        p = self.populations[name] = Population(name, self.n, ids, n)
        found, first, at = np.unique(type_ids, return_index=True, return_inverse=True)
        for type_id, node in sorted(zip(found, first), key=lambda pair: pair[1]):
            if int(type_id) not in types.row_of:
                raise Refused(f"{types.path or 'the circuit'} has no node type {type_id}, which node {node} of population {name} has")
        rows = np.array([types.row_of[int(type_id)] for type_id in found], int)[at]
        area_of = {}
        for row in rows[np.sort(np.unique(rows, return_index=True)[1])].tolist():
            area_of[row] = len(self.areas)
            if len(self.areas) == MOST_AREAS:
                raise Refused(f"more than {MOST_AREAS} node types")
            self.areas.append({"name": f"{name}.{types.ids[row]}".encode()[:63].decode("utf-8", "ignore"), "psp_divide": False, "mp_driven_psp": False})
        model = np.array(models)[rows] if n else np.zeros(0, int)
        p.simulated = bool((model != VIRTUAL).any())
        values = self._parameters(file, types, p, (type_ids, rows, model, groups, indices))
        areas = np.zeros(len(types.rows) + 1, int)
        areas[list(area_of)] = list(area_of.values())
        values["area"] = areas[rows]
        for key, parts in self.neurons.items():
            parts.append(values[key])
        self.model.append(model)
        self.n += n

    def _parameters(self, file, types, p, nodes):
        """Neurons of one type and group share what they have no values of their own for."""
        type_ids, rows, model, groups, indices = nodes
        values = {key: np.zeros(p.n) for key in self.neurons}
        values["threshold"][:] = 1  # a virtual node fires when an injection of 1 reaches it
        own, known = {}, {}
        for node in np.flatnonzero(model != VIRTUAL).tolist():
            row, group = int(rows[node]), int(groups[node]) if groups is not None else 0
            try:
                if group not in own:
                    own[group] = self._group(file, p, node, group)
                mine = {}
                for name, numbers in own[group].items():
                    at = int(indices[node]) if indices is not None else node
                    if not 0 <= at < len(numbers):
                        raise Refused(f"/nodes/{p.name}/{group}/dynamics_params/{name} has {len(numbers)} values; node {node} has index {at}")
                    mine[name] = float(numbers[at])
                    if not math.isfinite(mine[name]):
                        raise Refused(f"/nodes/{p.name}/{group}/dynamics_params/{name}: value {at} is no number")
                key = (row, group, tuple(mine.values()))
                if key not in known:
                    parameters = Parameters(p.name, types, row, group, mine)
                    known[key] = intfire1(parameters, self.tick_ms) if model[node] == INTFIRE1 else nest(parameters, self.tick_ms, model[node] == EXPONENTIAL)
            except Refused as e:
                raise Refused(f"node {node} of population {p.name} (type {type_ids[node]}) cannot be imported ({e})") from None
            for name, value in known[key].items():
                values[name][node] = value
        return values

    @staticmethod
    def _group(file, p, node, group):
        if not 0 <= group < 1024:
            raise Refused(f"node {node} is of group {group}; expected 0 to 1023")
        folder = f"nodes/{p.name}/{group}/dynamics_params"
        return {name: file.real(f"{folder}/{name}", p.n) for name in file.names(folder)} if folder in file.file else {}

    def population(self, name, where):
        if name not in self.populations:
            raise Refused(f"{where} is of population {name}, which no nodes file has")
        return self.populations[name]


# ---- edges ---------------------------------------------------------------------------------------------------------------------------

def check_edge_types(types):
    for row, values in enumerate(types.rows):
        for column, expected in (("weight_function", "wmax"), ("model_template", "static_synapse")):
            if values.get(column, expected) != expected:
                raise Refused(f"{types.path}: {column} of edge type {types.ids[row]} is {values[column]}; expected {expected} or none")


def of_types(types, row_of_edge, column, absent):
    """An attribute of the edges' types; row −1: no type."""
    return np.array([types.number(row, column, absent) for row in range(len(types.rows))] + [absent])[row_of_edge]


class Edges:
    """Edges of one population, as they become synapses of the network."""

    def __init__(self, net, file, types, name):
        self.net, self.file, self.types, self.path = net, file, types, f"edges/{name}"
        self.n = len(file.list_of(f"{self.path}/source_node_id"))
        self.sources, self.source_ids = self._endpoint("source_node_id")
        self.targets, self.target_ids = self._endpoint("target_node_id")
        type_ids, groups, self.indices = (file.optional(f"{self.path}/{array}", self.n) for array in ("edge_type_id", "edge_group_id", "edge_group_index"))
        self.groups = np.zeros(self.n, "i8") if groups is None else groups
        self.rows = np.full(self.n, -1)
        if type_ids is not None and self.n:
            found, first, at = np.unique(type_ids, return_index=True, return_inverse=True)
            for type_id, edge in sorted(zip(found, first), key=lambda pair: pair[1]):
                if int(type_id) not in types.row_of:
                    raise Refused(f"{types.path or 'the circuit'} has no edge type {type_id}, which edge {edge} has")
            self.rows = np.array([types.row_of[int(type_id)] for type_id in found])[at]

    def _endpoint(self, array):
        path = f"{self.path}/{array}"
        self.file.list_of(path, self.n)
        population = self.net.population(self.file.text(path, "node_population"), f"/{path}")
        return population, self.file.whole(path, self.n)

    def _attribute(self, name, column, absent):
        """Of the edges' groups where they have it, else of their types."""
        values = of_types(self.types, self.rows, column, absent)
        for group in np.unique(self.groups).tolist():
            path = f"{self.path}/{group}/{name}"
            if path not in self.file.file:
                continue
            own, edges = self.file.real(path, self.n), np.flatnonzero(self.groups == group)
            at = edges if self.indices is None else self.indices[edges]
            bad = (at < 0) | (at >= len(own))
            if bad.any():
                raise Refused(f"edge {edges[bad.argmax()]} has index {at[bad.argmax()]} in a group of {len(own)}")
            values[edges] = own[at]
        return values

    def _check_groups(self):
        for group in np.unique(self.groups).tolist():
            if not 0 <= group < 1024:
                raise Refused(f"edge {np.argmax(self.groups == group)} is of group {group}; expected 0 to 1023")
            path = f"{self.path}/{group}/dynamics_params"
            names = self.file.names(path) if path in self.file.file else []
            if names:
                raise Refused(f"/{path}/{names[0]}: synapses of the engine have no parameters of their own")

    def read(self):
        """(source, target, weight, delay) of the edges that do something."""
        self._check_groups()
        weight, delay, nsyns = (self._attribute(name, name, absent) for name, absent in (("syn_weight", math.nan), ("delay", math.nan), ("nsyns", 1)))
        source, target = self.sources.neurons_of(self.source_ids), self.targets.neurons_of(self.target_ids)
        lost = (source < 0) | (target < 0)
        if lost.any():
            edge = int(lost.argmax())
            name = (self.sources if source[edge] < 0 else self.targets).name
            raise Refused(f"edge {edge} is from node {self.source_ids[edge]} to node {self.target_ids[edge]}; population {name} has no such node")
        virtual = self.net.model[target] == VIRTUAL
        if virtual.any():
            edge = int(virtual.argmax())
            raise Refused(f"edge {edge} ends at node {self.target_ids[edge]} of population {self.targets.name}, which is virtual")
        bad = ~(np.isfinite(weight) & np.isfinite(delay) & (nsyns >= 0) & (nsyns == np.floor(nsyns)))
        if bad.any():
            raise Refused(f"edge {int(bad.argmax())} has no syn_weight, no delay, or an nsyns that is no whole number")
        signs = np.array([number(own.get("sign"), 1) for own in self.types.own] + [1.])
        weight = weight * (nsyns * signs[self.rows])
        if not np.isfinite(weight).all():
            edge = int(np.isfinite(weight).argmin())
            raise Refused(f"edge {edge} has the weight {weight[edge]}; expected a finite one")
        at_once = self.net.model[target] != EXPONENTIAL
        ticks = self._ticks(delay, at_once)
        kept = weight != 0
        return source[kept], target[kept], weight[kept], (ticks - at_once)[kept]

    def _ticks(self, delay, at_once):
        """An instantaneous synapse is a current that lasts for one tick, and arrives a tick earlier."""
        ticks = delay / self.net.tick_ms
        whole = np.rint(ticks)
        bad = ~(np.abs(ticks - whole) <= 1e-6 * np.maximum(ticks, 1)) | (whole < 1 + at_once) | (whole > MOST_DELAY + at_once)
        if bad.any():
            edge = int(bad.argmax())
            try:
                ticks_of(float(delay[edge]), self.net.tick_ms, 1 + int(at_once[edge]), MOST_DELAY + int(at_once[edge]), "its delay")
            except Refused as e:
                raise Refused(f"edge {edge} cannot be imported ({e})") from None
        return whole.astype(int)


def read_edges(net, config):
    parts = [(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0, int))]
    for path, types_path in config.files("edges", ("edges_file", "edge_types_file")):
        if not path:
            raise Refused(f"{config.circuit.path} has no path as edges_file")
        with Hdf5(path) as file:
            types = Types(types_path, "edge_type_id")
            check_edge_types(types)
            types.load_parameters(config, "synaptic_models_dir")
            for row, own in enumerate(types.own):
                for name in own:
                    if name not in ("sign", "level_of_detail"):
                        raise Refused(f"{types.own_path[row]}: parameter {name}: the engine has none such")
            for name in file.names("edges"):
                try:
                    parts.append(Edges(net, file, types, name).read())
                except Refused as e:
                    raise Refused(f"{path} cannot be imported ({e})") from None
    return [np.concatenate(column) for column in zip(*parts)]


# ---- synapses ------------------------------------------------------------------------------------------------------------------------

class Unit:
    """The number of which all weights of a neuron are whole multiples, if there is one."""

    def __init__(self):
        self.largest, self.common, self.decimals = 0., 0, 0

    def join(self, size):
        self.largest = max(self.largest, size)
        if self.decimals < 0:
            return
        for decimals in range(self.decimals, MOST_DECIMALS + 1):
            scaled = size * 10.**decimals
            if scaled >= 1 << 53:
                break
            whole = round(scaled)
            if abs(scaled - whole) > 1e-9 * whole:
                continue
            common = self.common * 10**(decimals - self.decimals)
            if common >= 1 << 64:
                break
            self.common, self.decimals = math.gcd(whole, common), decimals
            return
        self.decimals = -1

    def value(self):
        """(unit, whether it is exact)"""
        common = 0 if self.decimals < 0 else self.common / 10.**self.decimals
        return (common, True) if self.largest <= LARGEST * common else (self.largest / STEPS, False)


def factors(whole):
    """A whole weight as (weight, psp) of one synapse, or of two: that and a rest."""
    for psp in range((whole + 254) // 255, 256):
        if psp and whole % psp == 0:
            return [(whole // psp, psp)]
    return [(255, whole // 255), (whole % 255, 1)] if whole else []


def pack(net, edges):
    """The edges as synapses of whole weights; the neurons' gains become those of the weights' units. Returns synapses and how many neurons have
    rounded weights."""
    source, target, weight, delay = edges
    units, sizes = np.zeros(net.n), np.abs(weight)
    pairs, first = np.unique(np.stack([target.astype(float), sizes]), axis=1, return_index=True)
    joined, rounded = {}, 0
    for at in np.sort(first).tolist():
        joined.setdefault(int(target[at]), Unit()).join(float(sizes[at]))
    gain = net.neurons["current_gain"]
    for neuron, unit in joined.items():
        units[neuron], exact = unit.value()
        rounded += not exact
        gain[neuron] = np.float32(float(gain[neuron]) * units[neuron])
        if not gain[neuron] > 0:
            raise Refused(f"the weights of neuron {neuron} are at most {unit.largest:g}, which is too small")
    whole = np.rint(sizes / units[target]).astype(int) if len(sizes) else np.zeros(0, int)
    kinds, at = np.unique(whole, return_inverse=True)
    table = [factors(int(kind)) for kind in kinds]
    counts = np.array([len(parts) for parts in table], int)
    edge = np.repeat(np.arange(len(whole)), counts[at]) if len(whole) else np.zeros(0, int)
    flat, begin = np.array([part for parts in table for part in parts], int).reshape(-1, 2), np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(len(edge)) - np.repeat(np.concatenate([[0], np.cumsum(counts[at])])[:-1], counts[at]) if len(whole) else np.zeros(0, int)
    chosen = flat[begin[at[edge]] + within] if len(edge) else flat[:0]
    return {"src": source[edge], "dst": target[edge], "weight": chosen[:, 0], "psp": chosen[:, 1], "type": weight[edge] < 0, "delay": delay[edge]}, rounded


# ---- spikes --------------------------------------------------------------------------------------------------------------------------

def scale_of(file, path):
    """Milliseconds of one unit of a list of times."""
    units = file.file[path].attrs.get("units", "ms")
    units = units.decode("utf-8", "replace") if isinstance(units, bytes) else str(units)
    if units.strip().lower() not in MILLISECONDS:
        raise Refused(f"{file.path}: /{path} is in '{units}'; expected one of {', '.join(MILLISECONDS)}")
    return MILLISECONDS[units.strip().lower()]


def read_spikes(net, file, ids_path, times_path, population):
    """(tick, neuron) of a source's spikes."""
    ids, times = file.list_of(ids_path), file.list_of(times_path)
    if len(ids) != len(times):
        raise Refused(f"{file.path}: /{ids_path} has {len(ids)} elements and /{times_path} {len(times)}")
    scale = scale_of(file, times_path)
    ids, times = file.whole(ids_path), file.real(times_path, len(times)) * scale
    neurons, ticks = population.neurons_of(ids), np.rint(times / net.tick_ms)
    bad = neurons < 0
    bad[~bad] = net.model[neurons[~bad]] != VIRTUAL
    if bad.any():
        raise Refused(f"spike {int(bad.argmax())} of /{ids_path} is of node {ids[bad.argmax()]}, which is no virtual node of population {population.name}")
    bad = ~((ticks >= 1) & (ticks < 9e15))
    if bad.any():
        raise Refused(f"spike {int(bad.argmax())} of /{times_path} is at {times[bad.argmax()]:g} ms, before the first tick, {net.tick_ms:g} ms")
    return np.stack([ticks.astype("i8"), neurons], axis=1)


def population_of_set(net, config, node_set):
    """The population of a set of nodes, given by name or as the set itself; None: it is not one population as a whole."""
    named = member(config.node_sets.json, node_set) if isinstance(node_set, str) and config.node_sets else None if isinstance(node_set, str) else node_set
    name = member(named, "population") or (node_set if isinstance(node_set, str) else None)
    return net.populations.get(name) if isinstance(name, str) and (named is None or len(named) == 1) else None


def read_input(net, config, name, given):
    kind, module = given.get("input_type", "NULL"), given.get("module", "NULL")
    if given.get("enabled", True) is False:
        return []
    if kind != "spikes" or module not in ("h5", "sonata"):
        raise Refused(f"{config.simulation.path}: input {name} is {kind} of module {module}; expected spikes of module h5 or sonata")
    path = config.simulation.resolve(given.get("input_file"), "input_file")
    try:
        with Hdf5(path) as file:
            if "spikes/gids" in file.file:  # as earlier versions of the format have them
                population = population_of_set(net, config, given.get("node_set"))
                if not population:
                    raise Refused("its node_set is no population as a whole")
                return [read_spikes(net, file, "spikes/gids", "spikes/timestamps", population)]
            return [read_spikes(net, file, f"spikes/{p}/node_ids", f"spikes/{p}/timestamps", net.population(p, f"{path}: /spikes/{p}")) for p in file.names("spikes")]
    except Refused as e:
        raise Refused(f"{path}: input {name} cannot be imported ({e})") from None


def write_inputs(net, config, out):
    """The spikes of the simulation's inputs as a table of injections. Returns how many, and how many fell into the tick of another one."""
    given = member(config.simulation.json, "inputs") or {} if config.simulation else {}
    spikes = [part for name, one in given.items() for part in read_input(net, config, name, one)]
    spikes = np.concatenate(spikes) if spikes else np.zeros((0, 2), "i8")
    unique = np.unique(spikes, axis=0)

    def put(part):
        with open(part, "w", encoding="ascii") as file:
            file.write("tick\tid\tpotential\n")
            file.writelines(f"{tick}\t{neuron}\t1\n" for tick, neuron in unique.tolist())
    write_whole(out, put)
    return len(unique), len(spikes) - len(unique)


def import_network(path, out, inject, tick_ms):
    config = Config(path)
    net = Sonata(config, tick_ms)
    edges = read_edges(net, config)
    injections, merged = write_inputs(net, config, inject) if inject else (0, 0)
    synapses, rounded = pack(net, edges)
    Network(net.neurons, synapses, net.areas).save(out)
    ticks = config.run("tstop", 0) / net.tick_ms
    return {"neurons": net.n, "virtual_neurons": int((net.model == VIRTUAL).sum()), "synapses": len(synapses["src"]), "injections": injections, "merged_spikes": merged,
            "rounded_neurons": rounded, "tick_ms": net.tick_ms, "ticks": math.ceil(ticks - 1e-6) if 0 < ticks < 1e15 else 0}


def read_fired(path):
    """(ticks, ids) of a run."""
    if str(path).endswith(".npy"):
        fired = np.load(path, allow_pickle=False)
        if fired.ndim != 2 or fired.shape[1] != 2 or fired.dtype.kind not in "iu":
            raise Refused(f"{path}: expected whole numbers of two columns, tick and id")
        return fired[:, 0].astype("i8"), fired[:, 1].astype("i8")
    with open(path, encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
        if names[:2] != ["tick", "id"]:
            raise Refused(f"{path}: expected the columns tick and id")
        rows = np.array([line.split("\t")[:2] for line in file if line.strip()], "i8").reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def write_h5(part, lists):
    with h5py.File(part, "w") as file:
        file.attrs["magic"], file.attrs["version"] = np.uint32(0x0A7A), np.uint32([0, 1])
        spikes = file.create_group("spikes")
        for p, ids, times in lists:
            group = spikes.create_group(p.name)
            group.attrs["sorting"] = np.bytes_("by_time")
            group["node_ids"], group["timestamps"] = ids.astype("u8"), times
            group["timestamps"].attrs["units"] = np.bytes_("ms")


def write_csv(part, lists):
    with open(part, "w", encoding="utf-8") as file:
        file.write("timestamps population node_ids\n")
        for p, ids, times in lists:
            file.writelines(f"{shortest(time)} {p.name} {node}\n" for time, node in zip(times.tolist(), ids.tolist()))


def export_spikes(path, fired, out, tick_ms):
    """By population, without those of virtual nodes."""
    if not str(out).lower().endswith((".h5", ".csv")):
        raise Refused(f"{out}: expected a name that ends in .h5 or .csv")
    net = Sonata(Config(path), tick_ms)
    ticks, neurons = read_fired(fired)
    if len(neurons) and not (0 <= neurons.min() and neurons.max() < net.n):
        raise Refused(f"neuron {neurons.max()} fired; the network has {net.n}")
    lists = []
    for p in net.populations.values():
        mine = (neurons >= p.first) & (neurons < p.first + p.n)
        mine[mine] = net.model[neurons[mine]] != VIRTUAL
        nodes = neurons[mine] - p.first
        if p.simulated:
            lists.append((p, nodes if p.ids is None else p.ids[nodes], ticks[mine] * net.tick_ms))
    write = write_h5 if str(out).lower().endswith(".h5") else write_csv
    write_whole(out, lambda part: write(part, lists), path, fired)
    return sum(len(ids) for _, ids, _ in lists)

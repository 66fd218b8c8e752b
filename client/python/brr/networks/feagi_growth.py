"""The network that FEAGI grows of a genome, before its first tick, as far as its published source determines it. Neurons and synapses lie in
FEAGI's order: its areas _death, _power and _fatigue, then those of the genome; in an area z counts first, then y, then x."""
import math
import re

import numpy as np

from . import Refused, member, number
from .feagi_genome import Genome, core_of, rule_at
from .netfile import MOST_AREAS, Network

MOST_LENGTH, MOST_NEURONS, MOST_SYNAPSES, MOST_GENOME_BYTES, FAR = 1 << 20, 1 << 26, 1 << 30, 256 << 20, 1 << 24
POWER = 1  # FEAGI's own amount, which a genome does not have


def is_genome(path):
    with open(path, "rb") as file:
        text = file.read(MOST_GENOME_BYTES)
    return text.lstrip(b" \t\r\n").startswith(b"{") and b'"blueprint"' in text


def check(area, name, value, low, high, whole):
    if not low <= value <= high or whole and value != math.floor(value):
        raise Refused(f"area {area}: {name} is {value:g}; expected {'a whole number from' if whole else 'a number from'} {low:g} to {high:g}")


# ---- rules: where a voxel of one area has synapses in another ---------------------------------------------------------------------------
# aim(size of the source area, size of the target area, voxel) gives the targets' places along x, y and z: every combination of them.

def clamp(value, size):
    return [min(max(value, 0), size - 1)]


def bits_at(values, index, width):
    """Bit `index` of numbers of `width` bits, the highest first."""
    shift = width - 1 - index
    return np.where((index < width) & (shift < 32), values >> np.clip(shift, 0, 31) & 1, 0) == 1


def projector(*turn):
    """The voxels at the same share of each axis; FEAGI divides in float32. A longer target has several voxels for one of the source."""
    def aim(source_size, size, voxel):
        out = []
        for axis in range(3):
            length, at, to = np.float32(source_size[turn[axis]]), voxel[turn[axis]], size[axis]
            if length >= to:
                v = int(np.float32(at) / (length / np.float32(to)))
                out.append([v] if v < to else [])
                continue
            ratio = np.float32(to) / length
            near = np.arange(max(int(np.float32(at) * ratio) - 2, 0), min(to, int(np.float32(at + 1) * ratio) + 3))
            out.append(near[(near.astype("f4") / ratio).astype("u4") == at].tolist())
        return out
    return aim


def sweeper(_, size, voxel):
    """The next voxel, x first; the last has none."""
    x, y, z = (min(v, s - 1) for v, s in zip(voxel, size))
    after = (x + 1, y, z) if x + 1 < size[0] else (0, y + 1, z) if y + 1 < size[1] else (0, 0, z + 1) if z + 1 < size[2] else None
    return [[v] for v in after] if after else [[], [], []]


def last_to_first(source_size, _, voxel):
    return [[0]] * 3 if all(v + 1 == s for v, s in zip(voxel, source_size)) else [[]] * 3


def first_to_last(_, size, voxel):
    return [[s - 1] for s in size] if not any(voxel) else [[]] * 3


def bitmask(axis, encodes):
    def aim(source_size, size, voxel):
        out = [[min(v, s - 1)] for v, s in zip(voxel, size)]
        values = np.arange(size[axis] if encodes else 0) if encodes else np.arange(max(size[axis] - 32, 0), size[axis])
        found = bits_at(values, voxel[axis], source_size[axis]) if encodes else bits_at(np.full(len(values), voxel[axis]), values, size[axis])
        return out[:axis] + [values[found]] + out[axis + 1:]
    return aim


def tile(source_size, size, voxel):
    """A larger source is folded into the target, another one repeated in it."""
    if math.prod(source_size) > math.prod(size):
        return [[v % s] for v, s in zip(voxel, size)]
    return [range(v, s, length) for v, s, length in zip(voxel, size, source_size)]


FUNCTIONS = {"block_to_block": lambda _, size, voxel: [clamp(v, s) for v, s in zip(voxel, size)], "projector": projector(0, 1, 2), "transpose_xy": projector(1, 0, 2),
             "transpose_yz": projector(0, 2, 1), "transpose_xz": projector(2, 1, 0), "sweeper": sweeper, "last_to_first": last_to_first, "first_to_last": first_to_last, "tile": tile,
             **{f"bitmask_{what}_{letter}": bitmask(axis, what == "encoder") for what in ("encoder", "decoder") for axis, letter in enumerate("xyz")}}


def component(value):
    if type(value) is not int or not -FAR < value < FAR:
        raise ValueError
    return value


def span_of(value):
    """An element of a pattern, a number or one of FEAGI's signs: (relative to the source, without the source's own place, low, high)."""
    signs = {"*": (False, False, 0, FAR), "?": (True, False, 0, 0), "!": (False, True, 0, FAR), "?+": (True, False, 1, FAR), "?-": (True, False, -FAR, -1), "?+=": (True, False, 0, FAR),
             "?-=": (True, False, -FAR, 0)}
    if not isinstance(value, str):
        if component(value) < 0:
            raise ValueError
        return False, False, value, value
    if value in signs:
        return signs[value]
    number_text = r"([+-]?\d{1,8})"
    if found := re.fullmatch(rf"{number_text}\.\.{number_text}", value, re.A):
        return (False, False, *(component(int(text)) for text in found.groups()))
    if found := re.fullmatch(rf"\?{number_text}:\?{number_text}", value, re.A):
        return (True, False, *(component(int(text)) for text in found.groups()))
    found = re.fullmatch(rf"(\??){number_text}", value, re.A)
    if not found or not found.group(1) and int(found.group(2)) < 0:
        raise ValueError
    at = component(int(found.group(2)))
    return bool(found.group(1)), False, at, at


def triple(values, parse):
    if not isinstance(values, list) or len(values) != 3:
        raise ValueError
    return [parse(value) for value in values]


def vector(part):
    offset = triple(part, component)
    return lambda _, size, voxel: [clamp(v + o, s) for v, o, s in zip(voxel, offset, size)]


def pattern(part):
    if not isinstance(part, list) or len(part) != 2:
        raise ValueError
    source, target = triple(part[0], span_of), triple(part[1], span_of)

    def aim(_, size, voxel):
        if any(not relative and not low <= v <= high for (relative, _, low, high), v in zip(source, voxel)):
            return [[]] * 3
        out = []
        for (relative, hole, low, high), v, s in zip(target, voxel, size):
            base = v if relative else 0
            places = np.arange(max(base + low, 0), min(base + high, s - 1) + 1)
            out.append(places[places != v] if hole else places)
        return out
    return aim


def morphology(definitions, name):
    """(parts: one aim function each, whether a target that several parts reach gets one synapse)"""
    definition = member(definitions, name)
    kind = member(definition, "type") or ""
    if kind in ("vectors", "patterns"):
        parts, parse, what = member(member(definition, "parameters"), kind), vector if kind == "vectors" else pattern, kind[:-1]
        if not isinstance(parts, list):
            raise Refused(f"morphology {name} has no {kind}")
        expected = "three whole numbers" if what == "vector" else "two lists of three, of numbers, *, ?, !, ?+, ?-, ?+=, ?-=, ?+N, ?-N, ?-N:?+M or N..M"
        aims = []
        for i, part in enumerate(parts):
            try:
                aims.append(parse(part))
            except ValueError:
                raise Refused(f"morphology {name}: its {what} {i} is malformed; expected {expected}") from None
        return aims, what == "pattern" and len(aims) > 1
    if definition is not None and kind not in ("functions", "composite"):
        raise Refused(f'morphology {name} is of type "{kind}"; expected vectors, patterns, functions or composite')
    if name not in FUNCTIONS:
        raise Refused(f"the function {name} is not one of FEAGI's whose synapses are determined: vectors, patterns, block_to_block, projector, transpose_*, sweeper, last_to_first, "
                      "first_to_last, bitmask_*, tile")
    return [FUNCTIONS[name]], False


# ---- areas -----------------------------------------------------------------------------------------------------------------------------

class Area:
    """Its neurons are first … first + n − 1, a voxel each."""

    def __init__(self, genome, name, first):
        self.name, self.first, self.of, self.seeds = name, first, genome.properties(name), genome.seeds(name)
        s = self.seeds
        for size in s["size"]:
            check(name, "a length in block_boundaries", size, 1, MOST_LENGTH, True)
        if s["leak"] > 1:  # FEAGI takes it as it is when it grows the network, v · (1 − leak), and clamps it when it is updated (feagi-core 44cc7a79, npu.rs, update_neuron_leak)
            genome.notes.append(f"area {name}: leak {s['leak']:g} is outside 0 to 1: taken as 1")
            s["leak"] = 1.0
        # FEAGI draws what varies, and versions of it differ on an excitability between a share and a percentage.
        for field, high, whole in (("per_voxel", 1, True), ("leak", 1, False), ("leak_variability", 0, False), ("degeneration", 0, False), ("refractory", 65535, True)):
            names = {"per_voxel": "per_voxel_neuron_cnt", "leak": "leak_coefficient", "refractory": "refractory_period"}
            check(name, names.get(field, field), s[field], 1 if field == "per_voxel" else 0, high, whole)
        check(name, "consecutive_fire_cnt_max", self.of["fire_limit"], 0, 65535, True)
        check(name, "snooze_length", self.of["snooze"], 0, 65535, True)
        if s["excitability"] != 100:
            check(name, "neuron_excitability", s["excitability"], 0, 1, False)
        self.size = [int(size) for size in s["size"]]
        self.n = math.prod(self.size)
        if first + self.n > MOST_NEURONS:
            raise Refused(f"with area {name} the genome has more than {MOST_NEURONS} neurons")

    def neurons(self, index):
        s, (x, y, z) = {k: np.float32(v) for k, v in self.seeds.items() if isinstance(v, (int, float))}, np.indices(self.size).astype("f4").reshape(3, -1)
        threshold = s["threshold"] + x * s["threshold_x"] + y * s["threshold_y"] + z * s["threshold_z"]
        same = {"threshold_limit": self.of["threshold_limit"], "leak": s["leak"], "excitability": min(s["excitability"], 1), "refractory": s["refractory"], "fire_limit": self.of["fire_limit"],
                "snooze": self.of["snooze"], "accumulate": self.of["accumulates"] != 0, "area": index}
        return {"threshold": threshold, **{name: np.full(self.n, value, "f8") for name, value in same.items()}}


def areas_of(genome):
    names, areas = genome.names(), []
    if len(names) > MOST_AREAS:
        raise Refused(f"{len(names)} areas; expected at most {MOST_AREAS}")
    for name in sorted(names, key=core_of):
        areas.append(Area(genome, name, areas[-1].first + areas[-1].n if areas else 0))
    return areas


# ---- synapses --------------------------------------------------------------------------------------------------------------------------

class Rule:
    """One rule of a mapping, an object or a list."""

    def __init__(self, area, given):
        listed = isinstance(given, list)

        def of(index, name, absent):
            value = rule_at(given, index) if listed else member(given, name)
            return absent if value is None else number(value)
        name = rule_at(given, 0) if listed else member(given, "morphology_id")
        if not isinstance(name, str):
            raise Refused(f"area {area}: a rule of its mappings has no morphology_id")
        scalars = rule_at(given, 1) if listed else member(given, "morphology_scalar")
        scalars = scalars if isinstance(scalars, list) and scalars else [1 if scalars is None or scalars == [] else scalars]
        if any(number(value) != 1 for value in scalars):
            raise Refused(f"area {area}: the morphology_scalar of {name} is not 1; versions of FEAGI differ on what it does")
        if isinstance(member(given, "gate_source_area"), str):
            raise Refused(f"area {area}: {name} has a gate_source_area, which the engine's synapses have not")
        weight, delay = of(2, "postSynapticCurrent_multiplier", 1), of(8, "synaptic_delay_bursts", 1)
        check(area, "postSynapticCurrent_multiplier", weight, -255, 255, True)
        check(area, "synaptic_delay_bursts", delay, 1, 255, True)
        check(area, "synapse_attractivity", 100 if listed or member(given, "synapse_attractivity") is None else number(given["synapse_attractivity"]), 100, 100, True)
        self.name, self.weight, self.delay = name, int(weight), int(delay)


def targets_of(source, to, aims, unites):
    """(neuron, its targets) of each voxel of the source, once for each part, or for all parts where they unite. The targets are counted before
    they are made: (neuron, count, function that makes them)."""
    strides = np.array([to.size[1] * to.size[2], to.size[2], 1])

    def make(places):
        x, y, z = (np.asarray(list(place) if isinstance(place, range) else place, "i8") for place in places)
        return (to.first + (x * strides[0])[:, None, None] + (y * strides[1])[None, :, None] + (z * strides[2])[None, None, :]).reshape(-1)
    for i, voxel in enumerate(np.ndindex(*source.size)):
        found = [aim(source.size, to.size, voxel) for aim in aims]
        if unites:
            targets = np.unique(np.concatenate([make(places) for places in found]))
            yield source.first + i, len(targets), lambda targets=targets: targets
            continue
        for places in found:
            yield source.first + i, math.prod(len(place) for place in places), lambda places=places: make(places)


def connect(genome, areas):
    """(source, targets, rule, area) of all synapses, in FEAGI's order."""
    by_name, total, out = {a.name: a for a in areas}, 0, []
    for source in areas:
        for target, rules in source.seeds["mappings"].items():
            if not rules:
                continue
            to = by_name.get(target)
            if not to:
                raise Refused(f"area {source.name} has synapses to area {target}, which the genome has not")
            for area in (source, to):
                check(source.name if area is source else to.name, "synapse_attractivity", area.seeds["attractivity"], 100, 100, True)
            if not source.of["driven"]:
                check(source.name, "postsynaptic_current", source.seeds["psp"], 0, 255, True)
            for given in rules if isinstance(rules, list) else []:
                rule = Rule(source.name, given)
                aims, unites = morphology(genome.morphologies, rule.name)
                for _, count, _ in targets_of(source, to, aims, unites):
                    total += count
                    if total > MOST_SYNAPSES:
                        raise Refused(f"with {rule.name} from area {source.name} to {to.name} the genome has more than {MOST_SYNAPSES} synapses")
                out.append((source, to, rule, aims, unites))
    return out


def synapses_of(links):
    parts = {name: [np.zeros(0, "i8")] for name in ("src", "dst", "weight", "psp", "type", "delay")}
    for source, to, rule, aims, unites in links:
        made = [(neuron, make()) for neuron, count, make in targets_of(source, to, aims, unites) if count]
        dst = np.concatenate([targets for _, targets in made]) if made else np.zeros(0, "i8")
        parts["src"].append(np.repeat([neuron for neuron, _ in made], [len(targets) for _, targets in made]).astype("i8") if made else dst)
        parts["dst"].append(dst)
        same = {"weight": abs(rule.weight), "psp": 0 if source.of["driven"] else int(source.seeds["psp"]), "type": rule.weight < 0, "delay": rule.delay}
        for name, value in same.items():
            parts[name].append(np.full(len(dst), value, "i8"))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def import_genome(path, out):
    genome = Genome(path)
    areas = areas_of(genome)
    links = connect(genome, areas)
    grown = [area.neurons(i) for i, area in enumerate(areas)]
    neurons, synapses = {name: np.concatenate([part[name] for part in grown]) for name in grown[0]}, synapses_of(links)
    told = [{"name": a.name, "psp_divide": a.of["uniform"] == 0, "mp_driven_psp": a.of["driven"] != 0, "power": POWER if core_of(a.name) == 1 else 0} for a in areas]
    Network(neurons, synapses, told).save(out)
    return {"neurons": len(neurons["threshold"]), "synapses": len(synapses["src"]), "deleted_neurons": 0, "deleted_synapses": 0, "tick": 0, "notes": genome.notes}

"""What a genome of FEAGI says of cortical areas. Both forms of a blueprint are read: genes ("_____10c-AREA-nx-snooze-f"), and an object for
each area."""
import math
import re

from . import Refused, member, number, read_json

GENE = "_____10c-"
# Field: gene, name in an object, value where a genome has none (nan: it must have one). A connectome lacks PROPERTIES; SEEDS are those of which an area grows.
PROPERTIES = {"threshold_limit": ("nx-fthlim-f", "firing_threshold_limit", math.nan), "fire_limit": ("nx-c_fr_c-i", "consecutive_fire_cnt_max", math.nan),
              "snooze": ("nx-snooze-f", "snooze_length", math.nan), "accumulates": ("nx-mp_acc-b", "mp_charge_accumulation", math.nan),
              "driven": ("nx-mp_psp-b", "mp_driven_psp", math.nan), "uniform": ("cx-pspuni-b", "psp_uniform_distribution", math.nan)}
SEEDS = {"threshold": ("nx-fire_t-f", "firing_threshold", math.nan), "threshold_x": ("nx-ftincx-f", "firing_threshold_increment_x", 0),
         "threshold_y": ("nx-ftincy-f", "firing_threshold_increment_y", 0), "threshold_z": ("nx-ftincz-f", "firing_threshold_increment_z", 0),
         "leak": ("nx-leak_c-f", "leak_coefficient", math.nan), "leak_variability": ("nx-leak_v-f", "leak_variability", 0), "excitability": ("nx-excite-f", "neuron_excitability", math.nan),
         "refractory": ("nx-refrac-i", "refractory_period", math.nan), "psp": ("nx-pstcr_-f", "postsynaptic_current", math.nan), "per_voxel": ("cx-_n_cnt-i", "per_voxel_neuron_cnt", 1),
         "attractivity": ("cx-synatt-f", "synapse_attractivity", 100), "degeneration": ("cx-de_gen-f", "degeneration", 0)}
# What FEAGI's loader takes for a property that an area lacks (feagi-core 44cc7a79, cortical_area.rs). Genomes leave those of the core areas out.
CORE = (("_death", "___death", "X19fZGVhdGg="), ("_power", "___power", "X19fcG93ZXI="), ("_fatigue", "___fatig", "X19fZmF0aWc="))  # as its versions write them
CORE_DEFAULTS = {"threshold_limit": 0, "fire_limit": 0, "snooze": 0, "accumulates": 0, "driven": 0, "uniform": 0, "threshold": 1, "leak": 0, "excitability": 100, "refractory": 0, "psp": 1}
MEMORY_FLAGS, MEMORY_GROUPS, MAPPINGS = ("cx-memory-b", "is_mem_type"), ("cx-_group-t", "group_id", "cortical_group"), ("cx-dstmap-d", "cortical_mapping_dst")
FLOAT32 = 3.4028234663852886e38


def is_true(value):
    """A flag that is neither true nor false counts as set, so that it is refused."""
    return value if isinstance(value, bool) else value is not None and number(value, 1) != 0


def rule_at(rule, i):
    return rule[i] if isinstance(rule, list) and len(rule) > i else None


def scalar(value, flag):
    """0 or 1 for a flag, the value for a number that float32 holds, nan for anything else."""
    if flag:
        return float(value) if isinstance(value, bool) or number(value) in (0, 1) else math.nan
    return number(value) if abs(number(value)) <= FLOAT32 else math.nan


def core_of(name):
    return next((i for i, names in enumerate(CORE) if name in names), len(CORE))


class Genome:
    """notes: what was taken otherwise than the file says, or was not said, for people."""

    def __init__(self, path):
        self.path, self.notes, root = path, [], read_json(path)
        self.blueprint, self.morphologies = member(root, "blueprint"), member(root, "neuron_morphologies")
        if not isinstance(self.blueprint, dict) or not self.blueprint:
            raise Refused(f"{path} has no blueprint: it is no genome")
        for name, area in (member(self.blueprint, "cortical_areas") or {}).items():
            raise Refused(f"{path}: area {name} has cortical_synapses_per_neuron {member(area, 'cortical_synapses_per_neuron')} and no rule that says where they go: "
                          "FEAGI would draw them")
        for key, value in self.blueprint.items():
            part = self.part_of(key)
            for name, inner in [(part[1], value)] if part else value.items() if isinstance(value, dict) else []:
                self._check(key, name, inner)

    @staticmethod
    def part_of(key):
        """(area, "nx-snooze-f") of a gene; None: it is none."""
        found = re.fullmatch(re.escape(GENE) + r"(.+)-([nc]x-.*)", key, re.S)
        return found and found.groups()

    def _check(self, area, name, value):
        if name in MAPPINGS:
            for target, rules in (value if isinstance(value, dict) else {}).items():
                for rule in rules if isinstance(rules, list) else []:
                    if is_true(member(rule, "plasticity_flag")) or is_true(rule_at(rule, 3)):
                        raise Refused(f"{self.path}: the mapping {area} to {target} is plastic, which the engine's synapses are not")
        elif name in MEMORY_FLAGS and is_true(value) or name in MEMORY_GROUPS and isinstance(value, str) and value.lower() == "memory":
            raise Refused(f"{self.path}: {area} is an area of memory, which the engine has not")

    def gene(self, area, gene):
        """Versions of FEAGI disagree on a gene's scope, cx or nx, and on whether a number's gene ends in f or in i."""
        other = {"f": "i", "i": "f"}.get(gene[-1], gene[-1])
        for scope in (gene[0], "n" if gene[0] == "c" else "c"):
            for last in (gene[-1], other):
                value = self.blueprint.get(f"{GENE}{area}-{scope}{gene[1:-1]}{last}")
                if value is not None:
                    return value
        return None

    def trait(self, area, gene, name):
        value = self.gene(area, gene)
        return member(self.blueprint.get(area), name) if value is None else value

    def _read(self, area, table):
        out, missing = {}, []
        for field, (gene, name, absent) in table.items():
            value, flag = self.trait(area, gene, name), gene.endswith("-b")
            if value is None and core_of(area) < len(CORE) and field in CORE_DEFAULTS:
                absent = CORE_DEFAULTS[field]
                missing.append(f"{name} {absent:g}")
            out[field] = absent if value is None else scalar(value, flag)
            if not math.isfinite(out[field]):
                raise Refused(f"{self.path}: area {area} has no {name} ({gene})" if value is None else
                              f"{self.path}: {name} ({gene}) of area {area} is no {'flag' if flag else 'number of float32'}")
        start = f"area {area} lacks properties: taken as FEAGI's loader does, "
        if missing and self.notes and self.notes[-1].startswith(start):
            self.notes[-1] += f", {', '.join(missing)}"
        elif missing:
            self.notes.append(start + ", ".join(missing))
        return out

    def properties(self, area):
        return self._read(area, PROPERTIES)

    def seeds(self, area):
        """With size: x, y, z, and mappings: a list of rules to each target area."""
        out, sizes = self._read(area, SEEDS), member(self.blueprint.get(area), "block_boundaries")
        genes = [f"cx-___bb{axis}-i" for axis in "xyz"]
        values = [self.gene(area, gene) for gene in genes]
        out["size"] = [scalar(rule_at(sizes, i) if value is None else value, False) for i, value in enumerate(values)]
        for gene, size in zip(genes, out["size"]):
            if not math.isfinite(size):
                raise Refused(f"{self.path}: area {area} has no block_boundaries ({gene})")
        mappings = self.trait(area, *MAPPINGS)
        return {**out, "mappings": mappings if isinstance(mappings, dict) else {}}

    def names(self):
        """Of its areas, in its order."""
        names = {}
        for key, value in self.blueprint.items():
            part = self.part_of(key)
            if not part and not isinstance(value, dict):
                raise Refused(f"{self.path}: {key[:80]} in its blueprint is neither a gene nor an area")
            name = part[0] if part else key
            if not name or len(name.encode("utf-8", "surrogateescape")) > 63:
                raise Refused(f"the name of area {name[:80]} is empty or longer than 63 letters")
            names[name] = True
        return list(names)

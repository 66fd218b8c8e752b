"""Network files of the burst engine, written as brrd writes them: the same bytes for the same network."""
import json
import struct

import numpy as np

from . import Refused
from .._files import write_whole

NEURONS = {"threshold": "<f4", "v": "<f4", "threshold_limit": "<f4", "leak": "<f4", "excitability": "<f4", "refractory": "<u2", "fire_limit": "<u2", "snooze": "<u2",
           "accumulate": "u1", "area": "<u4"}
CURRENTS = {"current": "<f4", "current_leak": "<f4", "current_gain": "<f4"}
SYNAPSES = {"src": "<u4", "dst": "<u4", "weight": "u1", "psp": "u1", "type": "u1", "delay": "u1"}
DTYPES = {"<f4": "F32", "<u2": "U16", "<u4": "U32", "<u8": "U64", "|u1": "U8"}
UNLIMITED, MOST_NEURONS, MOST_AREAS, MOST_FRACTION = 65535, (1 << 32) - 1 - 64, 4096, 20
LARGEST = float(np.finfo("f4").max)
RANGES = {"v": (-LARGEST, LARGEST), "leak": (0, 1), "accumulate": (0, 1),
          "current": (-2.0**80, 2.0**80), "current_leak": (0, 1), "current_gain": (-2.0**20, 2.0**20)}
AREA = {"psp_divide": False, "mp_driven_psp": False, "power": 0}


def column(name, values, n, low, high, whole=True):
    """An array of n whole numbers from low to high; whole=False: of numbers that float32 holds."""
    values = np.asarray(values)
    if values.ndim != 1 or len(values) != n:
        raise Refused(f"{name} has {values.size} values in {values.ndim} dimensions; expected {n} in one")
    if values.dtype.kind not in "biuf":
        raise Refused(f"{name} is of {values.dtype}; expected numbers")
    good = values == np.floor(values) if whole else np.isinf(values) | (np.abs(values) <= LARGEST)
    good &= (values >= low) & (values <= high)
    if not good.all():
        at, kind = int(np.argmin(good)), "whole number" if whole else "number of 32 bits"
        raise Refused(f"{name}[{at}] is {values[at]}; expected a {kind} from {low} to {high}")
    return values


def shortest(value):
    """The shortest decimal number of 6 to 17 digits that reads back as `value`."""
    return next(text for digits in range(6, 18) for text in [f"{value:.{digits}g}"] if float(text) == value)


class Network:
    """neurons and synapses: arrays by name (docs/burst.md), areas: a list of dicts with name, psp_divide, mp_driven_psp, power. Checked and sorted
    by source and target; Refused names array, index and what was expected."""

    def __init__(self, neurons, synapses, areas):
        unknown = sorted(neurons.keys() - NEURONS.keys() - (CURRENTS.keys() if "current_gain" in neurons else set()))
        if unknown or "threshold" not in neurons:
            what = f"{unknown[0]} is unknown, or lacks its current_gain" if unknown else "threshold is missing"
            raise Refused(f"neuron.{what}")
        self.n = np.size(neurons["threshold"])
        if not 1 <= self.n <= MOST_NEURONS or not 1 <= len(areas) <= MOST_AREAS:
            raise Refused(f"{self.n} neurons and {len(areas)} areas; expected 1 to {MOST_NEURONS}, and 1 to {MOST_AREAS}")
        given = {**NEURONS, **(CURRENTS if "current_gain" in neurons else {})}
        defaults = {"excitability": 1, "fire_limit": UNLIMITED, "accumulate": 1}
        full = {name: neurons.get(name, np.full(self.n, defaults.get(name, 0), dtype)) for name, dtype in given.items()}
        self.neurons = {name: self._neurons(name, full[name], dtype) for name, dtype in given.items()}
        self.areas = [area_of(f"areas[{i}]", area) for i, area in enumerate(areas)]
        kept = {name: dtype for name, dtype in SYNAPSES.items() if name in synapses}
        self.synapses = {name: np.asarray(synapses[name]).astype(dtype) for name, dtype in kept.items()}
        self._check()
        limit, fire = self.neurons["threshold_limit"], self.neurons["fire_limit"]
        limit[~((limit > 0) & np.isfinite(limit))] = 0
        fire[fire == 0] = UNLIMITED
        self.first_psp = np.zeros(self.n, "u1")
        sources, first = np.unique(self.synapses["src"], return_index=True)
        self.first_psp[sources] = self.synapses["psp"][first]
        order = np.lexsort((self.synapses["dst"], self.synapses["src"]))
        self.synapses = {name: values[order] for name, values in self.synapses.items()}
        self.synapses["type"] &= self.synapses["weight"] > 0
        if "delay" in self.synapses and (not len(order) or self.synapses["delay"].max() <= 1):
            del self.synapses["delay"]

    def _neurons(self, name, values, dtype):
        whole = dtype != "<f4"
        low, high = RANGES.get(name, (0, np.iinfo(dtype).max) if whole else (-np.inf, np.inf))
        return column(f"neuron.{name}", values, self.n, low, high, whole).astype(dtype)

    def _check(self):
        column("neuron.area", self.neurons["area"], self.n, 0, len(self.areas) - 1)
        for name in ("src", "dst"):
            if len(self.synapses[name]) and self.synapses[name].max() >= self.n:
                raise Refused(f"synapse.{name}[{int(np.argmax(self.synapses[name]))}] is {self.synapses[name].max()}; expected less than the {self.n} neurons")
        if "delay" in self.synapses and len(self.synapses["delay"]):
            room = (self.n + 63) // 64 * 64
            if self.synapses["delay"].min() < 1 or int(self.synapses["delay"].max()) * room > (1 << 32) - 1:
                raise Refused(f"synapse.delay reaches from {self.synapses['delay'].min()} to {self.synapses['delay'].max()}; expected 1 to {min(255, ((1 << 32) - 1) // room)} with {self.n} neurons")

    def fraction_bits(self):
        """The largest number of fraction bits with which no sum of inputs overflows."""
        driven = np.array([bool(a["mp_driven_psp"]) for a in self.areas])[self.neurons["area"]]
        psp = np.where(driven[self.synapses["src"]], 255, self.synapses["psp"]).astype("u8")
        bounds = np.zeros(self.n, "u8")
        np.add.at(bounds, self.synapses["dst"], self.synapses["weight"].astype("u8") * psp)
        bits = 30 if "delay" in self.synapses else 31
        return next((f for f in range(MOST_FRACTION, 0, -1) if int(bounds.max()) < 1 << (bits - f)), 0)

    def divisors(self):
        return np.bincount(self.synapses["src"], minlength=self.n).astype("<u4") if any(a["psp_divide"] for a in self.areas) else None

    def save(self, path, state=None, metadata=None):
        """state: arrays of a snapshot, by name."""
        entries = {**{f"neuron.{k}": v for k, v in self.neurons.items()}, **{f"synapse.{k}": v for k, v in self.synapses.items()},
                   **{f"state.{k}": v for k, v in (state or {}).items()}}
        write(path, {"brr.kind": "burst-network", "brr.areas": areas_text(self.areas), **(metadata or {})}, entries)


def area_of(where, given):
    """An area with all its members."""
    area = {**AREA, **(given if isinstance(given, dict) else {})}
    unknown, name = sorted(area.keys() - AREA.keys() - {"name"}), area.get("name")
    if unknown:
        raise Refused(f"{where}.{unknown[0]} is unknown; expected name, {', '.join(AREA)}")
    if not isinstance(name, str) or len(name.encode()) > 63:
        raise Refused(f"{where}.name is {name!r}; expected a text of at most 63 bytes")
    column(f"{where}.power", [area["power"]], 1, -LARGEST, LARGEST, False)
    return area


def text(value):
    return json.dumps(value, ensure_ascii=False)


def areas_text(areas):
    rows = []
    for a in areas:
        power = float(np.float32(a.get("power", 0)))
        rows.append(f'{{"name":{text(a["name"])},"psp_divide":{text(bool(a["psp_divide"]))},"mp_driven_psp":{text(bool(a["mp_driven_psp"]))}'
                    + (f',"power":{shortest(power)}' if power else "") + "}")
    return "[" + ",".join(rows) + "]"


def write(path, metadata, entries):
    """A safetensors file: arrays of wide elements first."""
    parts, offset = ['"__metadata__":{' + ",".join(f"{text(k)}:{text(v)}" for k, v in metadata.items()) + "}"], 0
    order = sorted(entries.items(), key=lambda item: -item[1].itemsize)
    for name, values in order:
        parts.append(f'{text(name)}:{{"dtype":"{DTYPES[values.dtype.newbyteorder("<").str]}","shape":[{len(values)}],"data_offsets":[{offset},{offset + values.nbytes}]}}')
        offset += values.nbytes
    header = ("{" + ",".join(parts) + "}").encode()
    header += b" " * (-len(header) % 8)

    def put(part):
        with open(part, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for _, values in order:
                file.write(np.ascontiguousarray(values).data)
    write_whole(path, put)

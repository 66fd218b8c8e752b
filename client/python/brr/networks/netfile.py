"""Network files of the burst engine, written as brrd writes them: the same bytes for the same network."""
import json
import os
import struct

import numpy as np

from . import Refused, replace

NEURONS = {"threshold": "<f4", "v": "<f4", "threshold_limit": "<f4", "leak": "<f4", "excitability": "<f4", "refractory": "<u2", "fire_limit": "<u2", "snooze": "<u2",
           "accumulate": "u1", "area": "<u4"}
CURRENTS = {"current": "<f4", "current_leak": "<f4", "current_gain": "<f4"}
SYNAPSES = {"src": "<u4", "dst": "<u4", "weight": "u1", "psp": "u1", "type": "u1", "delay": "u1"}
DTYPES = {"<f4": "F32", "<u2": "U16", "<u4": "U32", "<u8": "U64", "|u1": "U8"}
UNLIMITED, MOST_NEURONS, MOST_AREAS, MOST_FRACTION = 65535, (1 << 32) - 1 - 64, 4096, 20
BOUNDS = {"v": (3.4028235e38, "a finite number"), "current": (2.0**80, "at most 2^80 in size"), "current_gain": (2.0**20, "at most 2^20 in size")}


def shortest(value):
    """The shortest decimal number of 6 to 17 digits that reads back as `value`."""
    return next(text for digits in range(6, 18) for text in [f"{value:.{digits}g}"] if float(text) == value)


class Network:
    """neurons and synapses: arrays by name (docs/burst.md), areas: a list of dicts with name, psp_divide, mp_driven_psp, power. Checked and sorted
    by source and target; Refused names array, index and what was expected."""

    def __init__(self, neurons, synapses, areas):
        self.n = len(neurons["threshold"])
        if not 1 <= self.n <= MOST_NEURONS or not 1 <= len(areas) <= MOST_AREAS:
            raise Refused(f"{self.n} neurons and {len(areas)} areas; expected 1 to {MOST_NEURONS}, and 1 to {MOST_AREAS}")
        given = {**NEURONS, **(CURRENTS if "current_gain" in neurons else {})}
        defaults = {"excitability": 1, "fire_limit": UNLIMITED, "accumulate": 1}
        self.neurons = {name: np.array(neurons[name], dtype) if name in neurons else np.full(self.n, defaults.get(name, 0), dtype) for name, dtype in given.items()}
        self.areas, self.synapses = areas, {name: np.asarray(synapses[name]).astype(dtype) for name, dtype in SYNAPSES.items() if name in synapses}
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

    def _check(self):
        for name, values in self.neurons.items():
            most, expected = BOUNDS.get(name, (None, "a number from 0 to 1" if "leak" in name else "a number"))
            good = np.abs(values) <= most if most else (values >= 0) & (values <= 1) if "leak" in name else values == values
            good = values < len(self.areas) if name == "area" else good
            if not good.all():
                at = int(np.argmin(good))
                raise Refused(f"neuron.{name}[{at}] is {values[at]:g}; expected {'less than the %d areas' % len(self.areas) if name == 'area' else expected}")
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
    replace(os.fspath(path), put)

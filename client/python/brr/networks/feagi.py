"""Connectomes that FEAGI has written, as snapshots of networks: a download as JSON, or the binary file of versions 1 and 2. The binary file
begins with "FEAGI" and the version; from version 2 on flags and the size before compression follow; then FNV-1a of the rest, which is the
snapshot as bincode 1 writes it: fields in their order, little-endian, lengths as 64-bit numbers. It does not describe itself, so a layout is
taken for that of another version unless all lengths fit and the file ends where the snapshot does."""
import math

import numpy as np

from . import Refused, member, number
from .feagi_genome import Genome
from .netfile import MOST_AREAS, Network

NEURONS = {"membrane_potentials": "<f4", "thresholds": "<f4", "leak_coefficients": "<f4", "resting_potentials": "<f4", "neuron_types": "<i4", "refractory_periods": "<u2",
           "refractory_countdowns": "<u2", "excitabilities": "<f4", "cortical_areas": "<u4", "coordinates": "<u4", "valid_mask": "u1"}
SYNAPSES = {"source_neurons": "<u4", "target_neurons": "<u4", "weights": "u1", "conductances": "u1", "types": "u1", "valid_mask": "u1"}
OTHER_NAMES = {"conductances": "postsynaptic_potentials"}  # of later JSON
LATER = ("lite_synapses", "long_term_memory_neurons", "plastic_mappings")  # parts of later versions that change what a network does
NEWEST, COMPRESSED, POWER_AREA, MOST_TICK, MOST_BYTES = 2, 1, 1, ((1 << 64) - 1) // 4, (1 << 31) - 1


class Connectome:
    """neurons, synapses: arrays by name; areas: (id, name)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Refused(f"{path} has more than 2 GiB")
        try:
            if data.startswith(b"FEAGI"):
                self._read_binary(data)
            else:
                self._read_json(path)
        except Refused as e:
            raise Refused(f"{path} cannot be imported ({e})") from None

    # ---- binary ----

    def _read_binary(self, data):
        version = int.from_bytes(data[5:9], "little")
        if len(data) < 9 or not 1 <= version <= NEWEST:
            raise Refused(f"it is a connectome file of version {version}; expected 1 or 2")
        at = 9 if version == 1 else 18
        flags, size = (0, 0) if version == 1 else (data[9], int.from_bytes(data[10:18], "little")) if len(data) >= 18 else (0, 0)
        body = data[at + 8:]
        if len(data) < at + 8 or int.from_bytes(data[at:at + 8], "little") != fnv1a(body):
            raise Refused("its checksum is not that of its data; download it again")
        if flags & COMPRESSED:
            body = decompress(body, size)
        try:
            self._take_snapshot(Bincode(body))
        except IndexError:
            raise Refused("its arrays are laid out as another version of FEAGI writes them") from None

    def _take_snapshot(self, b):
        b.number(4)  # a version that is 1 in all of them
        self.neurons, self.synapses = b.group(NEURONS), b.group(SYNAPSES)
        for _ in range(b.number(8)):  # synapses by source
            b.number(4)
            b.bytes(8 * b.number(8))
        self.areas = []
        for _ in range(b.number(8)):
            area, length = b.number(4), b.number(8)
            name = bytes(b.bytes(length))
            if length > 63:
                raise Refused(f"the name of area {area} has {length} bytes; expected at most 63")
            self.areas.append((area, name.decode("utf-8", "surrogateescape")))
        self.burst_count = b.number(8)
        self.power = float(np.frombuffer(b.bytes(4), "<f4")[0])
        b.bytes(16)  # ticks of its ledger, time
        for _ in range(2):
            b.bytes(b.number(8))
        for _ in range(2 * b.number(8)):
            b.bytes(b.number(8))
        if b.at != len(b.data):
            raise IndexError

    # ---- JSON ----

    def _read_json(self, path):
        from . import read_json
        root = read_json(path, MOST_BYTES)
        version, delays = member(root, "version"), member(member(root, "synapses"), "delay_bursts")
        if version is not None and (type(version) is not int or not 1 <= version <= NEWEST):
            raise Refused(f"its version is not 1 or {NEWEST}")
        for name in LATER:
            if member(root, name):
                raise Refused(f"it has {name}, which the engine has not")
        if delays:
            raise Refused("it has synapses.delay_bursts, which belong to a later version of FEAGI")
        self.neurons, self.synapses = group_of(member(root, "neurons"), NEURONS), group_of(member(root, "synapses"), SYNAPSES)
        self.burst_count, self.power = root.get("burst_count", 0), number(root.get("power_amount", 1))
        if type(self.burst_count) is not int or not 0 <= self.burst_count < 1 << 63:
            raise Refused("its burst_count is no whole number from 0 up, or one beyond 2^63")
        if not abs(self.power) <= 3.4e38:
            raise Refused("its power_amount is no number of float32")
        self.areas = []
        for key, name in (member(root, "cortical_area_names") or {}).items():
            if not key.isdecimal() or int(key) >= 1 << 32 or not isinstance(name, str) or len(name.encode()) > 63:
                raise Refused(f"cortical_area_names: '{key}' is no id of an area with a name of at most 63 bytes")
            self.areas.append((int(key), name))


class Bincode:
    """IndexError: the data have ended, or a length is impossible."""

    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def bytes(self, n):
        if n > len(self.data) - self.at:
            raise IndexError
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, n):
        return int.from_bytes(self.bytes(n), "little")

    def group(self, arrays):
        """Arrays have room for the used elements at least; the rest is spare."""
        n, capacity = self.number(8), self.number(8)
        if n > capacity or n > (1 << 32) - 1:
            raise IndexError
        out = {}
        for name, dtype in arrays.items():
            used = n * (3 if name == "coordinates" else 1)
            values = np.frombuffer(self.bytes(self.number(8) * np.dtype(dtype).itemsize), dtype)
            if len(values) < used:
                raise IndexError
            out[name] = values[:used]
        return out


def fnv1a(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 & (1 << 64) - 1
    return value


def decompress(data, size):
    import lz4.block
    if size >= 1 << 31:
        raise Refused(f"it has {size} bytes before compression; expected fewer than 2 GiB")
    try:
        body = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        body = b""
    if len(body) != size:
        raise Refused(f"its LZ4 data do not give the {size} bytes that its header names")
    return body


def fits(value, dtype, mask):
    """Whether a JSON value is an element; only masks have true and false."""
    value = float(value) if mask and isinstance(value, bool) else number(value)
    if dtype.kind == "f":
        return abs(value) <= 3.4e38
    return math.isfinite(value) and value == math.floor(value) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def group_of(group, arrays):
    n, out = member(group, "count"), {}
    if type(n) is not int or not 0 <= n < 1 << 32:
        raise Refused("its neurons or synapses have no count")
    for name, dtype in arrays.items():
        used, dtype = n * (3 if name == "coordinates" else 1), np.dtype(dtype)
        values = member(group, name)
        values = member(group, OTHER_NAMES.get(name, name)) if values is None else values
        if not isinstance(values, list) or len(values) < used:
            raise Refused(f"{name} has {len(values) if isinstance(values, list) else 0} elements; expected {used}")
        for i in range(used):
            if not fits(values[i], dtype, name == "valid_mask"):
                raise Refused(f"{name}[{i}] is no number of {dtype.itemsize} bytes as FEAGI's first version has them")
        out[name] = np.array(values[:used], "f8").astype(dtype)
    return out


def whole(area, name, value):
    if not 0 <= value <= 65535 or value != math.floor(value):
        raise Refused(f"area {area}: {name} is {value:g}; expected a whole number of at most 65535")


def import_connectome(path, genome_path, out):
    """A snapshot at the connectome's burst: membranes, countdowns and deleted neurons are part of it; spikes on their way are not."""
    if not genome_path:
        raise Refused(f"{path} is a connectome of FEAGI, which lacks the limits, snooze, accumulation and psp flags of its areas: name its genome with --genome FILE")
    genome, c = Genome(genome_path), Connectome(path)
    n, s = c.neurons, c.synapses
    if c.burst_count > MOST_TICK:
        raise Refused(f"{path}: its burst_count is {c.burst_count}; expected at most {MOST_TICK}")
    if len(c.areas) > MOST_AREAS:
        raise Refused(f"{len(c.areas)} areas; expected at most {MOST_AREAS}")
    traits = [genome.properties(name) for _, name in c.areas]
    for (_, name), p in zip(c.areas, traits):
        whole(name, "its fire limit", p["fire_limit"])
        whole(name, "its snooze", p["snooze"])
    alive = n["valid_mask"] != 0
    area = areas_of_neurons(c, alive)
    kept = synapses_of(c, alive)

    def of(name):
        return np.array([p[name] for p in traits] or [0.])[area]
    neurons = {"threshold": n["thresholds"], "v": n["membrane_potentials"], "leak": n["leak_coefficients"], "excitability": n["excitabilities"], "refractory": n["refractory_periods"],
               "threshold_limit": of("threshold_limit"), "fire_limit": of("fire_limit"), "snooze": of("snooze"), "accumulate": of("accumulates") != 0, "area": area}
    synapses = {"src": s["source_neurons"][kept], "dst": s["target_neurons"][kept], "weight": s["weights"][kept], "psp": s["conductances"][kept], "type": s["types"][kept] != 0}
    areas = [{"name": name, "psp_divide": p["uniform"] == 0, "mp_driven_psp": p["driven"] != 0, "power": c.power if area_id == POWER_AREA else 0}
             for (area_id, name), p in zip(c.areas, traits)]
    net = Network(neurons, synapses, areas)
    save_snapshot(net, c, alive, out)
    return {"neurons": len(alive), "synapses": int(kept.sum()), "deleted_neurons": int((~alive).sum()), "deleted_synapses": len(kept) - int(kept.sum()), "tick": c.burst_count}


def areas_of_neurons(c, alive):
    place = {}
    for i, (area_id, _) in enumerate(c.areas):
        place.setdefault(area_id, i)
    found, at = np.unique(c.neurons["cortical_areas"], return_inverse=True)
    area = np.array([place.get(int(area_id), -1) for area_id in found], int)[at] if len(found) else np.zeros(0, int)
    lost = (area < 0) & alive
    if lost.any():
        raise Refused(f"neuron {int(lost.argmax())} is of area {c.neurons['cortical_areas'][lost.argmax()]}, which cortical_area_names has not")
    return np.maximum(area, 0)


def synapses_of(c, alive):
    """Deleted synapses, and those of deleted neurons, are left out."""
    source, target, kept = c.synapses["source_neurons"], c.synapses["target_neurons"], c.synapses["valid_mask"] != 0
    beyond = kept & ((source >= len(alive)) | (target >= len(alive)))
    if beyond.any():
        i = int(beyond.argmax())
        raise Refused(f"synapse {i} is from neuron {source[i]} to neuron {target[i]}; there are {len(alive)}, and no memory neurons")
    kept[kept] = alive[source[kept]] & alive[target[kept]]
    return kept


def save_snapshot(net, c, alive, out):
    state = {"v": c.neurons["membrane_potentials"], "countdown": c.neurons["refractory_countdowns"], "fire_count": np.zeros(net.n, "<u2"), "psp": net.first_psp,
             "alive": alive.astype("u1")}
    divisors = net.divisors()
    state |= {"divisor": divisors} if divisors is not None else {}
    state |= {"fired": np.zeros(0, "<u4"), "pending.tick": np.zeros(0, "<u8"), "pending.id": np.zeros(0, "<u4"), "pending.potential": np.zeros(0, "<f4")}
    net.save(out, state, {"brr.tick": str(c.burst_count), "brr.fraction_bits": str(net.fraction_bits())})

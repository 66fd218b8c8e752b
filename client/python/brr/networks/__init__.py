"""Networks of other programs as network files of brrd's burst engine (docs/burst.md), and spikes as those programs read them: SONATA (by
h5py), and connectomes and genomes of FEAGI (compressed ones by lz4).

    python3 -m brr.networks import FILE --out NET

    networks.save("net.safetensors", {"threshold": threshold}, pre, post, weight, delay)     # of NumPy arrays

Each function takes and writes files; what a file asks for that the engine has not is `Refused`, by name."""
import json

from .._files import check_target


class Refused(ValueError):
    """A file that cannot be imported; the text names the file, the place in it, and what was expected."""


def read_json(path, most=256 << 20):
    """A JSON file of at most `most` bytes."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused(f"{path} has more than {most >> 20} MiB")

    def constant(name):
        raise Refused(f"{path}: {name} is no JSON number")
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=constant)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as e:
        raise Refused(f"{path} is no JSON: {e}") from None


def number(value, absent=float("nan")):
    """A JSON value as float64: `absent` unless it is a number (true and false are none)."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1.8e308 else absent


def member(value, name):
    """value[name] of a JSON object; None where there is none."""
    return value.get(name) if isinstance(value, dict) else None


def import_file(path, out, *, inject=None, tick_ms=None, genome=None):
    """Writes the network file `out` of a SONATA configuration, a connectome of FEAGI (with its genome) or a genome alone. Returns what was read,
    as a dict."""
    from . import feagi, feagi_growth
    for target in filter(None, (out, inject)):
        check_target(target, path, genome)
    with open(path, "rb") as file:
        head = file.read(512)
    connectome = head.startswith(b"FEAGI") or b"{" in head and b'"neurons"' in head
    if not connectome and not feagi_growth.is_genome(path):
        from . import sonata
        return sonata.import_network(path, out, inject, tick_ms)
    if inject:
        raise Refused("--inject: connectomes and genomes of FEAGI have no input")
    if connectome:
        return feagi.import_connectome(path, genome, out)
    if genome:
        raise Refused(f"{path} is a genome itself: leave out --genome")
    return feagi_growth.import_genome(path, out)


def save(path, neurons, pre, post, weight, delay=None):
    """Writes a network file of NumPy arrays, by the function that the importers use. neurons: arrays by the names of the file (docs/burst.md), of which
    threshold is needed; `areas` among them: a list of dicts with name, psp_divide, mp_driven_psp and power. pre, post: indices of neurons; weight: whole
    numbers from -255 to 255, below 0 inhibitory; delay: ticks, 1 unless it is given."""
    import numpy as np
    from .netfile import Network, column
    arrays, n = dict(neurons), np.size(pre)
    areas = arrays.pop("areas", [{"name": "neurons"}])
    pre, post = column("pre", pre, n, 0, 2**32 - 1), column("post", post, n, 0, 2**32 - 1)
    weight = column("weight", weight, n, -255, 255).astype("i8")
    delay = column("delay", np.ones(n, "u1") if delay is None else delay, n, 1, 255)
    synapses = {"src": pre, "dst": post, "weight": abs(weight), "psp": np.ones(n, "u1"), "type": weight < 0}
    Network(arrays, {**synapses, "delay": delay}, areas).save(path)


def export_spikes(path, fired, out, *, tick_ms=None):
    """The fired neurons of a run (.npy or .tsv) of the network of a SONATA configuration as SONATA's spikes (.h5 or .csv). Returns how many."""
    from . import sonata
    return sonata.export_spikes(path, fired, out, tick_ms)

"""The file that `brrctl windows --out` writes, by the conventions of Braindecode: X (windows, channels, times) and a row of metadata for each
window. With numpy alone; `braindecode.datasets.create_from_X_y(X, y, sfreq=256, ...)` takes X as it is."""
import json
import struct

import numpy

TYPES = {"F32": numpy.float32, "I64": numpy.int64}


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        at = f.tell()
    about = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        flat = numpy.memmap(path, TYPES[entry["dtype"]], "r", at + first, ((end - first) // numpy.dtype(TYPES[entry["dtype"]]).itemsize,))
        arrays[name] = flat.reshape(entry["shape"])
    return arrays, about


def load_windows(path, target=-1):
    """X, and metadata as a list of dicts with the columns of Braindecode; samples of file time at 256 Hz. n_valid: samples that are no
    padding."""
    arrays, _ = read_safetensors(path)
    x = arrays["x"]
    rows = [{"i_window_in_trial": i, "i_start_in_trial": int(start), "i_stop_in_trial": int(start) + x.shape[2], "target": target,
             "n_valid": int(valid)} for i, (start, valid) in enumerate(zip(arrays["start"], arrays["valid"]))]
    return x, rows

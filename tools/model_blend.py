#!/usr/bin/env python3
"""A copy of a model with data.normalize: baselines (or baseline), trained without model.init_from, that goes only a
share of the way from what it began as to what it has learned: its logit is SHARE times its own and 1 - SHARE times that of
the arithmetic which it began as (docs/models.md). The other tensors are the same bits.
usage: tools/model_blend.py MODEL.safetensors SHARE OUT.safetensors"""
import json
import struct
import sys

BEGINNING = {"head.out.weight": 0.0, "head.out.bias": -3.0, "head.skip.weight": 10.0}


def main(model, share, out):
    with open(model, "rb") as f:
        data = bytearray(f.read())
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    for name, begun in BEGINNING.items():
        first, end = (8 + size + offset for offset in header[name]["data_offsets"])
        values = struct.unpack_from(f"<{(end - first) // 4}f", data, first)
        struct.pack_into(f"<{len(values)}f", data, first, *(begun + float(share) * (v - begun) for v in values))
    with open(out, "wb") as f:
        f.write(data)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

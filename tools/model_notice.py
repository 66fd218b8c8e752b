#!/usr/bin/env python3
"""A copy of a model file that carries a notice about its data, as the metadata key brr.notice, and further keys whose values were found elsewhere,
such as temperature=0.58 for brr.temperature: its weights are the same bits.
usage: tools/model_notice.py MODEL.safetensors NOTICE.txt OUT.safetensors [KEY=VALUE ...]"""
import json
import struct
import sys


def main(model, notice, out, *pairs):
    with open(model, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    with open(notice, encoding="utf-8") as f:
        header["__metadata__"]["brr.notice"] = f.read().strip()
    for key, value in (pair.split("=", 1) for pair in pairs):
        header["__metadata__"]["brr." + key] = value
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(out, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data[8 + size:])


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

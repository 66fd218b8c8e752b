#!/usr/bin/env python3
"""An hour of 23 channels at 256 Hz, decoded by EDFlib (Debian libedf-dev) and by lib/formats/edf, in turns on one core.
usage: edf_compare.py [--rounds N] [--json FILE]    needs build/bin/brr-bench, a C compiler and libedf-dev

EDFlib is timed reading whole channels and reading blocks of a record; the faster of the two counts. Both read from the page cache."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(os.environ.get("BRR_BIN") or os.path.join(HERE, "..", "..", "build", "bin"), "brr-bench")
CHANNELS, RATE, SECONDS = 23, 256, 3600


def write_recording(path):
    """Random numbers within the declared range: EDFlib compares every sample with it."""
    columns = [(f"EEG {i + 1}".ljust(16), "".ljust(80), "uV".ljust(8), "-800".ljust(8), "800".ljust(8), "-2048".ljust(8), "2047".ljust(8),
                "".ljust(80), str(RATE).ljust(8), "".ljust(32)) for i in range(CHANNELS)]
    head = "0".ljust(8) + "X".ljust(80) + "X".ljust(80) + "01.01.20" + "00.00.00" + str(256 * (CHANNELS + 1)).ljust(8) + "".ljust(44)
    head += str(SECONDS).ljust(8) + "1".ljust(8) + str(CHANNELS).ljust(4)
    head += "".join("".join(column) for column in zip(*columns))
    noise = os.urandom(2 * CHANNELS * RATE * 8)
    values = struct.unpack(f"<{len(noise) // 2}h", noise)
    records = struct.pack(f"<{len(values)}h", *(v >> 5 for v in values))
    with open(path, "wb") as f:
        f.write(head.encode("ascii"))
        for _ in range(SECONDS // 8):
            f.write(records)


def ours(directory):
    out = f"{directory}/ours.json"
    subprocess.run([BENCH, "edf.decode", "hour 23ch", "--threads", "1", "--seconds", "0.5", "--json", out], check=True, capture_output=True)
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        peer, recording = f"{directory}/edf_peer", f"{directory}/hour.edf"
        subprocess.run(["cc", "-O2", "-o", peer, f"{HERE}/edf_peer.c", "-ledf"], check=True)
        write_recording(recording)
        whole, blocks, own, machine = [], [], [], {}
        for _ in range(args.rounds):
            for line in subprocess.run([peer, recording, "4"], check=True, capture_output=True, text=True).stdout.splitlines():
                a, b = map(float, line.split())
                whole.append(a)
                blocks.append(b)
            machine = ours(directory)
            own.append(machine["results"][0]["median_ms"])
    edflib, brr = min(statistics.median(whole), statistics.median(blocks)), statistics.median(own)
    result = {"case": "edf.decode hour 23ch", "machine": machine["machine"], "commit": machine["commit"], "time": machine["time"],
              "edflib_whole_ms": statistics.median(whole), "edflib_blocks_ms": statistics.median(blocks), "brr_ms": brr, "speed_up": edflib / brr}
    print(f"EDFlib: whole channels {result['edflib_whole_ms']:.1f} ms, blocks {result['edflib_blocks_ms']:.1f} ms; brr {brr:.2f} ms: "
          f"{result['speed_up']:.1f} times as fast as the faster of the two")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(result, f)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The Lab Streaming Layer for tests: the real liblsl, which the npm package lsl.js brings, through ctypes; and a program that sends a
recording with it.

usage: lsl.py send LIBRARY SAMPLES JSON: SAMPLES as `recording` wrote them; options (name, id, speed, unit, scale, seconds, jump_at, jump_s,
first, declared_rate, linger_s, order: the channels in another order, labels: others, held: appear at a line on stdin)."""
import ctypes
import json
import os
import subprocess
import sys
import time

import numpy

FLOAT32, STRING = 1, 3


def library(path):
    lsl = ctypes.CDLL(path)
    p, d, i, s = ctypes.c_void_p, ctypes.c_double, ctypes.c_int32, ctypes.c_char_p
    for name, result, arguments in (
            ("create_streaminfo", p, [s, s, i, d, i, s]), ("get_desc", p, [p]), ("append_child", p, [p, s]), ("append_child_value", p, [p, s, s]),
            ("create_outlet", p, [p, i, i]), ("local_clock", d, []), ("push_chunk_ftnp", i, [p, p, ctypes.c_ulong, p, i]), ("have_consumers", i, [p]),
            ("wait_for_consumers", i, [p, d]), ("destroy_outlet", None, [p]), ("resolve_byprop", i, [p, ctypes.c_uint32, s, s, i, d]),
            ("create_inlet", p, [p, i, i, i]), ("open_stream", None, [p, d, p]), ("pull_sample_str", d, [p, p, i, d, p]),
            ("pull_sample_f", d, [p, p, i, d, p]), ("get_nominal_srate", d, [p]), ("get_type", s, [p])):
        function = getattr(lsl, f"lsl_{name}")
        function.restype, function.argtypes = result, arguments
    return lsl


def environment(folder, modules):
    """What makes liblsl stay on this machine."""
    config = f"{folder}/lsl_api.cfg"
    with open(config, "w", encoding="ascii") as f:
        f.write(f"[multicast]\nResolveScope = machine\n[lab]\nSessionID = brrd{os.getpid()}\n")
    return {"LSLAPICFG": config, "LSL_LIBRARY": f"{modules}/lsl.js/prebuilt/liblsl64.so"}


def recording(path, scratch):
    """Labels, samples (n, channels) in µV, and the rate, as lib/formats/edf decodes them, for `send`."""
    program = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "edf_samples")
    facts = json.loads(subprocess.run([program, path, scratch + ".f32"], capture_output=True, check=True, text=True).stdout)
    signals = [x for x in facts["signals"] if x["usable"] and not x["annotation"]]
    samples = numpy.fromfile(scratch + ".f32", numpy.float32).reshape(len(signals), -1).T.copy()
    numpy.save(scratch + ".npy", samples)
    with open(scratch + ".json", "w", encoding="utf-8") as f:
        json.dump([[x["label"] for x in signals], signals[0]["rate"]], f)
    return samples


def outlet(lsl, labels, rate, o):
    info = lsl.lsl_create_streaminfo(o["name"].encode(), b"EEG", len(labels), rate, FLOAT32, o["id"].encode())
    channels = lsl.lsl_append_child(lsl.lsl_get_desc(info), b"channels")
    for label in labels:
        channel = lsl.lsl_append_child(channels, b"channel")
        lsl.lsl_append_child_value(channel, b"label", label.encode())
        if o.get("unit") is not None:
            lsl.lsl_append_child_value(channel, b"unit", o["unit"].encode())
    return lsl.lsl_create_outlet(info, 0, 360)


def send(path, scratch, o):
    """Sends the samples from `first` on at the wanted speed. Stamps advance with the samples, so that they do not depend on when this
    program was given a processor; from sample jump_at on they are jump_s later, and the time when the first of these was sent is printed."""
    lsl = library(path)
    with open(scratch + ".json", encoding="utf-8") as f:
        labels, rate = json.load(f)
    samples = numpy.load(scratch + ".npy")
    if "order" in o:
        labels, samples = [labels[c] for c in o["order"]], numpy.ascontiguousarray(samples[:, o["order"]])
    labels = o.get("labels", labels)
    if o.get("held"):
        print("held", flush=True)
        sys.stdin.readline()
    out = outlet(lsl, labels, o.get("declared_rate", rate), o)
    first, speed, scale = o.get("first", 0), o.get("speed", 1), o.get("scale", 1)
    end = min(len(samples), first + int(o.get("seconds", 1e9) * rate))
    if not lsl.lsl_wait_for_consumers(out, 120.0):
        sys.exit("nobody came")
    print("connected", flush=True)
    began = lsl.lsl_local_clock()
    chunk = max(1, int(rate * speed / 25))
    jumps = numpy.zeros(len(samples))
    if "jump_at" in o:
        jumps[o["jump_at"]:] = o["jump_s"]
    at = first
    while at < end:
        n = min(chunk, end - at)
        block = numpy.ascontiguousarray((samples[at:at + n].astype(numpy.float64) * scale).astype(numpy.float32) if scale != 1 else samples[at:at + n])
        stamps = began + (numpy.arange(at, at + n) - first + 1) / rate + jumps[at:at + n]
        lsl.lsl_push_chunk_ftnp(out, block.ctypes.data, block.size, stamps.ctypes.data, 1)
        if first < o.get("jump_at", 0) < at + n and o["jump_at"] >= at:
            print("jumped", time.time(), flush=True)
        at += n
        wait = began + (at - first) / rate / speed - lsl.lsl_local_clock()
        if wait > 0:
            time.sleep(wait)
    print("sent", at, flush=True)
    time.sleep(o.get("linger_s", 3600))  # an outlet that is gone takes what it has not delivered along


if __name__ == "__main__":
    send(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))

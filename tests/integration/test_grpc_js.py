#!/usr/bin/env python3
"""@grpc/grpc-js from npm, at the versions of grpc_js/package-lock.json, streams through TLS with a token: the same results as brrctl, also
after lost connections; a wrong token is refused with its reason. Skipped where npm or its registry is not at hand."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy

from daemon import PATIENCE, SOURCE, temporary
from npm import npm_modules
from relay import Relay
from secured import secret_file
from stream_fixture import load_example, streaming_daemon, trace
from test_tls_clients import Lab

sys.path.insert(0, f"{SOURCE}/tests")
from seed import test_seed  # noqa: E402

HERE = f"{SOURCE}/tests/integration/grpc_js"


def run(lab, modules, spec, tmp, **env):
    with open(f"{tmp}/spec.json", "w", encoding="utf-8") as f:
        json.dump(spec, f)
    r = subprocess.run(["node", f"{HERE}/stream.js", f"{tmp}/spec.json"], capture_output=True, text=True, timeout=PATIENCE,
                       env={**os.environ, **lab.env, "NODE_PATH": modules, "BRR_PROTO": f"{SOURCE}/proto", **env})
    assert r.returncode in (0, 1) and r.stdout, r.stderr
    return r.returncode, json.loads(r.stdout)


def check(got, want):
    events, probabilities = want
    rows = [line.split("\t") for line in events.decode().splitlines()[1:]]
    assert got["probabilities"] == hashlib.sha256(probabilities.tobytes()).hexdigest() and got["samples"] == len(probabilities), got
    onsets, written = [e["first_sample"] / 256 for e in got["events"]], [float(r[0]) for r in rows if r[2] == "sz"]
    assert len(onsets) == len(written) > 0 and all(abs(a - b) < 0.0051 for a, b in zip(onsets, written)), (onsets, written)
    assert got["summary"]["samples"] == len(probabilities) and len(got["summary"]["events"]) == len(got["events"]) and got["acks"] > 0, got


def main():
    modules = npm_modules(HERE)
    with temporary() as tmp:
        lab = Lab(tmp)
        with streaming_daemon(extra=lab.sets) as (d, recording, model):
            model = shutil.copy(model, f"{d.dir}/data/model.safetensors")  # where callers from elsewhere may name it
            want = trace(d, recording, model)[:2]
            labels, rate, rows = load_example().read_edf(recording)
            numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows]).tofile(f"{tmp}/rows.f32")
            spec = {"model": model, "channels": labels, "rate_hz": rate, "rows": f"{tmp}/rows.f32", "samples": len(rows[0]), "chunk": 500,
                    "pause_ms": 0}
            code, got = run(lab, modules, spec, tmp)
            assert code == 0 and got["resumed"] == 0, got
            check(got, want)
            relay = Relay(tmp, lab.port, test_seed())
            relay.cut_at_random(0.3, 1)
            code, got = run(lab, modules, {**spec, "pause_ms": 40}, tmp, BRR_ENDPOINT=relay.endpoint)
            relay.close()
            assert code == 0 and 0 < got["resumed"] <= relay.cuts, got
            check(got, want)
            wrong = secret_file(f"{tmp}/wrong.token", "brr_" + "0" * 40)
            code, got = run(lab, modules, spec, tmp, BRR_TOKEN_FILE=wrong)
            assert code == 1 and got["code"] == 16 and "token" in got["details"], got
            code, got = run(lab, modules, spec, tmp, BRR_TOKEN_FILE=f"{tmp}/read.token")
            assert code == 1 and got["code"] == 7 and "stream" in got["details"], got
            assert all(token not in d.read_log() for token in lab.tokens.values())
    return 0


if __name__ == "__main__":
    sys.exit(main())

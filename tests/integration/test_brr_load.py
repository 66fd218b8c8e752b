#!/usr/bin/env python3
"""brr-load: sessions in real time through TLS with a token, none of whose samples is lost, with figures of both sides; and its refusals."""
import json
import os
import shutil
import subprocess
import sys

from daemon import BIN, PATIENCE, Daemon, make_corpus, temporary
from secured import Secured
from stream_fixture import RATE, train

KEYS = ("samples_sent", "samples_lost", "ack_p50_ms", "ack_p99_ms", "result_lag_p50_ms", "result_lag_p99_ms", "reconnects", "server_rss_bytes",
        "server_cpu_s")


def load(env, *options):
    r = subprocess.run([f"{BIN}/brr-load", *options], env=env, capture_output=True, text=True, timeout=PATIENCE)
    return r.returncode, r.stdout, r.stderr


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=5, patients=2, hours=0.04)
        d = Daemon(tmp).start()
        model = train(d, f"{tmp}/eeg")
        assert d.stop() == 0
        os.makedirs(f"{tmp}/tls-daemon")
        d = Secured(f"{tmp}/tls-daemon", roles=("read", "stream")).start()
        d.until(lambda: d.as_role("stream", "jobs")[0] == 0, "tokens")
        model = shutil.copy(model, f"{d.dir}/data/model.safetensors")
        env = {**d.env, "BRR_ENDPOINT": f"127.0.0.1:{d.tcp}", "BRR_TLS_CA": f"{d.ca}/ca.crt", "BRR_TOKEN_FILE": d.token_file("stream")}
        code, out, err = load(env, "--model", model, "--sessions", "6", "--seconds", "20", "--chunk-ms", "250", "--jitter-ms", "40", "--tls", "--json")
        assert code == 0, err
        got = json.loads(out)
        assert out.count("\n") == 1 and all(got[key] is not None for key in KEYS), out
        assert got["finished"] == 6 and got["samples_sent"] == 6 * 20 * RATE and got["samples_lost"] == got["results_missing"] == got["reconnects"] == 0, got
        assert got["server_rss_bytes"] > 1 << 20 and got["server_cpu_s"] > 0 and 0 < got["ack_p50_ms"] <= got["ack_p99_ms"], got
        assert got["result_lag_p50_ms"] > 0 and got["alarm_lag_p50_ms"] > 0, got

        code, out, err = load(env, "--model", "nobody", "--sessions", "3", "--json")
        assert code == 1 and "3 sessions ended with NOT_FOUND" in err and json.loads(out)["failures"] == {"NOT_FOUND": 3}, (out, err)
        code, out, err = load({**env, "BRR_TOKEN_FILE": d.token_file("read")}, "--model", model, "--sessions", "2", "--seconds", "1", "--json")
        assert code == 1 and json.loads(out)["failures"] == {"ROLE_TOO_SMALL": 2}, (out, err)
        code, out, err = load({k: v for k, v in env.items() if k != "BRR_TLS_CA"}, "--model", model, "--tls")
        assert code == 2 and not out and "--tls-ca" in err, err
        code, out, err = load(env, "--modle", model)
        assert code == 2 and "--modle" in err, err
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

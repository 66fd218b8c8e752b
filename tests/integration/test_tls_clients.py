#!/usr/bin/env python3
"""Stock clients through TLS with tokens: brrctl, the examples and python3-grpcio stream and get what they get over the unix socket; health
and reflection; a live stream ends when its token is revoked; a real Prometheus scrapes over HTTPS with a bearer token."""
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

import grpc
import numpy

from daemon import BIN, PATIENCE, SOURCE, free_port, temporary, until
from secured import secret_file, tls
from stock import Stock
from stream_fixture import load_example, streaming_daemon, trace
from test_reflection import Reflection


class Lab:
    """A CA with a token file for each role, and the daemon's keys for them."""

    def __init__(self, tmp):
        self.dir, self.port = f"{tmp}/tls", free_port()
        tls("init", self.dir)
        self.tokens = {}
        for role in ("read", "stream"):
            self.tokens[role] = tls("token", self.dir, "--role", role, "--name", role).strip()
            secret_file(f"{tmp}/{role}.token", self.tokens[role])
        self.sets = [f"listen.tcp=127.0.0.1:{self.port}", f"tls.cert={self.dir}/server.crt", f"tls.key={self.dir}/server.key",
                     f"auth.tokens_file={self.dir}/tokens"]
        self.env = {"BRR_ENDPOINT": f"127.0.0.1:{self.port}", "BRR_TLS_CA": f"{self.dir}/ca.crt", "BRR_TOKEN_FILE": f"{tmp}/stream.token"}

    def channel(self, role):
        with open(f"{self.dir}/ca.crt", "rb") as f:
            secure = grpc.ssl_channel_credentials(f.read())
        credentials = grpc.composite_channel_credentials(secure, grpc.access_token_call_credentials(self.tokens[role]))
        return grpc.secure_channel(f"localhost:{self.port}", credentials)


def streams(d, lab, recording, model):
    """The same bytes as over the unix socket, from brrctl, the Python example and the C example."""
    events, probabilities, _ = trace(d, recording, model)
    inside = d.env
    d.env = {**d.env, **lab.env}
    secured = trace(d, recording, model)
    assert secured[0] == events and numpy.array_equal(secured[1], probabilities, equal_nan=True)
    d.env = inside
    env = {**os.environ, **lab.env, "BRR_PROTO": f"{SOURCE}/proto"}
    python = subprocess.run([sys.executable, f"{SOURCE}/client/examples/stream.py", recording, model], env=env, capture_output=True, text=True,
                            timeout=PATIENCE, check=False)
    assert python.returncode == 0 and len(python.stdout.splitlines()) == len(events.splitlines()) - 1 > 0, (python.stdout, python.stderr)
    labels, rate, rows = load_example().read_edf(recording)
    frames = numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows]).T.tobytes()
    program = os.path.join(os.path.dirname(BIN), "examples", "example_stream")
    c = subprocess.run([program, model, str(rate), ",".join(labels)], env=env, input=frames, capture_output=True, timeout=PATIENCE, check=False)
    assert c.returncode == 0 and c.stdout.decode() == python.stdout, (c.stdout, c.stderr)


def stock(d, lab, recording, model):
    c = Stock(lab.channel("stream"), f"{d.dir}/stubs")
    assert c.Admin.Version(c.admin.VersionRequest()).version
    assert c.refused(c.Jobs.Cancel, c.jobs.CancelJobRequest(id="x"))[1] == "PERMISSION_DENIED"
    check = lab.channel("read").unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=PATIENCE) == b"\x08\x01", "SERVING"
    reflection = Reflection(lab.channel("read"), d.dir)
    (answer,) = reflection.ask({"list_services": "*"})
    assert "brr.v1.Stream" in [s.name for s in answer.list_services_response.service]
    detail, code, _ = c.refused(Stock(lab.channel("read"), f"{d.dir}/stubs").Stream.Run, iter([]))
    assert code == "PERMISSION_DENIED" and detail.reason == "ROLE_TOO_SMALL", detail
    with open(f"{lab.dir}/ca.crt", "rb") as f:
        bare = grpc.secure_channel(f"localhost:{lab.port}", grpc.ssl_channel_credentials(f.read()))
    detail, code, text = c.refused(Stock(bare, f"{d.dir}/stubs").Admin.Version, c.admin.VersionRequest())
    assert code == "UNAUTHENTICATED" and detail.reason == "TOKEN_MISSING" and "token" in text, (detail, text)
    ended_while_live(c, lab, recording, model)


def change_role(lab, old, new):
    with open(f"{lab.dir}/tokens", encoding="utf-8") as f:
        text = f.read()
    with open(f"{lab.dir}/tokens", "w", encoding="utf-8") as f:
        f.write(text.replace(f"{old} stream ", f"{new} stream "))


def ended_while_live(c, lab, recording, model):
    """A token that is revoked, or has a smaller role from now on, ends the stream that it opened."""
    assert end_while_live(c, recording, model, lambda: change_role(lab, "stream", "read")) == ("PERMISSION_DENIED", "ROLE_TOO_SMALL")
    change_role(lab, "read", "stream")
    s = c.stream
    open_none = s.ClientMessage(open=s.Open(model="none", channels=["C3"], rate_hz=256, format=s.SAMPLE_FORMAT_F32_UV))
    until(lambda: c.refused(c.Stream.Run, iter([open_none]))[0].reason != "ROLE_TOO_SMALL", "the role stays small")
    assert end_while_live(c, recording, model, lambda: tls("revoke", lab.dir, "--name", "stream")) == ("UNAUTHENTICATED", "TOKEN_REVOKED")


def end_while_live(c, recording, model, change):
    labels, rate, rows = load_example().read_edf(recording)
    x = numpy.array([numpy.frombuffer(r, dtype=numpy.float32) for r in rows])
    changed = []

    def messages():
        s, at = c.stream, 0
        yield s.ClientMessage(open=s.Open(model=model, channels=labels, rate_hz=rate, format=s.SAMPLE_FORMAT_F32_UV))
        while True:  # until the stream is ended
            part = x[:, at % 2560:at % 2560 + 256]
            yield s.ClientMessage(chunk=s.Chunk(first_sample=at, samples=256, data=part.tobytes()))
            at += 256
            time.sleep(0.02)
            if at > 2560 and not changed:
                changed.append(True)
                change()

    detail, code, _ = c.refused(c.Stream.Run, messages())
    return code, detail.reason


def prometheus(d, lab, tmp):
    port = free_port()
    with open(f"{tmp}/prometheus.yml", "w", encoding="utf-8") as f:
        json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [
            {"job_name": name, "scheme": "https", "tls_config": {"ca_file": f"{lab.dir}/ca.crt"}, "authorization": {"credentials": token},
             "static_configs": [{"targets": [f"localhost:{d.port}"]}]} for name, token in (("good", lab.tokens["read"]), ("bad", "brr_wrong"))]}, f)
    with open(f"{tmp}/prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={tmp}/prometheus.yml", f"--storage.tsdb.path={tmp}/tsdb",
                                    f"--web.listen-address=127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(query):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=PATIENCE) as answer:
                return {r["metric"]["job"]: float(r["value"][1]) for r in json.load(answer)["data"]["result"]}
        except OSError:
            return {}

    try:
        until(lambda: ask("up") == {"good": 1, "bad": 0}, lambda: open(f"{tmp}/prometheus.log", encoding="utf-8").read(), pause_s=0.2)
        assert ask("brrd_stream_seizure_events_total")["good"] >= 1 and "bad" not in ask("brrd_build_info")
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def main():
    with temporary() as tmp:
        lab = Lab(tmp)
        with streaming_daemon(extra=lab.sets) as (d, recording, model):
            model = shutil.copy(model, f"{d.dir}/data/model.safetensors")  # where callers from elsewhere may name it
            streams(d, lab, recording, model)
            prometheus(d, lab, tmp)
            stock(d, lab, recording, model)
            assert all(token not in d.read_log() for token in lab.tokens.values())
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""libbrr while the daemon is away: what is pushed meanwhile is kept up to the buffer's size, then refused with BRR_AGAIN and never lost;
after resume_ms the stream ends with an error that says what happened; a session that the daemon has forgotten, or a model that was
replaced, is an error too. Over TLS a client is back as soon as over a unix socket."""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import time

import grpc

from daemon import BIN, PATIENCE, free_port, temporary
from relay import Relay
from secured import tls
from stream_fixture import messages, streaming_daemon, with_events

DRIVER = f"{os.environ['BRR_BUILD_DIR']}/tests/away_driver"
CHUNK = 64
AN_HOUR = "3600000"  # for which a client tries, in ms: longer than a daemon needs for a start on a busy machine
KEPT = (64 << 10) // (19 * CHUNK * 4)  # whole chunks that fit


class Client:
    def __init__(self, env, model, *options):
        self.process = subprocess.Popen([DRIVER, model, *options], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command):
        self.tell(command)
        return self.process.stdout.readline().strip()

    def finish(self, samples):
        """All of them have arrived, over more connections than one: on a busy machine a new one may fail, too."""
        answer = self.ask("finish")
        assert answer.startswith(f"finished {samples} samples, ") and not answer.endswith(" 0 reconnects"), answer

    def done(self):
        self.process.stdin.close()
        return self.process.wait(timeout=PATIENCE)


def check_full(d, relay, model):
    """The relay takes no connection for a second: a full buffer, then everything arrives."""
    c = Client({**d.env, "BRR_ENDPOINT": relay.endpoint}, model, AN_HOUR)
    assert c.ask("push 4") == "accepted 4" and c.ask("drain") == "durable"
    relay.hold()
    answer = c.ask("push 100")
    n = int(answer.split(",")[0].split()[1])
    assert answer.endswith("then full") and KEPT - 2 <= n <= KEPT, answer
    assert c.ask("push 1") == "accepted 0, then full"
    time.sleep(1)
    relay.release()
    assert c.ask("drain") == "durable" and c.ask("push 4") == "accepted 4"
    c.finish((n + 8) * CHUNK)
    assert c.done() == 0


def check_tls(d, port, ca, model):
    """A daemon that is away for a second: the client's own attempts reach the one that follows it, TLS handshakes included."""
    c = Client({**d.env, "BRR_ENDPOINT": f"127.0.0.1:{port}", "BRR_TLS_CA": f"{ca}/ca.crt"}, model, AN_HOUR)
    assert c.ask("push 4") == "accepted 4" and c.ask("drain") == "durable"
    d.kill()
    assert c.ask("push 4") == "accepted 4"
    c.tell("drain")
    time.sleep(1)
    d.start()
    assert c.process.stdout.readline() == "durable\n"
    c.finish(8 * CHUNK)
    assert c.done() == 0


def check_given_up(d, relay, model):
    c = Client({**d.env, "BRR_ENDPOINT": relay.endpoint}, model)
    assert c.ask("push 4") == "accepted 4" and c.ask("drain") == "durable"
    relay.hold()
    start = time.monotonic()
    answer = c.ask("wait")
    assert answer.startswith("error unavailable") and "did not come back within 3 s" in answer and f"samples from {4 * CHUNK} on" in answer, answer
    assert time.monotonic() - start >= 2.9 and c.done() == 1
    relay.release()


def check_forgotten(d, model, replace):
    """The daemon comes back without the session's snapshot, or with another model under the same path."""
    c = Client(d.env, model, AN_HOUR)
    assert c.ask("push 4") == "accepted 4" and c.ask("drain") == "durable"
    d.kill()
    if replace:
        with_events(model, f"{d.dir}/other.safetensors", min_duration_s=0.75)
        os.replace(f"{d.dir}/other.safetensors", model)
    shutil.rmtree(f"{d.dir}/results/sessions", ignore_errors=True)
    d.start()
    answer = c.ask("wait")
    assert answer.startswith("error aborted"), answer
    assert ("another model" if replace else "SESSION_EXPIRED") in answer, answer
    assert c.done() == 1


class Busy:
    """A daemon that opens a stream, sends it away with a hint, and refuses it when it comes back."""

    def __init__(self, directory, hint_ms):
        self.hint_ms, self.sent_away, self.came_back = hint_ms, None, None
        _, self.common, self.pb, _ = messages()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        run = grpc.stream_stream_rpc_method_handler(self.run, lambda data: self.pb.ClientMessage.FromString(data), lambda m: m.SerializeToString())
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("brr.v1.Stream", {"Run": run}),))
        self.endpoint = f"unix:{directory}/busy.sock"
        self.server.add_insecure_port(self.endpoint)
        self.server.start()

    def run(self, requests, context):
        first = next(requests).open
        if self.sent_away is None:
            yield self.pb.ServerMessage(opened=self.pb.Opened(session_id="1", max_chunk_samples=1000, montage=["C3"], used_channels=[0], hop_s=1,
                                                              window_s=16, model_sha256="00", resume_token="token", epoch=1))
            next(requests)  # the client has heard it
            self.sent_away = time.monotonic()
            self.end(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", self.hint_ms)
        assert first.resume_token == "token"
        self.came_back = time.monotonic()
        self.end(context, grpc.StatusCode.INVALID_ARGUMENT, "ENOUGH", 0)

    def end(self, context, code, reason, hint_ms):
        detail = self.common.ErrorDetail(reason=reason, message=reason, retry_after_ms=hint_ms)
        context.set_trailing_metadata((("brr-error-bin", detail.SerializeToString()),))
        context.abort(code, reason)


def check_hint(d, recording):
    """A client that is asked to wait for longer than its own longest pause does."""
    busy = Busy(d.dir, 7000)
    r = subprocess.run([f"{BIN}/brrctl", "stream", recording, "--model", "m", "--output", f"{d.dir}/busy.tsv"],
                       env={**d.env, "BRR_ENDPOINT": busy.endpoint}, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode != 0 and "ENOUGH" in r.stderr and r.stderr.count("connection lost, reconnecting") == 1, r
    assert busy.came_back - busy.sent_away >= 7, (busy.sent_away, busy.came_back)
    busy.server.stop(None)


def check_all(d, recording, model, port, ca):
    check_hint(d, recording)
    check_tls(d, port, ca, shutil.copy(model, f"{d.dir}/data/model.safetensors"))
    relay = Relay(d.dir, d.socket, 0)
    check_full(d, relay, model)
    check_given_up(d, relay, model)
    relay.close()
    check_forgotten(d, model, False)
    check_forgotten(d, model, True)


def main():
    with temporary() as tmp:
        port, ca = free_port(), f"{tmp}/tls"
        tls("init", ca)
        secure = [f"listen.tcp=127.0.0.1:{port}", f"tls.cert={ca}/server.crt", f"tls.key={ca}/server.key"]
        with streaming_daemon(extra=secure) as (d, recording, model):
            check_all(d, recording, model, port, ca)
    return 0


if __name__ == "__main__":
    sys.exit(main())

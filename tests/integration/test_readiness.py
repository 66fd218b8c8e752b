#!/usr/bin/env python3
"""Ready means that the models that serve are loaded and warm: until then /readyz, grpc.health and READY=1 wait. A Watch of grpc.health
hears each change."""
import glob
import os
import queue
import socket
import sys
import threading
import urllib.error
import urllib.request

import grpc

from daemon import MINI, PATIENCE, make_corpus, temporary, until
from stream_fixture import train
from test_held_volume import HeldDaemon

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def readyz(d):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/readyz", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Watch:
    """The statuses that Health.Watch sends, as they come."""

    def __init__(self, d):
        self.channel, self.heard = grpc.insecure_channel(d.env["BRR_ENDPOINT"]), queue.Queue()
        self.check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for status in self.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", wait_for_ready=True):
                self.heard.put(status)
        except grpc.RpcError:
            self.heard.put(None)

    def next(self):
        return self.heard.get(timeout=PATIENCE)


class Notified:
    """The service manager's side of sd_notify."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.path, self.lines = path, []

    def said(self, line):
        self.socket.settimeout(0.05)
        try:
            while True:
                self.lines += self.socket.recv(4096).decode().splitlines()
        except TimeoutError:
            return line in self.lines


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = HeldDaemon(tmp)
        d.start()
        model = train(d, f"{tmp}/eeg")
        until(lambda: readyz(d)[0] == 200, "a daemon without models is not ready")
        assert d.ctl("checkpoint", "promote", model, "ward")[0] == 0
        assert d.stop() == 0
        [served] = glob.glob(f"{tmp}/results/models/*-ward.safetensors")
        os.environ["BRR_HOLD_PATH"] = served  # the model that serves, alone

        notified = Notified(f"{tmp}/notify")
        os.environ["NOTIFY_SOCKET"] = notified.path
        d.hold()
        d.start()  # `brrctl version` answers while the model is being loaded
        watch = Watch(d)
        assert watch.next() == NOT_SERVING and watch.check(b"") == NOT_SERVING
        status, text = readyz(d)
        assert status == 503 and "models" in text and not notified.said("READY=1"), (status, text, notified.lines)
        d.release()
        assert watch.next() == SERVING and watch.check(b"") == SERVING
        until(lambda: readyz(d) == (200, "ready\n"), "the page is not ready where gRPC is")
        until(lambda: notified.said("READY=1"), "READY=1 was not sent")
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/metrics", timeout=PATIENCE) as answer:
            metrics = answer.read().decode()
        counted = {line.split(" ")[0]: float(line.split(" ")[1]) for line in metrics.splitlines() if line.startswith("brrd_log_messages_total")}
        assert counted['brrd_log_messages_total{level="info"}'] >= 3 and 'brrd_log_messages_total{level="error"}' in counted, counted

        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0", "training.max_steps=100000", watch=False)
        assert code == 0, err
        d.wait(end["job"], lambda job: job["state"] == "running")
        d.process.terminate()
        assert watch.next() == NOT_SERVING, "a Watch does not hear that the daemon stops"
        assert d.process.wait(timeout=PATIENCE) == 0 and notified.said("STOPPING=1")

        os.remove(served)
        d.start()
        until(lambda: "could not be loaded" in readyz(d)[1], "a model that cannot be loaded is not named")
        assert d.ctl("unload", "ward")[0] == 0
        until(lambda: readyz(d)[0] == 200, "not ready after the model was unloaded")
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

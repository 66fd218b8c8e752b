#!/usr/bin/env python3
"""The volume of certificate and configuration, and then the one of the tokens, does not answer: calls, streams and health go on, a token
that is revoked meanwhile is refused although a reload of the certificate waits, and what was replaced is used when the volume is
back. Calls of one caller for files of that volume leave room for the calls of another caller."""
import os
import shutil
import sys
import time

from daemon import PATIENCE, SOURCE, make_corpus, temporary
from secured import Secured, secret_file, tls
from stock import Stock
from stream_fixture import train
from test_held_volume import HeldDaemon, Live, Waiting
from test_tls import http_serial, serial

HELD_S = 10  # for so long calls go on beside what was to be seen


class Guarded(HeldDaemon, Secured):
    """Certificate, key and configuration lie in lab/, the tokens in tokens/, each on a volume of its own; the lab's CA stays elsewhere."""

    def __init__(self, directory):
        super().__init__(directory)
        self.lab, self.shelf = os.path.join(directory, "lab"), os.path.join(directory, "tokens")
        for folder in (self.lab, self.shelf):
            os.mkdir(folder)
        self.config = os.path.join(self.lab, "daemon.yaml")
        shutil.copy(f"{SOURCE}/configs/demo.yaml", self.config)
        self.publish("server.crt", "server.key", "tokens")
        self.extra = [f"listen.tcp=127.0.0.1:{self.tcp}", f"tls.cert={self.lab}/server.crt", f"tls.key={self.lab}/server.key",
                      f"auth.tokens_file={self.shelf}/tokens"]

    def command(self):
        return [self.config if word == f"{SOURCE}/configs/demo.yaml" else word for word in super().command()]

    def publish(self, *names):
        """What `brrctl tls` has made is put where the daemon reads it, each file at once."""
        for name in names:
            place = self.shelf if name == "tokens" else self.lab
            with open(f"{self.ca}/{name}", encoding="utf-8") as f:
                secret_file(f"{place}/.{name}", f.read())
            os.rename(f"{place}/.{name}", f"{place}/{name}")

    def hold_volume(self, folder):
        """Only before the start: the program reads the variable once it touches a file."""
        os.environ["BRR_HOLD_PATH"] = folder
        return self

    def reload(self):
        self.process.send_signal(1)

    def said(self, words):
        return self.read_log().count(words)


def go_on(d, c, live, seconds=0.0, until=lambda: False):
    """Calls of a token, health, and a live stream, for so long or until something is the case."""
    deadline, turns = time.time() + (seconds or PATIENCE), 0
    while (time.time() < deadline or seconds and turns < 5) and not until():
        live.turn()
        assert c.Jobs.List(c.jobs.ListJobsRequest(), timeout=PATIENCE) is not None
        assert d.as_role("read", "jobs")[0] == 0
        assert d.scrape("/healthz") == "ok\n"
        assert "brrd_process_uptime" in d.scrape(token=d.tokens["read"])
        turns += 1
    assert seconds or until(), d.read_log()


def a_held_certificate(d, c, live):
    before, reloads = serial(d), d.said('msg="configuration reloaded')
    tls("renew", d.ca)
    d.publish("server.crt", "server.key")
    d.until(lambda: serial(d) != before, "another certificate")
    before, shown, tokens = serial(d), d.said('what="certificate"'), d.said('what="tokens"')
    d.hold()
    tls("renew", d.ca)
    d.publish("server.crt", "server.key")  # what the server did while this machine did not reach it
    d.reload()
    go_on(d, c, live, until=lambda: d.said('what="tokens"') > tokens)  # the reload of the tokens ended, the other ones wait
    assert d.as_role("gone", "jobs")[0] == 0
    tls("revoke", d.ca, "--name", "gone")
    d.publish("tokens")
    go_on(d, c, live, until=lambda: d.as_role("gone", "jobs")[0] == 1)
    assert d.refused("gone", "jobs") == "TOKEN_REVOKED"
    go_on(d, c, live, HELD_S)
    assert d.said('what="certificate"') == shown and d.said('msg="configuration reloaded') == reloads, d.read_log()
    assert serial(d) == before and http_serial(d) == before
    d.release()
    d.until(lambda: serial(d) != before and http_serial(d) != before, "the new certificate")
    d.until(lambda: d.said('msg="configuration reloaded') > reloads, "the configuration")


def one_caller_leaves_room(d, c):
    """More calls than the class has threads, all of one caller and held; another caller needs a thread of that class."""
    held = [Waiting("Describe", lambda: c.Models.Describe(c.checkpoints.DescribeModelRequest(name=f"{d.shelf}/net.safetensors")))
            for _ in range(8)]
    d.until(lambda: 'brrd_rpc_in_flight{method="/brr.v1.Models/Describe"} 8' in d.scrape(token=d.tokens["read"]), "held calls")
    code, _, err = d.as_role("read", "checkpoints")
    assert code == 0 and all(w.is_alive() for w in held), (err, [w.error for w in held])
    return held


def held_tokens(d, c, live):
    shown, reloads = d.said('what="tokens"'), d.said('msg="configuration reloaded')
    d.hold()
    held = one_caller_leaves_room(d, c)
    d.reload()
    tls("revoke", d.ca, "--name", "left")
    d.publish("tokens")
    go_on(d, c, live, HELD_S)
    assert d.said('what="tokens"') == shown and d.said('msg="configuration reloaded') > reloads, d.read_log()
    assert d.as_role("left", "jobs")[0] == 0  # it cannot be known
    d.release()
    d.until(lambda: d.as_role("left", "jobs")[0] == 1, "a revoked token")
    for w in held:
        w.join(timeout=PATIENCE)
        assert w.error and w.error.code().name == "NOT_FOUND", w.error or w.answer


def a_stopped_daemon_does_not_wait(d):
    d.hold()
    d.reload()
    time.sleep(2)
    assert d.stop() == 0, d.read_log()
    d.release()


def ready(d):
    try:
        return d.scrape("/readyz") == "ready\n"
    except OSError:  # the status 503, while the model is being loaded
        return False


def begin(d, tmp, name):
    """A running daemon with a token of this name, and a stream."""
    d.new_token("read", name)
    d.publish("tokens")
    d.start()
    d.until(lambda: ready(d), "the model")
    assert d.as_role(name, "jobs")[0] == 0
    c = Stock(d.env["BRR_ENDPOINT"], f"{tmp}/stubs")
    live = Live(c, "ward")
    live.turn()
    return c, live


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=21, patients=2, hours=0.04)
        d = Guarded(tmp)
        model = train(d.hold_volume(d.lab).start(), f"{tmp}/eeg")
        code, out, err = d.ctl("checkpoint", "promote", model, "ward")
        assert code == 0 and d.stop() == 0, err
        c, live = begin(d, tmp, "gone")
        a_held_certificate(d, c, live)
        live.finish()
        c.channel.close()
        a_stopped_daemon_does_not_wait(d)
        c, live = begin(d.hold_volume(d.shelf), tmp, "left")
        held_tokens(d, c, live)
        live.finish()
        c.channel.close()
        a_stopped_daemon_does_not_wait(d)
    return 0


if __name__ == "__main__":
    sys.exit(main())

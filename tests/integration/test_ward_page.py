#!/usr/bin/env python3
"""docs/ward.md, from the keys to the morning: its commands run in their order, on a daemon with the page's configuration and the unit of a bed.
Paths, ports, names of machines and users are those of the test; apt, adduser and systemctl are its own work."""
import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "chaos"))

from daemon import BIN, PATIENCE, SOURCE, Daemon, free_port, make_corpus, temporary, until  # noqa: E402
from pager import Pager  # noqa: E402
from test_stream_follow import bed_command  # noqa: E402

OWN = ("apt install", "adduser", "systemctl")  # what only a machine of its own can do


class Receiver(Pager):
    """.messages: what it was told; .alarms: the ids in it."""

    def __init__(self, folder, name):
        self.messages = []
        super().__init__(folder, name)

    def attempted(self, body):
        self.messages.append(body)

    @property
    def alarms(self):
        return [body["entry"].get("alarm") for body in list(self.messages)]

    def of(self, kind):
        """Those that bed-1 is not heard, or is again."""
        entries = [(body["entry"], body) for body in list(self.messages)]
        return [body for e, body in entries if e["kind"] == kind and e["client"] == "bed-1" and e["detail"].split(":")[0] in ("lost", "no_signal")]


class FromPage(Daemon):
    """Started with a file alone, as its unit does it."""

    def __init__(self, directory, config):
        super().__init__(directory)
        self.config = config

    def command(self):
        return [f"{BIN}/brrd", "--config", self.config]


class Walk:
    def __init__(self, tmp):
        self.tmp, self.bed, self.env = tmp, None, {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "USER": "root"}
        self.pagers = {name: Receiver(tmp, name) for name in ("nurse", "doctor")}
        self.d = FromPage(tmp, f"{tmp}/etc/brrd/daemon.yaml")
        self.tcp, me = free_port(), subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        self.env["BRR_ENDPOINT"] = self.d.env["BRR_ENDPOINT"]
        make_corpus(f"{tmp}/recorder", seed=31, patients=1, hours=0.02, seizures=0)
        recording = subprocess.run(["find", f"{tmp}/recorder", "-name", "*_eeg.edf"], capture_output=True, text=True, check=True).stdout.strip()
        self.changes = [("sudo -u brrd ", ""), ("sudo ", ""), ("chown brrd:", f"chown {me}:"), ("unix_group: brrd, ", ""), ("/root/", f"{tmp}/root/"),
                        ("/etc/brrd", f"{tmp}/etc/brrd"), ("/run/brrd/brrd.sock", self.d.socket), ("/var/cache/brrd", f"{tmp}/cache"),
                        ("/var/lib/brrd", f"{tmp}/results"), ("data: /data", f"data: {tmp}/data"), ("0.0.0.0:7443", f"127.0.0.1:{self.tcp}"),
                        ("eeg.ward.example:7443", f"127.0.0.1:{self.tcp}"), ("0.0.0.0:9464", f"127.0.0.1:{self.d.port}"),
                        ("--host eeg.ward.example", "--host 127.0.0.1"), ("/opt/amplifier/record --edf", f"cat {recording} -"),
                        *((f"https://pager.example/{name}", f"http://127.0.0.1:{p.server_address[1]}/") for name, p in self.pagers.items())]
        os.makedirs(f"{tmp}/etc/brrd")

    def here(self, text):
        for page, own in self.changes:
            text = text.replace(page, own)
        return text

    def run(self, line, codes=(0,)):
        """A command of the page; its output."""
        r = subprocess.run(["bash", "-o", "pipefail", "-c", f"umask 077; {self.here(line)}"], env=self.env, cwd=self.tmp, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert r.returncode in codes, f"{line}\n{r.stdout}{r.stderr}\n{self.d.read_log()[-2000:] if self.d.process else ''}"
        return r.stdout

    def export(self, line):
        self.env.update(word.split("=", 1) for word in shlex.split(self.here(line))[1:])
        for name in ("BRR_TLS_CA", "BRR_TOKEN_FILE"):
            self.env[name] = os.path.join(self.tmp, self.env[name])

    def systemctl(self, line):
        if "restart brrd" in line:
            self.d.start()
            return
        name = re.search(r"brrd-bed@(\S+)", line)[1]
        with open(f"{self.tmp}/etc/brrd/beds/{name}.conf", encoding="utf-8") as f:
            words, env = bed_command(name, MODEL="line_length", BRR_TOKEN_FILE=f"{self.tmp}/etc/brrd/beds/{name}.token",
                                     **dict(row.rstrip("\n").split("=", 1) for row in f))
        self.bed = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, start_new_session=True)  # the recorder waits for its electrodes
        until(lambda: '"bed-1"' in self.d.ctl("sessions", "--json")[1], "the bed never came")

    def close(self):
        if self.bed:
            self.bed.stdin.close()
            self.bed.wait(PATIENCE)


def blocks():
    """The page's indented lines, block by block."""
    with open(f"{SOURCE}/docs/ward.md", encoding="utf-8") as f:
        return [[line[4:] for line in block.splitlines()] for block in re.findall(r"(?:^    .*\n)+", f.read(), re.M)]


def page_of(w, path):
    context = ssl.create_default_context(cafile=f"{w.tmp}/ca.crt")
    with open(f"{w.tmp}/screen.token", encoding="ascii") as f:
        request = urllib.request.Request(f"https://127.0.0.1:{w.d.port}{path}", headers={"Authorization": f"Bearer {f.read().strip()}"})
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as page:
        return page.read().decode()


def walk(w):
    seen, alarm = [], ""
    for block in blocks():
        if block[0].startswith("listen:"):
            with open(w.d.config, "w", encoding="utf-8") as f:
                f.write("\n".join(map(w.here, block)) + "\n")
            continue
        for line in block:
            line = line.replace("6f1c2a", alarm[:6]).replace("ALARM", alarm) if alarm else line
            seen.append(line)
            if "systemctl" in line:
                w.systemctl(line)
            elif line.startswith("export "):
                w.export(line)
            elif "brrctl doctor" in line:
                assert "PASS" in w.run(line, codes=(0, 1)), line  # it judges the machine too
            elif not any(words in line for words in OWN):
                out = w.run(line)
                if "alarms test" in line:
                    [alarm] = [a["alarm"] for a in map(json.loads, w.run("brrctl alarms --open --json").splitlines()) if a["kind"] == "alarm"]
    return seen, alarm, out


def check_lost(w):
    """A bed's machine is off for a while: who is told of it, with the page's kinds of hooks, is told that it is back, in one message each."""
    nurse = w.pagers["nurse"]
    os.killpg(w.bed.pid, signal.SIGKILL)  # its recorder too
    w.bed.wait(PATIENCE)
    began = until(lambda: nurse.of("technical_on"), "the pager was not told that the bed is lost")
    w.bed.stdin.close()
    w.systemctl("systemctl start brrd-bed@bed-1")
    over = until(lambda: nurse.of("technical_off"), "the pager was not told that the bed is back")
    assert [body["entry"]["alarm"] for body in began] == [body["entry"]["alarm"] for body in over], (began, over)
    assert re.match(r"bed-1: (connection lost|no signal), back after \d+ (s|min), \S+ \S+ - \S+ [A-Z]", over[0]["text"]), over
    assert began[0]["text"].startswith(over[0]["text"].split(",")[0]), (began, over)


def main():
    with temporary() as tmp:
        w = Walk(tmp)
        try:
            seen, alarm, _ = walk(w)
            assert sum("brrctl" in line for line in seen) > 12 and alarm, seen
            assert os.stat(f"{tmp}/etc/brrd/tls").st_mode & 0o777 == 0o755, "neither the daemon nor people can read in the folder"
            page = page_of(w, "/streams?wall")
            assert all(f">{bed}<" in page for bed in ("bed-1", "bed-2", "bed-3")), page[:2000]
            until(lambda: alarm in w.pagers["nurse"].alarms, "the pager was not told")
            assert w.pagers["doctor"].alarms, "hooks test did not reach the doctor"
            answered = [json.loads(line)["detail"] for line in w.d.ctl("journal", "--kind", "answered", "--json")[1].splitlines()]
            assert [words.split()[0] for words in answered] == ["note", "acknowledge", "mark"], answered
            [url] = {body["url"] for body in w.pagers["nurse"].messages if body["entry"].get("alarm") == alarm}
            page = page_of(w, url.removeprefix("https://eeg.ward.example:9464"))
            assert "<p>Test alarm</p>" in page and "<dt>told</dt><dd>pager, alarm_on: delivered" in page and "<dd>Ana B, <time" in page, page
            check_lost(w)
            w.close()
            assert w.d.stop() == 0, w.d.read_log()[-2000:]
        finally:
            w.close()


if __name__ == "__main__":
    main()

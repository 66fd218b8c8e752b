#!/usr/bin/env python3
"""Hooks of alarms: a command with JSON on its standard input and a time limit, a signed POST to an HTTPS receiver that fails, a mail, what was not
delivered when the daemon was killed, patterns, replays, a secret that cannot be read, and the test alarm. Each alarm is told by one
delivery, its own or one that covers it."""
import base64
import email.policy
import glob
import hashlib
import hmac
import http.server
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from daemon import PATIENCE, SOURCE, Daemon, make_corpus, sanitizers, temporary
from secured import secret_file, tls
from test_stream_journal import RULE, alarms_in, journal

SECRET = "a key that both know"


class Receiver(http.server.ThreadingHTTPServer):
    """Keeps (status, delivery id, body) of every request; answers 503 for the next `failures` of them."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{folder}/server.crt", f"{folder}/server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.requests, self.failures = [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def delivered(self, client):
        """Ids of the deliveries that were taken, and of those that they cover."""
        return [i for status, _, body in list(self.requests) if status == 200 and body["entry"]["client"] == client
                for i in [body["id"], *body["covers"]]]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        want = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        status = 401 if self.headers["Brr-Signature"] != want else 503 if self.server.failures else 200
        self.server.failures -= status == 503
        self.server.requests.append((status, self.headers["Brr-Delivery"], json.loads(body)))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


class Hooked(Daemon):
    def __init__(self, directory, hooks):
        super().__init__(directory, [f"sessions.shared={directory}/shared", "sessions.name=a"])
        with open(f"{SOURCE}/configs/demo.yaml", encoding="utf-8") as f, open(f"{directory}/daemon.yaml", "w", encoding="utf-8") as out:
            out.write(f.read() + "\nalarms:\n  rejoin: 0s\n  url: https://eeg.example/\n  hooks:\n" + "".join(f"    - {json.dumps(h)}\n" for h in hooks))

    def command(self):
        held = [f"LD_PRELOAD={os.environ['BRR_BUILD_DIR']}/tests/libhold_volume.so", f"BRR_HOLD_SYNC={self.dir}/hangs",
                f"BRR_HOLD_PATH={os.path.realpath(self.dir)}/shared/.told", f"BRR_HOLD_FLAG={self.dir}/marks-hang"] if not sanitizers() else []
        return ["env", *held, *(f"{self.dir}/daemon.yaml" if word.endswith("demo.yaml") else word for word in super().command())]


class MailServer:
    """Takes mail over STARTTLS from USER with PASSWORD. Keeps (recipients, message) of each mail; refuses recipients at `refused`."""

    USER, PASSWORD = "brrd", "geheim, mit Komma"

    def __init__(self, folder):
        self.mails, self.refused = [], "nobody@"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(f"{folder}/server.crt", f"{folder}/server.key")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        secure, known, to, file = False, False, [], connection.makefile("rb")

        def say(text):
            connection.sendall(text.encode() + b"\r\n")
        say("220 here")
        while line := file.readline().decode().rstrip("\r\n"):
            verb = line.split(" ")[0].upper()
            if verb == "EHLO":
                say("250-here\r\n250 AUTH PLAIN" if secure else "250-here\r\n250 STARTTLS")
            elif verb == "STARTTLS":
                say("220 go on")
                connection, secure = self.context.wrap_socket(connection, server_side=True), True
                file = connection.makefile("rb")
            elif verb == "AUTH":
                words = line.split(" ")
                if len(words) == 2:
                    say("334 ")
                    words.append(file.readline().decode().strip())
                known = secure and base64.b64decode(words[2]).decode() == f"\0{self.USER}\0{self.PASSWORD}"
                say("235 welcome" if known else "535 who")
            elif verb == "RCPT":
                bad = not known or self.refused in line
                to += [] if bad else [line.partition("<")[2].rstrip(">")]
                say("550 no such mailbox" if bad else "250 fine")
            elif verb == "DATA":
                say("354 go on" if to else "554 to nobody")
                lines_of_it = iter(file.readline, b".\r\n") if to else ()
                text = b"".join(lines_of_it)
                if to:
                    self.mails.append((to, email.message_from_bytes(text, policy=email.policy.default)))
                    say("250 taken")
            else:
                to = [] if verb == "MAIL" else to
                say("250 fine")


def check_mail(d, server, bed):
    """One recipient is wrong: the others are told, and the test says so."""
    soon(lambda: any(bed in m["Subject"] for _, m in server.mails), lambda: d.read_log()[-3000:])
    to, m = next((to, m) for to, m in server.mails if bed in m["Subject"])
    assert to == ["nurse@ward.example"] and m["From"] == "brrd <brrd@ward.example>" and m["Subject"].startswith(f"ALARM of a replay {bed}"), m
    soon(lambda: 'hook=mail refused="nobody@ward.example: 550 no such mailbox"' in d.read_log(), lambda: d.read_log()[-3000:])
    text = m.get_content()
    assert text.startswith(m["Subject"]) and "https://eeg.example/streams/" in text and "not a medical device" in text, text
    assert "confirmed" not in m["Subject"] and m["Message-ID"].endswith("@brrd>") and m["Auto-Submitted"] == "auto-generated"
    code, out, err = d.ctl("hooks", "test", "mail")
    assert code == 1 and "550" in out, (out, err)
    server.refused = "\0"
    assert d.ctl("hooks", "test", "mail")[0] == 0 and server.mails[-1][0] == ["nurse@ward.example", "nobody@ward.example"]
    assert server.mails[-1][1]["Subject"].startswith("Test: ")


def script(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)
    return path


def soon(condition, what):
    deadline = time.time() + PATIENCE
    while not condition():
        assert time.time() < deadline, what()
        time.sleep(0.05)


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return f.read().splitlines()


def attempts(d):
    out = d.ctl("metrics", "brrd_hook_attempts_total", "--json")[1].splitlines()
    rows = [json.loads(line) for line in out]
    return {(r["labels"]["hook"], r["labels"]["result"]): r["value"] for r in rows}


def stream(d, path, client):
    code, _, err = d.ctl("stream", path, "--client", client, *RULE, "--output", f"{d.dir}/x.tsv")
    assert code == 0, err
    found = alarms_in(journal(d, "--bed", client))
    assert len(found) > 3, found
    return found


def check_hung_disk(d, path):
    """fsync of the journal's volume never returns: a new alarm is told all the same, and /readyz says what hangs."""
    if sanitizers():
        return
    results = next(word.split("=", 1)[1] for word in d.command() if word.startswith("paths.results="))
    with open(f"{d.dir}/hangs.new", "w", encoding="ascii") as f:
        f.write(os.path.realpath(results) + "/journal.sqlite")
    os.rename(f"{d.dir}/hangs.new", f"{d.dir}/hangs")
    heard = len(lines(f"{d.dir}/live"))
    code, _, err = d.ctl("stream", path, "--client", "drill-2", *RULE, "--realtime", "200", "--as-live", "--no-resume", "--output", f"{d.dir}/x.tsv")
    assert code == 0, err
    soon(lambda: any('"drill-2"' in line for line in lines(f"{d.dir}/live")[heard:]), lambda: lines(f"{d.dir}/live")[heard:])
    soon(lambda: "journal" in readiness(d), lambda: readiness(d))
    assert not any(e["client"] == "drill-2" and e["kind"] == "alarm_on" for e in journal(d, "--last", "500")), "the disk did not hang"
    os.remove(f"{d.dir}/hangs")
    soon(lambda: "journal" not in readiness(d), lambda: readiness(d))
    soon(lambda: alarms_in(journal(d, "--bed", "drill-2")), lambda: journal(d, "--bed", "drill-2"))


def check_hung_marks(d, path):
    """What other daemons have told cannot be read, since that file hangs: people are told, and the daemon stops."""
    with open(f"{d.dir}/marks-hang", "w", encoding="ascii"):
        pass
    code, _, err = d.ctl("stream", path, "--client", "drill-3", *RULE, "--realtime", "200", "--as-live", "--output", f"{d.dir}/x.tsv")
    assert code == 0, err
    want = alarms_in(journal(d, "--bed", "drill-3"))
    soon(lambda: len(told(d, "drill-3", "live")) >= len(want), lambda: told(d, "drill-3", "live"))
    assert sanitizers() or "it is not known what other daemons have told people" in d.read_log(), d.read_log()[-2000:]
    assert d.stop() == 0
    os.remove(f"{d.dir}/marks-hang")


def told(d, client, hook):
    return [e for e in journal(d, "--bed", client, "--kind", "told", "--last", "500") if e["person"] == hook]


def readiness(d):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}/readyz") as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.read().decode()


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=31, patients=1, hours=0.1, seizures=2)
        path = sorted(glob.glob(f"{tmp}/eeg/**/*_eeg.edf", recursive=True))[0]
        tls("init", f"{tmp}/tls")
        receiver = Receiver(f"{tmp}/tls")
        receiver.failures = 2
        url = f"https://127.0.0.1:{receiver.server_address[1]}/alarms"
        secret = secret_file(f"{tmp}/secret", SECRET + "\n")
        write = script(f"{tmp}/write", 'printf "%s\\n" "$(cat)" >> "$1"\n')
        mails, password = MailServer(f"{tmp}/tls"), secret_file(f"{tmp}/password", MailServer.PASSWORD + "\n")
        d = Hooked(tmp, [
            {"name": "pager", "url": url, "secret_file": secret, "ca": f"{tmp}/tls/ca.crt", "bed": "bed-*", "replays": True},
            {"name": "light", "command": [write, f"{tmp}/said; ls"], "kinds": ["alarm_on"], "replays": True},
            {"name": "other", "command": [write, f"{tmp}/never"], "bed": "ward-*", "replays": True},
            {"name": "model", "command": [write, f"{tmp}/never"], "model": "best", "replays": True},
            {"name": "live", "command": [write, f"{tmp}/live"]},
            {"name": "mail", "format": "email", "url": f"smtp://127.0.0.1:{mails.port}", "ca": f"{tmp}/tls/ca.crt", "from": "brrd@ward.example",
             "to": ["nurse@ward.example", "nobody@ward.example"], "user": mails.USER, "password_file": password, "replays": True,
             "bed": "Bett-*", "kinds": ["alarm_on"]},
            {"name": "slow", "command": [script(f"{tmp}/slow", "sleep 20\n")], "kinds": ["ended"], "timeout": "300ms", "replays": True},
        ]).start()

        want = stream(d, path, "bed-1")
        soon(lambda: len(told(d, "bed-1", "pager")) >= len(want), lambda: receiver.requests)
        ids = receiver.delivered("bed-1")
        assert len(ids) == len(set(ids)) == len(want), receiver.requests
        assert [s for s, _, _ in receiver.requests][:3] == [503, 503, 200], receiver.requests
        assert all(i == body["id"] and body["hook"] == "pager" for _, i, body in receiver.requests)
        body = receiver.requests[-1][2]
        assert body["url"].startswith("https://eeg.example/streams/") and "bed-1" in body["text"] and 0 <= body["late_s"] < PATIENCE, body
        assert body["entry"]["live"] is False and body["entry"]["alarm"].startswith(body["entry"]["session"]), body
        said = [kind for kind, _ in want if kind == "alarm_on"]
        soon(lambda: len(told(d, "bed-1", "light")) == len(said), lambda: lines(f"{tmp}/said; ls"))
        heard = [json.loads(line) for line in lines(f"{tmp}/said; ls")]
        assert sum(1 + len(h["covers"]) for h in heard) == len(said), heard
        entry = heard[0]["entry"]
        assert entry["kind"] == "alarm_on" and entry["client"] == "bed-1" and ("alarm_on", entry["start_s"]) in want and entry["model"] == "line_length"
        soon(lambda: attempts(d).get(("slow", "dropped")) == 1, lambda: attempts(d))
        assert "was killed" in d.read_log() and not os.path.exists(f"{tmp}/never")
        assert attempts(d)[("pager", "failed")] == 2
        stream(d, path, "Bett-über-dem-Flur-mit-einem-langen-Namen")
        check_mail(d, mails, "Bett-über-dem-Flur-mit-einem-langen-Namen")

        assert not os.path.exists(f"{tmp}/live")  # so far all were replays
        code, _, err = d.ctl("stream", path, "--client", "ward-1", *RULE, "--realtime", "200", "--output", f"{tmp}/x.tsv")
        assert code == 0, err
        entries = journal(d, "--bed", "ward-1")
        assert not any(e["live"] for e in entries) and not os.path.exists(f"{tmp}/live"), entries
        code, _, err = d.ctl("stream", path, "--client", "drill-1", *RULE, "--realtime", "200", "--as-live", "--output", f"{tmp}/x.tsv")
        assert code == 0, err
        entries = journal(d, "--bed", "drill-1")
        assert all(e["live"] for e in entries) and entries[0]["detail"] == "live", entries
        soon(lambda: len(told(d, "drill-1", "live")) >= len(want), lambda: told(d, "drill-1", "live"))
        heard = [json.loads(line) for line in lines(f"{tmp}/live")]
        assert sum(1 + len(h["covers"]) for h in heard) == len(want) and all(h["entry"]["live"] for h in heard), heard

        check_hung_disk(d, path)

        receiver.failures = 1_000_000  # what cannot be delivered survives the daemon, with its ids
        again = stream(d, path, "bed-2")
        soon(lambda: "a hook does not deliver" in readiness(d) or "hook" in readiness(d), lambda: readiness(d))
        tried = {i for status, i, _ in receiver.requests if status == 503}
        d.kill()
        receiver.failures = 0
        d.start()
        soon(lambda: len(told(d, "bed-2", "pager")) >= len(again), lambda: (told(d, "bed-2", "pager"), d.read_log()[-4000:]))
        ids = receiver.delivered("bed-2")
        assert len(ids) == len(set(ids)) == len(again) and tried & set(ids), receiver.requests
        assert len(receiver.delivered("bed-1")) == len(want)
        texts = [body["text"] for status, _, body in receiver.requests if status == 200 and body["entry"]["client"] == "bed-2"]
        assert any("alarms were on" in text for text in texts), texts

        code, out, err = d.ctl("hooks", "test", "pager")
        assert code == 0 and "delivered" in out and receiver.requests[-1][2]["test"] is True, (out, err)
        receiver.failures = 1
        code, out, err = d.ctl("hooks", "test", "--json")
        results = {r["hook"]: r["error"] for r in map(json.loads, out.splitlines())}
        assert code == 1 and "503" in results["pager"] and results["light"] is None and "killed" in results["slow"], (out, err)
        code, _, err = d.ctl("hooks", "test", "nobody")
        assert code == 3 and "no hook nobody" in err, err
        check_hung_marks(d, path)

        os.chmod(secret, 0o644)  # a bad hook never stops the daemon, but a check of the configuration finds it
        check = subprocess.run([*d.command(), "--check-config"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert check.returncode != 0 and "the secret of the hook pager" in check.stderr, check.stderr
        d.start()
        assert "the secret of the hook pager" in d.read_log(), d.read_log()[-2000:]
        soon(lambda: "hook" in readiness(d), lambda: readiness(d))
        assert d.stop() == 0
    print(f"{len(want)} alarms told once")
    return 0


if __name__ == "__main__":
    sys.exit(main())

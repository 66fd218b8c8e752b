"""The receiver of a hook, and the account of alarms: which were owed to it by the journal, and which it was told, once each."""
import contextlib
import hashlib
import http.server
import json
import os
import select
import shutil
import socket
import sqlite3
import threading
import time

HOOK = "pager"
SETTLED = ("not told:", "superseded:")  # outcomes of an alarm that nobody is to be told
PATIENCE_S = 150  # longer than the longest pause between two attempts


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pager = self.server
        attempt = pager.attempted(body)
        mode = pager.mode
        while mode == "hang" and pager.mode == "hang" and not self.is_closed():
            time.sleep(0.05)
        if mode == "ok" and not self.is_closed():  # else the daemon, which gave the attempt up, tries again
            pager.accept([body["id"], *body["covers"]])
        if mode in ("ok", "503"):  # else without an answer
            self.send_response(200 if mode == "ok" else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()
        pager.attempt_ended(attempt)

    def is_closed(self):
        """Whether the daemon has given the attempt up."""
        try:
            return bool(select.select([self.connection], [], [], 0)[0]) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def log_message(self, *args):
        pass


class Pager(http.server.ThreadingHTTPServer):
    """mode: "ok", "503", "hang" (no answer while it lasts) or "reset". It counts what it has answered with 200."""

    daemon_threads = True

    def __init__(self, folder, name=HOOK, words=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.mode, self.lock, self.told, self.name, self.words = "ok", threading.Lock(), {}, name, words
        self.secret = f"{folder}/{name}.secret"
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write("chaos\n")
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a daemon that was killed reads no answer

    def accept(self, ids):
        with self.lock:
            for i in ids:
                self.told.setdefault(i, []).append(time.monotonic())

    def attempted(self, body):
        pass

    def attempt_ended(self, attempt):
        pass

    def hook(self):
        return f"{{name: {self.name}, url: 'http://127.0.0.1:{self.server_address[1]}/', secret_file: '{self.secret}', timeout: 2s{self.words}}}"

    def setting(self):
        return f"alarms.hooks=[{self.hook()}]"


def delivery_id(hook, session, kind, number):
    return hashlib.sha256(f"{hook}\n{session}\n{kind}\n{number}\n0".encode()).hexdigest()[:32]


def journal_of(d):
    """A copy of the journal of a daemon, opened. It is copied again where the daemon wrote into the file itself, and not only behind its WAL, meanwhile."""
    results, copy, wrote = d.inside(f"{d.dir}/results"), f"{d.dir}/journal-copy.sqlite", None
    state = lambda: os.path.exists(f"{results}/journal.sqlite") and os.stat(f"{results}/journal.sqlite").st_mtime_ns
    while wrote is None or wrote != state():
        wrote = state()
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(copy + suffix)
            if os.path.exists(f"{results}/journal.sqlite{suffix}"):
                shutil.copyfile(f"{results}/journal.sqlite{suffix}", copy + suffix)
    return sqlite3.connect(copy)


class Account:
    """What the journal of the daemon says, read from a copy of its file."""

    def __init__(self, d, hook=HOOK):
        with journal_of(d) as db:
            alarms = db.execute("SELECT id, session, kind, ifnull(number, received_ms), alarm, received_ms, detail FROM journal WHERE live AND kind IN "
                                "('alarm_on', 'alarm_off') AND detail NOT LIKE 'goes on as%' ORDER BY id").fetchall()
            self.settled = {(row[0], row[1].partition(":")[0], row[2]): row[1] for row in db.execute(
                "SELECT session, detail, start_s FROM journal WHERE kind = 'told' AND person = ?", (hook,))}
            self.over = {row[0] for row in db.execute("SELECT session FROM journal WHERE kind IN ('ended', 'moved')")}
            starts = dict(db.execute("SELECT id, start_s FROM journal WHERE kind IN ('alarm_on', 'alarm_off')").fetchall())
        self.owed = {delivery_id(hook, a[1], a[2], a[3]): (a[1], a[2], starts[a[0]]) for a in alarms}
        self.alarms = alarms

    def missing(self, told):
        """Owed alarms that the receiver does not know, and that were not settled otherwise."""
        return [key for i, key in self.owed.items() if i not in told and not self.outcome(key).startswith(SETTLED)]

    def outcome(self, key):
        return self.settled.get(key, "::").partition(": ")[2]

    def without_end(self):
        """Alarms of sessions that are over which never went off."""
        on = {}
        for _, session, kind, _, alarm, _, _ in self.alarms:
            on[session] = alarm if kind == "alarm_on" else None
        return [alarm for session, alarm in on.items() if alarm and session in self.over]


def twice(told, ends):
    """Ids that were taken a second time although the daemon did not end in between; ends: when it did, monotonic."""
    return [i for i, at in told.items() if any(not any(a - 1 <= end <= b for end in ends) for a, b in zip(at, at[1:]))]


def check(w, pager, ends):
    """Each alarm that is owed is told once, each that began has ended. Returns the figures."""
    pager.mode = "ok"
    deadline = time.monotonic() + PATIENCE_S
    while (account := Account(w.d)).missing(pager.told) and time.monotonic() < deadline:
        time.sleep(1)
    if (missing := account.missing(pager.told)):
        w.lose("alarms were owed and not told", f"{len(missing)} of {len(account.owed)}: {missing[:3]}")
    if (again := twice(pager.told, ends)):
        w.lose("alarms were told twice", f"{len(again)}: {again[:3]}")
    if (open_alarms := account.without_end()):
        w.lose("alarms without an end", open_alarms[:3])
    begun = [(a[5], delivery_id(HOOK, a[1], a[2], a[3])) for a in account.alarms if a[2] == "alarm_on"]
    offs = [a[6] for a in account.alarms if a[2] == "alarm_off"]
    return {"alarms_owed": len(account.owed), "alarms_told": sum(i in pager.told for i in account.owed),
            "told_twice_across_an_end": sum(len(at) > 1 for at in pager.told.values()) - len(again),
            "ends": {reason: offs.count(reason) for reason in sorted(set(offs))},
            "hook_after_s": w.delays.of_hook((wall_ms, pager.told[i][0]) for wall_ms, i in begun if i in pager.told),
            "client_after_s": w.delays.of_clients()}

#!/usr/bin/env python3
"""Open pages are bounded: so many streams of events and no more, one that is not read holds up nobody, a volume that does not answer costs
only the pages that need it, and none of them delays the end of the daemon."""
import http.client
import os
import select
import shutil
import socket
import sys
import time

import numpy

from daemon import PATIENCE, SOURCE, Daemon, temporary
from page_beds import LABELS, Bed, traces

EVENTS = 64


class Held(Daemon):
    """A daemon whose results directory stops answering while the flag is there."""

    def __init__(self, directory):
        super().__init__(directory)
        self.flag = os.path.join(directory, "held")
        os.environ["BRR_HOLD_FLAG"], os.environ["BRR_HOLD_PATH"] = self.flag, os.path.join(directory, "results")

    def command(self):
        return ["env", f"LD_PRELOAD={os.environ['BRR_BUILD_DIR']}/tests/libhold_volume.so"] + super().command()


def ask(d, path, source="127.0.0.1"):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=PATIENCE, source_address=(source, 0))
    c.request("GET", path, headers={"Accept": "text/html"})
    answer = c.getresponse()
    try:
        body = answer.read()
        return answer.status, body if answer.getheader("Content-Type") == "application/octet-stream" else body.decode()
    finally:
        c.close()


def follow(d, source):
    """A stream of events after its first bytes."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind((source, 0))
    s.settimeout(PATIENCE)
    s.connect(("127.0.0.1", d.port))
    s.sendall(b"GET /events?page=/streams HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s, s.recv(200).split(b"\r\n")[0]


def check_events(d):
    open_ones = []
    for i in range(EVENTS):
        s, line = follow(d, f"127.0.0.{2 + i % 4}")
        assert b" 200 " in line, (i, line)
        open_ones.append(s)
    s, line = follow(d, "127.0.0.9")
    s.close()
    assert b" 503 " in line, line
    assert ask(d, "/healthz", "127.0.0.9") == (200, "ok\n") and ask(d, "/streams", "127.0.0.9")[0] == 200
    open_ones.pop().close()
    deadline = time.time() + PATIENCE
    while True:  # its place is free once the daemon has noticed
        s, line = follow(d, "127.0.0.9")
        if b" 200 " in line:
            break
        s.close()
        assert time.time() < deadline
        time.sleep(0.1)
    return [*open_ones, s]


def check_eeg(d, session, bed):
    """The samples that the client sent, also while no file can be read; nothing beyond what there is; bins are the extremes of samples."""
    path = f"/streams/{session}/eeg"
    for query, status in (("from=x", 400), ("n=-1", 400), ("n=99999", 400), ("bin=0", 400), ("bin=65537", 400), ("n=1000000000&bin=65536", 400), ("from=1e9", 400)):
        assert ask(d, f"{path}?{query}")[0] == status, query
    assert ask(d, "/streams/eeg")[0] == ask(d, "/streams//eeg")[0] == ask(d, "/streams/0123/eeg")[0] == 404
    deadline = time.time() + PATIENCE
    while traces(ask(d, f"{path}?n=0")[1])[0]["kept"][1] < 128 + 1024:
        assert time.time() < deadline
        time.sleep(0.05)
    head, uv = traces(ask(d, f"{path}?from=128&n=3840")[1])
    assert head["rate"] == 256 and head["n"] == uv.shape[1] >= 1024 and len(head["rows"]) == 18 and head["live"] and head["kept"][0] == 0, head
    sent = numpy.concatenate(bed.sent, axis=1)[:, 128:128 + head["n"]]
    for row, name in enumerate(head["rows"]):
        plus, minus = (sent[LABELS.index(e)] for e in name.split("-"))
        slow = numpy.diff(plus - minus - uv[row])  # what is slower than 0.1 Hz is not kept
        assert numpy.abs(slow).max() < 0.5, (name, slow)
    low, high = (traces(ask(d, f"{path}?from=128&n=1024&bin=64")[1])[1].reshape(18, 16, 2)[..., k] for k in (0, 1))
    assert (low == uv[:, :1024].reshape(18, 16, 64).min(2)).all() and (high == uv[:, :1024].reshape(18, 16, 64).max(2)).all()
    for query in ("from=9007199254740992&n=9", "n=0"):
        head, uv = traces(ask(d, f"{path}?{query}")[1])
        assert head["n"] == 0 and uv.size == 0, head
    unread = [socket.create_connection(("127.0.0.1", d.port)) for _ in range(20)]  # they ask, and read nothing
    for s in unread:
        s.sendall(f"GET {path}?n=3840 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 4)
    newest = traces(ask(d, f"{path}?n=0")[1])[0]["kept"][1]
    while traces(ask(d, f"{path}?n=0", "127.0.0.9")[1])[0]["kept"][1] < newest + 256:
        assert time.time() < deadline + PATIENCE
        time.sleep(0.05)
    for s in unread:
        s.close()


def stream_of(d):
    deadline = time.time() + PATIENCE
    while True:
        _, page = ask(d, "/streams")
        if 'id="s-' in page:
            return page.split('id="s-')[1].split('"')[0]
        assert time.time() < deadline, page
        time.sleep(0.1)


def ask_for_recording(d, url):
    """Requests for samples until one is refused: as many as may are waiting for the recording's volume."""
    waiting, refused = [], []
    while not refused:
        assert len(waiting) < 20
        s = socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE)
        s.sendall(f"GET {url}/eeg?n=256 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        waiting.append(s)
        refused = select.select(waiting, [], [], 0.2)[0]
    assert b" 503 " in refused[0].recv(100)
    return waiting


def check_held(d, session, bed):
    path, recording = f"/streams/{session}", f"{d.dir}/results/a.edf"
    assert ask(d, path)[0] == 200 and "Opened" in ask(d, path)[1]
    shutil.copyfile(f"{SOURCE}/examples/sub-01/sub-01_run-01_eeg.edf", recording)
    code, url, err = d.ctl("view", recording)
    assert code == 0, err
    open(d.flag, "w", encoding="ascii").close()
    waiting = ask_for_recording(d, "/recordings/" + url.strip().partition("/recordings/")[2])
    status, page = ask(d, path)  # has room of its own
    for s in waiting:
        s.close()
    assert (status == 503 and "does not answer" in page) or "The journal cannot be read now" in page, (status, page)
    assert ask(d, "/healthz")[0] == 200 and ask(d, "/streams")[0] == 200 and ask(d, "/")[0] == 200
    check_eeg(d, session, bed)
    os.remove(d.flag)
    deadline = time.time() + PATIENCE
    while "Opened" not in ask(d, path)[1]:
        assert time.time() < deadline
        time.sleep(0.1)


def main():
    with temporary() as tmp:
        d = Held(tmp).start()
        bed = Bed(d, "bed-1", burst_s=2)
        try:
            session = stream_of(d)
            check_held(d, session, bed)
            unread = check_events(d)  # 64 that nobody reads from now on
            assert ask(d, "/streams", "127.0.0.9")[0] == 200
            bed.close()
            deadline = time.time() + PATIENCE
            while traces(ask(d, f"/streams/{session}/eeg?n=256", "127.0.0.9")[1])[0]["live"]:  # the EEG outlives the stream
                assert time.time() < deadline
                time.sleep(0.1)
            assert traces(ask(d, f"/streams/{session}/eeg?n=256", "127.0.0.9")[1])[1].shape == (18, 256)
            assert d.stop() == 0
            for s in unread:
                s.close()
        finally:
            bed.close()
            if d.process.poll() is None:
                d.kill()
    print(f"{EVENTS} streams of events, and no more")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Open pages are bounded: so many streams of events and no more, one that is not read holds up nobody, a volume that does not answer costs
only the pages that need it, and none of them delays the end of the daemon."""
import http.client
import os
import socket
import sys
import time

from daemon import PATIENCE, Daemon, temporary
from page_beds import Bed

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
        return answer.status, answer.read().decode()
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


def stream_of(d):
    deadline = time.time() + PATIENCE
    while True:
        _, page = ask(d, "/streams")
        if 'id="s-' in page:
            return page.split('id="s-')[1].split('"')[0]
        assert time.time() < deadline, page
        time.sleep(0.1)


def check_held(d, session):
    path = f"/streams/{session}"
    assert ask(d, path)[0] == 200 and "Opened" in ask(d, path)[1]
    open(d.flag, "w", encoding="ascii").close()
    status, page = ask(d, path)
    assert (status == 503 and "does not answer" in page) or "The journal cannot be read now" in page, (status, page)
    assert ask(d, "/healthz")[0] == 200 and ask(d, "/streams")[0] == 200 and ask(d, "/")[0] == 200
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
            check_held(d, stream_of(d))
            unread = check_events(d)  # 64 that nobody reads from now on
            assert ask(d, "/streams", "127.0.0.9")[0] == 200
            bed.close()
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

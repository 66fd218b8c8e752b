#!/usr/bin/env python3
"""A thousand connections that never finish their handshake: silent ones, halves of a ClientHello, garbage, and HTTP/2 without a call. The
daemon goes on answering, its memory stays bounded, and it ends them by itself; others never notice."""
import os
import select
import socket
import ssl
import sys
import time

from daemon import PATIENCE, temporary
from secured import Secured

CONNECTIONS = 1000
PER_CONNECTION = 128 * 1024  # bytes that a half-open connection may cost at most


def rss(d):
    with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


def descriptors(d):
    return len(os.listdir(f"/proc/{d.process.pid}/fd"))


def hello():
    """The first bytes that a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def ended(connections):
    """How many of them the daemon has closed."""
    poll = select.poll()
    for s in connections:
        poll.register(s, select.POLLIN | select.POLLRDHUP)
    return sum(bool(events & (select.POLLRDHUP | select.POLLHUP)) for _, events in poll.poll(0))


def main():
    with temporary() as tmp:
        d = Secured(tmp, roles=("read",)).start()
        d.until(lambda: d.as_role("read", "jobs")[0] == 0, "tokens")
        before, files, first = rss(d), descriptors(d), hello()
        starts = [b"", first[:len(first) // 2], b"GET / HTTP/1.1\r\n", first]
        connections = []
        for i in range(CONNECTIONS):
            s = socket.create_connection(("127.0.0.1", d.tcp), timeout=PATIENCE)
            s.sendall(starts[i % len(starts)])
            connections.append(s)
            if i % 250 == 249:
                assert d.as_role("read", "jobs")[0] == 0, f"with {i + 1} connections"
        grown = rss(d) - before
        print(f"{CONNECTIONS} half-open connections: {grown / 1024 / CONNECTIONS:.1f} KiB each, {descriptors(d) - files} descriptors")
        assert grown < CONNECTIONS * PER_CONNECTION, grown
        assert d.ctl("version")[0] == 0 and d.scrape("/healthz") == "ok\n"
        d.until(lambda: ended(connections) == CONNECTIONS, "the daemon ends them")
        d.until(lambda: descriptors(d) <= files + 4, "descriptors come back")
        for s in connections:
            s.close()
        assert d.as_role("read", "jobs")[0] == 0 and d.failures()["tls_handshake"] >= CONNECTIONS // 4
        assert len(d.read_log()) < 200 * 1024, "a flood of refusals does not flood the log"
        # The unix socket: a user of this machine who connects and says nothing.
        local = []
        for _ in range(200):
            s = socket.socket(socket.AF_UNIX)
            s.connect(d.socket)
            local.append(s)
        assert d.ctl("version")[0] == 0
        for s in local:
            s.close()
        d.until(lambda: descriptors(d) <= files + 8, "their descriptors come back")
        time.sleep(0.1)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

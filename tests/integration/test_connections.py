#!/usr/bin/env python3
"""More TCP connections than the daemon has file descriptors: the unix socket and open streams go on, snapshots are still written, and TCP
answers as soon as the connections are gone; slow HTTP clients lock nobody else out. A daemon whose TCP port has gone deaf restarts itself, and its streams resume."""
import ctypes
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time

from daemon import PATIENCE, free_port, temporary
from secured import tls
from stream_fixture import streaming_daemon
from test_stream_away import AN_HOUR, CHUNK, Client

LIMIT, BEYOND = 256, 500
PIDFD_GETFD = 438


def flood(port):
    """Connections that say nothing; those that the daemon closes at once count too."""
    sockets = []
    for _ in range(LIMIT + BEYOND):
        s = socket.socket()
        s.settimeout(PATIENCE)
        s.connect(("127.0.0.1", port))
        sockets.append(s)
    return sockets


def over_tcp(d, env):
    before, d.env = d.env, env
    code, _, err = d.ctl("version")
    d.env = before
    return code == 0, err


def refused(d):
    code, out, err = d.ctl("metrics", "brrd_connections_refused_total")
    assert code == 0, err
    return float(out.split()[-1])


def many_connections(d, env, port, client):
    sockets = flood(port)
    deadline = time.time() + PATIENCE
    while refused(d) < BEYOND / 2:  # over the unix socket
        assert time.time() < deadline, d.read_log()
        time.sleep(0.1)
    assert client.ask("push 4") == "accepted 4" and client.ask("drain") == "durable"
    for s in sockets:
        s.close()
    deadline = time.time() + PATIENCE / 10
    while not (answer := over_tcp(d, env))[0]:
        assert time.time() < deadline, (answer, d.read_log())
    assert "connections refused" in d.read_log() and d.process.poll() is None


def listener_of(pid, port):
    """The daemon's listening socket, shared with this process."""
    rows = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as f:
            rows += [line.split() for line in f.readlines()[1:]]
    inode = next(r[9] for r in rows if r[1].endswith(f":{port:04X}") and r[3] == "0A")
    number = next(int(n) for n in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{n}") == f"socket:[{inode}]")
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(PIDFD_GETFD, os.pidfd_open(pid), number, 0)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return socket.socket(fileno=fd)


def deaf(d, port, client):
    """The listener fails once, which gRPC takes for its end, and then listens again with nobody to accept."""
    listener = listener_of(d.process.pid, port)
    listener.shutdown(socket.SHUT_RD)
    assert d.ctl("version")[0] == 0  # gRPC has had its turn
    time.sleep(0.2)
    listener.listen(64)
    waiting = socket.create_connection(("127.0.0.1", port))
    listener.close()
    assert d.process.wait(timeout=PATIENCE) == 70, d.read_log()
    assert "the TCP port accepts no connections" in d.read_log()
    waiting.close()
    d.start()
    assert client.ask("push 4") == "accepted 4" and client.ask("drain") == "durable"
    assert client.ask("finish") == f"finished {12 * CHUNK} samples, 1 reconnects" and client.done() == 0


def health(d, ca, address):
    """/healthz over HTTPS from a loopback address of its own."""
    context = ssl.create_default_context(cafile=f"{ca}/ca.crt")
    c = http.client.HTTPSConnection("127.0.0.1", d.port, source_address=(address, 0), context=context, timeout=PATIENCE)
    c.request("GET", "/healthz")
    status = c.getresponse().status
    c.close()
    return status


def closed(s):
    try:
        return not s.recv(1)
    except ConnectionResetError:
        return True


def slow_http(d, ca):
    """Connections of one address that never ask leave room for others, and TLS is 1.2 or newer."""
    slow = [socket.create_connection(("127.0.0.1", d.port), timeout=PATIENCE) for _ in range(80)]
    assert closed(slow[-1]), "one connection too many of this address ends at once"
    slow[0].setblocking(False)
    try:
        assert slow[0].recv(1), "the first one ended as well"
    except BlockingIOError:
        pass
    assert health(d, ca, "127.0.0.2") == 200
    for s in slow:
        s.close()
    for version, accepted in (("-tls1_1", False), ("-tls1_2", True)):
        r = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{d.port}", version, "-cipher", "DEFAULT@SECLEVEL=0"],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (r.returncode == 0) == accepted, (version, r)


def main():
    with temporary() as tmp:
        port, ca = free_port(), f"{tmp}/tls"
        tls("init", ca)
        with streaming_daemon(extra=[f"listen.tcp=127.0.0.1:{port}", f"tls.cert={ca}/server.crt", f"tls.key={ca}/server.key"]) as (d, _, model):
            d.stop()
            plain = d.command
            d.command = lambda: ["prlimit", f"--nofile={LIMIT}:{LIMIT}", *plain()]
            d.start()
            env = {**d.env, "BRR_ENDPOINT": f"127.0.0.1:{port}", "BRR_TLS_CA": f"{ca}/ca.crt"}
            client = Client(env, shutil.copy(model, f"{d.dir}/data/model.safetensors"), AN_HOUR)
            assert client.ask("push 4") == "accepted 4" and client.ask("drain") == "durable"
            slow_http(d, ca)
            many_connections(d, env, port, client)
            deaf(d, port, client)
    return 0


if __name__ == "__main__":
    sys.exit(main())

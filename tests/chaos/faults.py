"""The faults, one function each: it injects the fault, yields while the fault lasts, and takes it back. FAULTS is the table of them; draw()
makes a schedule of a seed."""
import collections
import contextlib
import os
import random
import resource
import signal
import socket
import threading
import time

import grpc

from fake_s3 import Fault

Kind = collections.namedtuple("Kind", "name seconds often act")
FAULTS = []
SETTLE_S = (0.5, 3)  # from one fault to the next
KEPT_KIB = 8  # what a full volume still has at most


def fault(name, seconds, often=1):
    """Enters a function in the table: how long it lasts at least and at most, and how often it comes in a round of all."""
    def enter(function):
        FAULTS.append(Kind(name, seconds, often, contextlib.contextmanager(function)))
        return function
    return enter


def draw(seed, seconds, leave_out=()):
    """[(second at which it begins, kind, how long, seed of its own)]: every kind comes before any comes again."""
    rng, at, plan, bag = random.Random(seed), 1.0, [], []
    while True:
        if not bag:
            bag = [k for k in FAULTS if k.name not in leave_out for _ in range(k.often)]
            rng.shuffle(bag)
        kind = bag.pop()
        lasts = rng.uniform(*kind.seconds)
        if at + lasts > seconds:
            return plan
        plan.append((at, kind, lasts, rng.getrandbits(32)))
        at += rng.uniform(*SETTLE_S) + lasts * rng.random()  # some overlap the next one


@fault("kill -9", (0, 0), often=2)
def kill(w, _rng):
    w.d.signal(signal.SIGKILL)
    yield


@fault("SIGTERM", (0, 0))
def terminate(w, _rng):
    w.d.signal(signal.SIGTERM)
    yield


@fault("SIGTERM with a slow job", (4, 10))
def slow_stop(w, _rng):
    """The running training cannot save: its volume takes writes and never says that they are safe. Streams go on meanwhile."""
    process = w.d.process
    w.d.hang_sync("results/jobs")
    w.d.signal(signal.SIGTERM)
    time.sleep(1)  # a daemon without a running job ends meanwhile
    heard = w.heard
    yield
    if process.poll() is None:
        w.slow_stops.append(w.heard > heard)
    w.d.release_sync()


def fill(w, name, rng):
    folder = w.d.inside(f"{w.d.dir}/{name}")
    kept = 1024 * rng.randrange(KEPT_KIB)
    with open(f"{folder}/filler", "wb") as f:
        for _ in range(20):  # the daemon writes meanwhile
            volume = os.statvfs(folder)
            with contextlib.suppress(OSError):
                os.posix_fallocate(f.fileno(), 0, max(4096, volume.f_bavail * volume.f_frsize - kept))
                break
    return f"{folder}/filler"


@fault("full results volume", (1, 8))
def full_results(w, rng):
    filler = fill(w, "results", rng)
    yield
    os.remove(filler)


@fault("full cache volume", (1, 8))
def full_cache(w, rng):
    filler = fill(w, "cache", rng)
    yield
    os.remove(filler)


@fault("held results volume", (1, 10))
def held(w, _rng):
    w.d.hold()
    yield
    w.d.release()


@fault("hung fsync of results", (1, 8))
def hung_results(w, _rng):
    w.d.hang_sync("results")
    yield
    w.d.release_sync()


@fault("hung fsync of cache", (1, 8))
def hung_cache(w, _rng):
    w.d.hang_sync("cache")
    yield
    w.d.release_sync()


@fault("receiver fails", (2, 10))
def receiver_fails(w, rng):
    end, pager = w.delays.begin("receiver"), w.pager
    pager.mode = rng.choice(("503", "hang", "reset"))
    yield
    pager.mode = "ok"
    end()


@fault("flood of a stream", (2, 8))
def flood(w, _rng):
    """One caller opens a stream and sends gaps and single samples as fast as it can."""
    over, wire = time.monotonic() + 8, w.wires[0]

    def messages():
        yield wire.open(client_name="flood", realtime=True)
        at = 0
        while time.monotonic() < over and not w.over.is_set():
            at += 2
            yield wire.pb.ClientMessage(gap=wire.pb.Gap(first=at - 1, end=at))
            yield wire.pb.ClientMessage(gap=wire.pb.Gap(first=at, end=at))

    def run():
        with contextlib.suppress(grpc.RpcError), grpc.insecure_channel(w.d.env["BRR_ENDPOINT"], options=[("grpc.use_local_subchannel_pool", 1)]) as c:
            for _ in wire.stub_of(c).Run(messages(), timeout=12):
                pass
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over = 0
    thread.join(20)


@fault("no descriptors", (1, 5))
def no_descriptors(w, rng):
    take_back = w.d.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{w.d.process.pid}/fd")) + rng.randrange(4))
    yield
    take_back()


@fault("no memory", (1, 4))
def no_memory(w, rng):
    size, more = w.d.status("VmSize") << 10, rng.randrange(16 << 20)
    take_back = w.d.limit(resource.RLIMIT_AS, size + more) if size else lambda: None
    yield
    take_back()


@fault("wall clock stepped", (1, 10))
def clock(w, rng):
    w.d.step_clock(rng.choice((-86400, -3600, -5, 5, 60, 3600, 20 * 86400)))
    yield
    w.d.step_clock(0)


@fault("wall clock 400 days off", (1, 10))
def far_clock(w, rng):
    w.d.step_clock(rng.choice((-400, 400)) * 86400)
    yield
    w.d.step_clock(0)


@fault("connections cut", (0, 0), often=2)
def cut(w, _rng):
    end = w.delays.begin("connection")
    for relay in w.relays:
        relay.cut()
    yield
    end()


@fault("network away", (1, 8))
def away(w, rng):
    end, relay = w.delays.begin("connection"), rng.choice(w.relays)
    relay.hold()
    yield
    relay.release()
    end()


@fault("model promoted", (0, 0), often=2)
def promoted(w, _rng):
    w.promote("b" if w.serving == "a" else "a")
    yield


@fault("store fails", (2, 8))
def store_fails(w, rng):
    kinds = ("503", "500", "short", "lie", "reset", "etag", "wrongrange", "corrupt", "stall")
    w.store.faults = [Fault("GET", key, rng.choice(kinds), times=1) for key in rng.sample(sorted(w.store.objects), 8)]
    w.store.faults.append(Fault("GET", "", rng.choice(("503", "500", "reset")), times=2))
    yield
    w.store.faults = []


def connect(w, rng):
    """A connection to one of the daemon's doors, or None while it is away."""
    try:
        if rng.random() < 0.3:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(5)
            s.connect(w.d.socket)
            return s
        return socket.create_connection(("127.0.0.1", rng.choice((w.d.tcp, w.d.port))), timeout=5)
    except OSError:
        return None


def close_all(connections):
    for s in connections:
        s.close()


@fault("half-open connections", (2, 8))
def half_open(w, rng):
    connections = [s for s in (connect(w, rng) for _ in range(rng.randrange(50, 300))) if s]
    yield
    close_all(connections)


@fault("slow connections", (3, 10))
def slow(w, rng):
    """Bytes of a request that never ends, one at a time."""
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 1000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00" * 900
    connections = [(s, rng.choice(request)) for s in (connect(w, rng) for _ in range(80)) if s]
    for at in range(rng.randrange(10, 40)):
        for s, text in connections:
            with contextlib.suppress(OSError):
                s.send(text[at:at + 1])
        time.sleep(0.05)
    yield
    close_all(s for s, _ in connections)


def frame(rng):
    """An HTTP/2 frame that may lie about its length."""
    body = rng.randbytes(rng.choice((0, 1, 4, 5, 8, 9, 40, 300)))
    length = len(body) if rng.random() < 0.7 else rng.randrange(1 << 24)
    return length.to_bytes(3, "big") + bytes((rng.randrange(12), rng.choice((0, 1, 4, 5, 8, 0x20, 0x2d, 255)))) + rng.choice(
        (0, 1, 1, 3, 2, 0x7fffffff, 0x80000001)).to_bytes(4, "big") + body


@fault("malformed frames", (0, 0))
def frames(w, rng):
    for _ in range(40):
        s = connect(w, rng)
        if not s:
            continue
        with s, contextlib.suppress(OSError):
            s.settimeout(0.2)
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * (rng.random() < 0.8))
            for _ in range(rng.randrange(20)):
                s.sendall(frame(rng))
            s.recv(4096)
    yield


def methods(w):
    """Every method of every service, from the descriptors."""
    modules = (w.stock.jobs, w.stock.stream, w.stock.checkpoints, w.stock.admin, w.stock.burst)
    return [f"/{service.full_name}/{m.name}" for module in modules for service in module.DESCRIPTOR.services_by_name.values() for m in service.methods
            if m.name != "Drain"]


@fault("malformed messages", (0, 0))
def malformed(w, rng):
    with grpc.insecure_channel(w.d.env["BRR_ENDPOINT"], options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        for method in methods(w):
            with contextlib.suppress(grpc.RpcError):
                list(channel.stream_stream(method)(iter([rng.randbytes(rng.choice((1, 2, 3, 10, 200)))]), timeout=5))
    yield

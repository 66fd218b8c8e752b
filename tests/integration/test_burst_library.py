#!/usr/bin/env python3
"""libbrr_burst and brr.burst: a network in this process has the spikes, the membranes and the snapshots of the daemon; from a file, its bytes and a
snapshot; errors by name. The example of the header is compiled, warnings being errors."""
import ctypes
import os
import re
import signal
import subprocess
import sys

import numpy as np

from daemon import BIN, SOURCE, Daemon, temporary

sys.path[:0] = [f"{SOURCE}/client/python", f"{SOURCE}/tests"]
from brr import burst  # noqa: E402
from seed import test_seed  # noqa: E402

BUILD = os.environ["BRR_BUILD_DIR"]
NEURONS, TICKS, EVERY = 500, 120, 7


def tensors(path):
    """The arrays of a snapshot, as bytes by name."""
    import json
    import struct
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__")
    return {k: data[8 + n:][slice(*v["data_offsets"])] for k, v in header.items()}


def in_daemon(d, path, rows, tmp):
    with open(f"{tmp}/in.tsv", "w", encoding="ascii") as f:
        f.write("tick\tid\tpotential\n" + "".join(f"{t}\t{i}\t{p!r}\n" for t, i, p in rows))
    code, out, err = d.ctl("burst", "run", path, "--ticks", str(TICKS), "--inject", f"{tmp}/in.tsv", "--fired", f"{tmp}/fired.npy",
                           "--membranes", f"{tmp}/v.npy", "--membranes-every", str(EVERY), "--keep", "one")
    assert code == 0 and f"membranes written to {tmp}/v.npy" in out, err
    code, _, err = d.ctl("burst", "run", path, "--ticks", "3", "--inject", f"{tmp}/in.tsv", "--membranes", f"{tmp}/each.npy")  # after every tick
    assert np.load(f"{tmp}/each.npy").shape == (3, NEURONS), err
    code, _, err = d.ctl("burst", "snapshot", "one", "--out", f"{tmp}/daemon.safetensors")
    assert code == 0, err
    return np.load(f"{tmp}/fired.npy")


def pairs(frames):
    return np.array([(tick, i) for tick, ids in frames for i in ids], np.int64).reshape(-1, 2)


def check_membranes(tmp, path, rows):
    """The trace that `burst run` wrote has the membranes after every seventh tick."""
    trace = np.load(f"{tmp}/v.npy")
    assert trace.dtype == np.float32 and trace.shape == (TICKS // EVERY, NEURONS) and trace.any(), trace.shape
    with burst.Network(path) as net:
        net.inject([i for _, i, _ in rows], [p for _, _, p in rows], [t for t, _, _ in rows])
        for row in trace:
            net.step(EVERY)
            assert row.tobytes() == net.membranes().tobytes(), net.tick


def check_bits(d, tmp, path, rng):
    rows = [(int(rng.integers(1, TICKS)), int(rng.integers(NEURONS)), float(np.float32(rng.uniform(500, 4000)))) for _ in range(400)]
    want = in_daemon(d, path, rows, tmp)
    assert len(want) > 1000, len(want)
    check_membranes(tmp, path, rows)
    with open(path, "rb") as f:
        data = f.read()
    for source, threads in ((path, 0), (data, 1), (data, 2)):
        with burst.Network(source, threads=threads) as net:
            assert net.neurons == NEURONS and net.tick == 0
            net.inject([i for _, i, _ in rows], [p for _, _, p in rows], [t for t, _, _ in rows])
            half = net.step(TICKS // 2)
            net.save(f"{tmp}/half.safetensors")
            found = half + net.step(TICKS - TICKS // 2)
            assert np.array_equal(pairs(found), want) and net.tick == TICKS, (source[:20], threads)
            membranes = net.membranes()
            net.save(f"{tmp}/own.safetensors")
            net.restore(f"{tmp}/half.safetensors")
            assert net.tick == TICKS // 2 and np.array_equal(pairs(half + net.step(TICKS - TICKS // 2)), want)
        with burst.Network(f"{tmp}/half.safetensors") as again:
            assert again.tick == TICKS // 2 and np.array_equal(pairs(half + again.step(TICKS - TICKS // 2)), want)
            assert again.membranes().tobytes() == membranes.tobytes()
        theirs, own = tensors(f"{tmp}/daemon.safetensors"), tensors(f"{tmp}/own.safetensors")
        assert {k: v for k, v in theirs.items() if "ledger" not in k} == own, "the state of the daemon"


def refused(call, words):
    try:
        call()
    except (burst.Error, ValueError) as e:
        assert words in str(e), e
        return
    raise AssertionError(f"not refused: {words}")


def generate(path, seed):
    options = f"--neurons {NEURONS} --synapses 20 --delays 1-4 --threshold 600 --seed {seed} --out".split()
    subprocess.run([f"{BIN}/brrctl", "burst", "generate", "random", *options, path], check=True, stdout=subprocess.DEVNULL)


def check_other_network(tmp, path):
    """A snapshot of a network of the same size with other synapses is refused, and nothing changes."""
    generate(f"{tmp}/other.safetensors", 2)
    with burst.Network(f"{tmp}/other.safetensors") as other, burst.Network(path) as net:
        other.step(3)
        other.save(f"{tmp}/other_state.safetensors")
        refused(lambda: net.restore(f"{tmp}/other_state.safetensors"), "state.safetensors is of another network: the synapses of neuron 0 differ")
        assert net.tick == 0
        other.restore(f"{tmp}/other_state.safetensors")
        assert other.tick == 3


def check_errors(tmp, path):
    refused(lambda: burst.Network(f"{tmp}/none"), "none")
    refused(lambda: burst.Network(b"no network at all"), "the network in memory")
    refused(lambda: burst.Network(b""), "neither a path nor bytes")
    refused(lambda: burst.Network(path, threads=-1), "-1 threads")
    refused(lambda: burst.Network(path, threads=100000), "100000 threads; expected at most 1024")
    refused(lambda: burst.Network(path, device="cuda:77"), "cuda")
    net = burst.Network(path)
    refused(lambda: net.inject([0, NEURONS], 1.0), "1")
    refused(lambda: net.step(-1), "-1 ticks")
    refused(lambda: net.step(2**70), "expected less than 2^63")
    for ids, ticks, words in ((-1, 0, "ids[0] is -1"), ([0, 1.5], 0, "ids[1] is 1.5"), (2**32, 0, "ids[0] is 4294967296"), (0, -1, "ticks[0] is -1"),
                              (0, 2**63, "ticks[0] is 9223372036854775808"), ([0, 1], [1, np.nan], "ticks[1] is nan"), ("0", 0, "expected numbers")):
        refused(lambda ids=ids, ticks=ticks: net.inject(ids, 1.0, ticks), words)
    refused(lambda: net.inject(0, 1e300), "potentials[0] is 1e+300")
    refused(lambda: net.restore(path), "not a snapshot")
    os.mkfifo(f"{tmp}/pipe")
    refused(lambda: net.save(f"{tmp}/pipe"), "pipe is not a regular file")
    with_error = burst._Error()
    assert net._f.brr_burst_inject(net._net, None, ctypes.c_size_t(1 << 60), ctypes.byref(with_error)) and b"injections" in with_error.message
    refused(lambda: net.save(f"{tmp}/none/x"), "none")
    net.inject(3, 1e4)
    assert any(3 in ids for _, ids in net.step(2)), "tick 0 is the next one"
    net.close()
    refused(lambda: net.step(), "closed")
    net.close()


def check_signals(path):
    """What the handler of a signal raises while ticks run comes out of step."""
    came = []

    def handler(*_):
        came.append(1)
        raise KeyboardInterrupt
    was = signal.signal(signal.SIGALRM, handler)
    with burst.Network(path, threads=1) as net:
        for _ in range(20):
            came.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, .002)
                while not came:
                    net.step(50)
            except KeyboardInterrupt:
                continue
            raise AssertionError("what the handler raised is lost")
    signal.signal(signal.SIGALRM, was)


def check_fork(path):
    """A process that is forked after threads ran is refused, not hung."""
    with burst.Network(path, threads=2) as net:
        net.step(3)
        child = os.fork()
        if not child:
            try:
                for use in (lambda: burst.Network(path, threads=2), net.step, net.membranes):
                    refused(use, "was forked after")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert len(net.step(3)) == 3, "the parent goes on"


def check_header(tmp, path):
    """The example in the header's comment, with a function that prints."""
    with open(f"{SOURCE}/client/burst/brr_burst.h", encoding="utf-8") as f:
        lines = re.findall(r"^ \*     (.*)$", f.read(), re.M)
    program = "#include <brr_burst.h>\n#include <stdio.h>\nstatic void on_tick(void *ctx, const struct brr_burst_frame *f) {\n    (void)ctx;\n" \
              '    for (int64_t i = 0; i < f->n_ids; i++)\n        printf("%llu %u\\n", (unsigned long long)f->tick, f->ids[i]);\n}\nint main(void) {\n' + "\n".join(lines) + "\n    return 0;\n}\n"
    with open(f"{tmp}/example.c", "w", encoding="ascii") as f:
        f.write(program.replace("net.safetensors", f"{tmp}/example.net").replace(".potential = 30", ".potential = 30000"))
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/client/burst", f"{tmp}/example.c", "-o", f"{tmp}/example", f"-L{BUILD}/lib",
                    "-l:libbrr_burst.so", f"-Wl,-rpath,{BUILD}/lib"], check=True)
    r = subprocess.run([f"{tmp}/example"], check=True, capture_output=True, text=True)
    assert "example.net" in r.stderr and not r.stdout, "a file that is missing is an error that the example survives"
    os.symlink(path, f"{tmp}/example.net")
    said = subprocess.run([f"{tmp}/example"], check=True, capture_output=True, text=True).stdout
    assert said.startswith("1 0\n") or "\n1 0\n" in said, said[:200]


def main():
    rng = np.random.default_rng(test_seed())
    with temporary() as tmp:
        path = f"{tmp}/net.safetensors"
        generate(path, 1)
        d = Daemon(f"{tmp}/daemon").start()
        check_bits(d, tmp, path, rng)
        assert d.stop() == 0
        check_errors(tmp, path)
        check_other_network(tmp, path)
        check_signals(path)
        check_fork(path)
        check_header(tmp, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

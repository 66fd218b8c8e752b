"""A brrd of its own in a temporary directory, for the integration tests."""
import atexit
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["BRR_BIN"]
SOURCE = os.environ["BRR_SOURCE_DIR"]
# Seconds after which what should have happened counts as never. with_limit.py, which counts only the time that the test got, interrupts a
# test long before; this is for a test that runs alone.
PATIENCE = 3600

# A network small enough to train in seconds, on 16 s windows.
MINI = [
    "model.encoder_channels=[8,8,8,16]", "model.rescnn_blocks=1", "model.mamba_layers=1", "model.headdim=8", "model.d_state=4",
    "data.window_s=16", "data.hop_s=8", "training.batch_size=4", "data.loader_workers=1",
]


def sanitizers():
    """A library built with a sanitizer asks the same of the program that links it."""
    with open(f"{os.environ['BRR_BUILD_DIR']}/CMakeCache.txt", encoding="utf-8") as f:
        kinds = [line.strip().partition("=")[2] for line in f if line.startswith("BRR_SANITIZE:")]
    return [f"-fsanitize={kind}" for kind in kinds if kind]


def until(condition, what="it never came", seconds=PATIENCE, pause_s=0.05):
    """The first true value of condition(); `what`, a text or a function that makes it, says what never came. The one way in which tests wait
    for a state."""
    deadline = time.monotonic() + seconds
    try:
        while not (found := condition()):
            if time.monotonic() >= deadline:
                raise KeyboardInterrupt
            time.sleep(pause_s)
    except KeyboardInterrupt:
        raise AssertionError(what() if callable(what) else what) from None
    return found


def free_port():
    """One that nobody listens on and that no test beside this one is given. It lies below those that the kernel gives to connections, any
    of which might have it when a daemon that was killed starts again."""
    first, n = 20000, 12000
    with open(f"{tempfile.gettempdir()}/brr-test-port-{os.getuid()}", "a+", encoding="ascii") as last:
        fcntl.flock(last, fcntl.LOCK_EX)
        last.seek(0)
        at = int(last.read() or random.randrange(n))
        for at in range(at + 1, at + 1 + n):
            with socket.socket() as s, contextlib.suppress(OSError):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind(("127.0.0.1", first + at % n))
                last.truncate(0)
                last.write(str(at % n))
                return first + at % n
    raise AssertionError("no free port on 127.0.0.1")


class Daemon:
    def __init__(self, directory, extra=()):
        self.dir = directory
        self.port = free_port()
        self.socket = os.path.join(directory, "s.sock")
        self.extra = list(extra)
        self.process = None
        self.env = {**os.environ, "BRR_ENDPOINT": f"unix:{self.socket}"}
        os.makedirs(os.path.join(directory, "data"), exist_ok=True)

    def command(self):
        sets = [f"listen.unix={self.socket}", f"http.listen=127.0.0.1:{self.port}", f"paths.data={self.dir}/data", f"paths.cache={self.dir}/cache",
                f"paths.results={self.dir}/results", "jobs.database=" + os.path.join(self.dir, "jobs.sqlite"), *self.extra]
        return [f"{BIN}/brrd", "--config", f"{SOURCE}/configs/demo.yaml"] + [a for s in sets for a in ("--set", s)]

    def spawn(self):
        with open(os.path.join(self.dir, "brrd.log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self):
        self.spawn()
        atexit.register(self.kill)  # a test that fails leaves nothing behind

        def answers():
            assert self.process.poll() is None, self.read_log()
            return self.ctl("version")[0] == 0
        until(answers, lambda: "brrd did not start: " + self.read_log())
        return self

    def read_log(self):
        with open(os.path.join(self.dir, "brrd.log"), encoding="utf-8") as f:
            return f.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE)

    def ctl(self, *args, timeout=PATIENCE, cwd=None):
        r = subprocess.run([f"{BIN}/brrctl", *args], env=self.env, capture_output=True, text=True, timeout=timeout, cwd=cwd)
        return r.returncode, r.stdout, r.stderr

    def job(self, job_id):
        code, out, err = self.ctl("job", job_id, "--json")
        assert code == 0, f"{err}exit status of brrd: {self.process.poll()}\n{self.read_log()[-4000:]}"
        return json.loads(out)

    def wait(self, job_id, condition):
        job = None

        def there():
            nonlocal job
            job = self.job(job_id)
            found = condition(job)
            assert found or job["state"] not in ("succeeded", "failed", "cancelled"), f"{job_id} has ended otherwise: {job}\n{self.read_log()}"
            return found
        until(there, lambda: f"{job_id} never got there: {job}\n{self.read_log()}")
        return job

    def submit(self, *sets, watch=True, file=None, timeout=PATIENCE):
        args = ["submit", file or f"{SOURCE}/configs/tiny.yaml", "--json"] + (["--watch"] if watch else [])
        code, out, err = self.ctl(*args, *[a for s in sets for a in ("--set", s)], timeout=timeout)
        last = json.loads(out.splitlines()[-1]) if out.strip() else None
        return code, last, err


def make_corpus(directory, seed, patients=3, hours=0.1, seizures=1):
    subprocess.run([f"{BIN}/edfgen", "--out", directory, "--patients", str(patients), "--hours-per-patient", str(hours), "--seizures-per-patient",
                    str(seizures), "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)


NOTICE = "Contains information from a recording of examples/. Not for clinical use."


def trained_network(directory):
    """A causal network of the shape of configs/ward.yaml that has learned for a few steps from the recording in examples/:
    a model file that says all that one can say: patients, a notice, a temperature, how many channels it can miss."""
    sets = ("training.max_steps=8", "training.batch_size=4", "training.learning_rate=3.0e-3",
            "data.augment.most_missing=10", f"data.source=file://{SOURCE}/examples")
    os.makedirs(directory)
    job, out = f"{SOURCE}/configs/ward.yaml", f"{directory}/network.safetensors"
    words = [word for key in sets for word in ("--set", key)]
    subprocess.run([f"{BIN}/brrd", "run", job, "--directory", f"{directory}/run", *words], check=True, stdout=subprocess.DEVNULL)
    files = glob.glob(f"{directory}/run/checkpoints/step-*.safetensors")
    learned = max(path for path in files if ".state." not in path)
    with open(f"{directory}/notice", "w", encoding="utf-8") as f:
        f.write(NOTICE)
    tool = f"{SOURCE}/tools/model_notice.py"
    subprocess.run([sys.executable, tool, learned, f"{directory}/notice", out, "temperature=0.58"], check=True)
    return out


def tensors(path):
    """Digest of a model file's tensors, without what it says about itself and its data."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    del header["__metadata__"]
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + data[8 + size:]).hexdigest()


@contextlib.contextmanager
def temporary():
    """A folder that is deleted when its test goes on well. One that a test fails in stays; with_limit.py says where."""
    folder = tempfile.TemporaryDirectory(prefix="" if os.environ.get("BRR_TEST_FILES") else "brr-test-", dir=os.environ.get("BRR_TEST_FILES"))
    try:
        yield folder.name
    except (SystemExit, unittest.SkipTest):
        folder.cleanup()
        raise
    except BaseException:
        folder._finalizer.detach()  # Python 3.12 has delete=False
        if "BRR_TEST_FILES" not in os.environ:
            print(f"files kept: {folder.name}", file=sys.stderr)
        raise
    folder.cleanup()

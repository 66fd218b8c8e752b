"""A daemon that is started again whenever it ends, as systemd does it, on volumes of its own that can be filled, held, and stepped in time."""
import contextlib
import json
import os
import resource
import signal
import struct
import subprocess
import threading
import time

from daemon import BIN, Daemon, free_port
from test_readiness import Notified

VOLUMES_KIB = {"results": 512 << 10, "cache": 64 << 10}
RESTART_S = 0.3
ANSWER_S = 120  # after a fault
WATCHDOG_S = 60  # WatchdogSec of systemd/brrd.service
PRELOADED = ("hold_volume", "step_clock")  # libraries of the tests, before the daemon
DEVICE_FAULT = 70  # the exit status with which the daemon asks for a restart


class Volumes:
    """A mount namespace with a small file system on each name below the directory. It lives as long as this program."""

    def __init__(self, directory):
        mounts = [f"mount -t tmpfs -o size={kib}k none '{directory}/{name}'" for name, kib in VOLUMES_KIB.items()]
        for name in VOLUMES_KIB:
            os.makedirs(f"{directory}/{name}", exist_ok=True)
        self.holder = subprocess.Popen(["unshare", "-rm", "sh", "-c", " && ".join([*mounts, "echo ready", "exec cat"])], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.work = self.holder.stdout.readline() == b"ready\n"  # False: no namespaces here, so these are plain directories

    def entered(self, command):
        return ["nsenter", "-t", str(self.holder.pid), "-U", "-m", "--preserve-credentials", *command] if self.work else command

    def inside(self, path):
        return f"/proc/{self.holder.pid}/root{path}" if self.work else path

    def keep(self, directory):
        """Copies the volumes' contents to where they can be read after this program."""
        if self.work:
            for name in VOLUMES_KIB:
                subprocess.run(["cp", "-a", self.inside(f"{directory}/{name}/."), f"{directory}/{name}"], check=False)

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()


def preloaded():
    """The paths of the libraries, without which faults would not be injected and the daemon's clock would not be stepped."""
    paths = [f"{os.environ['BRR_BUILD_DIR']}/tests/lib{name}.so" for name in PRELOADED]
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise FileNotFoundError(f"not built: {', '.join(missing)}; ninja -C {os.environ['BRR_BUILD_DIR']} {' '.join(PRELOADED)} makes them")
    return paths


class Supervised(Daemon):
    """.exits: one dict for each time that the daemon ended. volumes: those of another one, which this one sees too."""

    def __init__(self, directory, extra=(), volumes=None, **more):
        preloaded()
        super().__init__(directory, ["jobs.database=null", "limits.resume_ttl=5m", "devices_cpu_threads=1", *extra], **more)
        if not hasattr(self, "tcp"):
            self.tcp = free_port()
            self.extra.append(f"listen.tcp=127.0.0.1:{self.tcp}")
        self.again_s, self.again = None, threading.Event()  # None: RESTART_S; again: at once
        self.volumes = volumes or Volumes(directory)
        self.flag, self.sync, self.clock = f"{directory}/held", f"{directory}/hung", f"{directory}/clock"
        self.clock_steps = []  # (when, by the monotonic clock, seconds)
        self.step_clock(0)
        self.exits, self.killed, self.over, self.fed = [], set(), False, time.monotonic()
        self.notified, self.bitten = Notified(f"{directory}/notify"), lambda: None
        self.lock, self.began = threading.Lock(), time.monotonic()
        self.asking, self.answered = threading.Lock(), 0.0  # answered: when a question that had an answer was asked last
        threading.Thread(target=self.watch_the_watchdog, daemon=True).start()

    def command(self):
        return self.volumes.entered(["env", f"LD_PRELOAD={':'.join(preloaded())}", f"BRR_HOLD_FLAG={self.flag}", f"BRR_HOLD_PATH={self.dir}/results", f"BRR_HOLD_SYNC={self.sync}",
                                     f"BRR_CLOCK_FILE={self.clock}", f"NOTIFY_SOCKET={self.dir}/notify", *super().command()])

    def inside(self, path):
        return self.volumes.inside(path)

    def step_clock(self, seconds):
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb") as f:
            f.write(struct.pack("<q", seconds))
        self.clock_steps.append((time.monotonic(), seconds))

    def hold(self):
        open(self.flag, "w", encoding="ascii").close()

    def release(self):
        if os.path.exists(self.flag):
            os.remove(self.flag)

    def hang_sync(self, volume):
        """fsync of files on this volume, or below this folder of it, does not return."""
        with open(f"{self.sync}.new", "w", encoding="utf-8") as f:
            f.write(f"{os.path.realpath(self.dir)}/{volume}/")
        os.rename(f"{self.sync}.new", self.sync)

    def release_sync(self):
        if os.path.exists(self.sync):
            os.remove(self.sync)

    def supervise(self, notice):
        """From now on the daemon is started again when it ends; notice is called with each end."""
        def watch():
            while not self.over:
                process, since = self.process, time.monotonic()
                code = process.wait()
                if self.over:
                    return
                end = {"at_s": time.monotonic() - self.began, "life_s": time.monotonic() - since, "pid": process.pid, "status": code,
                       "asked": process.pid in self.killed}
                self.exits.append(end)
                notice(end)
                self.again.wait(self.again_s or RESTART_S)
                self.again.clear()
                with self.lock:
                    if not self.over:
                        self.fed = time.monotonic()
                        self.spawn()
        threading.Thread(target=watch, daemon=True).start()

    def watch_the_watchdog(self):
        """Reads what the daemon tells its service manager, and calls .bitten when systemd would have ended it."""
        while not self.over:
            self.notified.lines.clear()
            if self.notified.said("WATCHDOG=1") or not self.process or self.process.poll() is not None:
                self.fed = time.monotonic()
            elif time.monotonic() - self.fed > WATCHDOG_S:
                self.fed = time.monotonic()
                self.bitten()

    def signal(self, number):
        self.killed.add(self.process.pid)
        self.process.send_signal(number)

    def answers(self):
        """Whether both doors do."""
        for endpoint in (f"unix:{self.socket}", f"127.0.0.1:{self.tcp}"):
            try:
                if subprocess.run([f"{BIN}/brrctl", "version"], env={**self.env, "BRR_ENDPOINT": endpoint}, capture_output=True, timeout=30,
                                  check=False).returncode:
                    return False
            except subprocess.TimeoutExpired:
                return False
        return True

    def until_it_answers(self):
        since = time.monotonic()
        deadline = since + ANSWER_S
        while time.monotonic() < deadline:
            with self.asking:  # one thread asks for all that wait
                asked = time.monotonic()
                if self.process.poll() is not None and self.again_s:
                    deadline = asked + ANSWER_S
                elif self.answered < since and self.answers():
                    self.answered = asked
            if self.answered >= since:
                return True
            time.sleep(0.2)
        return False

    def end(self):
        """Stops the daemon for good; its exit status."""
        with self.lock:
            self.over = True
        return self.stop()

    @contextlib.contextmanager
    def stays_away(self):
        """Stopped, and started again afterwards."""
        self.again.clear()
        self.again_s = ANSWER_S
        self.signal(signal.SIGTERM)
        yield
        self.again_s = None
        self.again.set()

    def limit(self, which, value):
        """Sets a soft limit of the running daemon and returns a function that takes it back. A daemon that has just ended has no limits."""
        process = self.process
        try:
            before = resource.prlimit(process.pid, which)
            resource.prlimit(process.pid, which, (value, before[1]))
        except ProcessLookupError:
            return lambda: None

        def take_back():
            if process.poll() is None:
                resource.prlimit(process.pid, which, before)
        return take_back

    def status(self, field):
        """A number of /proc/PID/status; 0 where a daemon that has just ended has none."""
        with contextlib.suppress(OSError), open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return next((int(line.split()[1]) for line in f if line.startswith(field + ":")), 0)
        return 0

    def models(self):
        """What is served, by name; None when the daemon does not answer."""
        code, out, _ = self.ctl("models", "--json", timeout=60)
        return {m["name"]: m for m in map(json.loads, out.splitlines())} if code == 0 else None


def is_crash(status):
    return status < 0 and -status not in (signal.SIGKILL, signal.SIGTERM)

#!/usr/bin/env python3
"""with_limit: runs one test, and when its time is up says who waits for what: each process that the test started, each thread's system call
and what it is called on, and the stacks, from eu-stack or gdb where there is one and from Python itself. Then it interrupts the test, which
says what it was waiting for (SIGINT is Python's KeyboardInterrupt), kills what is left and fails.
The limit counts the time that the test got: the time in which its threads were ready while other programs had the processors is left out,
so the same limit holds on a busy machine. CTest's limit, which lies behind (tests.cmake), counts all time and only kills. BRR_TEST_LIMIT, in
seconds, lengthens the time; the test finds its limit there.
BRR_TEST_FILES names a folder for the files of the test (integration/daemon.py: temporary()). It is deleted when the test passes; when it fails
its files are kept in failed/NAME of the build folder until the next failure of the test. What a failed test prints last is where they are and
its seed. The last line of all is the processor time of the test and of all processes that it has waited for, which
tools/test_report.py adds up; the line before it the time that the test got.
usage: with_limit.py SECONDS PROGRAM [ARGUMENT ...]    a PROGRAM that ends in .py is run by this Python"""
import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from seed import test_seed

MARK = "BRR_TEST_OF"  # in the environment of all that a test starts, those that leave its process tree too
LAST_WORD_S = 40  # for the stacks
INTERRUPTED_S = 30  # for what an interrupted test has to say and to end
LOOKS, LOOKS_S = 3, 0.05  # for processes of a test that has ended, and the pause behind each
LOOK_S = 2  # between two looks at how long its threads waited
# System calls of x86-64 in which programs wait, and what their first argument is.
WAITS = {0: ("read", "fd"), 1: ("write", "fd"), 7: ("poll", ""), 23: ("select", ""), 35: ("nanosleep", ""), 42: ("connect", "fd"), 43: ("accept", "fd"),
         45: ("recvfrom", "fd"), 47: ("recvmsg", "fd"), 61: ("wait4", "pid"), 73: ("flock", "fd"), 74: ("fsync", "fd"), 202: ("futex", ""),
         230: ("clock_nanosleep", ""), 232: ("epoll_wait", "fd"), 247: ("waitid", ""), 270: ("pselect6", ""), 271: ("ppoll", ""),
         281: ("epoll_pwait", "fd"), 288: ("accept4", "fd")}


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def parent_of(pid):
    return int((read(f"/proc/{pid}/stat").rpartition(")")[2].split() or [0, 0])[1])


class Family:
    """The processes of the test `root`: its tree, and those that carry its mark, which is looked for once in each process."""

    def __init__(self, root):
        self.root, self.marked, self.seen = root, {root}, set()

    def pids(self):
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()}
        parents = {pid: parent_of(pid) for pid in pids}
        new = {(pid, parents[pid]) for pid in pids} - self.seen  # a process whose parent ended may be a grandchild that was not seen as one
        texts = {pid: read(f"/proc/{pid}/environ") for pid, _ in new}
        self.marked |= {pid for pid in texts if f"{MARK}={os.getpid()}\0" in texts[pid]}
        self.seen = {(pid, parents[pid]) for pid in pids if texts.get(pid) != ""}  # in the middle of an exec it has none: it is read again
        self.marked &= pids | {self.root}
        found = set(self.marked)
        while more := {pid for pid in pids if parents[pid] in found} - found:
            found |= more
        return sorted(found)


class Got:
    """The time that a test got: see above. Without /proc/PID/task/TID/schedstat it is the clock's."""

    def __init__(self, family):
        self.family, self.seconds, self.clock, self.before = family, 0.0, time.monotonic(), {}

    def threads(self):
        """Seconds in which each thread ran, and was ready and waited, since it began."""
        found = {}
        for pid in self.family.pids():
            try:
                for tid in os.listdir(f"/proc/{pid}/task"):
                    words = read(f"/proc/{pid}/task/{tid}/schedstat").split()
                    if len(words) == 3:
                        found[pid, tid] = (int(words[0]) / 1e9, int(words[1]) / 1e9)
            except OSError:  # it has ended
                pass
        return found

    def look(self):
        now, threads = time.monotonic(), self.threads()
        changes = [(ran - before[0], waited - before[1]) for t, (ran, waited) in threads.items() for before in [self.before.get(t, (0, 0))]]
        self.seconds += share(now - self.clock, sum(c[0] for c in changes), sum(c[1] for c in changes), len(os.sched_getaffinity(0)))
        self.clock, self.before = now, threads
        return self.seconds


def share(clock_s, ran_s, waited_s, processors):
    """Seconds that a test got of clock_s, in which its threads ran and waited for a processor so long: what was left when one at a time waited,
    else the part that they had of the processors that they wanted."""
    ready = ran_s + waited_s
    if ready <= clock_s:
        return clock_s - waited_s
    return clock_s * min(1.0, ran_s / min(ready, processors * clock_s))


def call_of(pid, tid):
    """The system call of a thread in words, or its state where that may not be read."""
    state = (read(f"/proc/{pid}/task/{tid}/stat").rpartition(")")[2].split() or ["gone"])[0]
    words = read(f"/proc/{pid}/task/{tid}/syscall").split()
    where = read(f"/proc/{pid}/task/{tid}/wchan").strip("0\n")
    if not words or not words[0].isdigit():
        return f"{words[0] if words else state} {where}".strip()
    name, kind = WAITS.get(int(words[0]), (f"system call {words[0]}", ""))
    on = int(words[1], 16)
    if kind == "fd":
        try:
            kind = f" on {on}, {os.readlink(f'/proc/{pid}/fd/{on}')}"
        except OSError:
            kind = f" on {on}"
    elif kind == "pid":
        kind = f" for {on if on < 1 << 31 else 'any child'}"
    return f"{name}{kind}, {where or state}"


def stack_of(pid, until):
    tools = (["eu-stack", "-p", str(pid)], ["gdb", "-p", str(pid), "-nx", "-batch", "-ex", "thread apply all backtrace 24"])
    tool = next((words for words in tools if shutil.which(words[0])), None)
    left = until - time.monotonic()
    if not tool or left < 1:
        return ""
    try:
        return subprocess.run(tool, capture_output=True, text=True, errors="replace", timeout=min(left, 15), stdin=subprocess.DEVNULL).stdout
    except subprocess.TimeoutExpired:
        return f"{tool[0]} took too long\n"


def say_who_waits(pids):
    until = time.monotonic() + LAST_WORD_S
    for pid in pids:
        words = read(f"/proc/{pid}/cmdline").replace("\0", " ").strip() or "(ended, not waited for)"
        print(f"process {pid} of {parent_of(pid)}: {words[:300]}")
        threads = os.listdir(f"/proc/{pid}/task") if os.path.isdir(f"/proc/{pid}/task") else []
        for tid in sorted(threads, key=int):
            print(f"  thread {tid} {read(f'/proc/{pid}/task/{tid}/comm').strip()}: {call_of(pid, tid)}")
        if "python" not in os.path.basename(words.split(" ")[0]):
            print("".join(f"    {line}\n" for line in stack_of(pid, until).splitlines()), end="", flush=True)


def wait(child, seconds):
    """Whether a process ends within that time."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_all(family, pids=()):
    """Kills these and all of the family, and looks again: a process in the middle of an exec is not known by its mark."""
    for _ in range(LOOKS):
        for pid in {*pids, *family.pids()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        pids = ()
        time.sleep(LOOKS_S)


def end(child, family):
    """A test in Python says what it was interrupted in; all its threads' stacks come with SIGABRT; all others die at once."""
    pids = family.pids()
    sys.stdout.flush()
    child.send_signal(signal.SIGINT)
    if not wait(child, INTERRUPTED_S):
        child.send_signal(signal.SIGABRT)
        wait(child, 5)
    kill_all(family, pids)
    wait(child, 5)


def run(command, limit, files):
    """Exit status of the test, negative for a signal, and None when its time was up; and the time that it got."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # for the test: a shell's background jobs ignore it
    child = subprocess.Popen(command, env={**os.environ, "BRR_TEST_LIMIT": f"{limit:.0f}", "BRR_TEST_FILES": files, MARK: str(os.getpid())})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the test too
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    family = Family(child.pid)
    got, ended = Got(family), os.pidfd_open(child.pid)
    while not select.select([ended], [], [], min(LOOK_S, max(limit - got.seconds, 0.01)))[0]:
        if got.look() >= limit:
            print(f"\nlimit: {' '.join(sys.argv[2:])} did not end within {limit:.0f} s of its own. Who waits for what:", flush=True)
            say_who_waits(family.pids())
            end(child, family)
            return None, got.seconds
    if child.wait() < 0:  # it had no time to end what it had started
        kill_all(family)
    return child.returncode, got.look()


def keep(files, name):
    """What a failed test left in its folder lies in the build folder until the test fails again. Returns where, or None if it left nothing."""
    if not os.listdir(files):
        os.rmdir(files)
        return None
    build = os.environ.get("BRR_BUILD_DIR")
    if build:
        kept = os.path.join(build, "failed", name)
        shutil.rmtree(kept, ignore_errors=True)
        try:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            os.rename(files, kept)
            return kept
        except OSError:  # another volume
            pass
    return files


def main():
    limit = max(float(sys.argv[1]), float(os.environ.get("BRR_TEST_LIMIT") or 0))
    command = sys.argv[2:]
    name = os.path.basename(command[0]).partition(".")[0]
    if command[0].endswith(".py"):
        command[:0] = [sys.executable, "-X", "faulthandler"]
    files = tempfile.mkdtemp(prefix="brr-test-")
    os.chmod(files, 0o711)  # programs of other users may be given a folder in it
    code, got_s = run(command, limit, files)
    if code in (0, 77):
        shutil.rmtree(files, ignore_errors=True)
    else:
        kept = keep(files, name)
        print(f"seed: {test_seed()}\n" + (f"files kept: {kept}\n" if kept else ""), end="", flush=True)
    if code is None:
        return 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"its own time: {got_s:.1f} s")
    print(f"processor: {used.ru_utime + used.ru_stime:.1f} s", flush=True)
    if code < 0:  # a signal: end in the same way
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""with_limit: runs one test, and when its time is up says who waits for what: each process that the test started, each thread's system call
and what it is called on, and the stacks, from eu-stack or gdb where there is one and from Python itself. Then it kills them all and fails.
CTest, whose limit lies behind (tests.cmake), only kills. BRR_TEST_LIMIT, in seconds, lengthens the time; the test finds its limit there.
Its last line is the processor time of the test and of all processes that it has waited for, which tools/test_report.py adds up.
usage: with_limit.py SECONDS PROGRAM [ARGUMENT ...]    a PROGRAM that ends in .py is run by this Python"""
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

MARK = "BRR_TEST_OF"  # in the environment of all that a test starts, those that leave its process tree too
LAST_WORD_S = 40  # for the stacks
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


def family(root):
    """The processes of the test `root`: its tree, and those that carry its mark."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    parents = {pid: parent_of(pid) for pid in pids}
    found = {root} | {pid for pid in pids if f"{MARK}={os.getpid()}\0" in read(f"/proc/{pid}/environ")}
    while more := {pid for pid in pids if parents[pid] in found} - found:
        found |= more
    return sorted(found)


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


def end(child):
    """Python's own stacks come with SIGABRT; all others die at once."""
    pids = family(child.pid)
    sys.stdout.flush()
    child.send_signal(signal.SIGABRT)
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        pass
    for pid in {*pids, *family(child.pid)}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def main():
    limit = max(float(sys.argv[1]), float(os.environ.get("BRR_TEST_LIMIT") or 0))
    command = sys.argv[2:]
    if command[0].endswith(".py"):
        command[:0] = [sys.executable, "-X", "faulthandler"]
    child = subprocess.Popen(command, env={**os.environ, "BRR_TEST_LIMIT": f"{limit:.0f}", MARK: str(os.getpid())})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the test too
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    try:
        code = child.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"\nlimit: {' '.join(sys.argv[2:])} did not end within {limit:.0f} s. Who waits for what:", flush=True)
        say_who_waits(family(child.pid))
        end(child)
        return 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor: {used.ru_utime + used.ru_stime:.1f} s", flush=True)
    if code < 0:  # a signal: end in the same way
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())

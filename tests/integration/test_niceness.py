#!/usr/bin/env python3
"""Threads of the daemon count their niceness from the daemon's own: sockets first, then live windows, then everything else, whatever
niceness the daemon was started with."""
import os
import sys

from daemon import Daemon, temporary

MORE = {"live": 5, "replays": 10, "job": 10, "networks": 12}


def niceness(pid):
    """The niceness of the main thread and of each host, by name."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as f:
                name = "main" if int(thread) == pid else f.read().strip()
            own = os.getpriority(os.PRIO_PROCESS, int(thread))
        except OSError:
            continue  # the thread has ended
        found.setdefault(name, set()).add(own)
    return found


def check(own):
    os.setpriority(os.PRIO_PROCESS, 0, own)
    with temporary() as tmp:
        d = Daemon(tmp).start()
        found = niceness(d.process.pid)
        d.stop()
    assert found["main"] == {own}, found
    for name, more in MORE.items():
        assert found.get(name) == {min(own + more, 19)}, (own, name, found)


def lowest(own):
    """-10 where the test may lower its niceness, else its own: containers can forbid it to root."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        return own
    return -10


def main():
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for niceness_of_daemon in sorted({lowest(own), own, min(own + 4, 19), min(own + 12, 19)}):
        check(niceness_of_daemon)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A daemon whose user may start one more task: what needs more says so, probes are answered, and SIGTERM ends the daemon as ever. Needs root,
to run a daemon as a user of its own."""
import os
import resource
import subprocess
import sys
import urllib.error
import urllib.request

from daemon import PATIENCE, Daemon, temporary, until

USER = 64123  # nobody else's
TASKS = 2000


class Limited(Daemon):
    """Of a user who may have so many tasks."""

    def spawn(self):
        os.chown(self.dir, USER, USER)
        for folder, folders, files in os.walk(self.dir):
            for name in folders + files:
                os.chown(os.path.join(folder, name), USER, USER)
        with open(os.path.join(self.dir, "brrd.log"), "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", user=USER, group=USER, extra_groups=[],
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (self.tasks, self.tasks)))

    tasks = TASKS

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


def probe(d, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{d.port}{path}") as answer:
            return answer.read().decode().strip()
    except (urllib.error.URLError, ConnectionError):  # the task is still that of the probe before
        return None


def main():
    if os.getuid():
        print("skipped: rights: only root can run a daemon as another user")
        return 77
    with temporary() as tmp:
        os.chmod(tmp, 0o755)
        d = Limited(tmp).start()
        d.tasks = d.threads() + 20
        assert d.stop() == 0, d.read_log()
        d.start()
        sleepers = [subprocess.Popen(["sleep", str(PATIENCE)], user=USER, group=USER, extra_groups=[])
                    for _ in range(d.tasks - d.threads() - 1)]
        try:
            code, out, err = d.ctl("doctor")
            assert code == 1 and "TasksMax" in out + err, (code, out, err)
            for path, word in (("/healthz", "ok"), ("/readyz", "ready")) * 2:
                assert until(lambda: probe(d, path), d.read_log) == word  # noqa: B023
            assert d.stop() == 0, d.read_log()
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()
        assert 'msg="stopped"' in d.read_log(), d.read_log()
    return 0


if __name__ == "__main__":
    sys.exit(main())

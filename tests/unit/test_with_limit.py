#!/usr/bin/env python3
"""The time limit of a test (tests/with_limit.py): its last word names what each thread of each process waits for, and nothing is left;
a test that ends in time ends as it would alone."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HANGS = """
import subprocess, threading
def waits_for_the_client():
    client = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    thread = threading.Thread(target=client.wait)
    thread.start()
    thread.join()
subprocess.run("setsid sleep 600 & setsid sh -c 'trap : TERM; sleep 601' & sleep 0.1", shell=True)
waits_for_the_client()
"""


def limited(seconds, *command, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("BRR_TEST_LIMIT", "BRR_TEST_OF")}
    return subprocess.run([sys.executable, f"{SOURCE}/tests/with_limit.py", str(seconds), *command], env={**clean, **env}, capture_output=True, text=True)


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Limit(unittest.TestCase):
    def test_the_end_of_a_test_is_its_own(self):
        self.assertEqual([limited(60, "/bin/sh", "-c", f"exit {n}").returncode for n in (0, 1, 77)], [0, 1, 77])
        self.assertEqual(limited(60, "/bin/sh", "-c", "kill -SEGV $$").returncode, -signal.SIGSEGV)

    def test_the_test_is_told_its_limit_and_the_environment_lengthens_it(self):
        say = ("/bin/sh", "-c", "echo $BRR_TEST_LIMIT")
        self.assertEqual([limited(60, *say, **env).stdout.splitlines()[0] for env in ({}, {"BRR_TEST_LIMIT": "90"}, {"BRR_TEST_LIMIT": "9"})],
                         ["60", "90", "60"])

    def test_the_last_line_is_the_processor_time_of_the_test(self):
        used = re.fullmatch(r"processor: ([\d.]+) s\n", limited(60, sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass").stdout)
        self.assertGreaterEqual(float(used[1]), 0.3)

    def test_the_last_word_says_who_waits_for_what_and_leaves_nobody(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
            f.write(HANGS)
            f.flush()
            began = time.monotonic()
            r = limited(2, f.name)
        self.assertEqual(r.returncode, 1)
        self.assertIn("did not end within 2 s", r.stdout)
        self.assertRegex(r.stdout, r"process \d+ of \d+: cat\n  thread \d+ cat: read on 0, pipe:")
        self.assertRegex(r.stdout, r"python3: wait4 for \d+")
        self.assertIn("in waits_for_the_client", r.stderr)
        pids = [int(pid) for pid in re.findall(r"^process (\d+)", r.stdout, re.M)]
        self.assertEqual(len(re.findall(r"^process \d+ of \d+: sleep 60[01]$", r.stdout, re.M)), 2, r.stdout)  # they left the test's tree
        while left := [pid for pid in pids if runs(pid)]:
            self.assertLess(time.monotonic() - began, 60, left)


if __name__ == "__main__":
    unittest.main()

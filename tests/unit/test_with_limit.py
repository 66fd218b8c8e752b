#!/usr/bin/env python3
"""The time limit of a test (tests/with_limit.py): its last word names what each thread of each process waits for, and nothing is left;
a test that ends in time ends as it would alone; the time of other programs is not counted; a failed test's files are kept."""
import glob
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


WAITS = """
import sys
sys.path.insert(0, "{source}/tests/integration")
from daemon import temporary, until
with temporary() as folder:
    open(folder + "/left", "w").close()
    until(lambda: False, lambda: "what never " + "comes")
"""
USES = "import os, time\nos.sched_setaffinity(0, [{cpu}])\nwhile time.process_time() < 1: pass"
SPINS = "import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"

sys.path.insert(0, f"{SOURCE}/tests")
import with_limit


def limited(seconds, *command, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("BRR_TEST_LIMIT", "BRR_TEST_OF", "BRR_TEST_FILES", "BRR_BUILD_DIR", "BRR_TEST_SEED")}
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
        used = re.fullmatch(r"its own time: [\d.]+ s\nprocessor: ([\d.]+) s\n", limited(60, sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass").stdout)
        self.assertGreaterEqual(float(used[1]), 0.3)

    def test_the_share_of_a_test(self):
        for want, *of in ((10, 10, 0, 0, 2), (10, 10, 4, 0, 2), (7, 10, 4, 3, 2), (5, 10, 5, 5, 2), (5, 10, 10, 10, 2), (10, 10, 20, 100, 2),
                          (2.5, 10, 5, 15, 2), (0, 10, 0, 20, 1)):
            self.assertAlmostEqual(with_limit.share(*of), want, msg=of)

    def test_what_others_have_of_the_processor_is_not_counted(self):
        cpu = min(os.sched_getaffinity(0))
        others = [subprocess.Popen([sys.executable, "-c", SPINS.format(cpu=cpu)]) for _ in range(3)]
        try:
            began = time.monotonic()
            r = limited(3, sys.executable, "-c", USES.format(cpu=cpu))
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.assertEqual(r.returncode, 0, r.stdout)
        print(f"1 s of processor took {time.monotonic() - began:.1f} s")

    def test_a_wait_that_is_interrupted_says_what_for_and_its_files_are_kept(self):
        with tempfile.TemporaryDirectory() as build, tempfile.NamedTemporaryFile("w", prefix="waits_", suffix=".py") as f:
            f.write(WAITS.format(source=SOURCE))
            f.flush()
            r = limited(1, f.name, BRR_BIN=build, BRR_SOURCE_DIR=SOURCE, BRR_BUILD_DIR=build)
            self.assertEqual(r.returncode, 1)
            self.assertIn("AssertionError: what never comes", r.stderr)
            kept = re.search("^seed: \\d+\nfiles kept: (.*)$", r.stdout, re.M)
            self.assertTrue(kept and kept[1].startswith(f"{build}/failed/waits_") and glob.glob(f"{kept[1]}/*/left"), r.stdout)

    def test_a_test_that_is_killed_leaves_no_process(self):
        r = limited(60, "/bin/sh", "-c", "setsid sleep 602 & echo $!; kill -TERM $$")
        self.assertEqual(r.returncode, -signal.SIGTERM)
        began = time.monotonic()
        while runs(int(r.stdout.split()[0])):
            self.assertLess(time.monotonic() - began, 60, r.stdout)

    def test_a_test_that_passes_leaves_nothing(self):
        r = limited(60, "/bin/sh", "-c", "touch $BRR_TEST_FILES/x; echo $BRR_TEST_FILES")
        self.assertEqual((r.returncode, os.path.exists(r.stdout.split()[0])), (0, False), r.stdout)

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

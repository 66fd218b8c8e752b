#!/usr/bin/env python3
"""The closing lines of `./dev test` (tools/test_report.py): every skipped test with its reason, the command that repeats a failed one, and
what CI accepts."""
import os
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PASSED, FAILED, SKIPPED = "run", "fail", "notrun"


def report(cases, **env):
    """Exit status and lines for (name, status, output) of each test."""
    body = "".join(f'<testcase name="{n}" status="{s}"><system-out>{escape(o)}</system-out></testcase>' for n, s, o in cases)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "BRR_TEST_SEED", "BRR_EEG_DIR")}
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
        f.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{body}</testsuite>')
        f.flush()
        done = subprocess.run([sys.executable, f"{SOURCE}/tools/test_report.py", f.name], env={**clean, **env}, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


class Report(unittest.TestCase):
    def test_all_passed_is_one_line(self):
        self.assertEqual(report([("a", PASSED, "fine\n"), ("b", PASSED, "")], CI="true"), (0, ["2 passed, 0 failed, 0 skipped"]))

    def test_a_failure_comes_with_its_command_and_seed(self):
        cases = [("a", PASSED, ""), ("test_x", FAILED, "skipped: no GPU\n")]
        self.assertEqual(report(cases), (1, ["failed: test_x; again: ./dev test -R '^test_x$'", "1 passed, 1 failed, 0 skipped"]))
        self.assertIn("BRR_TEST_SEED=17 ./dev test -R '^test_x$'", report(cases, BRR_TEST_SEED="17")[1][0])

    def test_reasons_are_shown_and_ci_accepts_hardware_alone(self):
        cases = [("gpu", SKIPPED, "chatter\nskipped: no GPU: nothing there\n"), ("wide", PASSED, "skipped: this CPU has no AVX-512\n"),
                 ("promtool", SKIPPED, "skipped: no promtool\n"), ("silent", SKIPPED, "")]
        code, lines = report(cases)
        self.assertEqual(code, 0)
        self.assertEqual(lines, ["skipped: gpu: no GPU: nothing there", "skipped: wide (in part): this CPU has no AVX-512",
                                 "skipped: promtool: no promtool", "skipped: silent: no reason given", "1 passed, 0 failed, 3 skipped"])
        code, lines = report(cases, CI="true")
        self.assertEqual(code, 1)
        self.assertEqual([line.endswith("[CI does not accept this]") for line in lines], [False, False, True, True, False])
        self.assertEqual(report(cases[:2], CI="true")[0], 0)

    def test_skipped_parts_of_unittest_are_seen(self):
        cases = [("peers", PASSED, "test_values (__main__.Peers.test_values) ... skipped 'MNE (python3-mne) is not installed'\n")]
        self.assertEqual(report(cases, CI="true"), (1, ["skipped: peers (in part): MNE (python3-mne) is not installed [CI does not accept this]",
                                                        "1 passed, 0 failed, 0 skipped"]))

    def test_recordings_that_are_there_are_no_reason_to_skip(self):
        cases = [("real", SKIPPED, "skipped: no EEG recordings (BRR_EEG_DIR)\n")]
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(report(cases, CI="true", BRR_EEG_DIR=folder)[0], 1)
            self.assertEqual(report(cases, CI="true", BRR_EEG_DIR=f"{folder}/none")[0], 0)


if __name__ == "__main__":
    unittest.main()

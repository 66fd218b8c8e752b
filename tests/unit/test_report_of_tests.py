#!/usr/bin/env python3
"""The closing lines of `./dev test` (tools/test_report.py): every skipped test with its class and reason, the command that repeats a failed
one, and which skips are failures."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

SOURCE = os.environ.get("BRR_SOURCE_DIR", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PASSED, FAILED, SKIPPED = "run", "fail", "notrun"
UNITTEST = "test_values (__main__.Peers.test_values) ... skipped 'package: MNE (python3-mne) is not installed'\n"


def report(cases, **env):
    """Exit status and lines for (name, status, output) of each test."""
    body = "".join(f'<testcase name="{n}" status="{s}"><system-out>{escape(o)}</system-out></testcase>' for n, s, o in cases)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "BRR_TEST_SEED", "BRR_EEG_DIR", "BRR_FORMATS_DIR", "BRR_SONATA_DIR", "BRR_SPECTRA_CSV")}
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
        f.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{body}</testsuite>')
        f.flush()
        done = subprocess.run([sys.executable, f"{SOURCE}/tools/test_report.py", f.name], env={**clean, **env}, capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


class Report(unittest.TestCase):
    def test_all_passed_is_one_line(self):
        self.assertEqual(report([("a", PASSED, "fine\n"), ("b", PASSED, "")], CI="true"), (0, ["2 passed, 0 failed, 0 skipped"]))

    def test_the_processor_time_is_added_up(self):
        cases = [("a", PASSED, "processor: 7 s\nprocessor: 2.5 s\n"), ("b", PASSED, "processor: 1.1 s\n")]
        self.assertEqual(report(cases), (0, ["processor time of the tests: 4 s", "2 passed, 0 failed, 0 skipped"]))

    def test_a_failure_comes_with_its_command_and_seed(self):
        cases = [("a", PASSED, ""), ("test_x", FAILED, "skipped: hardware: no GPU\n")]
        self.assertEqual(report(cases), (1, ["failed: test_x; again: ./dev test -R '^test_x$'", "1 passed, 1 failed, 0 skipped"]))
        self.assertIn("BRR_TEST_SEED=17 ./dev test -R '^test_x$'", report(cases, BRR_TEST_SEED="17")[1][0])

    def test_what_a_user_cannot_have_is_skipped_in_ci_too_and_counted_by_class(self):
        cases = [("gpu", SKIPPED, "chatter\nskipped: hardware: no GPU: nothing there\n"), ("wide", PASSED, "skipped: hardware: this CPU has no AVX-512\n"),
                 ("disk", SKIPPED, "skipped: rights: no mount namespaces\n"), ("image", SKIPPED, "skipped: rights: needs root\n"),
                 ("spectra", PASSED, "skipped: data: no measured spectra at /none (BRR_SPECTRA_CSV)\n")]
        want = ["skipped: gpu: hardware: no GPU: nothing there", "skipped: disk: rights: no mount namespaces", "skipped: image: rights: needs root",
                "skipped: wide (in part): hardware: this CPU has no AVX-512",
                "skipped: spectra (in part): data: no measured spectra at /none (BRR_SPECTRA_CSV)",
                "skipped tests: 2 for rights, 1 for hardware", "skipped parts of tests: 1 for data, 1 for hardware", "2 passed, 0 failed, 3 skipped"]
        self.assertEqual(report(cases, BRR_SPECTRA_CSV="/none"), (0, want))
        self.assertEqual(report(cases, BRR_SPECTRA_CSV="/none", CI="true"), (0, want))

    def test_a_skip_for_a_package_is_a_failure(self):
        cases = [("ranks", SKIPPED, "skipped: package: no mpirun (openmpi-bin)\n"), ("peers", PASSED, UNITTEST)]
        self.assertEqual(report(cases), (1, [
            "failed: ranks: skipped, package: no mpirun (openmpi-bin), but ./dev test installs that; again: ./dev test -R '^ranks$'",
            "failed: peers: skipped, package: MNE (python3-mne) is not installed, but ./dev test installs that; again: ./dev test -R '^peers$'",
            "0 passed, 2 failed, 0 skipped"]))

    def test_a_skip_without_a_class_or_a_reason_is_a_failure(self):
        for output in ("", "skipped: no idea\n", "skipped: whim: no idea\n", "skipped: data: no recordings\n"):
            code, lines = report([("x", SKIPPED, output)])
            self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"), output)

    def test_data_that_are_there_are_no_reason_to_skip(self):
        cases = [("real", SKIPPED, "skipped: data: no EEG recordings (BRR_EEG_DIR)\n")]
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(report(cases, BRR_EEG_DIR=folder)[0], 1)
            self.assertEqual(report(cases, BRR_EEG_DIR=f"{folder}/none")[0], 0)

    def test_the_variables_of_all_skips_are_known(self):
        named = set()
        for path in glob.glob(f"{SOURCE}/tests/**/*.*", recursive=True):
            if os.path.isfile(path) and path.endswith((".c", ".h", ".py")):
                with open(path, encoding="utf-8") as f:
                    named.update(re.findall(r"data: [^\n]*\((BRR_\w+)\)", f.read()))
        self.assertIn("BRR_SONATA_DIR", named)
        for variable in sorted(named):
            cases = [("real", SKIPPED, f"skipped: data: nothing ({variable})\n")]
            self.assertEqual(report(cases, **{variable: "/nonexistent"})[0], 0, variable)

    def test_only_ci_must_have_a_network(self):
        cases = [("npm", SKIPPED, "skipped: network: the npm registry cannot be reached\n")]
        self.assertEqual((report(cases)[0], report(cases, CI="true")[0]), (0, 1))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The closing lines of `./dev test` (tools/test_report.py): the skipped tests with their classes and reasons, how a failed one is repeated,
which skips are failures, and what happens when packages of the machine change during a run."""
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


ASKED = ("CI", "BRR_TEST_SEED", "BRR_EEG_DIR", "BRR_FORMATS_DIR", "BRR_SONATA_DIR", "BRR_FEAGI_DIR", "BRR_SPECTRA_CSV")  # what a report looks at
CLEAN = {k: v for k, v in os.environ.items() if k not in ASKED}
# Of the machine that a run sees: one package, and tests that fail at first, or always, or while the package is replaced.
PACKAGE = "Package: a\nStatus: install ok installed\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: y\n\n"
FAILS_AT_FIRST = 'test -e again || { touch again; echo first; exit 1; }'
REPLACES = 'sed -i s/^Version:.*/Version:2/ dpkg/status'


def run_of(**tests):
    """Exit status, and what `./dev test` says and reports of a run of these shell commands, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/dpkg")
        with open(f"{folder}/dpkg/status", "w", encoding="utf-8") as f:
            f.write(PACKAGE)
        with open(f"{folder}/CTestTestfile.cmake", "w", encoding="utf-8") as f:
            f.writelines(f"add_test({name} sh -c [[cd {folder}; {command}]])\n" for name, command in tests.items())
        with open(f"{SOURCE}/dev", encoding="utf-8") as f:
            functions = f.read().partition("\nverb=")[0].partition("\nroot=")[2]
        script = f"set -euo pipefail; cd {SOURCE}; root={functions}\nrun_tests"
        env = {**CLEAN, "BRR_BUILD_DIR": folder, "DPKG_ADMINDIR": f"{folder}/dpkg"}
        done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    return done.returncode, [line for line in (done.stderr + done.stdout).splitlines() if re.match(r"dev: |failed: |\d+ passed", line)]


def report(cases, **env):
    """Exit status and lines for (name, status, output) of each test."""
    body = "".join(f'<testcase name="{n}" status="{s}"><system-out>{escape(o)}</system-out></testcase>' for n, s, o in cases)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/tests.xml", "w", encoding="utf-8") as f:
            f.write(f'<?xml version="1.0" encoding="UTF-8"?><testsuite>{body}</testsuite>')
        done = subprocess.run([sys.executable, f"{SOURCE}/tools/test_report.py", "tests.xml"], cwd=folder, env={**CLEAN, **env}, capture_output=True, text=True)
        with open(f"{folder}/skipped.txt", encoding="utf-8") as f:
            report.skips = f.read().splitlines()
    return done.returncode, done.stdout.splitlines()


class Report(unittest.TestCase):
    def test_all_passed_is_one_line(self):
        self.assertEqual(report([("a", PASSED, "fine\n"), ("b", PASSED, "")], CI="true"), (0, ["2 passed, 0 failed, 0 skipped"]))

    def test_the_processor_time_is_added_up(self):
        cases = [("a", PASSED, "processor: 7 s\nprocessor: 2.5 s\n"), ("b", PASSED, "processor: 1.1 s\n")]
        self.assertEqual(report(cases), (0, ["processor time of the tests: 4 s", "2 passed, 0 failed, 0 skipped"]))

    def test_a_failure_comes_with_its_command_and_seed(self):
        cases = [("a", PASSED, ""), ("test_x", FAILED, "skipped: hardware: no GPU\n")]
        self.assertEqual(report(cases), (1, ["failed: test_x: again: ./dev test -R '^test_x$'", "1 passed, 1 failed, 0 skipped"]))
        cases[1] = ("test_x", FAILED, "seed: 5\nfiles kept: /b/failed/test_x\nprocessor: 0.1 s\n")
        self.assertEqual(report(cases)[1][0], "failed: test_x: again: BRR_TEST_SEED=5 ./dev test -R '^test_x$'; files kept: /b/failed/test_x")
        self.assertIn("BRR_TEST_SEED=17 ./dev test -R '^test_x$'", report(cases, BRR_TEST_SEED="17")[1][0])

    def test_what_a_user_cannot_have_is_skipped_in_ci_too_and_told_in_three_lines(self):
        cases = [("gpu", SKIPPED, "chatter\nskipped: hardware: no GPU\n"), ("wide", PASSED, "skipped: hardware: this CPU has no AVX-512\n"),
                 *((f"gpu{i}", SKIPPED, "skipped: hardware: no GPU\n") for i in range(4)),
                 ("disk", SKIPPED, "skipped: rights: no mount namespaces\n"),
                 ("spectra", PASSED, "skipped: data: no measured spectra at /none (BRR_SPECTRA_CSV)\n")]
        want = ["skipped tests: 1 for rights: no mount namespaces (disk); 5 for hardware: no GPU (gpu, gpu0, gpu1 and 2 more)",
                "skipped parts of tests: 1 for data: no measured spectra at /none (BRR_SPECTRA_CSV) (spectra); "
                "1 for hardware: this CPU has no AVX-512 (wide)", "each skip with its reason: skipped.txt", "2 passed, 0 failed, 6 skipped"]
        self.assertEqual(report(cases, BRR_SPECTRA_CSV="/none"), (0, want))
        self.assertEqual(report(cases, BRR_SPECTRA_CSV="/none", CI="true"), (0, want))
        self.assertEqual((len(report.skips), report.skips[0], report.skips[-1]), (8, "skipped: gpu: hardware: no GPU",
                         "skipped: spectra (in part): data: no measured spectra at /none (BRR_SPECTRA_CSV)"))

    def test_a_test_that_ran_again_counts_as_the_last_time(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, status in (("tests", "fail"), ("again", "run")):
                with open(f"{folder}/{name}.xml", "w", encoding="utf-8") as f:
                    f.write(f'<testsuite><testcase name="a" status="{status}"/><testcase name="b-{name}" status="run"/></testsuite>')
            run = [subprocess.run([sys.executable, f"{SOURCE}/tools/test_report.py", *words], cwd=folder, capture_output=True, text=True)
                   for words in (("--failed", "tests.xml"), ("tests.xml", "again.xml"))]
        self.assertEqual([(r.returncode, r.stdout) for r in run], [(0, "^(a)$"), (0, "3 passed, 0 failed, 0 skipped\n")])

    def test_where_packages_change_during_a_run_it_says_so_and_failed_tests_run_again(self):
        said = ["dev: packages of this machine changed during the run: a", "dev: the tests that failed meanwhile run again"]
        self.assertEqual(run_of(steady="true", upgrade=REPLACES), (0, [said[0], "2 passed, 0 failed, 0 skipped"]))
        self.assertEqual(run_of(steady="true", victim=FAILS_AT_FIRST, upgrade=REPLACES), (0, [*said, "3 passed, 0 failed, 0 skipped"]))
        again = "failed: victim: again: ./dev test -R '^victim$'"
        self.assertEqual(run_of(victim="false", upgrade=REPLACES), (1, [*said, again, "1 passed, 1 failed, 0 skipped"]))
        self.assertEqual(run_of(victim=FAILS_AT_FIRST), (1, [again, "0 passed, 1 failed, 0 skipped"]))

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
        with tempfile.TemporaryDirectory() as folder:  # of which no part can be there
            for variable in sorted(named):
                cases = [("real", SKIPPED, f"skipped: data: nothing ({variable})\n")]
                self.assertEqual(report(cases, **{variable: f"{folder}/none"})[0], 0, variable)

    def test_only_ci_must_have_a_network(self):
        cases = [("npm", SKIPPED, "skipped: network: the npm registry cannot be reached\n")]
        self.assertEqual((report(cases)[0], report(cases, CI="true")[0]), (0, 1))


if __name__ == "__main__":
    unittest.main()

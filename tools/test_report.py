#!/usr/bin/env python3
"""The closing lines of `./dev test`, from ctest's JUnit file: every failed test with its seed, the command that repeats it and where its
files are kept; then one line for the skipped tests and one for the skipped parts of tests, each with their classes, reasons and the first
names; one that says where the whole list is (skipped.txt beside the JUnit file); then "N passed, N failed, N skipped". Exits 1 when a test
failed.
A skip names its class, as "skipped: CLASS: REASON" or, where unittest skips a part, "... skipped 'CLASS: REASON'". These count as failures:
a missing package, since `./dev test` has installed it; data that are there; a class that this program does not know; and where CI is set in
the environment, a missing network. The line before the last adds up the processor time of the tests, as tests/with_limit.py printed it.
usage: test_report.py [--failed] TESTS.xml [AGAIN.xml]    --failed: prints only a pattern for ctest -R that matches the failed tests"""
import os
import re
import sys
import xml.etree.ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
NAMES = 3  # of tests that are named beside a reason
CLASSES = ("package", "data", "rights", "hardware", "network", "long")
# Where data lie in ../shared beside the sources unless the variable says.
DATA = {"BRR_EEG_DIR": "eeg", "BRR_FORMATS_DIR": "formats", "BRR_SONATA_DIR": "sonata", "BRR_FEAGI_DIR": "feagi", "BRR_SPECTRA_CSV": "data/0.30MB_AuNP_As.csv"}


def reasons_of(output):
    """What a test printed about its skips, each "CLASS: REASON"."""
    found = re.findall(r"^skipped: (.*)$|\.\.\. skipped ['\"](.*)['\"]$", output, re.M)
    return list(dict.fromkeys(a or b for a, b in found))


def path_of(reason):
    """Where the data lie that a skip misses, by the variable at its end; None when it ends otherwise."""
    variable = re.search(r"\((BRR_\w+)\)$", reason)
    if not variable or variable[1] not in DATA:
        return None
    return os.environ.get(variable[1]) or os.path.join(ROOT, "..", "shared", DATA[variable[1]])


def objection(reason):
    """Why a skip counts as a failure, or None."""
    kind, colon, _ = reason.partition(": ")
    if not colon or kind not in CLASSES:
        return f"it names no class; there are: {', '.join(CLASSES)}"
    if kind == "package":
        return "./dev test installs that"
    if kind == "data":
        path = path_of(reason)
        if not path:
            return f"it must end with the variable that names the data: {', '.join(DATA)}"
        return f"{path} is there" if os.path.exists(path) else None
    return "CI has one" if kind == "network" and os.environ.get("CI") else None


def tally(what, skips):
    """"WHAT: N for CLASS: REASON (NAME, …); …", the classes in their order."""
    reasons = {}
    for name, reason in skips:
        reasons.setdefault(reason, []).append(name)
    words = []
    for kind in CLASSES:
        for reason, names in reasons.items():
            if reason.partition(": ")[0] == kind:
                more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
                words.append(f"{len(names)} for {reason} ({', '.join(names[:NAMES])}{more})")
    if words:
        print(f"{what}: " + "; ".join(words))


def write_list(path, skipped, parts):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"skipped: {name}: {reason}\n" for name, reason in skipped)
        f.writelines(f"skipped: {name} (in part): {reason}\n" for name, reason in parts)


def again(name, output):
    """How a failure is repeated, and what is left of it."""
    seed = os.environ.get("BRR_TEST_SEED") or "".join(re.findall(r"^seed: (\d+)$", output, re.M)[-1:])
    kept = re.findall(r"^files kept: (.*)$", output, re.M)[-1:]
    return f"again: {f'BRR_TEST_SEED={seed} ' if seed else ''}./dev test -R '^{name}$'" + "".join(f"; files kept: {path}" for path in kept)


class Results:
    """Of all tests; a test that ran again counts as the last time."""

    def __init__(self, paths):
        self.passed, self.failed, self.skipped, self.parts, self.processor_s = 0, {}, [], [], 0.0
        cases = {}
        for path in paths:
            cases.update((case.get("name"), case) for case in xml.etree.ElementTree.parse(path).iter("testcase"))
        for name, case in cases.items():
            self.add(name, case.get("status"), case.findtext("system-out") or "")

    def add(self, name, status, output):
        reasons = reasons_of(output)
        self.processor_s += sum(map(float, re.findall(r"^processor: ([\d.]+) s$", output, re.M)[-1:]))
        wrong = {reason: why for reason in reasons or ([] if status != "notrun" else ["no reason given"]) if (why := objection(reason))}
        if status == "fail":
            self.failed[name] = again(name, output)
        elif wrong:
            self.failed[name] = "; ".join(f"skipped, {reason}, but {why}" for reason, why in wrong.items()) + "; " + again(name, output)
        elif status == "notrun":
            self.skipped += [(name, reason) for reason in reasons[:1]]
        else:
            self.passed += 1
            self.parts += [(name, reason) for reason in reasons]


def main():
    if sys.argv[1] == "--failed":
        names = Results(sys.argv[2:]).failed
        print(f"^({'|'.join(names)})$" if names else "", end="")
        return 0
    r = Results(sys.argv[1:])
    for name, what in r.failed.items():
        print(f"failed: {name}: {what}")
    tally("skipped tests", r.skipped)
    tally("skipped parts of tests", r.parts)
    listed = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "skipped.txt")
    write_list(listed, r.skipped, r.parts)
    if r.skipped or r.parts:
        print(f"each skip with its reason: {os.path.relpath(listed)}")
    if r.processor_s >= 1:
        print(f"processor time of the tests: {r.processor_s:.0f} s")
    print(f"{r.passed} passed, {len(r.failed)} failed, {len(r.skipped)} skipped")
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())

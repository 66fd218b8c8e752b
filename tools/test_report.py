#!/usr/bin/env python3
"""The closing lines of `./dev test`, from ctest's JUnit file: every skipped test and skipped part with its class and reason, every failed
test with the command that repeats it, the skips of each class, then "N passed, N failed, N skipped". Exits 1 when a test failed.
A skip names its class, as "skipped: CLASS: REASON" or, where unittest skips a part, "... skipped 'CLASS: REASON'". These count as failures:
a missing package, since `./dev test` has installed it; data that are there; a class that this program does not know; and where CI is set in
the environment, a missing network. The line before the last adds up the processor time of the tests, as tests/with_limit.py printed it.
usage: test_report.py TESTS.xml"""
import collections
import os
import re
import sys
import xml.etree.ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CLASSES = ("package", "data", "rights", "hardware", "network")
# Where data lie in ../shared beside the sources unless the variable says.
DATA = {"BRR_EEG_DIR": "eeg", "BRR_FORMATS_DIR": "formats", "BRR_SONATA_DIR": "sonata", "BRR_SPECTRA_CSV": "data/0.30MB_AuNP_As.csv"}


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
    counts = collections.Counter(reason.partition(": ")[0] for _, reason in skips)
    if counts:
        print(f"{what}: " + ", ".join(f"{counts[kind]} for {kind}" for kind in CLASSES if counts[kind]))


def main():
    passed, failed, skipped, parts, processor_s = 0, {}, [], [], 0.0
    for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        reasons = reasons_of(output)
        processor_s += sum(map(float, re.findall(r"^processor: ([\d.]+) s$", output, re.M)[-1:]))
        wrong = {reason: why for reason in reasons or ([] if status != "notrun" else ["no reason given"]) if (why := objection(reason))}
        if status == "fail":
            failed[name] = ""
        elif wrong:
            failed[name] = "; ".join(f"skipped, {reason}, but {why}" for reason, why in wrong.items())
        elif status == "notrun":
            skipped += [(name, reason) for reason in reasons[:1]]
        else:
            passed += 1
            parts += [(name, reason) for reason in reasons]
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    for name, reason in parts:
        print(f"skipped: {name} (in part): {reason}")
    seed = os.environ.get("BRR_TEST_SEED")
    for name, why in failed.items():
        print(f"failed: {name}{why and ': ' + why}; again: " + (f"BRR_TEST_SEED={seed} " if seed else "") + f"./dev test -R '^{name}$'")
    tally("skipped tests", skipped)
    tally("skipped parts of tests", parts)
    if processor_s >= 1:
        print(f"processor time of the tests: {processor_s:.0f} s")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The closing lines of `./dev test`, from ctest's JUnit file: every failed test with the command that repeats it, every skipped test and
skipped part with its reason, then "N passed, N failed, N skipped". Exits 1 when a test failed; where CI is set in the environment, also
when something was skipped for another reason than hardware or recordings that the machine does not have.
usage: test_report.py TESTS.xml"""
import os
import re
import sys
import xml.etree.ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HARDWARE = ("no GPU", "this CPU has no")
RECORDINGS = "no EEG recordings"


def reasons_of(output):
    """What a test printed as "skipped: REASON", and parts that unittest skipped ("... skipped 'REASON'")."""
    found = re.findall(r"^skipped: (.*)$|\.\.\. skipped ['\"](.*)['\"]$", output, re.M)
    return list(dict.fromkeys(a or b for a, b in found))


def may_skip(reason):
    if reason.startswith(RECORDINGS):
        return not os.path.isdir(os.environ.get("BRR_EEG_DIR") or os.path.join(ROOT, "..", "shared", "eeg"))
    return reason.startswith(HARDWARE)


def main():
    counts = {"run": 0, "fail": 0, "notrun": 0}
    failed, skipped = [], []
    for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
        name, status = case.get("name"), case.get("status")
        reasons = reasons_of(case.findtext("system-out") or "")
        counts[status] += 1
        if status == "fail":
            failed.append(name)
        elif status == "notrun":
            skipped += [(name, reason) for reason in reasons or ["no reason given"]]
        else:
            skipped += [(f"{name} (in part)", reason) for reason in reasons]
    refused = [row for row in skipped if os.environ.get("CI") and not may_skip(row[1])]
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}" + (" [CI does not accept this]" if (name, reason) in refused else ""))
    seed = os.environ.get("BRR_TEST_SEED")
    for name in failed:
        print(f"failed: {name}; again: " + (f"BRR_TEST_SEED={seed} " if seed else "") + f"./dev test -R '^{name}$'")
    print(f"{counts['run']} passed, {counts['fail']} failed, {counts['notrun']} skipped")
    return 1 if failed or refused else 0


if __name__ == "__main__":
    sys.exit(main())

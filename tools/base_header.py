#!/usr/bin/env python3
"""Replace the includes of standard headers and of base's small headers by base/base.h, in the files named or in all files that may use it.
A second run changes nothing. A .c file whose own header includes base/base.h needs no line; run the script on both."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ("lib/", "daemon/", "client/", "tools/", "tests/unit/", "tests/ops/", "tests/kinds/")
# Installed, or compiled by the programs of users.
OUTSIDE = ("client/brr.h", "client/scan/brr_scan.h", "client/detector/brr_detector.h", "client/burst/brr_burst.h", "client/examples/", "client/erlang/")
BASE = '#include "base/base.h"'
LINE = re.compile(r'#include (?:<([^>]+)>|"([^"]+)")\s*$')


def replaced():
    """The names that base/base.h includes."""
    with open(os.path.join(ROOT, "base/base.h"), encoding="utf-8") as file:
        return {match.group(1) or match.group(2) for match in map(LINE.match, file) if match}


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def gives_base(lines, path):
    """Whether the file's own header, or the header of all unit tests, includes base/base.h."""
    stem = os.path.splitext(os.path.basename(path))[0]
    for line in lines:
        match = LINE.match(line)
        name = match and match.group(2)
        if not name or os.path.splitext(os.path.basename(name))[0] not in (stem, "cmocka_all") or path.endswith(".h"):
            continue
        for folder in ("", "lib", "tests", os.path.dirname(path)):
            header = os.path.join(ROOT, folder, name)
            if os.path.isfile(header):
                return BASE in text_of(header)
    return False


def rewrite(path, names):
    """Whether the file had to change. A test takes cmocka by unit/cmocka_all.h, which includes base/base.h."""
    text = text_of(os.path.join(ROOT, path))
    before = text
    if path.startswith("tests/") and path != "tests/unit/cmocka_all.h" and "#include <cmocka.h>\n" in text:
        block = '#include "unit/cmocka_all.h"\n'
        text = text.replace("#include <setjmp.h>\n", "").replace(BASE + "\n", block if block not in text else "")
        text = text.replace("#include <cmocka.h>\n", "" if block in text else block)
    lines = text.split("\n")
    depth, drop, quoted, has = 0, [], [], False
    for at, line in enumerate(lines):
        if re.match(r"\s*#\s*if", line):
            depth += 1
        elif re.match(r"\s*#\s*endif", line):
            depth -= 1
        match = LINE.match(line) if depth == 0 else None
        has |= line == BASE
        if match and (match.group(1) or match.group(2)) in names:
            drop.append(at)
        elif match and match.group(2):
            quoted.append(at)
    given = gives_base(lines, path)
    if has and given:
        drop.append(lines.index(BASE))
    if not drop and text == before:
        return False
    stem = os.path.splitext(os.path.basename(path))[0]
    others = [at for at in quoted if os.path.splitext(os.path.basename(LINE.match(lines[at]).group(2)))[0] != stem]
    if drop and not has and not given:
        inside = [at for at in drop if lines[at].startswith('#include "')]
        at = (inside or others or drop)[0]
        lines[at] = BASE + ("\n" + lines[at] if at not in drop else "")
        drop = [other for other in drop if other != at]
    for at in sorted(drop, reverse=True):
        del lines[at]
        if 0 < at < len(lines) and not lines[at - 1].strip() and not lines[at].strip():
            del lines[at]
    with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
        file.write("\n".join(lines).lstrip("\n"))
    return True


def main():
    named = [os.path.relpath(os.path.abspath(path), ROOT) for path in sys.argv[1:]]
    os.chdir(ROOT)
    every = subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True).stdout.split()
    files = [path for path in named or every if path.startswith(ROOMS) and path.endswith((".c", ".h")) and not path.startswith(OUTSIDE)]
    files = [path for path in files if os.path.isfile(path)]
    changed = [path for path in sorted(files, key=lambda path: not path.endswith(".h")) if rewrite(path, replaced())]  # headers first
    for some in range(0, len(changed), 50):
        subprocess.run(["clang-format", "-i", *changed[some:some + 50]], check=True)
    print(f"base/base.h: {len(changed)} files changed")


if __name__ == "__main__":
    main()

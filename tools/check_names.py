#!/usr/bin/env python3
"""Check that names of the product stay few: no static function's name in three files or more, no name that is both a struct and a
function. tools/names.txt lists those of old, with how many files have each; the list may only shrink. --shrink writes it again when
names have gone."""
import collections
import os
import re
import subprocess
import sys

LIST = "tools/names.txt"
PRODUCT = ("base/", "lib/", "kernels/", "daemon/", "client/", "tools/")
STATIC = re.compile(r"^static (?:inline )?[A-Za-z_][\w \t*]*?[ *](\w+)\(", re.M)
FUNCTION = re.compile(r"^(?!typedef|return|else)[A-Za-z_][\w \t*]*?[ *](\w+)\((?:[^;{}()]|\([^()]*\))*\)\s*[{;]", re.M)
STRUCT = re.compile(r"^struct (\w+) \{", re.M)
WHAT = {"static": "is a static function of {n} files; give it its module's word, or put it where all of them find it",
        "both": "is a struct and a function; name the function by its verb"}


def names():
    """(kind, name) -> number of files."""
    statics, functions, structs = collections.defaultdict(set), set(), set()
    for path in subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True).stdout.split():
        if not path.startswith(PRODUCT) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as file:
            code = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        functions.update(FUNCTION.findall(code))
        structs.update(STRUCT.findall(code))
        for name in STATIC.findall(code):
            statics[name].add(path)
    found = {("static", name): len(paths) for name, paths in statics.items() if len(paths) >= 3}
    return found | {("both", name): 1 for name in structs & (functions | set(statics))}


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(LIST, encoding="utf-8") as file:
        allowed = {(kind, name): int(n) for kind, name, n in (line.split() for line in file)}
    found = names()
    new = sorted((kind, name, n) for (kind, name), n in found.items() if n > allowed.get((kind, name), 0))
    if "--shrink" in sys.argv[1:]:
        with open(LIST, "w", encoding="utf-8") as file:
            file.writelines(f"{kind} {name} {min(found[kind, name], n)}\n" for (kind, name), n in sorted(allowed.items()) if (kind, name) in found)
    for kind, name, n in new:
        print(f"names: {name} {WHAT[kind].format(n=n)}; {LIST} allows {allowed.get((kind, name), 'none')}")
    if not new:
        print(f"names: {len(found)} of old, {sum(allowed.values()) - sum(found.values())} uses fewer than {LIST} allows")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())

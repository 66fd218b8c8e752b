#!/usr/bin/env python3
"""Count files and lines by room: what a newcomer has to read. Prints a table of the product's folders and of the tests; with --check,
exits 1 when a room is above its limits."""
import argparse
import collections
import os
import subprocess

ROOM_FILES, ROOM_LINES = 60, 7500
ENDINGS = (".c", ".h", ".cu", ".cuh", ".cc", ".def")
PRODUCT = ("base", "lib", "kernels", "daemon", "client", "tools")


def room_of(path):
    return os.path.dirname(path) if path.split("/")[0] in PRODUCT else "/".join(path.split("/")[:-1][:2])


def count():
    """Room -> [files, lines], for the product and for the tests."""
    product, tests = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
    for path in subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split():
        top = path.split("/")[0]
        into = product if top in PRODUCT and path.endswith(ENDINGS) else tests if top == "tests" and path.endswith(ENDINGS + (".py",)) else None
        if into is not None and os.path.isfile(path):
            room = into[room_of(path)]
            room[0] += 1
            with open(path, "rb") as file:
                room[1] += file.read().count(b"\n")
    return product, tests


def show(title, rooms):
    print(f"{title:24} {'files':>6} {'lines':>8}")
    for name, (files, lines) in sorted(rooms.items()):
        print(f"  {name:22} {files:6} {lines:8,}")
    print(f"  {'all':22} {sum(r[0] for r in rooms.values()):6} {sum(r[1] for r in rooms.values()):8,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when a room is above its limits")
    check = parser.parse_args().check
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    product, tests = count()
    if not check:
        show("product", product)
        show("tests", tests)
    wide = [f"{name}: {files} files, {lines:,} lines; at most {ROOM_FILES} and {ROOM_LINES:,}" for name, (files, lines) in
            sorted(product.items()) if files > ROOM_FILES or lines > ROOM_LINES]
    print("\n".join(f"too wide: {line}" for line in wide) or "rooms: none is above its limits")
    return 1 if check and wide else 0


if __name__ == "__main__":
    raise SystemExit(main())

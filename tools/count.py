#!/usr/bin/env python3
"""Count what a newcomer has to read: files and lines by room, functions, structs and their members, and lines above 120 columns. Prints
tables of the product and of the tests. With --check, exits 1 when a room is above its limits; with --ratchet, when a number is above
the one in tools/ratchet.json, which only falls. --write puts today's numbers there; a commit that raises one says what it costs."""
import argparse
import collections
import json
import os
import re
import subprocess

from check_source import functions, strip

ROOM_FILES, ROOM_LINES, COLUMNS, LARGEST = 60, 7500, 120, 12
C_ENDINGS = (".c", ".h", ".cu", ".cuh", ".cc", ".def")
PRODUCT = ("base", "lib", "proto", "kernels", "daemon", "client", "tools")
RATCHET = "tools/ratchet.json"
STRUCT = re.compile(r"^(?:typedef )?struct (\w+)\s*\{", re.M)


def room_of(path):
    return os.path.dirname(path) if path.split("/")[0] in PRODUCT else "/".join(path.split("/")[:-1][:2])


def is_product(path):
    top = path.split("/")[0]
    return top in PRODUCT and path.endswith(C_ENDINGS + (".js", ".css", ".sh")) or top in ("client", "tools") and path.endswith(".py")


def members(body):
    """How many members a struct's body declares; those of structs within it count as well."""
    body = re.sub(r"\[[^\]]*\]|\([^()]*\)|\{(?=[^{}]*=)[^{}]*\}", "", body)
    return sum(part.count(",") + 1 for part in body.replace("{", ";").split(";") if re.search(r"\w\s+[\w*]|\*\w|^\s*\}\s*\w", part) and not
               re.match(r"\s*(enum|struct|union)(\s+\w+)?\s*$", part))


def structs(code):
    for match in STRUCT.finditer(code):
        depth, at = 1, match.end()
        while depth and at < len(code):
            depth += (code[at] == "{") - (code[at] == "}")
            at += 1
        yield match.group(1), members(code[match.end():at - 1])


class Count:
    def __init__(self):
        self.product, self.tests = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
        self.functions = self.long_lines = self.c_lines = 0
        self.structs = []
        for path in subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split():
            if not os.path.isfile(path):
                continue
            if is_product(path):
                self.add(path)
            elif path.startswith("tests/") and path.endswith(C_ENDINGS + (".py",)):
                self.lines(self.tests, path)

    def lines(self, rooms, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        rooms[room_of(path)][0] += 1
        rooms[room_of(path)][1] += text.count("\n")
        return text

    def add(self, path):
        text = self.lines(self.product, path)
        if not path.endswith(C_ENDINGS):
            return
        self.c_lines += text.count("\n")
        self.long_lines += sum(len(line) > COLUMNS for line in text.split("\n"))
        code = strip(text)
        self.functions += sum(1 for _ in functions(code))
        self.structs += [(count, f"{name} ({path})") for name, count in structs(code)]

    def numbers(self):
        """What only falls."""
        return {"lines": sum(room[1] for room in self.product.values()), "functions": self.functions, "structs": len(self.structs),
                f"lines above {COLUMNS} columns": self.long_lines,
                "members of the largest structs": {name: count for count, name in sorted(self.structs, reverse=True)[:LARGEST]},
                "files of a test folder": {name: room[0] for name, room in sorted(self.tests.items())}}


def show(title, rooms):
    print(f"{title:24} {'files':>6} {'lines':>8}")
    for name, (files, lines) in sorted(rooms.items()):
        print(f"  {name:22} {files:6} {lines:8,}")
    print(f"  {'all':22} {sum(r[0] for r in rooms.values()):6} {sum(r[1] for r in rooms.values()):8,}")


def risen(now, allowed):
    """The numbers above those allowed. A struct or a folder without a number may have as many as the smallest that has one, a new one
    beyond that is named too."""
    for name, value in now.items():
        if not isinstance(value, dict):
            if value > allowed[name]:
                yield f"{name}: {value:,}; at most {allowed[name]:,}"
            continue
        least = min(allowed[name].values(), default=0)
        for part, count in value.items():
            if count > allowed[name].get(part, least):
                yield f"{name}: {part} has {count}; at most {allowed[name].get(part, least)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when a room is above its limits")
    parser.add_argument("--ratchet", action="store_true", help=f"exit 1 when a number is above that of {RATCHET}")
    parser.add_argument("--write", action="store_true", help=f"write today's numbers into {RATCHET}")
    arguments = parser.parse_args()
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    count = Count()
    now, bad = count.numbers(), []
    if not (arguments.check or arguments.ratchet or arguments.write):
        show("product", count.product)
        show("tests", count.tests)
        print(f"product: {count.c_lines:,} lines of C and CUDA, {count.long_lines:,} of them above {COLUMNS} columns; "
              f"{count.functions:,} functions, {len(count.structs):,} structs")
        print("largest structs: " + ", ".join(f"{name} {members}" for name, members in now["members of the largest structs"].items()))
    if arguments.write:
        with open(RATCHET, "w", encoding="utf-8") as file:
            json.dump(now, file, indent=1)
            file.write("\n")
    if arguments.ratchet:
        with open(RATCHET, encoding="utf-8") as file:
            bad += [f"ratchet: {line} ({RATCHET}: remove as much elsewhere, or say in the commit what it costs and count --write)" for line in
                    risen(now, json.load(file))]
    if not arguments.ratchet:
        bad += [f"too wide: {name}: {files} files, {lines:,} lines; at most {ROOM_FILES} and {ROOM_LINES:,}" for name, (files, lines) in
                sorted(count.product.items()) if files > ROOM_FILES or lines > ROOM_LINES]
    print("\n".join(bad) or ("ratchet: no number has risen" if arguments.ratchet else "rooms: none is above its limits"))
    return 1 if bad and (arguments.check or arguments.ratchet) else 0


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/env python3
"""Check the measurable house rules: file, function and parameter-list lengths, banned functions, banned file names,
words that announce unfinished work, skipped tests without a reason, conflicts that a merge left behind, the number of `if (!rc)` ladders."""
import os
import glob
import re
import subprocess
import sys

FILE_LINES, FUNCTION_LINES, PARAMETERS, CELL_WORDS = 800, 120, 6, 45
# Lines with `if (!rc` in the product. Only ever lower it: new code returns early and owns by scope (base/cleanup.h).
MOST_LADDERS = 111
PRODUCT = ("base/", "lib/", "kernels/", "daemon/", "client/", "tools/")
LADDER = re.compile(r"\bif \(!rc\b")
# Callbacks of third-party libraries whose signature is not ours.
FOREIGN_SIGNATURES = {"on_request"}
# Inner loops compiled once per instruction set, and device code: operands are parameters, so that they stay in registers.
INNER_LOOPS = ("_body.h", ".cu", ".cuh")
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atof|gets)\s*\(")
EXITS = re.compile(r"\b(exit|_exit|abort|longjmp)\s*\(")
SILENT_SKIP = re.compile(r"\bskip\(\)")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|^(<{7} |={7}$|>{7} )", re.M)
BAD_NAMES = re.compile(r"(^|/)(util|utils|misc|common|helpers?)\.(c|h|cu|cuh|py)$")
FUNCTION = re.compile(r"^[A-Za-z_][\w\s\*]*?\b(\w+)\s*\(([^;{}]*)\)\s*(?:__attribute__\(\(.*\)\)\s*)?\{", re.S | re.M)


def strip(text, texts=" "):
    """Blank out comments and strings, keeping line numbers; texts: what stands for each character of a string."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", texts if m.group(0)[0] in "\"'" else " ", m.group(0)), text, flags=re.S)


def parameters(text):
    depth, count = 0, 1 if text.strip() not in ("", "void") else 0
    for c in text:
        depth += c in "([" 
        depth -= c in ")]"
        count += c == "," and depth == 0
    return count


def functions(code):
    for m in FUNCTION.finditer(code):
        if m.group(1) in ("if", "for", "while", "switch", "return", "sizeof"):
            continue
        start = code.count("\n", 0, m.start()) + 1
        depth, i = 1, m.end()
        while depth and i < len(code):
            depth += (code[i] == "{") - (code[i] == "}")
            i += 1
        yield m.group(1), m.group(2), start, code.count("\n", 0, i) + 1 - start + 1


OWNED = re.compile(r"\bOWNED\(\w+\)\s+[\w ]+\*?\b(\w+);")


def owned_too_early(path, code):
    """A variable that its scope frees must have a value before the first return behind its declaration."""
    for m in OWNED.finditer(code):
        rest = code[m.end() :]
        left, given = re.search(r"\breturn\b", rest), re.search(rf"(&|\b){m.group(1)}\b", rest)
        if left and (not given or left.start() < given.start()):
            yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {m.group(1)} is freed at a return before it has a value"


HTML_UNKNOWN = re.compile(r"%(?!s|d|lld|zu|\.[\d*]f|%).{0,4}")


def unknown_to_html(path, text, code):
    """html_put (daemon/page/html.h) knows a few specifications of printf; another one shifts its arguments."""
    for m in re.finditer(r"\bhtml_put\(", code):
        depth, end = 1, m.end()
        while depth and end < len(code):
            depth += (code[end] in "{([") - (code[end] in "})]")
            end += 1
        for literal in re.findall(r'"((?:\\.|[^"\\\n])*)"', text[m.end():end]):
            for spec in HTML_UNKNOWN.findall(literal.replace("%%", "")):
                yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: html_put() does not know '{spec}'"


def check(path):
    if BAD_NAMES.search(path):
        yield f"{path}: a file is named after what it holds"
    text = open(path, encoding="utf-8").read()
    lines = text.count("\n")
    if path.endswith((".c", ".h", ".cu", ".cuh", ".py")) and lines > FILE_LINES:
        yield f"{path}: {lines} lines; at most {FILE_LINES}"
    for m in UNFINISHED.finditer(text):
        if path != "tools/check_source.py":
            yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: '{m.group(0)}' announces unfinished work"
    if not path.endswith((".c", ".h", ".cu", ".cuh")):
        return
    code = strip(text)
    library = path.startswith(("base/", "lib/", "kernels/", "client/")) and not path.startswith(("client/brrctl/", "client/examples/"))
    ends = path == "base/needed.h"  # for programs: no library may include it
    if library and '#include "base/needed.h"' in text:
        yield f"{path}: base/needed.h ends the process: it is for brrctl and tools"
    for pattern, allowed in ((BANNED, False), (EXITS, ends or not library)):
        for m in pattern.finditer(code):
            if not allowed:
                yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {m.group(1)}() is banned here"
    for m in SILENT_SKIP.finditer(code):
        if path.startswith("tests/") and path != "tests/skip.h":
            yield f"{path}:{code.count(chr(10), 0, m.start()) + 1}: skip() without a reason; use skip_because() of tests/skip.h"
    yield from owned_too_early(path, code)
    yield from unknown_to_html(path, text, code)
    for name, arguments, start, length in functions(code):
        if length > FUNCTION_LINES:
            yield f"{path}:{start}: {name}() has {length} lines; at most {FUNCTION_LINES}"
        product = path.startswith(("base/", "lib/", "kernels/", "client/", "daemon/")) and not path.endswith(INNER_LOOPS)
        count = parameters(arguments) - bool(re.search(r"struct err \*\w+\s*$", arguments))
        if product and count > PARAMETERS and name not in FOREIGN_SIGNATURES:
            yield f"{path}:{start}: {name}() takes {count} parameters besides err; at most {PARAMETERS}"


def check_cells(path):
    """Somebody reads this page while something is broken."""
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        for cell in re.split(r"(?<!\\)\|", line) if line.startswith("|") else ():
            if len(cell.split()) > CELL_WORDS:
                yield f"{path}:{number}: a table cell of {len(cell.split())} words; at most {CELL_WORDS}, the rest below the table"


ENUM = re.compile(r"\benum\s*\w*\s*\{([^{}]*)\}")
TABLE = re.compile(r"\bconst\b[^;{}()=]*?\[(\w*)\](?:\[\w*\])*\s*=\s*\{|\}\s*(?:const\s+)?\w+\[(\w*)\]\s*=\s*\{")


def parts(code, start):
    """The initialisers between the brace that ends before `start` and its partner."""
    depth, part, found = 1, "", []
    for c in code[start:]:
        depth += (c in "{([") - (c in "})]")
        if depth == 0 or (depth == 1 and c == ","):
            found += [part.strip()] if part.strip() else []
            part = ""
        else:
            part += c
        if depth == 0:
            return found
    return []


def enums(code):
    """Lists of (constant, value) of a file's enums; the value of a constant whose expression is no number is None."""
    for m in ENUM.finditer(code):
        constants, value = [], -1
        for item in parts("{" + m.group(1) + "}", 1):
            name, _, given = item.partition("=")
            given = given.strip()
            value = int(given, 0) if re.fullmatch(r"-?(0|[1-9]\d*|0x[0-9a-fA-F]+)", given) else None if given or value is None else value + 1
            constants.append((name.strip(), value))
        yield constants


def check_tables(files):
    """A table by an enum has an initialiser for each constant: a text that lacks is a NULL that somebody prints."""
    codes = {f: re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", strip(open(f, encoding="utf-8").read(), "_"), flags=re.M)
             for f in files if f.startswith(PRODUCT) and f.endswith((".c", ".h")) and os.path.exists(f)}
    everywhere = {name: e for f, code in codes.items() if f.endswith(".h") for e in enums(code) for name, _ in e}
    for f, code in codes.items():
        known = {**everywhere, **{name: e for e in enums(code) for name, _ in e}}
        for m in TABLE.finditer(code):
            size, entries = m.group(1) or m.group(2), parts(code, m.end())
            named = [re.match(r"\[(\w+)\]\s*=", e) for e in entries]
            names = [n.group(1) for n in named if n]
            enum = known.get(size) or (known.get(names[0]) if names else None)
            if not enum or entries in (["0"], ["NULL"], ["false"], ["{0}"], ["NAN"]) or not (size or names):
                continue
            place = f"{f}:{code.count(chr(10), 0, m.start()) + 1}"
            values = dict(enum)
            if names and len(names) == len(entries) and set(names) <= set(values):
                end = values[size] if size in values else max(values[n] for n in names) + 1
                last = enum[-1][0]
                lacking = [n for n, v in enum if n not in names and n != size and v is not None and (v < end or not size and n != last)]
                if lacking:
                    yield f"{place}: the table lacks {', '.join(lacking)}: each constant of its enum has an initialiser"
            elif not names and values.get(size) is not None and len(entries) < values[size]:
                yield f"{place}: the table has {len(entries)} of {values[size]} initialisers ({size})"


def check_ladders(files):
    """One ceiling for the whole product."""
    files = [f for f in files if f.startswith(PRODUCT) and f.endswith((".c", ".h", ".cu", ".cuh")) and os.path.exists(f)]
    lines = sum(len(LADDER.findall(strip(open(f, encoding="utf-8").read()))) for f in files)
    if lines > MOST_LADDERS:
        yield (f"{lines} lines with 'if (!rc' in {', '.join(PRODUCT)}; at most {MOST_LADDERS}: "
               "write 'if ((rc = f(…, err))) return rc;' with OWNED of base/cleanup.h")


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    patterns = ["*.c", "*.h", "*.cu", "*.cuh", "*.py", "dev", "*.sh", "*.cmake", "*.yaml", "*.proto", "*.md"]
    files = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True).stdout.split()
    problems = [p for f in files if os.path.exists(f) for p in check(f)]
    problems += [*check_ladders(files), *check_tables(files), *(p for page in sorted(glob.glob("docs/*.md")) for p in check_cells(page))]
    print("\n".join(problems) or f"source rules: {len(files)} files keep to them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

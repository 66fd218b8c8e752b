#!/usr/bin/env python3
"""Every CUDA kernel, for every architecture that is built, as ptxas reports it: none spills or keeps anything in local memory, none
needs more shared memory than a launch has without asking for more, and a block's registers fit a multiprocessor, for the block that
kernels/cuda launches. The reports are those of the build where it has CUDA. (The scan kernels keep their states in registers: they spill
first.) Skips (77) where there is no nvcc."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("BRR_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("BRR_BUILD_DIR") or SOURCE / "build")
CUDA = SOURCE / "kernels" / "cuda"
ARCHITECTURES = ("80", "90")
MOST_SHARED, MOST_REGISTERS = 48 << 10, 64 << 10  # bytes of a block, registers of a multiprocessor
STACK = {}  # kernel: bytes of local memory it may have, and why


def constants(text):
    """The enum constants of a source, and of the headers beside it that it includes."""
    names = {}
    for header in re.findall(r'#include "kernels/cuda/([\w/]+\.cuh)"', text):
        names.update(constants((CUDA / header).read_text()))
    for body in re.findall(r"\benum(?: \w+)? \{([^}]*)\}", re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)):
        for item in body.split(","):
            name, _, value = item.partition("=")
            if re.fullmatch(r"[\w\s*+<()-]+", value.strip() or "?"):
                try:
                    names[name.strip()] = int(eval(value, {"__builtins__": {}}, names))  # integers and names alone, as matched
                except NameError:
                    pass
    return names


def arguments(text, at):
    """Those of the call whose opening parenthesis stands before `at`."""
    found, depth, start = [], 0, at
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            if depth == 0:
                return found + [text[start:i].strip()]
            depth -= 1
        elif text[i] == "," and depth == 0:
            found.append(text[start:i].strip())
            start = i + 1
    raise ValueError("a call without an end")


def blocks_of(text):
    """Per kernel of a source the threads of its largest block and of its bound where it has one, and how it is named in launches."""
    names, launched, bounds, named = constants(text), {}, {}, {}
    for match in re.finditer(r"\bCUDA_LAUNCH\(", text):
        call = arguments(text, match.end())
        name = re.match(r"\(?(\w+)", call[0]).group(1)
        named.setdefault(name, set()).add(call[0])
        launched[name] = max(launched.get(name, 0), int(eval(call[2], {"__builtins__": {}}, names)))
    for bound, name in re.findall(r"__launch_bounds__\(([\w *]+)[^)]*\)\s+(\w+)\(", text):
        bounds[name] = int(eval(bound, {"__builtins__": {}}, names))
    for name in re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", text):
        named.setdefault(name, set())
    return launched, bounds, named


def compile_one(nvcc, path, folder):
    """What ptxas says of a source: as the build has it, else of a compilation of its own."""
    built = BUILD / "cuda" / path.stem / f"{path.stem}.ptxas"
    if built.exists() and (BUILD / "cuda" / f"{path.stem}.o").exists():
        return built.read_text(), 0
    generated = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    run = subprocess.run([nvcc, "-std=c++20", "-O3", "-D_GNU_SOURCE", "-fatbin", *generated, "-Xptxas", "-v", f"-I{SOURCE}",
                          f"-I{SOURCE}/lib", str(path), "-o", f"{folder}/{path.stem}.fatbin"], capture_output=True, text=True)
    return run.stderr, run.returncode


def plain_name(symbol):
    """Of a function in no namespace: _Z20scan_backward_kernelILi32E… → scan_backward_kernel."""
    length = re.match(r"_ZL?(\d+)", symbol)
    return symbol[length.end():][: int(length.group(1))] if length else symbol


def complaints(report, threads):
    """What is wrong with one kernel, as ptxas tells of it; and the line to print."""
    stack, stores, loads = map(int, re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                                              report).groups())
    registers = int(re.search(r"Used (\d+) registers", report).group(1))
    shared = int((re.search(r"(\d+) bytes smem", report) or [0, 0])[1])
    taken = (registers + 7) // 8 * 8 * threads
    line = f"{registers} registers in {threads} threads, {shared} bytes of shared memory, {stack} of stack, {stores + loads} spilled"
    found = []
    if stores or loads:
        found.append("spills")
    if shared > MOST_SHARED:
        found.append("needs more shared memory than a launch has")
    if threads > 1024:
        found.append(f"does not launch: a block has {threads} threads")
    if taken > MOST_REGISTERS:
        found.append(f"does not launch: a block takes {taken} of {MOST_REGISTERS} registers")
    return stack, found, line


def check(path, stderr):
    """Problems of one source."""
    launched, bounds, named = blocks_of(path.read_text())
    problems, seen = [], {(arch, name): 0 for arch in ARCHITECTURES for name in named}
    for name, bound in bounds.items():
        if launched.get(name, 0) > bound:
            problems.append(f"{path.name}: {name} is launched with {launched[name]} threads and bound to {bound}")
    for symbol, arch, report in re.findall(r"entry function '(\w+)' for 'sm_(\d+)'(.*?Used [^\n]*)", stderr, re.S):
        name = plain_name(symbol)
        stack, found, line = complaints(report, launched.get(name, 1024))
        if stack > STACK.get(name, 0):
            found.append(f"keeps {stack} bytes in local memory")
        print(f"sm_{arch} {path.stem}: {symbol}: {line}")
        seen[arch, name] = seen.get((arch, name), 0) + 1
        problems += [f"sm_{arch} {symbol} {what}" for what in found]
    for (arch, name), count in seen.items():
        launches = len(named.get(name, ()))  # a launch within a template or a macro stands for several kernels
        if not launches or count < launches:
            problems.append(f"sm_{arch} {path.name}: {name}: {count} kernels were reported, {launches} are launched")
    return problems, sum(seen.values())


def main():
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        print("skipped: hardware: no GPU compiler (nvcc)")
        return 77
    paths = [p for p in CUDA.rglob("*.cu") if "__global__" in p.read_text()]
    paths.sort(key=lambda p: not p.stem.startswith("scan_"))  # those that take long first
    problems, count = [], 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, (stderr, failed) in zip(paths, pool.map(lambda p: compile_one(nvcc, p, folder), paths)):
            if failed:
                print(stderr)
                return 1
            found, seen = check(path, stderr)
            problems += found
            count += seen
    if not count:
        problems.append("no kernel was reported")
    print("\n".join(problems) or f"{count} kernels fit")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

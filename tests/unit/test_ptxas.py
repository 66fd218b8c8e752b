#!/usr/bin/env python3
"""The scan kernels keep their states in registers: ptxas reports no spills and no stack, for every architecture that is built.
Skips (77) where there is no nvcc."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("BRR_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES, ARCHITECTURES = ("scan_forward", "scan_backward"), ("sm_80", "sm_90")
KERNELS = 6  # three widths of the state, forward and backward


def main():
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        print("skipped: no nvcc")
        return 77
    problems, seen = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            for arch in ARCHITECTURES:
                command = [nvcc, "-std=c++20", "-O3", f"-arch={arch}", "-cubin", "-Xptxas", "-v", f"-I{SOURCE}", f"-I{SOURCE}/lib",
                           f"{SOURCE}/kernels/cuda/{name}.cu", "-o", f"{folder}/{name}.cubin"]
                run = subprocess.run(command, capture_output=True, text=True)
                if run.returncode:
                    print(run.stderr)
                    return 1
                for kernel, report in re.findall(r"entry function '(\w+)'(.*?Used \d+ registers)", run.stderr, re.S):
                    stack, stores, loads = map(int, re.search(
                        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report).groups())
                    registers = int(re.search(r"Used (\d+) registers", report).group(1))
                    print(f"{arch} {kernel}: {registers} registers, {stack} bytes of stack, {stores + loads} bytes spilled")
                    seen += 1
                    if stack or stores or loads:
                        problems.append(f"{arch} {kernel} spills")
    if seen != KERNELS * len(ARCHITECTURES):
        problems.append(f"{seen} kernels were reported, {KERNELS * len(ARCHITECTURES)} expected")
    print("\n".join(problems) or "no spills")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

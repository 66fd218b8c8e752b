#!/usr/bin/env python3
"""check_resources.py FOLDER: what ptxas reports of each kernel in FOLDER/NAME/NAME.ptxas: none spills registers or has memory of its
own outside them, for any architecture, and kernels whose time was counted keep the occupancy that was counted with. Prints a row for
each of those: registers, shared memory, and blocks a multiprocessor."""
import collections
import glob
import os
import re
import sys

# file, kernel: threads of a block, and at least so many blocks at once on a multiprocessor of sm_90
COUNTED = {
    ("ssd", "ssd_forward_kernelILb1E"): (64, 10),  # bf16
    ("ssd", "ssd_forward_kernelILb0E"): (64, 8),
    ("ssd", "ssd_backward_kernel"): (64, 5),
    ("ssd_chunks", "ssd_chunks_kernel"): (128, 5),
    ("ssd_chunks_starts", "chunk_starts_kernel"): (128, 8),
    ("ssd_chunks_backward", "chunk_gradient_kernel"): (128, 4),
    ("depthwise_wide", "forward_kernel"): (128, 4),
    ("depthwise_wide", "backward_kernel"): (128, 3),
    ("layernorm", "layernorm_team"): (128, 5),
    ("rmsnorm", "rms_team_gradient"): (128, 5),
    ("spike", "deliver_kernelILb1EEv"): (256, 6),
    ("spike", "advance_kernel"): (256, 6),
    ("geodesic", "geodesic_kernel"): (256, 2),
    ("spike", "place_kernel"): (1024, 1),  # the largest blocks: with more than 64 registers a launch fails
    ("windows", "windows_kernel"): (512, 2),
}
# of a multiprocessor: bytes of shared memory, of which a block takes 1024 beside its own, and warps
LIMITS = {"sm_80": (164 << 10, 64), "sm_90": (228 << 10, 64)}
REGISTERS, BLOCKS = 65536, 32

Kernel = collections.namedtuple("Kernel", "file name arch stack spills registers shared")


def kernels(path):
    """ptxas names a kernel, then its stack and spills, then its registers."""
    file, name, arch, memory = os.path.basename(path)[: -len(".ptxas")], None, None, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
                name, arch = found.groups()
            elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
                memory = int(found[1]), int(found[2]) + int(found[3])
            elif (found := re.search(r"Used (\d+) registers", line)) and name:
                shared = re.search(r"(\d+) bytes smem", line)
                yield Kernel(file, name, arch, *memory, int(found[1]), int(shared[1]) if shared else 0)
                name = None


def blocks_at_once(kernel, threads):
    """Registers are handed out to warps in steps of 256, shared memory to blocks."""
    shared, warps = LIMITS[kernel.arch]
    each = -(-threads // 32)
    by_registers = REGISTERS // (-(-kernel.registers * 32 // 256) * 256) // each
    return min(BLOCKS, warps // each, by_registers, shared // (kernel.shared + 1024))


def check_counted(found):
    """What is wrong with the kernels whose time was counted."""
    for (file, name), (threads, least) in COUNTED.items():
        mine = [k for k in found if k.file == file and k.arch == "sm_90" and re.match(rf"_Z\d+{name}(?:I|L|\d)", k.name)]
        if not mine:
            yield f"no report of {name} in {file}"
        for k in mine:
            blocks = blocks_at_once(k, threads)
            print(f"{file} {k.name}: {k.registers} registers, {k.shared} bytes, {blocks} blocks of {threads} threads")
            if blocks < least:
                yield f"{k.name}: {blocks} blocks of {threads} threads a multiprocessor; the count expects {least}"


def main(folder):
    reports = sorted(glob.glob(f"{folder}/*/*.ptxas"))
    found = [k for path in reports for k in kernels(path)]
    wrong = [f"{k.file}: {k.name} for {k.arch}: {k.stack} bytes of stack, {k.spills} bytes of spills; expected none"
             for k in found if k.stack or k.spills]
    wrong += [f"no kernels for {arch}" for arch in LIMITS if not any(k.arch == arch for k in found)]
    wrong += check_counted(found)
    most = max((k.registers for k in found), default=0)
    print("\n".join(wrong) or f"{len(found)} kernels without spills; at most {most} registers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

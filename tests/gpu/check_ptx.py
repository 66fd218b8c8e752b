#!/usr/bin/env python3
"""check_ptx.py FOLDER: the kernels that read and write activations in pieces of 16 bytes do so in the PTX that the build keeps in
FOLDER/NAME/NAME.compute_SM.ptx, for each architecture. What else they touch belongs to a column, a row or a head: few, and F32 but
for the scan of heads, whose outputs neighbouring threads write next to one another.
The kernels of spiking networks fuse no product and flush no subnormal number, as the CPU's do."""
import collections
import glob
import re
import sys

# file, kernel (its template arguments): at least so many 16-byte loads and stores; at most so many narrower loads and stores, of
# 4 bytes if no sizes follow
WIDE = {
    ("eltwise", "eltwise_wide_kernel"): (4, 4, 0, 0),
    ("eltwise", "dropout_wide_kernel"): (1, 1, 2, 0, (4, 8)),  # step and first row of a training's place
    ("eltwise", "dropout_channels"): (4, 4, 2, 0, (4, 8)),
    ("norm", "affine_wide_kernel"): (4, 4, 16, 0),  # scale and shift of each column
    ("norm", "bn_gradient_wide"): (2, 2, 40, 0),  # five constants of each column
    ("layernorm", "layernorm_row_kernel"): (1, 1, 0, 2),  # mean and deviation of the row
    ("layernorm", "layernorm_row_gradient"): (1, 1, 2, 0),
    ("layernorm", "layernorm_team"): (4, 1, 12, 10),  # weights, mean and deviation of the row; sums of each column
    ("rmsnorm", "rms_row_kernel"): (1, 1, 0, 1),
    ("rmsnorm", "rms_row_gradient"): (1, 1, 1, 0),
    ("rmsnorm", "rms_team_gradient"): (6, 2, 7, 5),  # deviation of the row, weights; sums of each column
    ("columns", "columns_wide_kernel"): (2, 0, 16, 2),  # sums of each column
    ("taps", "lay_kernelILb1ELb1E"): (1, 1, 0, 0),
    ("taps", "lay_kernelILb0ELb1E"): (1, 1, 0, 0),
    ("taps", "lay_kernelILb1ELb0E"): (0, 1, 8, 0, (2,)),  # an input whose pieces are not aligned
    ("taps", "lay_edges_kernel"): (1, 1, 0, 0),
    ("depthwise_wide", "forward_kernel"): (2, 4, 8, 0),  # biases
    ("depthwise_wide", "backward_kernel"): (7, 1, 5, 5),  # sums of each tap
    # Scan of heads in bf16 and F32; two tiles in flight at two places. Loads: x, B, C (and dy, states at the starts of tiles).
    # Narrower ones: 16 states before the first token, delta in either type, A, D, bias, a row's length, marks of segments; stored: 16
    # states after the last token, an output for each channel in either type.
    ("ssd", "ssd_forward_kernelILb1ELb1EL4pass0E"): (8, 0, 23, 28, (1, 2, 4)),
    ("ssd", "ssd_forward_kernelILb0ELb1EL4pass0E"): (12, 0, 23, 28, (1, 2, 4)),
    ("ssd", "ssd_forward_kernelILb1ELb1EL4pass1E"): (8, 4, 22, 0, (1, 2, 4)),
    ("ssd", "ssd_forward_kernelILb0ELb1EL4pass1E"): (12, 4, 22, 0, (1, 2, 4)),
    ("ssd", "ssd_forward_kernelILb1ELb1EL4pass2E"): (8, 4, 7, 1, (1, 2, 4)),  # the end of a segment and its decay
    ("ssd", "ssd_forward_kernelILb0ELb1EL4pass2E"): (12, 4, 7, 1, (1, 2, 4)),
    # Chunks by tensor cores: x, B, C, in two places; zeros behind the last token. Narrower: as above; four channels of an output.
    ("ssd_chunks", "ssd_chunks_kernel"): (12, 1, 11, 4, (1, 2, 4, 8)),
    ("ssd", "ssd_backward_kernelILb1ELb1E"): (16, 0, 24, 54, (1, 2, 4)),  # and shares of the sums over channels
    ("ssd", "ssd_backward_kernelILb0ELb1E"): (20, 0, 24, 54, (1, 2, 4)),
    # x, dy, B, C, states; pairs of a row's lanes store dx by 8 bytes; parts of dB and dC. Narrower: delta in either type, A, D, bias,
    # a row's length, marks; delta's gradient in either type, three sums.
    ("ssd_chunks_backward", "chunk_gradient_kernel"): (11, 4, 11, 27, (1, 2, 4, 8)),
}
PILOT = re.compile(r"columns_wide_kernelILb\dELi1E")  # moments: the pilot is an element of each column
ACCESS = re.compile(r"\s*(?:@\S+\s+)?(ld|st)\.(?:volatile\.|relaxed\.\w+\.|weak\.)?global(?:\.\w+)*?(?:\.v([24]))?\.[usbf](8|16|32|64)\s")
INEXACT = re.compile(r"\sfma\.|\.ftz\b|\.approx\b")


def accesses(path):
    """Of each kernel: how many accesses there are of (ld or st, bytes)."""
    kernels, kernel = collections.defaultdict(collections.Counter), None
    with open(path, encoding="utf-8") as f:
        for line in f:
            entry = re.search(r"\.entry (\w+)", line)
            kernel = entry.group(1) if entry else kernel
            found = ACCESS.match(line)
            if found and kernel:
                kernels[kernel][found.group(1), int(found.group(2) or 1) * int(found.group(3)) // 8] += 1
    return kernels


def check(name, counts, rule):
    """What is wrong with a kernel."""
    loads, stores, narrow_loads, narrow_stores, *sizes = rule
    sizes = (*(sizes[0] if sizes else (4,)), 16)
    narrow = {way: sum(n for (w, size), n in counts.items() if w == way and size != 16) for way in ("ld", "st")}
    if counts["ld", 16] < loads or counts["st", 16] < stores:
        yield f"{counts['ld', 16]} loads and {counts['st', 16]} stores of 16 bytes; expected {loads} and {stores} at least"
    if narrow["ld"] > narrow_loads or narrow["st"] > narrow_stores:
        yield f"{narrow['ld']} loads and {narrow['st']} stores of other sizes; expected {narrow_loads} and {narrow_stores} at most"
    if any(size not in sizes for _, size in counts) and not PILOT.search(name):
        yield f"accesses of {sorted({size for _, size in counts})} bytes; expected {sizes}"


def inexact(path):
    """Instructions that give other bits than the CPU kernels."""
    with open(path, encoding="utf-8") as f:
        found = [line.strip() for line in f if INEXACT.search(line)]
    return [f"{path}: {line} fuses or flushes; expected neither: --fmad=false, no -ftz" for line in found]


def main(folder):
    seen = collections.Counter()
    spike = sorted(glob.glob(f"{folder}/spike/spike.compute_*.ptx"))
    wrong = [text for path in spike for text in inexact(path)] + ([] if spike else [f"{folder}: no PTX of spike"])
    for (file, kernel), rule in WIDE.items():
        for path in sorted(glob.glob(f"{folder}/{file}/{file}.compute_*.ptx")):
            for name, counts in accesses(path).items():
                if re.match(rf"_Z\d+{kernel}(?:I|E|\d)", name):
                    seen[file, kernel] += 1
                    wrong += [f"{path}: {name}: {text}" for text in check(name, counts, rule)]
    wrong += [f"{folder}: no PTX of {kernel} in {file}" for file, kernel in WIDE if not seen[file, kernel]]
    print("\n".join(wrong) or f"{sum(seen.values())} kernels access activations in pieces of 16 bytes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

#!/usr/bin/env python3
"""Training from recordings that lie in device memory ends with the same bytes as training from reader threads: on the CPU over several
epochs and a stop, and on a device that computes beside its caller (the emulated one), where micro-batches are also copied ahead. What
does not fit is said, or refused when it was asked for."""
import glob
import hashlib
import os
import subprocess
import sys

from daemon import MINI, SOURCE, make_corpus, temporary, tensors

BUILD = os.environ["BRR_BUILD_DIR"]
DRIVER = os.path.join(BUILD, "tests", "task_driver")
EMULATED = os.path.join(BUILD, "tests", "libbrr_cuda_emulated.so")


def last_model(tmp, name):
    return max(glob.glob(f"{tmp}/{name}/checkpoints/step-????????.safetensors"))


def run(tmp, name, *sets, device="cpu", code=0, memory_mib=1024):
    environment = {**os.environ, "BRR_TEST_DEVICE": device, "BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_MEMORY": str(memory_mib)}
    r = subprocess.run([DRIVER, f"{SOURCE}/configs/tiny.yaml", f"{tmp}/{name}", f"{tmp}/cache", f"data.source=file://{tmp}/eeg", *MINI,
                        "training.precision=fp32", "data.validation_fraction=0", *sets], capture_output=True, text=True, env=environment)
    assert r.returncode == code, r.stdout[-2000:] + r.stderr[-4000:]
    paths = [line.split()[1] for line in r.stdout.splitlines() if line.startswith("checkpoint ")]
    return (hashlib.sha256(open(paths[-1], "rb").read()).hexdigest() if paths else None), r.stderr


def check_cpu(tmp):
    sets = ("training.micro_batch_size=2", "training.max_steps=9")
    read, log = run(tmp, "read", *sets)
    assert "windows are read by" in log, log
    resident, log = run(tmp, "resident", *sets, "data.resident=on")
    assert "resident in device memory" in log, log
    assert resident == read, "resident recordings gave other weights"
    run(tmp, "parts", *sets, "data.resident=on", "stop_after=4")
    rest, _ = run(tmp, "parts", *sets)
    assert rest == read, "going on from readers gave other weights"
    check_changed(tmp, *sets)


def check_changed(tmp, *sets):
    """Windows cut out of columns, and changed at random: the same from memory, from readers, and after a stop."""
    sets += ("data.normalize=envelope", "data.augment.enabled=true", "data.augment.left_pad=0.5")
    read, _ = run(tmp, "changed", *sets)
    assert run(tmp, "changed-resident", *sets, "data.resident=on")[0] == read, "resident columns gave other weights"
    assert run(tmp, "unchanged", *sets, "data.augment.enabled=false")[0] != read
    run(tmp, "changed-parts", *sets, "stop_after=4")
    assert run(tmp, "changed-parts", *sets, "data.resident=on")[0] == read, "going on gave other weights"


def check_emulated(tmp):
    sets = ("data.window_s=8", "training.batch_size=2", "training.micro_batch_size=1", "training.max_steps=3")
    read, log = run(tmp, "e-read", *sets, "data.resident=off", device="cuda:0")
    assert "data.resident is off" in log, log
    resident, log = run(tmp, "e-auto", *sets, device="cuda:0")
    assert "resident in device memory" in log, log
    assert resident == read, "resident recordings gave other weights on the emulated device"
    changed = (*sets, "data.normalize=envelope", "data.augment.enabled=true")
    assert run(tmp, "e-changed", *changed, device="cuda:0")[0] == \
        run(tmp, "e-changed-read", *changed, "data.resident=off", device="cuda:0")[0], "changed windows differ on the emulated device"
    _, log = run(tmp, "e-arriving", *sets, "mirrored=1", device="cuda:0")
    assert "recordings are still arriving; then they will be resident" in log, log
    assert log.index("still arriving") < log.index("recordings are resident in device memory"), log
    assert tensors(last_model(tmp, "e-arriving")) == tensors(last_model(tmp, "e-read")), "resident in mid-training: other weights"
    _, log = run(tmp, "e-small", *sets, "training.max_steps=1", device="cuda:0", memory_mib=2)
    assert "do not fit into device memory" in log, log
    _, log = run(tmp, "e-refused", *sets, "data.resident=on", device="cuda:0", code=1, memory_mib=2)
    assert "data.resident: on" in log and "MiB are left" in log, log


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        check_cpu(tmp)
        if os.path.exists(EMULATED):
            check_emulated(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())

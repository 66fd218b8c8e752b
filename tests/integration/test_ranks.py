#!/usr/bin/env python3
"""A training shared by the ranks of mpirun has the same bits at 1, 2 and 4 ranks, and when it is stopped at 4 and goes on at 2, then 1.
Jobs that ranks cannot share, and ranks that do not find one another, are refused by name. `tiny`, 24 steps, batches of 16 in
micro-batches of 4; by default a smaller network. BRR_TEST_LONG: all of `tiny`, also at 8 ranks, on 1 and 2 nodes of a real Slurm and on 1 and
2 CPU devices of a daemon; a number is the length of its windows in seconds."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import slurm
from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary, tensors
from test_slurm import Jobs

AGAIN, STEPS = 75, 24
LONG = os.environ.get("BRR_TEST_LONG", "")
TREE = ["training.batch_size=16", "training.micro_batch_size=4", "training.reduction=tree", f"training.max_steps={STEPS}",
        "training.validate_every=12", "data.loader_workers=1", "data.balance.hard=0.5"]
SMALL = [key for key in MINI if not key.startswith("training.")]
if LONG:
    SMALL = [f"data.window_s={LONG}", f"data.hop_s={LONG}"] if LONG.isdigit() and int(LONG) > 1 else []


def environment(tmp, **extra):
    return {**os.environ, "XDG_CACHE_HOME": f"{tmp}/cache", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1", **extra}


def command(tmp, ranks, directory, *keys, launch=True):
    sets = [word for key in [f"data.source=file://{tmp}/eeg", *SMALL, *TREE, *keys] for word in ("--set", key)]
    run = [f"{BIN}/brrd", "run", f"{SOURCE}/configs/tiny.yaml", "--directory", f"{tmp}/{directory}", "--json", *sets]
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "-n", str(ranks)]
    return [*mpirun, *run] if launch else run


def run(tmp, ranks, directory, *keys, expected=0, launch=True, **extra):
    r = subprocess.run(command(tmp, ranks, directory, *keys, launch=launch), capture_output=True, text=True, cwd=tmp,
                       env=environment(tmp, **extra))
    assert r.returncode == expected, (ranks, r.returncode, r.stdout[-2000:], r.stderr[-4000:])
    return json.loads(r.stdout.splitlines()[-1]) if not expected else r.stdout + r.stderr


def stop(tmp, ranks, directory):
    """Tells all ranks to stop once the first step is through; their launcher passes the signal on."""
    p = subprocess.Popen(command(tmp, ranks, directory), stdout=subprocess.PIPE, text=True, cwd=tmp, env=environment(tmp))
    told = False
    for line in p.stdout:
        if "first step after" in line and not told:
            p.send_signal(signal.SIGUSR1)
            told = True
    assert p.wait() == AGAIN, p.returncode
    return saved(tmp, directory)


def saved(tmp, directory):
    return max(int(name[5:13]) for _, _, names in os.walk(f"{tmp}/{directory}/checkpoints") for name in names
               if name.endswith(".state.safetensors"))


def result(end):
    return tensors(end["checkpoint"]), end["result"]


def any_number_of_ranks(tmp):
    one = run(tmp, 1, "alone", launch=False)
    for ranks in (2, 4) if not LONG else (1, 2, 4, 8):
        keys = ["training.micro_batch_size=2"] if ranks == 8 else []
        reference = one if not keys else run(tmp, 1, "eighths", *keys, launch=False)
        many = run(tmp, ranks, f"ranks-{ranks}", *keys)
        assert result(many) == result(reference), (many, reference)
        assert not [name for name in os.listdir(f"{tmp}/cache/brrd") if name.startswith("run-")]
    return one


def another_number_of_ranks(tmp, one):
    first = stop(tmp, 4, "moved")
    second = stop(tmp, 2, "moved")
    assert 0 < first < second < STEPS, (first, second)
    end = run(tmp, 1, "moved", launch=False)
    assert result(end) == result(one), (end, one)


def on_nodes(tmp, one):
    """srun: two ranks on one node, and one on each of two."""
    why = slurm.unavailable()
    if why:
        print(f"nodes are left out: {why}")
        return
    with slurm.Cluster(f"{tmp}/slurm") as cluster:
        jobs = Jobs(cluster, tmp, [*SMALL, *TREE])
        jobs.reference = result(one)
        for nodes in (1, 2):
            _, out = jobs.submit(f"nodes-{nodes}", nodes=nodes, tasks=2)
            jobs.check(out, attempts=1)


def on_devices(tmp, one):
    """Devices of one daemon."""
    d = Daemon(tmp, ["devices=[cpu:0, cpu:1]", "devices_cpu_threads=2"]).start()
    for n in (1, 2):
        code, end, err = d.submit(f"data.source=file://{tmp}/eeg", *SMALL, *TREE, f"devices={n}", timeout=PATIENCE)
        assert code == 0, err
        assert result(end) == result(one), (end, one)
    assert d.stop() == 0


def networks(tmp):
    """A network of neurons on three ranks."""
    files = []
    for ranks in (1, 3):
        words = command(tmp, ranks, f"network-{ranks}", launch=ranks > 1)
        begin = words.index("run")
        r = subprocess.run([*words[:begin + 1], f"{SOURCE}/configs/burst.yaml", "--directory", f"{tmp}/network-{ranks}", "--set", "ticks=400"], capture_output=True, text=True, cwd=tmp,
                           env=environment(tmp))
        assert r.returncode == 0, r
        files.append([open(f"{tmp}/network-{ranks}/{name}", "rb").read() for name in ("fired.npy", "rates.tsv")])
    assert files[0] == files[1] and len(files[0][0]) > 1000, "three ranks gave other spikes than one"


def refusals(tmp):
    text = run(tmp, 2, "chain", "training.reduction=chain", expected=1)
    assert "2 ranks need training.reduction: tree" in text, text
    text = run(tmp, 2, "few", "training.micro_batch_size=16", expected=1)
    assert "cannot share batches of 1 micro-batches" in text, text
    text = run(tmp, 1, "moved", "training.reduction=chain", expected=1, launch=False)
    assert "training.reduction: chain (was tree)" in text, text
    text = run(tmp, 1, "odd", "training.batch_size=48", "training.micro_batch_size=16", expected=1, launch=False)
    assert "power of two" in text, text
    text = run(tmp, 1, "lost", expected=1, launch=False, SLURM_STEP_NUM_TASKS="2")
    assert "srun --mpi=pmix" in text, text
    text = run(tmp, 2, "none", expected=1, BRR_MPI_LIBRARY="/proc/nonexistent/libbrr_mpi.so")
    assert "libbrr_mpi.so cannot be loaded" in text, text


def main():
    library = f"{os.environ['BRR_BUILD_DIR']}/lib/libbrr_mpi.so"
    if not shutil.which("mpirun") or not os.path.exists(library):
        print("skipped: package: no mpirun (openmpi-bin), or a build without libopenmpi-dev")
        return 77
    started = time.time()
    with temporary() as tmp:
        os.chmod(tmp, 0o755)
        make_corpus(f"{tmp}/eeg", seed=21, patients=4, hours=0.3 if LONG else 0.12)
        one = any_number_of_ranks(tmp)
        print(f"any number of ranks: {time.time() - started:.1f} s")
        another_number_of_ranks(tmp, one)
        print(f"another number of ranks: {time.time() - started:.1f} s")
        for check in (on_nodes, on_devices) if LONG else ():
            check(tmp, one)
            print(f"{check.__name__}: {time.time() - started:.1f} s, weights {result(one)[0][:12]}", flush=True)
        networks(tmp)
        print(f"networks: {time.time() - started:.1f} s")
        refusals(tmp)
        print(f"refusals: {time.time() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

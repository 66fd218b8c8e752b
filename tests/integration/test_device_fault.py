#!/usr/bin/env python3
"""A fault that takes the device from the process ends the daemon with a code of its own after the job went back to the queue; the next
daemon finishes the job, and resumable streams go on from their snapshots. A driver that is too old is named with the fix, and a machine
without one computes on its CPU. In the precision `auto` a GPU computes in bf16, but in fp32 where the model's bound is exceeded, and says
which. The device is the emulated one."""
import glob
import json
import os
import subprocess
import sys
import time

import stream_fixture
from daemon import MINI, PATIENCE, Daemon, make_corpus, temporary

EMULATED = os.path.join(os.environ["BRR_BUILD_DIR"], "tests", "libbrr_cuda_emulated.so")
DEVICE_LOST = 70


def start(tmp, environment, *sets):
    os.environ.update(environment)
    daemon = Daemon(tmp, sets)
    daemon.start()
    for name in environment:
        os.environ.pop(name)
    return daemon


def check_fault(tmp):
    make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_FAULT": "150"}, "devices=[cuda:0]")
    code, job, err = daemon.submit(f"data.source=file://{tmp}/eeg", *MINI, "training.max_steps=2", "training.precision=fp32",
                                   "limits.restarts=3", watch=False)
    assert code == 0, err
    assert daemon.process.wait(timeout=PATIENCE) == DEVICE_LOST, daemon.read_log()
    assert "cudaErrorIllegalAddress" in daemon.read_log() and "lost" in daemon.read_log(), daemon.read_log()
    daemon = start(tmp, {}, "devices=[cpu]")
    done = daemon.wait(job["job"], lambda j: j["state"] in ("succeeded", "failed"))
    assert done["state"] == "succeeded", done
    assert daemon.stop() == 0


def check_stream(tmp):
    make_corpus(f"{tmp}/eeg", seed=12, patients=2, hours=0.04)
    recording = sorted(glob.glob(f"{tmp}/eeg/**/*.edf", recursive=True))[0]
    daemon = start(tmp, {}, "devices=[cpu]")
    model = stream_fixture.train(daemon, f"{tmp}/eeg")
    assert daemon.stop() == 0
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_FAULT": "600"}, "devices=[cuda:0]")
    stream = stream_fixture.start(daemon, recording, model, "--json", "--realtime", "6")
    try:
        while daemon.process.poll() is None:  # a daemon that gets little of the processors has fewer launches for more windows each
            if stream.poll() is not None:
                assert stream.returncode == 0, stream.communicate()
                stream = stream_fixture.start(daemon, recording, model, "--json", "--realtime", "6")
            time.sleep(0.05)
        assert daemon.process.returncode == DEVICE_LOST, daemon.read_log()
        assert os.listdir(f"{tmp}/results/sessions"), "the stream's snapshot is gone\n" + daemon.read_log()
        daemon = start(tmp, {}, "devices=[cpu]")
        out, err = stream.communicate(timeout=PATIENCE)
    finally:
        stream.kill()
        stream.wait()
    assert stream.returncode == 0, err.decode() + daemon.read_log()[-4000:]
    end = json.loads(out.splitlines()[-1])
    assert end["reconnects"] >= 1 and "streams resumed from snapshots" in daemon.read_log(), (end, daemon.read_log())
    assert daemon.stop() == 0
    check_auto(tmp, recording, model)


def check_auto(tmp, recording, model):
    strict = stream_fixture.with_metadata(model, f"{tmp}/strict.safetensors", lambda pairs: pairs.update({"brr.bf16_bound": "1e-9"}))
    alone = f"{tmp}/one"
    os.makedirs(alone)
    os.link(recording, f"{alone}/{os.path.basename(recording)}")
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED}, "devices=[cuda:0]", "serve_precision=auto")
    for file, precision, words in ((model, "bf16", "in bf16: logits differ from fp32 by at most"),
                                   (strict, "fp32", "in fp32: in bf16 its logits would differ by more than the model allows, 1e-09")):
        with open(f"{tmp}/detect.yaml", "w", encoding="ascii") as f:
            f.write(f"kind: detect\ndata: {{ source: file://{alone} }}\ndetect: {{ model: {file}, precision: auto }}\n")
        code, end, err = daemon.submit(file=f"{tmp}/detect.yaml")
        assert code == 0 and end["result"]["precision"] == precision, (end, err)
        assert words in daemon.ctl("logs", end["job"])[1], daemon.ctl("logs", end["job"])
        assert daemon.ctl("load", "ward", file)[0] == 0
        [served] = [m for m in map(json.loads, daemon.ctl("models", "--json")[1].splitlines()) if m["name"] == "ward"]
        assert served["precision"] == {"fp32": "f32"}.get(precision, precision), served
    assert daemon.stop() == 0


def doctor(daemon):
    code, out, err = daemon.ctl("doctor")
    return code, out + err


def check_drivers(tmp):
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_DRIVER": "0"})
    code, text = doctor(daemon)
    assert code == 0 and "devices: cpu" in text, text
    assert "devices: cpu" in daemon.read_log() and "580" in daemon.read_log(), daemon.read_log()
    assert daemon.stop() == 0
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_DRIVER": "12080"})
    code, text = doctor(daemon)
    assert code != 0 and "serves CUDA 12.8" in text and "install driver 580 or newer" in text, text
    assert daemon.stop() == 0
    environment = {**os.environ, "BRR_CUDA_LIBRARY": EMULATED, "BRR_EMULATED_DRIVER": "12080"}
    refused = Daemon(tmp, ["devices=[cuda:0]"])
    r = subprocess.run(refused.command(), env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and "install driver 580 or newer" in r.stderr, r.stderr
    daemon = start(tmp, {"BRR_CUDA_LIBRARY": EMULATED})
    code, text = doctor(daemon)
    assert code == 0 and "cuda:0: emulated" in text and "cuBLASLt" in text, text
    assert daemon.stop() == 0


def check_library_of_another_build(tmp):
    """Its tables would be read at the wrong places: it is refused in words."""
    other = f"{tmp}/libbrr_cuda.so"
    code = "unsigned long brr_cuda_layout(void) { return 1; } const void *brr_cuda_backend(void) { return brr_cuda_backend; }"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", other, "-"], input=code, text=True, check=True)
    command = Daemon(tmp, ["devices=[cuda:0]"]).command()
    r = subprocess.run(command, env={**os.environ, "BRR_CUDA_LIBRARY": other}, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and "belongs to another build" in r.stderr, r.stderr


def main():
    if not os.path.exists(EMULATED):
        print("skipped: package: no emulated CUDA backend in this build")
        return 77
    with temporary() as tmp:
        check_fault(tmp)
    with temporary() as tmp:
        check_stream(tmp)
    with temporary() as tmp:
        check_drivers(tmp)
    with temporary() as tmp:
        check_library_of_another_build(tmp)
    return 0


if __name__ == "__main__":
    sys.exit(main())

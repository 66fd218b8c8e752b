#!/usr/bin/env python3
"""What a GPU tells of itself reaches people and Prometheus; the energy of a job stands in its record; a GPU with uncorrectable memory
errors gets no new work: what ran writes a checkpoint and waits, the daemon stays and says what to do, and the next one on a sound device
finishes the job. The GPU and its management library are emulated, the library's answers are scripted."""
import glob
import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

from daemon import BIN, MINI, PATIENCE, SOURCE, Daemon, make_corpus, temporary

BUILD = os.environ["BRR_BUILD_DIR"]
EMULATED = os.path.join(BUILD, "tests", "libbrr_cuda_emulated.so")
HEALTHY = {"temperature_c": 61, "power_mw": 312000, "utilization": 97, "memory_total": 1 << 37, "memory_used": 1 << 33, "ecc_corrected": 4,
           "ecc_uncorrected": 0, "rows_pending": 0, "rows_failed": 0, "energy_mj": 100000, "throttle": 4}


class Machine:
    """A daemon on the emulated GPU, whose driver says what `say` was told last."""

    def __init__(self, tmp):
        self.tmp = tmp
        self.script = os.path.join(tmp, "nvml")

    def say(self, **changes):
        with open(self.script + ".new", "w", encoding="utf-8") as f:
            f.writelines(f"{k} {v}\n" for k, v in {**HEALTHY, **changes}.items())
        os.replace(self.script + ".new", self.script)

    def start(self, device="cuda:0"):
        environment = {"BRR_CUDA_LIBRARY": EMULATED, "BRR_FAKE_NVML": self.script, "LD_LIBRARY_PATH": os.path.join(BUILD, "tests", "nvml")}
        os.environ.update(environment)
        daemon = Daemon(self.tmp, [f"devices=[{device}]"])
        daemon.start()
        for name in environment:
            os.environ.pop(name)
        return daemon


def fetch(daemon, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def submit(daemon, tmp, steps):
    """Its id, and what was said. With --watch nothing is measured before it: an emulated GPU is slow."""
    sets = [f"data.source=file://{tmp}/eeg", *MINI, "data.window_s=8", "data.hop_s=4", f"training.max_steps={steps}", "training.precision=fp32"]
    with open(f"{tmp}/submit.log", "w", encoding="utf-8") as log:
        watcher = subprocess.Popen([f"{BIN}/brrctl", "submit", f"{SOURCE}/configs/tiny.yaml", "--watch", "--id-file", f"{tmp}/id",
                                    *(a for s in sets for a in ("--set", s))], env=daemon.env, stdout=log, stderr=log)
    deadline = time.time() + PATIENCE
    while not os.path.exists(f"{tmp}/id"):
        assert watcher.poll() is None and time.time() < deadline
        time.sleep(0.05)
    with open(f"{tmp}/id", encoding="utf-8") as f, open(f"{tmp}/submit.log", encoding="utf-8") as log:
        job, notes = f.read(), log.read()
    os.remove(f"{tmp}/id")
    watcher.kill()
    watcher.wait()
    return job, notes


def check_shown(daemon):
    code, out, err = daemon.ctl("devices", "--json")
    device = json.loads(out)
    assert code == 0 and device["model"] == "Scripted GPU" and device["uuid"] == "GPU-3b" and device["bad"] is None, (device, err)
    assert device["health"]["temperature_celsius"] == 61 and device["health"]["power_watts"] == 312, device
    assert device["health"]["ecc_corrected"] == 4 and device["slowed_by"] == ["power_cap"], device
    assert device["free_bytes"] == (1 << 37) - (1 << 33), device
    assert "61 °C, 312 W, 97 % busy" in daemon.ctl("devices")[1]
    code, out, err = daemon.ctl("doctor")
    assert code == 0 and "device health" in out and "power_cap" in out, out + err
    status, page = fetch(daemon, "/metrics")
    assert status == 200 and 'brrd_gpu_temperature_celsius{gpu="5"} 61' in page, page
    assert 'brrd_gpu_info{gpu="5",uuid="GPU-3b",model_name="Scripted GPU",driver="999.01.02"} 1' in page, page
    assert 'brrd_gpu_clocks_slowed{gpu="5",reason="power_cap"} 1' in page and 'brrd_ready{component="device"} 1' in page, page
    assert "brrd_gpu_errors_total{" not in page, page  # this driver does not tell
    lint = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False)
    assert lint.returncode == 0 and not lint.stdout + lint.stderr, lint.stdout + lint.stderr
    deadline = time.time() + PATIENCE
    while (answer := fetch(daemon, "/readyz")) != (200, "ready\n"):  # it serves calls before it has looked at everything
        assert time.time() < deadline, answer
        time.sleep(0.05)


def serves(daemon):
    """grpc.health.v1 of the daemon: SERVING is 1, NOT_SERVING 2."""
    import grpc
    with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
        return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=PATIENCE) == b"\x08\x01"


def check_energy(machine, daemon):
    job, _ = submit(daemon, machine.tmp, 3)
    daemon.wait(job, lambda j: j["state"] == "running")
    machine.say(energy_mj=137500)
    done = daemon.wait(job, lambda j: j["state"] in ("succeeded", "failed"))
    assert done["state"] == "succeeded" and done["energy_joules"] == 37.5, done
    assert serves(daemon)
    assert 'brrd_job_energy_joules_total{kind="train"} 37.5' in fetch(daemon, "/metrics")[1]
    return job


def check_drained(machine, daemon, model):
    job, _ = submit(daemon, machine.tmp, 30)
    daemon.wait(job, lambda j: j["state"] == "running" and j["step"] > 0)
    machine.say(ecc_uncorrected=1)
    waiting = daemon.wait(job, lambda j: j["state"] == "queued" or j["state"] in ("succeeded", "failed"))
    assert waiting["state"] == "queued" and waiting["checkpoint"], waiting
    assert "device_bad" in waiting["reason"] and "1 uncorrectable memory error" in waiting["reason"], waiting
    second, notes = submit(daemon, machine.tmp, 1)
    assert "takes no new work" in notes, notes
    assert "device_bad" in daemon.job(second)["reason"] and daemon.job(second)["state"] == "queued"
    assert daemon.ctl("cancel", second)[0] == 0
    edf = sorted(glob.glob(f"{machine.tmp}/eeg/**/*.edf", recursive=True))[0]
    code, out, err = daemon.ctl("stream", edf, "--model", f"job:{model}")
    assert code == 4 and "takes no new streams" in err, (code, out, err)
    assert not serves(daemon)
    status, text = fetch(daemon, "/readyz")
    assert status == 503 and "nvidia-smi --gpu-reset" in text, text
    code, out, err = daemon.ctl("doctor")
    assert code == 1 and "FAIL  device health" in out and "nvidia-smi --gpu-reset" in out, out + err
    code, out, err = daemon.ctl("devices")
    assert code == 0 and "takes no new work" in out, out + err
    assert 'brrd_ready{component="device"} 0' in fetch(daemon, "/metrics")[1]
    lines = [line for line in daemon.read_log().splitlines() if "level=error" in line]
    assert len(lines) == 1 and "device=cuda:0" in lines[0] and "uncorrectable memory error" in lines[0] and "fix=" in lines[0], lines
    assert daemon.stop() == 0
    return job


def check_found_bad_at_start(machine, job):
    machine.say(ecc_uncorrected=1, events=1, xid=79)
    daemon = machine.start()
    assert 'brrd_gpu_errors_total{gpu="5",xid="79"} 1' in fetch(daemon, "/metrics")[1]
    waiting = daemon.job(job)
    assert waiting["state"] == "queued" and "device_bad" in waiting["reason"], waiting
    assert daemon.stop() == 0


def check_finished_elsewhere(machine, job):
    with sqlite3.connect(os.path.join(machine.tmp, "jobs.sqlite")) as db:
        for column in ("energy_j", "step", "steps", "epoch", "epochs", "loss"):  # as an earlier version left it
            db.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
    db.close()
    daemon = machine.start("cpu")
    done = daemon.wait(job, lambda j: j["state"] in ("succeeded", "failed"))
    assert done["state"] == "succeeded" and done["energy_joules"] is None, done
    assert "brrd_gpu_temperature_celsius{" not in fetch(daemon, "/metrics")[1]
    code, out, _ = daemon.ctl("doctor")
    assert code == 0 and "device health" not in out, out
    assert daemon.stop() == 0


def main():
    if not os.path.exists(EMULATED):
        print("skipped: package: no emulated CUDA backend in this build")
        return 77
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
        machine = Machine(tmp)
        machine.say()
        daemon = machine.start()
        check_shown(daemon)
        model = check_energy(machine, daemon)
        job = check_drained(machine, daemon, model)
        check_found_bad_at_start(machine, job)
        check_finished_elsewhere(machine, job)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The image of the Dockerfile: built from this build's packages on a bare Debian, it runs without root, network, capabilities and with a
read-only root, says over its socket that it is healthy, streams, stops cleanly and finds its files again. The stage szcore passes the checks
of the challenge. With BRR_TEST_IMAGE=full all of it is built in the container, from the sources, and szcore gets a longer recording too. It needs root (podman with runc and vfs, debootstrap)."""
import glob
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["BRR_SOURCE_DIR"], "tests", "integration"))
import debian  # noqa: E402
from daemon import BIN, PATIENCE, SOURCE, make_corpus, temporary  # noqa: E402

FULL = os.environ.get("BRR_TEST_IMAGE") == "full"
# Limits that no machine's root has to raise for, and no timer of systemd for the health check.
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=1000:1000")
STRICT = (*LIMITS, "--health-interval=disable", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=none")


class Podman:
    def __init__(self, tmp):
        self.command = ["podman", "--root", f"{tmp}/storage", "--runroot", f"{tmp}/run", "--tmpdir", f"{tmp}/tmp", "--runtime", "runc", "--storage-driver", "vfs",
                        "--cgroup-manager", "cgroupfs", "--events-backend", "none"]

    def __call__(self, *words, check=True, timeout=PATIENCE):
        r = subprocess.run([*self.command, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout)
        assert r.returncode == 0 or not check, f"podman {' '.join(words)}\n{r.stdout[-3000:]}{r.stderr[-3000:]}"
        return r.stdout.strip() if check else r

    def inside(self, *words, check=True):
        return self("exec", "bed", *words, check=check)


def build(podman, tmp):
    base = debian.base_archive()
    for tag in ("12", "12-slim"):  # with the PATH that Debian's images have
        podman("import", "-q", "--change", "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", base, f"docker.io/library/debian:{tag}")
    words = ["build", "-q", "--format", "docker", "--layers=false", "--network", "host", "-f", f"{SOURCE}/Dockerfile"]
    context = SOURCE
    if not FULL:
        context = given(f"{tmp}/context")
        words += ["--build-arg", "PACKAGES=given"]
    for tag, target in (("brrd", "runtime"), ("brrd:szcore", "szcore")):
        podman(*words, "--target", target, "-t", tag, context)


def given(context):
    """A folder for the build that has the packages and what the Dockerfile takes beside them."""
    os.makedirs(f"{context}/build/packages")
    for path in glob.glob(f"{debian.packages()}/*.deb"):
        shutil.copy(path, f"{context}/build/packages")
    for folder in ("configs", "deploy/szcore"):
        shutil.copytree(f"{SOURCE}/{folder}", f"{context}/{folder}")
    shutil.copy(f"{SOURCE}/.dockerignore", context)
    return context


def healthy(podman):
    """Waits until the image's own check, over the unix socket, says so."""
    deadline = time.time() + PATIENCE
    while podman("healthcheck", "run", "bed", check=False).returncode:
        running = podman("inspect", "--format", "{{.State.Running}}", "bed")
        assert running == "true" and time.time() < deadline, podman("logs", "bed", check=False)
        time.sleep(0.2)


def check_confined(podman):
    status = podman.inside("cat", "/proc/1/status")
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status, status
    assert podman.inside("id", "-u") == podman.inside("id", "-g") == "900"
    for path in ("/etc/x", "/usr/x", "/data/x", "/tmp/x"):
        r = podman.inside("touch", path, check=False)
        assert r.returncode and "Read-only" in r.stderr + r.stdout, (path, r)
    assert podman.inside("ls", "/sys/class/net").split() == ["lo"]


def check_stream(podman):
    recording = podman.inside("find", "/data", "-name", "*.edf").splitlines()[0]
    podman.inside("brrctl", "stream", recording, "--model", "line_length", "--client", "bed-1", "--probabilities", "/results/p.npy")
    assert int(podman.inside("stat", "-c", "%s", "/results/p.npy")) > 100000


def opened(podman):
    lines = [json.loads(line) for line in podman.inside("brrctl", "journal", "--json").splitlines()]
    return [e for e in lines if e["kind"] == "opened" and e["client"] == "bed-1"]


def stop(podman):
    podman("stop", "--time", "100", "bed")
    assert podman("inspect", "--format", "{{.State.ExitCode}}", "bed") == "0", podman("logs", "bed", check=False)


def check_szcore(podman, recording):
    """The detector's stage, by the rules of the challenge: other users, read-only roots, a kill in the middle."""
    more, kills = ([recording], "2 4") if FULL else ([], "1")
    r = subprocess.run([f"{SOURCE}/tools/check-image", "brrd:szcore", *more], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                       env={**os.environ, "ENGINE": " ".join(podman.command), "RUN_OPTIONS": " ".join(LIMITS), "EDFGEN": f"{BIN}/edfgen", "KILL_AFTER": kills})
    assert r.returncode == 0 and "PASS" in r.stdout and "FAIL" not in r.stdout, r.stdout + r.stderr
    return r.stdout.count("PASS")


def main():
    if os.geteuid() != 0:
        print("skipped: rights: podman with a storage of its own, and debootstrap, need root")
        return 77
    with temporary() as tmp:
        podman = Podman(f"{tmp}/podman")
        build(podman, tmp)
        make_corpus(f"{tmp}/eeg", 7, patients=1, hours=0.05)
        os.chmod(f"{tmp}/eeg", 0o755)
        os.chmod(tmp, 0o755)
        try:
            podman("run", "-d", "--name", "bed", *STRICT, "-v", f"{tmp}/eeg:/data:ro", "-v", "results:/results", "brrd")
            healthy(podman)
            check_confined(podman)
            check_stream(podman)
            assert len(opened(podman)) == 1
            stop(podman)
            podman("start", "bed")
            healthy(podman)
            assert len(opened(podman)) == 1, "the journal did not outlive the container's stop"
            stop(podman)
            print(f"szcore: {check_szcore(podman, glob.glob(f'{tmp}/eeg/**/*.edf', recursive=True)[0])} checks passed")
        finally:
            podman("rm", "-f", "-t", "0", "bed", check=False)
            podman("rmi", "-a", "-f", check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The shipped containers train on compressed EEGLAB sets: brrd with the arguments, the environment and the configuration of compose, both
Kubernetes files and the `docker run` of docs/operations.md, in a root that is read-only but for their volumes. Needs a mount namespace."""
import json
import os
import re
import subprocess
import sys

try:
    import numpy
    import scipy.io
except ImportError:
    print("skipped: package: SciPy (python3-scipy) is not installed")
    sys.exit(77)
import yaml

from daemon import BIN, MINI, PATIENCE, SOURCE, free_port, temporary, until

BUILD = os.environ["BRR_BUILD_DIR"]
LABELS = "Fp1 F3 C3 P3 F7 T3 T5 O1 Fz Cz Pz Fp2 F4 C4 P4 F8 T4 T6 O2".split()
SETS = [a for s in (*MINI, "data.validation_fraction=0", "training.max_steps=1", "training.batch_size=1") for a in ("--set", s)]
# The root: the system's programs and libraries, this build, a few devices; $1 the root, then pairs of a place in it and the folder or file there.
MOUNT = """
root=$1; shift
mount -t tmpfs none "$root"
for place in /usr /bin /sbin /lib /lib64 /proc "%s" "%s"; do
    if [ -L "$place" ]; then ln -s "$(readlink "$place")" "$root$place"
    elif [ -d "$place" ]; then mkdir -p "$root$place"; mount --rbind "$place" "$root$place"; mount -o remount,bind,ro "$root$place" 2>/dev/null || true; fi
done
mkdir -p "$root/etc" "$root/dev"
cp /etc/ld.so.cache "$root/etc/"
for device in null zero random urandom; do : >"$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
while [ "$1" != -- ]; do
    if [ -d "$2" ]; then mkdir -p "$root$1"; else mkdir -p "$(dirname "$root$1")"; : >"$root$1"; fi
    mount --rbind "$2" "$root$1"; shift 2
done
mount -o remount,ro "$root"
shift; exec chroot "$root" "$@"
""" % (SOURCE, BUILD)


def read(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as f:
        return f.read()


def compose():
    services = yaml.safe_load(read("deploy/compose/compose.yaml"))
    brrd = services["services"]["brrd"]
    assert brrd["read_only"]
    return {"volumes": [re.sub(":ro$", "", v).rpartition(":")[2] for v in brrd["volumes"]], "environment": brrd["environment"],
            "config": services["configs"]["daemon"]["content"].replace("${BRRD_HOST:-localhost}", "localhost")}


def kubernetes(name):
    documents = [d for d in yaml.safe_load_all(read(f"deploy/kubernetes/{name}")) if d]
    (pod,) = [d["spec"]["template"]["spec"] for d in documents if d["kind"] in ("Deployment", "Job")]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    return {"volumes": [m["mountPath"] for m in container["volumeMounts"] if "subPath" not in m], "environment": {e["name"]: e["value"] for e in container["env"]},
            "arguments": container["args"], "config": next((d["data"]["daemon.yaml"] for d in documents if d["kind"] == "ConfigMap"), None)}


def docker():
    """The image has volumes of its own, which Docker makes."""
    words = next(line for line in read("docs/operations.md").splitlines() if "docker run -d --name brrd" in line)
    assert "--read-only" in words
    image = json.loads(re.findall(r"^VOLUME (\[.*\])", read("Dockerfile"), re.M)[-1])
    return {"volumes": sorted({*re.findall(r"-v [^ :]+:([^ :]+)", words), *image}), "environment": dict(re.findall(r"-e (\w+)=(\S+)", words)),
            "config": read("configs/daemon.yaml")}


def write_sets(folder):
    for patient in (1, 2):
        x = numpy.random.default_rng(patient).normal(0, 20, (len(LABELS), 60 * 256)).astype("<f4")
        x[:, 20 * 256:40 * 256] *= 4
        event = numpy.rec.fromarrays([numpy.array(["seizure"], object), numpy.array([5121.0], object), numpy.array([5120.0], object)], names=["type", "latency", "duration"])
        locations = numpy.rec.fromarrays([numpy.array(LABELS, object)], names=["labels"])
        scipy.io.savemat(f"{folder}/sub-{patient:02d}_eeg.set", {"nbchan": float(len(LABELS)), "pnts": 15360.0, "trials": 1.0, "srate": 256.0, "data": x, "chanlocs": locations,
                                                                 "event": event}, appendmat=False, do_compression=True)


class Container:
    def __init__(self, shipped, tmp):
        self.shipped, self.tmp = shipped, tmp
        self.pairs = []
        os.makedirs(f"{tmp}/root")
        for place in shipped["volumes"]:
            os.makedirs(tmp + place, exist_ok=True)
            self.pairs += [place, tmp + place]
        write_sets(f"{tmp}/data")

    def command(self, *arguments):
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/results", "OMP_WAIT_POLICY": "passive", **self.shipped["environment"]}
        return ["unshare", "-rm", "sh", "-ec", MOUNT, "sh", f"{self.tmp}/root", *self.pairs, "--", "/usr/bin/env", "-i",
                *(f"{k}={v}" for k, v in environment.items()), f"{BIN}/brrd", *arguments]

    def config(self, path):
        """The shipped one, but for ports, which others may have, and addresses of the outside."""
        text = re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+", lambda _: f"127.0.0.1:{free_port()}", self.shipped["config"])
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        self.pairs += ["/etc/brrd/daemon.yaml", path]


def check_daemon(name, shipped, tmp):
    c = Container(shipped, tmp)
    tls = next((v for v in shipped["volumes"] if v.endswith("tls")), None)
    if tls:
        subprocess.run([f"{BIN}/brrctl", "tls", "init", tmp + tls], check=True, capture_output=True)
    c.config(f"{tmp}/daemon.yaml")
    env = {**os.environ, "BRR_ENDPOINT": f"unix:{tmp}/run/brrd/brrd.sock", **({"BRR_TOKEN_FILE": f"{tmp}{tls}/admin.token"} if tls else {})}
    with open(f"{tmp}/log", "wb") as log:
        process = subprocess.Popen(c.command("--config", "/etc/brrd/daemon.yaml"), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    ctl = lambda *words: subprocess.run([f"{BIN}/brrctl", *words], env=env, capture_output=True, text=True, timeout=PATIENCE)
    said = lambda: open(f"{tmp}/log", encoding="utf-8").read()[-3000:]
    try:
        until(lambda: process.poll() is not None or ctl("version").returncode == 0, said)
        r = ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--watch", "--json", "--set", "data.source=.", *SETS)
        end = json.loads(r.stdout.splitlines()[-1]) if r.stdout else None
        assert r.returncode == 0 and end["state"] == "succeeded", (name, end, r.stderr, said())
        assert "cannot be used" not in ctl("logs", end["job"]).stdout, name
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def check_job(tmp):
    """`brrd run` of the job's file; without TMPDIR its error names it, so that the root here is as narrow as a container's."""
    for i, narrow in enumerate((False, True)):
        shipped = kubernetes("job.yaml")
        where = f"{tmp}/{i}"
        if narrow:
            del shipped["environment"]["TMPDIR"]
        c = Container(shipped, where)
        with open(f"{where}/etc/brrd-job/job.yaml", "w", encoding="utf-8") as f:
            f.write(read("configs/tiny.yaml"))
        r = subprocess.run(c.command(*shipped["arguments"], *SETS), capture_output=True, text=True, timeout=PATIENCE)
        assert (r.returncode != 0) == narrow, (r.returncode, r.stdout[-2000:], r.stderr[-2000:])
        assert not narrow or "set TMPDIR to a folder with room" in r.stdout + r.stderr, (r.stdout[-2000:], r.stderr[-2000:])


def main():
    with temporary() as tmp:
        os.makedirs(f"{tmp}/probe")
        if subprocess.run(["unshare", "-rm", "sh", "-c", f"mount -t tmpfs none '{tmp}/probe'"], capture_output=True, check=False).returncode:
            print("skipped: rights: no mount namespaces here, so no read-only root can be made")
            return 77
        for name, shipped in (("compose", compose()), ("kubernetes", kubernetes("brrd.yaml")), ("docker", docker())):
            os.makedirs(f"{tmp}/{name}")
            check_daemon(name, shipped, f"{tmp}/{name}")
        check_job(f"{tmp}/job")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The Debian packages on a bare Debian: install, serve the shipped model, stream, page, scrape, train, upgrade under a running stream, roll back,
remove, purge. With BRR_TEST_PACKAGE=full also two ranks of mpirun, for which brrd-mpi brings 200 MB. The bare Debian has no systemd running, so this
test starts and stops the daemon as the unit does. It needs root (debootstrap, chroot, mount)."""
import glob
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.environ["BRR_SOURCE_DIR"], "tests", "integration"))
import debian  # noqa: E402
from daemon import MINI, PATIENCE, free_port, make_corpus, temporary, tensors, until  # noqa: E402
from debian import NAMES, Root, run  # noqa: E402


class Service:
    """What systemd does with the unit: its user and directories, its command, SIGTERM."""

    def __init__(self, root):
        self.root, self.port, self.process = root, free_port(), None
        with open(f"{root.dir}/usr/lib/systemd/system/brrd.service", encoding="utf-8") as f:
            self.unit = f.read()

    def command(self):
        return re.search(r"^User=(\S+)", self.unit, re.M)[1], re.search(r"^ExecStart=(.*)", self.unit, re.M)[1].split()

    def start(self):
        user, command = self.command()
        self.root("install", "-d", "-o", user, "-g", user, "-m", "0755", "/run/brrd")
        with open(f"{self.root.dir}/var/log/brrd.log", "ab") as log:
            self.process = subprocess.Popen([*self.root.inside(f"{user}:{user}"), *command, "--set", f"http.listen=127.0.0.1:{self.port}"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.time() + PATIENCE
        while not self.ready():
            assert self.process.poll() is None and time.time() < deadline, self.log()
            time.sleep(0.05)

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log()

    def log(self):
        with open(f"{self.root.dir}/var/log/brrd.log", encoding="utf-8") as f:
            return f.read()[-6000:]


def with_revision(control, revision):
    return re.sub(r"(\d+\.\d+\.\d+)-\d+\b(?=\)|$)", rf"\1-{revision}", control, flags=re.M)


def build(directory):
    """The packages, and the same ones with a later revision."""
    made = debian.packages()
    for age in ("present", "later"):
        os.makedirs(f"{directory}/{age}")
    for name in NAMES:
        (package,) = glob.glob(f"{made}/{name}_*.deb")
        shutil.copy(package, f"{directory}/present/{name}.deb")
        tree = f"{directory}/tree-{name}"
        run("dpkg-deb", "-R", package, tree)
        with open(f"{tree}/DEBIAN/control", encoding="utf-8") as f:
            control = f.read()
        with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as f:
            f.write(with_revision(control, 9))
        run("dpkg-deb", "-b", tree, f"{directory}/later/{name}.deb")


def build_earlier(directory):
    """The first packages, with today's programs: brrctl in brrd, and daemon.yaml a conffile."""
    os.makedirs(f"{directory}/earlier")
    for name in NAMES:
        tree, old = f"{directory}/tree-{name}", f"{directory}/old-{name}"
        if name == "brrctl":
            continue
        shutil.copytree(tree, old, symlinks=True)
        with open(f"{old}/DEBIAN/control", encoding="utf-8") as f:
            control = with_revision(f.read(), 0)
        if name == "brrd":
            control = re.sub(r"brrctl \(= [^)]*\), ", "", control)
            shutil.copytree(f"{directory}/tree-brrctl/usr", f"{old}/usr", symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(f"{old}/usr/share/doc/brrctl")
            os.unlink(f"{old}/usr/share/brrd/daemon.yaml")
            os.unlink(f"{old}/usr/lib/systemd/system/brrd-bed@.service")
            os.makedirs(f"{old}/etc/brrd")
            shutil.copy(f"{os.environ['BRR_SOURCE_DIR']}/systemd/daemon.yaml", f"{old}/etc/brrd/daemon.yaml")
            with open(f"{old}/etc/brrd/daemon.yaml", "a", encoding="utf-8") as f:
                f.write("# of an earlier version\n")
            with open(f"{old}/DEBIAN/conffiles", "w", encoding="ascii") as f:
                f.write("/etc/brrd/daemon.yaml\n")
        with open(f"{old}/DEBIAN/control", "w", encoding="utf-8") as f:
            f.write(control)
        run("dpkg-deb", "-b", old, f"{directory}/earlier/{name}.deb")


def check_earlier(root, packages):
    """From packages with daemon.yaml as a conffile: an upgrade asks nothing and leaves the file as it is, edited or not, and a purge deletes it."""
    path = f"{root.dir}/etc/brrd/daemon.yaml"
    for edit in ("", "# edited by its operator\n"):
        install(root, packages, "earlier")
        with open(path, "a", encoding="utf-8") as f:
            f.write(edit)
        with open(path, encoding="utf-8") as f:
            before = f.read()
        install(root, packages, "present")
        with open(path, encoding="utf-8") as f:
            assert f.read() == before and before.endswith("# of an earlier version\n" + edit), before
        assert root("dpkg-query", "-S", "/usr/bin/brrctl").startswith("brrctl:")
        root.apt("purge", *NAMES)
        assert not os.path.exists(path) and not os.path.exists(f"{root.dir}/usr/bin/brrctl")


def check_lint():
    packages = glob.glob(f"{debian.packages()}/*.deb")
    r = subprocess.run(["lintian", "--fail-on", "error", "--tag-display-limit", "0", *packages], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout
    verdict = run("systemd-analyze", "security", "--offline=yes", f"{os.environ['BRR_SOURCE_DIR']}/systemd/brrd.service")
    exposure = float(re.search(r"Overall exposure level for \S+ ([\d.]+)", verdict)[1])
    assert exposure <= 2.0, verdict


def install(root, packages, age):
    names = [name for name in NAMES if os.path.exists(f"{packages}/{age}/{name}.deb")]
    for name in names:
        shutil.copy(f"{packages}/{age}/{name}.deb", f"{root.dir}/tmp/{name}.deb")
    root.apt("install", *(f"/tmp/{name}.deb" for name in names))
    revision = root("dpkg-query", "-W", "-f", "${Version}", "brrd").rpartition("-")[2]
    assert revision == {"earlier": "0", "later": "9"}.get(age, revision)


def check_installed(root):
    """The service is enabled, its help is a manual page, and the socket's group may use brrctl while others may not."""
    assert os.path.islink(f"{root.dir}/etc/systemd/system/multi-user.target.wants/brrd.service")
    assert "--probabilities" in run("zgrep", "-h", "probabilities", f"{root.dir}/usr/share/man/man1/brrctl-stream.1.gz").replace("\\-", "-")
    run("bash", "-c", f"source {root.dir}/usr/share/bash-completion/completions/brrctl && complete -p brrctl")
    root("useradd", "--no-create-home", "--groups", "brrd", "nurse")
    root("brrctl", "version", user="nurse")
    assert "/data does not exist" in root("brrctl", "doctor")
    refused = subprocess.run([*root.inside("nobody"), "brrctl", "version", "--endpoint", "unix:/run/brrd/brrd.sock"], capture_output=True,
                             text=True, timeout=PATIENCE)
    assert refused.returncode != 0 and "join the group" in refused.stderr, refused


def browser(root):
    """Signed in by the link that `brrctl page` prints."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(root("brrctl", "page").strip(), timeout=PATIENCE).close()
    return opener


def page(opener, service, path):
    """What a browser gets; programs get lines of text."""
    with opener.open(urllib.request.Request(f"http://127.0.0.1:{service.port}{path}", headers={"Accept": "text/html"}), timeout=PATIENCE) as answer:
        assert answer.headers["Content-Type"].startswith("text/html"), answer.headers
        return answer.read().decode()


def check_demo(root, service):
    """The shipped model, served, finds the seizure of the shipped recording; pages and journal say what happened."""
    recording = "/usr/share/brrd/eeg/sub-01/sub-01_run-01_eeg.edf"
    root("brrctl", "load", "bedside", "demo")
    out = root("brrctl", "stream", recording, "--model", "bedside", "--client", "bed-1", "--alarms", user="nurse")
    assert re.search(r"^reference .* found$", out, re.M), out
    opener = browser(root)
    assert "bedside" in page(opener, service, "/models")
    (session,) = set(re.findall(r'href="/streams/(\w+)"', page(opener, service, "/streams")))
    assert "bed-1" in page(opener, service, "/streams") and "Alarm on" in page(opener, service, f"/streams/{session}")
    wanted, deadline = {"opened", "alarm_on", "event", "ended"}, time.monotonic() + PATIENCE
    while not wanted <= (kinds := {json.loads(line)["kind"] for line in root("brrctl", "journal", "--bed", "bed-1", "--json").splitlines()}):
        assert time.monotonic() < deadline, kinds  # the journal writes beside the stream
        time.sleep(0.1)


def train(root, corpus):
    """A model of two steps, served as `ward`."""
    sets = [*MINI, "training.max_steps=2", "training.epochs=1", f"data.source=file://{corpus}"]
    out = root("brrctl", "submit", "/usr/share/brrd/configs/tiny.yaml", "--watch", "--json", *(w for s in sets for w in ("--set", s)))
    job = json.loads(out.splitlines()[-1])
    assert job["state"] == "succeeded", job
    root("brrctl", "load", "ward", f"job:{job['job']}")
    return job["job"]


def scraped(port, directory):
    """True when a Prometheus has the daemon's metrics."""
    own = free_port()
    with open(f"{directory}/prometheus.yml", "w", encoding="utf-8") as f:
        json.dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [{"job_name": "brrd", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]}, f)
    with open(f"{directory}/prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/tsdb",
                                    f"--web.listen-address=127.0.0.1:{own}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        def scraped():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/api/v1/query?query=brrd_build_info", timeout=PATIENCE) as answer:
                    return json.load(answer)["data"]["result"]
            except OSError:
                assert process.poll() is None, "Prometheus has ended"
                return None
        return bool(until(scraped, "Prometheus does not scrape the daemon", pause_s=0.2))
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def stream(root, recording, out, *words):
    return subprocess.Popen([*root.inside("nurse"), "brrctl", "stream", recording, "--model", "ward", "--endpoint", "unix:/run/brrd/brrd.sock",
                             "--probabilities", out, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_ranks(root):
    """brrd-mpi is for the MPI that it was built with, and two ranks share a training by it."""
    made = debian.package("brrd-mpi")
    assert "libopenmpi3" in run("dpkg-deb", "-f", made, "Depends") and "/usr/lib/brrd/libbrr_mpi.so" in run("dpkg-deb", "-c", made)
    if os.environ.get("BRR_TEST_PACKAGE") != "full":
        return
    sets = [*(key for key in MINI if not key.startswith("training.")), "training.batch_size=4", "training.micro_batch_size=2", "training.reduction=tree",
            "training.max_steps=2", "data.source=file:///data/eeg"]
    words = ["brrd", "run", "/usr/share/brrd/configs/tiny.yaml", *(w for s in sets for w in ("--set", s)), "--json", "--directory"]
    ranks = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    r = subprocess.run([*root.inside(), "env", "PMIX_RANK=0", *words, "/tmp/none"], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and "install the package brrd-mpi" in r.stderr + r.stdout, r
    shutil.copy(made, f"{root.dir}/tmp/brrd-mpi.deb")
    root.apt("install", "/tmp/brrd-mpi.deb", "openmpi-bin")
    one, two = (json.loads(root(*launch, *words, f"/tmp/{len(launch)}").splitlines()[-1]) for launch in ([], ranks))
    assert one["state"] == two["state"] == "succeeded", (one, two)
    assert tensors(root.dir + one["checkpoint"]) == tensors(root.dir + two["checkpoint"])
    root.apt("purge", "brrd-mpi")


def check_upgrade(root, service, packages, recording):
    """A stream outlives the upgrade with the bits of an undisturbed one, and an edited configuration stays."""
    with open(f"{root.dir}/etc/brrd/daemon.yaml", "a", encoding="utf-8") as f:
        f.write("# edited by its operator\n")
    calm = stream(root, recording, "/tmp/calm.npy")
    assert calm.wait(PATIENCE) == 0, calm.stderr.read()
    live = stream(root, recording, "/tmp/live.npy", "--realtime", "6")
    deadline = time.time() + PATIENCE
    while not json.loads(root("brrctl", "sessions", "--json", user="nurse") or "{}").get("received_through", 0):
        assert live.poll() is None and time.time() < deadline, live.stderr.read()
        time.sleep(0.1)
    install(root, packages, "later")
    assert live.poll() is None, "the stream ended before the upgrade"
    service.stop()
    service.start()
    assert live.wait(PATIENCE) == 0, live.stderr.read()
    with open(f"{root.dir}/tmp/calm.npy", "rb") as a, open(f"{root.dir}/tmp/live.npy", "rb") as b:
        assert a.read() == b.read(), "the upgrade changed the results of a running stream"
    with open(f"{root.dir}/etc/brrd/daemon.yaml", encoding="utf-8") as f:
        assert f.read().endswith("# edited by its operator\n")


def check_rollback(root, service, packages):
    """The version before is installed again; files of a later schema are refused by name, and the backup of before makes a daemon once more."""
    root("brrctl", "backup", "/tmp/before")
    service.stop()
    for name in NAMES:
        shutil.copy(f"{packages}/present/{name}.deb", f"{root.dir}/tmp/{name}.deb")
    root.apt("--allow-downgrades", "install", *(f"/tmp/{name}.deb" for name in NAMES))
    service.start()
    assert json.loads(root("brrctl", "jobs", "--json", user="nurse").splitlines()[0])["state"] == "succeeded"
    service.stop()
    path = f"{root.dir}/var/lib/brrd/jobs.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    user, command = service.command()
    r = subprocess.run([*root.inside(f"{user}:{user}"), *command], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and "jobs.sqlite has schema 99, of a later version of brrd" in r.stderr, r
    root("mv", "/var/lib/brrd", "/var/lib/brrd-later")
    root("install", "-d", "-o", user, "-g", user, "-m", "0750", "/var/lib/brrd")
    words = ["brrd", "--restore", "/tmp/before", "--config", "/etc/brrd/daemon.yaml"]
    r = subprocess.run([*root.inside(), *words], capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and f"belongs to another user ({user}," in r.stderr, r
    restore = [*root.inside(f"{user}:{user}"), *words]
    r = subprocess.run(restore, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 1 and "give it to the daemon's user" in r.stderr, r
    root("chown", "-R", f"{user}:", "/tmp/before")
    r = subprocess.run(restore, capture_output=True, text=True, timeout=PATIENCE)
    assert r.returncode == 0, r
    root("cp", "-a", "/var/lib/brrd-later/jobs", "/var/lib/brrd/")
    service.start()
    assert json.loads(root("brrctl", "jobs", "--json", user="nurse").splitlines()[0])["state"] == "succeeded"
    assert {"bedside", "ward"} <= {json.loads(line)["name"] for line in root("brrctl", "models", "--json").splitlines()}
    service.stop()


def check_purge(root, job):
    """A removal keeps configuration and results, a purge the results alone."""
    root.apt("remove", "brrd")
    assert not os.path.exists(f"{root.dir}/usr/bin/brrd") and os.path.exists(f"{root.dir}/etc/brrd/daemon.yaml")
    unit = f"{root.dir}/etc/systemd/system/brrd.service"
    assert os.path.islink(unit) and os.readlink(unit) == "/dev/null", "a removal masks the unit"
    root.apt("install", "/tmp/brrd.deb")
    assert not os.path.lexists(unit) and os.path.islink(f"{root.dir}/etc/systemd/system/multi-user.target.wants/brrd.service"), "it stays masked"
    root("install", "-d", "/etc/brrd/tls")
    out = root.apt("purge", "brrd")
    assert "stay in /etc/brrd" in out, out
    shutil.rmtree(f"{root.dir}/etc/brrd")
    assert "stay in /var/lib/brrd" in out, out
    assert not os.path.exists(f"{root.dir}/etc/brrd") and not os.path.exists(f"{root.dir}/var/cache/brrd")
    assert glob.glob(f"{root.dir}/var/lib/brrd/**/{job}/**/*.safetensors", recursive=True), "the results were removed"


def main():
    if os.geteuid() != 0:
        print("skipped: rights: debootstrap, chroot and mount need root")
        return 77
    with temporary() as tmp:
        build(f"{tmp}/packages")
        build_earlier(f"{tmp}/packages")
        check_lint()
        root = Root(f"{tmp}/root")
        service = None
        try:
            check_earlier(root, f"{tmp}/packages")
            install(root, f"{tmp}/packages", "present")
            service = Service(root)
            service.start()
            check_installed(root)
            check_demo(root, service)
            make_corpus(f"{root.dir}/data/eeg", 5)
            os.chmod(f"{root.dir}/data/eeg", 0o755)
            job = train(root, "/data/eeg")
            assert scraped(service.port, tmp), "no metrics in Prometheus"
            check_ranks(root)
            recording = sorted(glob.glob(f"{root.dir}/data/eeg/**/*.edf", recursive=True))[0][len(root.dir):]
            check_upgrade(root, service, f"{tmp}/packages", recording)
            check_rollback(root, service, f"{tmp}/packages")
            check_purge(root, job)
        finally:
            if service and service.process and service.process.poll() is None:
                service.process.kill()
                service.process.wait()
            root.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Cold reads of 64 objects of 40 MB from a Ceph gateway on loopback: a mirror of brrd, awscli, and curl, in turn.

    BRR_BUILD_DIR=build /usr/bin/python3 tests/bench/store_throughput.py [--rounds 3] [--objects 64] [--json FILE]

brrd and awscli read objects that were uploaded in parts of 8 MB ("parts"), and whole ones, whose tag is an MD5 that brrd compares and
awscli does not; curl reads the first kind one after the other over one connection ("curl parts"), one object as large as all of them
("curl one"), and the second kind with md5sum after it ("curl md5sum"). Debian packages: radosgw ceph-mon ceph-osd ceph-common awscli curl.
Files go to a directory in memory, so that no disk is measured. A virtual machine pays for memory that its host took back, up to twice
what the copying costs; so all tools read as many bytes, that much memory is written and freed before each run, and every second round
goes backwards. Each figure is the median over rounds after one that is not counted; CPU is that of the client's processes, user and
system. The gateway shares the machine's cores.
"""
import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
BUILD = os.path.abspath(os.environ.get("BRR_BUILD_DIR", "build"))
os.environ.setdefault("BRR_BIN", os.path.join(BUILD, "bin"))
os.environ.setdefault("BRR_SOURCE_DIR", os.path.join(HERE, "..", ".."))
from daemon import free_port  # noqa: E402
from test_store_rgw import KEY, SECRET, Gateway  # noqa: E402

MB = 1000 * 1000


class BigGateway(Gateway):
    def __enter__(self):
        subprocess.run(["bash", os.path.join(HERE, "..", "integration", "rgw_up.sh"), self.folder, str(free_port()), str(self.port),
                        str(10 << 30)], timeout=180, check=True)
        return self


def measured(words, env):
    """Seconds of wall clock and of the child's CPU."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(folder, size):
    """An empty folder, and size bytes of free memory that the host has just given."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = os.path.join(folder, "memory")
    with open(path, "wb") as f:
        for _ in range(0, size, MB):
            f.write(bytes(MB))
    os.unlink(path)


def upload(rgw, env, folder, objects, size):
    """Half of what people have: parts of 8 MB, as awscli sends them, and whole objects with an MD5 as their tag."""
    curl = ["curl", "-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{KEY}:{SECRET}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    subprocess.run([*curl, "-X", "PUT", f"{rgw.endpoint}/eeg"], env=env, check=True)
    path = os.path.join(folder, "object")
    for i in range(objects):
        with open(path, "wb") as f:
            f.write(os.urandom(size))
        subprocess.run(["/usr/bin/aws", "--endpoint-url", rgw.endpoint, "s3", "cp", "--quiet", path, f"s3://eeg/parts/{i:02}.edf"], env=env,
                       check=True)
        subprocess.run([*curl, "-T", path, f"{rgw.endpoint}/eeg/whole/{i:02}.edf"], env=env, check=True, stdout=subprocess.DEVNULL)
    with open(path, "wb") as f:
        for _ in range(objects):
            f.write(os.urandom(size))
    subprocess.run([*curl, "-T", path, f"{rgw.endpoint}/eeg/one"], env=env, check=True, stdout=subprocess.DEVNULL)
    os.unlink(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--objects", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--json")
    o = parser.parse_args()
    size = o.megabytes * MB
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None, ignore_cleanup_errors=True) as tmp, \
            BigGateway(f"{tmp}/rgw") as rgw:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and "proxy" not in k.lower()}
        env = {**clean, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1", "HOME": tmp,
               "MIRROR_LOOK": "0"}
        upload(rgw, env, tmp, o.objects, size)
        got = os.path.join(tmp, "got")
        n = o.objects * size
        tools = {}
        for kind in ("parts", "whole"):
            tools[f"brrd {kind}"] = [f"{BUILD}/tests/mirror_driver", "s3://eeg", rgw.endpoint, got, str(64 << 30), kind]
            tools[f"awscli {kind}"] = ["/usr/bin/aws", "--endpoint-url", rgw.endpoint, "s3", "cp", "--quiet", "--recursive",
                                       f"s3://eeg/{kind}/", got]
        curl = ["curl", "-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{KEY}:{SECRET}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]

        def fetch_all(kind):
            return curl + [w for i in range(o.objects) for w in ("-o", f"{got}/{i:02}", f"{rgw.endpoint}/eeg/{kind}/{i:02}.edf")]

        tools["curl parts"] = fetch_all("parts")
        tools["curl one"] = [*curl, "-o", f"{got}/one", f"{rgw.endpoint}/eeg/one"]
        tools["curl md5sum"] = ["bash", "-c", '"$@" && md5sum "$0"/*', got, *fetch_all("whole")]
        runs = {name: [] for name in tools}
        for i in range(o.rounds + 1):
            for name in list(tools) if i % 2 else reversed(tools):
                fresh(got, n)
                wall, cpu = measured(tools[name], env)
                if i:
                    runs[name].append((n / wall / 1e6, cpu / (n / 1e9)))
        shutil.rmtree(got)
    rows = {name: {"mb_per_s": round(statistics.median(r[0] for r in rs), 1), "cpu_s_per_gb": round(statistics.median(r[1] for r in rs), 3),
                   "runs_mb_per_s": [round(r[0], 1) for r in rs], "runs_cpu_s_per_gb": [round(r[1], 3) for r in rs]} for name, rs in runs.items()}
    for name, row in rows.items():
        print(f"{name:14} {row['mb_per_s']:8.1f} MB/s {row['cpu_s_per_gb']:7.3f} CPU s/GB   {row['runs_mb_per_s']} {row['runs_cpu_s_per_gb']}")
    if o.json:
        commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        with open(o.json, "w") as f:
            json.dump({"bench": "store_throughput", "date": datetime.date.today().isoformat(), "commit": commit, "machine": platform.machine(),
                       "cpus": os.cpu_count(), "objects": o.objects, "object_bytes": size, "rounds": o.rounds, "results": rows}, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

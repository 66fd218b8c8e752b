#!/usr/bin/env python3
"""brrctl store against a Ceph RADOS gateway, whose signature check is nobody's but Ceph's. Skipped where radosgw is not installed."""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

from daemon import PATIENCE, free_port

BRRCTL = os.path.join(os.environ["BRR_BIN"], "brrctl")
HERE = os.path.dirname(os.path.abspath(__file__))
KEY, SECRET, MIB = "BRRDACCESSKEY0000001", "brrd/secret+key=", 1 << 20
ODD = ["a b", "a+b", "a=b", "a@b", "a(b)*'!", "a,b:c;d$e&f", "a~b", "é/ü", "a%2Fb", "100%", "<&\">", "sub-01/x_eeg.edf"]


class Gateway:
    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        done = subprocess.run(["bash", f"{HERE}/rgw_up.sh", self.folder, str(free_port()), str(self.port)], timeout=PATIENCE)
        if done.returncode:
            log = os.path.join(self.folder, "up.log")
            self.__exit__()
            raise AssertionError("radosgw did not start: " + (open(log).read() if os.path.exists(log) else ""))
        return self

    def __exit__(self, *args):
        run = os.path.join(self.folder, "run")
        for name in os.listdir(run) if os.path.isdir(run) else []:
            if name.endswith(".pid"):
                with open(os.path.join(run, name)) as f:
                    pid = f.read().strip()
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except (ValueError, ProcessLookupError):
                    pass


def main():
    if not all(shutil.which(p) for p in ("radosgw", "ceph-mon", "ceph-osd", "ceph", "radosgw-admin")):
        print("skipped: package: radosgw is not installed (apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common)")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as tmp, Gateway(f"{tmp}/rgw") as rgw:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and "proxy" not in k.lower()}
        env = {**clean, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": rgw.endpoint, "HOME": tmp}

        def store(*words, **more):
            return subprocess.run([BRRCTL, "store", *words], env={**env, **more}, capture_output=True, text=True, timeout=PATIENCE)

        def good(*words, **more):
            done = store(*words, **more)
            assert done.returncode == 0, (words, done.stderr)
            return done.stdout

        def bad(want, *words, **more):
            done = store(*words, **more)
            assert done.returncode != 0 and want in done.stderr, (words, done.stdout, done.stderr)

        def keys(*words):
            return [json.loads(line)["key"] for line in good("ls", *words, "--json").splitlines()]

        def curl(*words):
            done = subprocess.run(["curl", "-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{KEY}:{SECRET}", "-H",
                                   "x-amz-content-sha256: UNSIGNED-PAYLOAD", *words], env=clean, capture_output=True, text=True)
            assert done.returncode == 0, words
            return done.stdout

        curl("-X", "PUT", f"{rgw.endpoint}/eeg")

        for name, size in (("empty", 0), ("small", 5), ("big", 20 * MIB + 77)):
            data = random.Random(size).randbytes(size)
            with open(f"{tmp}/{name}", "wb") as f:
                f.write(data)
            good("put", f"{tmp}/{name}", f"s3://eeg/files/{name}")
            good("get", f"s3://eeg/files/{name}", "--out", f"{tmp}/got")
            with open(f"{tmp}/got", "rb") as f:
                assert f.read() == data, name
        assert keys("s3://eeg/files/") == ["files/big", "files/empty", "files/small"]
        assert json.loads(good("ls", "s3://eeg/files/big", "--json"))["tag"].endswith("-3"), "three parts"

        with open(f"{tmp}/big", "rb") as f:
            sha256 = hashlib.sha256(f.read()).hexdigest()
        noted = curl("-I", f"{rgw.endpoint}/eeg/files/big").lower()
        assert f"x-amz-meta-brrd-sha256: {sha256}" in noted, noted
        curl("-T", f"{tmp}/big", "-H", f"x-amz-meta-brrd-sha256: {'0' * 64}", f"{rgw.endpoint}/eeg/wrong")
        bad(f"has SHA-256 {sha256}, the server promises {'0' * 64}", "get", "s3://eeg/wrong", "--out", f"{tmp}/no")
        assert [n for n in os.listdir(tmp) if n.startswith("no")] == [], "nothing half-written"

        for key in ODD:
            good("put", f"{tmp}/small", f"s3://eeg/odd/{key}")
        assert keys("s3://eeg/odd/") == sorted(("odd/" + k for k in ODD), key=str.encode)
        good("get", "s3://eeg/odd/", "--out", f"{tmp}/odd")
        for key in ODD:
            assert os.path.getsize(os.path.join(tmp, "odd", key)) == 5, key

        good("check", "s3://eeg", "--endpoint", f"http://s3.localhost:{rgw.port}")  # virtual-host style
        bad("the secret key is wrong", "ls", "s3://eeg", AWS_SECRET_ACCESS_KEY="wrong")
        bad("does not know the access key", "get", "s3://eeg/files/big", "--out", f"{tmp}/no", AWS_ACCESS_KEY_ID="nobody")
        bad("there is no such bucket", "ls", "s3://nothing")
        bad("there is no such object", "get", "s3://eeg/nothing", "--out", f"{tmp}/no")
        bad("access is denied", "ls", "s3://eeg", "--anonymous")
        assert not os.path.exists(f"{tmp}/no")
    return 0


if __name__ == "__main__":
    sys.exit(main())

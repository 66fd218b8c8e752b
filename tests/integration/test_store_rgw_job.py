#!/usr/bin/env python3
"""A training job whose recordings lie in a Ceph gateway: fetched with signed requests, its models uploaded in parts, the same for
another client, promoted from the bucket by their URL, trained on from there and evaluated there. Skipped where radosgw is not installed."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary
from test_store_rgw import BRRCTL, KEY, SECRET, Gateway

# Some 30 MB of weights that two steps train in a second: uploads above 16 MiB go in parts.
WIDE = [s for s in MINI if not s.startswith("model.encoder_channels")] + ["model.encoder_channels=[8,8,16,512]"]


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def main():
    if not all(shutil.which(p) for p in ("radosgw", "ceph-mon", "ceph-osd", "ceph", "radosgw-admin")):
        print("skipped: package: radosgw is not installed (apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common)")
        return 77
    for name in [k for k in os.environ if k.startswith("AWS_") or "proxy" in k.lower()]:
        del os.environ[name]
    with temporary() as tmp, Gateway(f"{tmp}/rgw") as rgw:
        os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1", HOME=tmp,
                          AWS_ENDPOINT_URL=rgw.endpoint)
        curl = ["curl", "-sf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{KEY}:{SECRET}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
        subprocess.run([*curl, "-X", "PUT", f"{rgw.endpoint}/eeg"], check=True)
        make_corpus(f"{tmp}/eeg", seed=3, patients=2, hours=0.03)
        for root, _, names in os.walk(f"{tmp}/eeg"):
            for name in names:
                path = os.path.join(root, name)
                subprocess.run([BRRCTL, "store", "put", path, f"s3://eeg/corpus/{os.path.relpath(path, f'{tmp}/eeg')}"], check=True,
                               stdout=subprocess.DEVNULL)
        d = Daemon(tmp, [f"stores={{gateway: {{url: 's3://eeg', endpoint: '{rgw.endpoint}'}}}}"]).start()
        code, end, err = d.submit(*WIDE, "data.source=store://gateway/corpus", "training.max_steps=2", "training.validate_every=2",
                                  "checkpoint.upload=store://gateway/models")
        assert code == 0 and end["state"] == "succeeded", (end, err)
        name = os.path.basename(end["checkpoint"])
        key = f"models/{end['job']}/{name}"
        assert os.path.getsize(end["checkpoint"]) > 16 << 20
        listed = subprocess.run([BRRCTL, "store", "ls", f"s3://eeg/{key}", "--json"], check=True, capture_output=True, text=True).stdout
        assert '-2"' in listed or '-4"' in listed, "it went in parts: " + listed
        subprocess.run([*curl, "-o", f"{tmp}/foreign", f"{rgw.endpoint}/eeg/{key}"], check=True)
        assert sha256(f"{tmp}/foreign") == sha256(end["checkpoint"]), "another client reads the same"
        if shutil.which("aws", path="/usr/bin"):
            subprocess.run(["/usr/bin/aws", "--endpoint-url", rgw.endpoint, "s3", "cp", "--quiet", f"s3://eeg/{key}", f"{tmp}/aws"], check=True)
            assert sha256(f"{tmp}/aws") == sha256(end["checkpoint"]), "so does awscli"
        want = sha256(end["checkpoint"])
        shutil.rmtree(os.path.dirname(end["checkpoint"]))  # the bucket alone has it now
        code, out, err = d.ctl("checkpoint", "promote", f"store://gateway/{key}", "ward")
        assert code == 0, (out, err)
        code, out, err = d.ctl("models", "--json")
        assert code == 0 and {m["name"]: m["sha256"] for m in map(json.loads, out.splitlines())} == {"ward": want}, (out, err)
        code, out, err = d.ctl("checkpoint", "verify", "ward")
        assert code == 0 and want in out, (out, err)
        for sets, file in ((WIDE + ["training.max_steps=1", "data.validation_fraction=0", f"model.init_from=store://gateway/{key}"], None),
                           (["evaluate.plots=0", "evaluate.alarm_hop_s=0", f"evaluate.checkpoint=store://gateway/{key}"], f"{SOURCE}/configs/eval.yaml")):
            code, end, err = d.submit(*sets, "data.source=store://gateway/corpus", file=file)
            assert code == 0 and f"store://gateway/{key}, SHA-256 {want}" in d.ctl("logs", end["job"])[1], (end, err)
            code, end, err = d.submit(*[s.replace(key, "models/none") for s in sets], "data.source=store://gateway/corpus", file=file)
            assert code != 0 and "there is no such object" in end["reason"] and "store://gateway/models/none" in end["reason"], (end, err)
        recording = next(os.path.join(r, n) for r, _, names in os.walk(f"{tmp}/eeg") for n in names if n.endswith(".edf"))
        for url, text in ((f"store://gateway/{key}x", "there is no"), ("store://gateway/corpus/" + os.path.relpath(recording, f"{tmp}/eeg"), "edf")):
            code, out, err = d.ctl("checkpoint", "promote", url, "ward")
            assert code != 0 and text in err, (out, err)
        assert sorted(n for _, _, names in os.walk(f"{tmp}/results/uploads") for n in names) == ["ward.safetensors"]
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A model file that lies in a bucket is promoted by its URL: fetched, checked, served. What cannot be is refused with the reason, leaves
nothing behind, and keeps nobody else waiting."""
import hashlib
import json
import os
import shutil
import subprocess
import sys

from daemon import BIN, MINI, PATIENCE, Daemon, free_port, make_corpus, temporary, until
from fake_s3 import FakeS3, Fault

SETS = MINI + ["data.source=store://bucket/corpus", "training.max_steps=2", "training.validate_every=2", "checkpoint.upload=store://bucket/models"]
NOT_FOUND = 3
CONFIGURED = ("one", "two", "three")  # one more than are fetched at a time
TRIES = 8  # of a request that is not answered


def files(tmp):
    return sorted(os.path.relpath(os.path.join(root, n), f"{tmp}/results/uploads") for root, _, names in os.walk(f"{tmp}/results/uploads") for n in names)


def served(daemon):
    code, out, err = daemon.ctl("models", "--json")
    assert code == 0, err
    return {m["name"]: m for m in map(json.loads, out.splitlines())}


def promote(daemon, url, name):
    return daemon.ctl("checkpoint", "promote", url, name)


def train(tmp, s3, daemon):
    make_corpus(f"{tmp}/eeg", seed=11, patients=2, hours=0.03)
    for root, _, names in os.walk(f"{tmp}/eeg"):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                s3.objects["open/corpus/" + os.path.relpath(path, f"{tmp}/eeg")] = f.read()
    code, last, err = daemon.submit(*SETS)
    assert code == 0, f"{err}\n{daemon.read_log()}"
    return f"models/{last['job']}/{os.path.basename(last['checkpoint'])}"


def check_promotion(tmp, s3, daemon, key):
    code, out, err = promote(daemon, f"store://bucket/{key}", "ward")
    assert code == 0, f"{err}\n{daemon.read_log()}"
    want = hashlib.sha256(s3.objects["open/" + key]).hexdigest()
    assert served(daemon)["ward"]["sha256"] == want, "what serves is the object, byte for byte"
    with open(f"{tmp}/results/uploads/ward.safetensors", "rb") as f:
        assert hashlib.sha256(f.read()).hexdigest() == want, "it is an upload, as one of checkpoint put"
    code, out, err = daemon.ctl("checkpoint", "verify", "upload:ward")
    assert code == 0 and want in out, (out, err)
    code, out, err = daemon.ctl("load", "second", f"store://bucket/{key}")
    assert code == 0 and served(daemon)["second"]["sha256"] == want, err
    os.mkdir(f"{tmp}/shelf/a")
    shutil.copyfile(f"{tmp}/results/uploads/ward.safetensors", f"{tmp}/shelf/a/net.safetensors")
    code, out, err = promote(daemon, "store://shelf/a/net.safetensors", "second")
    assert code == 0 and served(daemon)["second"]["sha256"] == want, f"a directory is a store too: {err}"
    code, last, err = daemon.submit(*SETS, "model.init_from=ward")
    assert code == 0, f"the name works wherever a model is named: {err}"
    return want


def check_refusals(tmp, s3, daemon, key):
    recording = sorted(k for k in s3.objects if k.endswith(".edf"))[0][len("open/"):]
    s3.objects["open/big.safetensors"] = bytes(range(256)) * (6 << 12)
    s3.objects["open/cut.safetensors"] = s3.objects["open/" + key][:-100]
    before = files(tmp), served(daemon)["ward"]
    for url, code, text in ((f"store://other/{key}", NOT_FOUND, "has no store 'other'"), ("store://bucket/no/such", NOT_FOUND, "no/such"),
                            ("store://bucket", 1, "names no object"), ("store://bucket/models/", 1, "names no object"),
                            ("store://bucket/../x", 1, "no key"), (f"store://bucket/{recording}", 1, recording),
                            ("store://bucket/cut.safetensors", 1, "cut.safetensors"),
                            ("store://bucket/big.safetensors", 1, "is not a model file"), (f"store://foreign/{key}", NOT_FOUND, "no such bucket")):
        for name in ("ward", "fresh"):
            found, out, err = promote(daemon, url, name)
            assert found == code and text in err, (url, found, out, err)
    assert {r[3] for r in s3.requests if r[0] == "GET" and "big.safetensors" in r[1]} == {"bytes=0-7"}, "more than the header was fetched"
    s3.faults = [Fault("GET", "open/" + key, "corrupt")]
    code, out, err = promote(daemon, f"store://bucket/{key}", "ward")
    assert code == 1 and "promises" in err, (out, err)
    code, out, err = promote(daemon, f"store://bucket/{key}", "not/a/name")
    assert code == 1 and "not a valid model name" in err, (out, err)
    for words in (("checkpoint", "verify", f"store://bucket/{key}"), ("models", f"store://bucket/{key}")):
        code, out, err = daemon.ctl(*words)
        assert code != 0 and "checkpoint promote" in err, (out, err)
    assert (files(tmp), served(daemon)["ward"]) == before, "what served goes on, and nothing is left behind"


def check_patience(tmp, s3, daemon, key):
    """Stores that do not answer: others are served meanwhile, and whoever gives up ends the fetch."""
    before = files(tmp)
    words = [f"{BIN}/brrctl", "checkpoint", "promote"]
    s3.faults = [Fault("GET", "open/" + key, "stall", 1000)]
    s3.requests.clear()
    down = subprocess.Popen([*words, f"store://down/{key}", "fallen"], env=daemon.env, stderr=subprocess.PIPE, text=True)
    slow = subprocess.Popen([*words, f"store://bucket/{key}", "slow"], env=daemon.env, stderr=subprocess.PIPE, text=True)
    until(lambda: [r for r in s3.requests if r[0] == "GET"])
    assert set(served(daemon)) == {"ward", "second"} and slow.poll() is None, "the loop waits for no store"
    code, out, err = promote(daemon, f"store://bucket/{key}", "slow")
    assert code != 0 and "is being fetched" in err, (out, err)
    third = subprocess.Popen([*words, f"store://bucket/{key}", "third"], env=daemon.env, stderr=subprocess.PIPE, text=True)
    lines = lambda: daemon.ctl("metrics", "brrd_rpc_in_flight")[1].splitlines()
    until(lambda: sum(float(line.split()[-1]) for line in lines() if "Promote" in line) >= 2 + (down.poll() is None))
    assert third.poll() is None, "a third one waits for its turn"
    for process in (third, slow):
        process.kill()
        process.communicate()
    text = down.communicate(timeout=PATIENCE)[1]
    assert down.returncode in (1, 4) and f"store://down/{key}" in text, (down.returncode, text)
    until(lambda: files(tmp) == before and all(f"model={name} error" in daemon.read_log() for name in ("slow", "third", "fallen")))
    s3.faults = []
    code, out, err = promote(daemon, f"store://bucket/{key}", "slow")
    assert code == 0, f"its place is free again: {err}"


def main():
    with temporary() as tmp, FakeS3() as s3:
        os.environ.update(s3.environment())
        os.mkdir(f"{tmp}/shelf")
        stores = (f"stores={{bucket: {{url: 's3://eeg/open', endpoint: '{s3.endpoint}', stall: 2s}}, "
                  f"shelf: {{url: 'file://{tmp}/shelf'}}, foreign: {{url: 's3://none', endpoint: '{s3.endpoint}'}}, "
                  f"down: {{url: 's3://eeg', endpoint: 'http://127.0.0.1:{free_port()}'}}}}")
        daemon = Daemon(tmp, [stores]).start()
        key = train(tmp, s3, daemon)
        want = check_promotion(tmp, s3, daemon, key)
        check_refusals(tmp, s3, daemon, key)
        check_patience(tmp, s3, daemon, key)
        assert daemon.stop() == 0

        os.makedirs(f"{tmp}/results/uploads/.fetch", exist_ok=True)
        with open(f"{tmp}/results/uploads/.fetch/x.safetensors.part", "wb") as f:
            f.write(b"left by a killed daemon")
        s3.requests.clear()
        daemon = Daemon(tmp, [stores, f"serve=[{{name: ward, checkpoint: 'store://bucket/{key}'}}, " +
                             ", ".join(f"{{name: {n}, checkpoint: 'store://bucket/{key}'}}" for n in CONFIGURED) + ", {name: gone, checkpoint: /nowhere/net.safetensors}]"])
        daemon.start()
        until(lambda: 'model=gone error="there is no model file /nowhere' in daemon.read_log())  # no reason not to start
        until(lambda: [served(daemon).get(n, {}).get("sha256") for n in CONFIGURED] == [want] * len(CONFIGURED))
        assert served(daemon)["ward"]["sha256"] == want
        assert len([r for r in s3.requests if r[0] == "GET"]) == len(CONFIGURED), "what served before is not fetched again"
        assert not [f for f in files(tmp) if ".fetch" in f], "leftovers go at the start"

        s3.faults = [Fault("HEAD", "open/" + key, "stall", 1000)]
        slow = subprocess.Popen([f"{BIN}/brrctl", "checkpoint", "promote", f"store://bucket/{key}", "last"], env=daemon.env, stderr=subprocess.DEVNULL)
        heads = lambda: len([r for r in s3.requests if r[0] == "HEAD"]) - len(CONFIGURED)
        until(lambda: heads() > 0)
        assert daemon.stop() == 0 and heads() < TRIES, "a fetch under way does not keep the daemon from ending"
        assert slow.wait(timeout=PATIENCE) != 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

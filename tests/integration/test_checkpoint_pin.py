#!/usr/bin/env python3
"""A pinned checkpoint outlives its pruning under the same REF: it is listed, verified, fetched and streamed with, until it is unpinned."""
import json
import os
import sys

from daemon import MINI, Daemon, make_corpus, temporary


def listed(d, job):
    code, out, err = d.ctl("checkpoints", job, "--json")
    assert code == 0, err
    return {c["ref"]: c for c in map(json.loads, out.splitlines())}


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/eeg", seed=3, patients=2, hours=0.03)
        d = Daemon(tmp).start()
        code, job, err = d.submit(*MINI, f"data.source=file://{tmp}/eeg", "data.validation_fraction=0", "training.max_steps=1000000",
                                  "checkpoint.every=1s", "checkpoint.keep=1", watch=False)
        assert code == 0, err
        pinned = None
        while not pinned:
            d.wait(job["job"], lambda j: j["last_checkpoint"])
            for ref in listed(d, job["job"]):
                if d.ctl("checkpoint", "pin", ref)[0] == 0:  # else it was pruned meanwhile
                    pinned = ref
        written = listed(d, job["job"])[pinned]
        original = f"{d.dir}/results/jobs/{job['job']}/checkpoints/" + os.path.basename(written["path"])
        d.wait(job["job"], lambda j: not os.path.exists(original))
        now = listed(d, job["job"])
        assert pinned in now and now[pinned]["pinned"] and now[pinned]["sha256"] == written["sha256"], now
        kept = now[pinned]["path"]
        assert kept != original and "/pinned/" in kept and os.path.exists(kept), kept
        code, out, err = d.ctl("checkpoint", "verify", pinned)
        assert code == 0, (out, err)
        assert d.ctl("checkpoint", "get", pinned, "--out", f"{tmp}/copy.safetensors")[0] == 0
        assert d.ctl("checkpoint", "delete", pinned)[0] != 0, "pinned"
        d.ctl("cancel", job["job"])
        d.wait(job["job"], lambda j: j["state"] == "cancelled")
        d.kill()
        d.start()  # the record of the pin is durable
        assert d.ctl("checkpoint", "pin", pinned)[0] == 0, "twice is fine"
        assert d.ctl("checkpoint", "unpin", pinned)[0] == 0
        assert not os.path.exists(kept) and pinned not in listed(d, job["job"])
        code, _, err = d.ctl("checkpoint", "verify", pinned)
        assert code != 0 and "no such checkpoint" in err, err
        uploads = f"{d.dir}/results/uploads"
        os.path.isdir(uploads) and os.rename(uploads, f"{uploads}.away")
        with open(uploads, "w"):
            pass
        code, out, err = d.ctl("checkpoints")
        assert code != 0 and "cannot open directory" in err and "uploads" in err, (code, out, err)  # not a list that lacks some
        os.remove(uploads)
        assert d.ctl("checkpoints")[0] == 0
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

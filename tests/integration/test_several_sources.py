#!/usr/bin/env python3
"""A training from several sources with weights, one of them a bucket: the weights of the same job on folders, also when the daemon is
killed in between; patients of the same name are different ones; validate, evaluate and a job file with relative paths know the list."""
import json
import os
import re
import sys

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary, tensors
from fake_s3 import FakeS3
from test_store_arrival import upload

SETS = [*MINI, "training.max_steps=30", "training.validate_every=15", "checkpoint.every=1s", "limits.restarts=100", "data.validation_fraction=0.34"]
OVER = ("succeeded", "failed", "cancelled", "interrupted")


def sources(first, second):
    return f'data.source=[{{uri: "{first}", weight: 3, name: here}}, {{uri: "{second}", weight: 1, name: there}}]'


def check_training(d, tmp):
    code, end, err = d.submit(*SETS, sources(f"file://{tmp}/one", f"file://{tmp}/two"))
    assert code == 0 and end["state"] == "succeeded", (end, err)
    want = tensors(end["checkpoint"])
    code, far, err = d.submit(*SETS, sources(f"file://{tmp}/one", "store://bucket/two"))
    assert code == 0 and far["state"] == "succeeded", (far, err)
    assert tensors(far["checkpoint"]) == want, "a bucket gave other weights than its folder"
    code, log, err = d.ctl("logs", end["job"])
    assert code == 0, err
    roles = {role: re.search(rf"{role} patients: (.*)", log)[1].split(", ") for role in ("training", "validation")}
    assert sorted(sum(roles.values(), [])) == [f"{s}/sub-0{i}" for s in ("here", "there") for i in (1, 2, 3)], roles
    assert {p.split("/")[0] for p in roles["validation"]} == {"here", "there"}, roles
    code, other, err = d.submit(*SETS, sources(f"file://{tmp}/one", f"file://{tmp}/two").replace("weight: 3", "weight: 1"))
    assert code == 0 and tensors(other["checkpoint"]) != want, (other, err)
    return end, want


def check_kill(d, tmp, want):
    code, job, err = d.submit(*SETS, sources(f"file://{tmp}/one", "store://bucket/two"), watch=False)
    assert code == 0, err
    folder = f"{d.dir}/results/jobs/{job['job']}/checkpoints"
    d.wait(job["job"], lambda j: (os.path.isdir(folder) and any(".state." in n for n in os.listdir(folder))) or j["state"] in OVER)
    d.kill()
    d.start()
    end = d.wait(job["job"], lambda j: j["state"] in OVER)
    assert end["state"] == "succeeded", (end, d.read_log())
    assert tensors(end["checkpoint"]) == want, "a killed training ended with other weights"


def check_file(d, tmp):
    """Relative paths are those of the file; validate counts both, and names the source that is at fault."""
    with open(f"{SOURCE}/configs/tiny.yaml", encoding="utf-8") as f:
        text = re.sub(r"\n  source: .*", '\n  source: [{uri: "file://one", weight: 3}, {uri: "file://two"}]', f.read())
    with open(f"{tmp}/job.yaml", "w", encoding="utf-8") as f:
        f.write(text)
    code, out, err = d.ctl("validate", f"{tmp}/job.yaml", "--json", *[w for s in SETS for w in ("--set", s)])
    assert code == 0 and f"{tmp}/one" in out and f"{tmp}/two" in out, (code, out, err)
    code, _, err = d.ctl("validate", f"{tmp}/job.yaml", "--set", f'data.source=[{{uri: "file://{tmp}/one"}}, {{uri: "file://{tmp}/none"}}]')
    assert code != 0 and "source none" in err and f"{tmp}/none" in err, (code, err)
    code, _, err = d.ctl("validate", f"{tmp}/job.yaml", "--set", f'data.source=[{{uri: "file://{tmp}/one"}}, {{uri: "file://{tmp}/empty"}}]')
    assert code != 0 and "data.source empty" in err, (code, err)


def check_evaluation(d, tmp, end):
    """The model was trained or validated on patients of these names."""
    unweighted = sources(f"file://{tmp}/one", f"file://{tmp}/two").replace("weight: 3, ", "").replace("weight: 1, ", "")
    code, report, err = d.submit(unweighted, f"evaluate.checkpoint=job:{end['job']}", "evaluate.plots=0", "evaluate.alarm_hop_s=0",
                                 "evaluate.baselines=[]", file=f"{SOURCE}/configs/eval.yaml")
    assert code == 0 and report["state"] == "succeeded", (report, err)
    code, report, err = d.submit(f"data.source=file://{tmp}/two", "evaluate.patients=unseen", f"evaluate.checkpoint=job:{end['job']}",
                                 file=f"{SOURCE}/configs/eval.yaml")
    assert code != 0 and "has seen all 3 patients" in json.dumps(report), report
    words = (unweighted, f"evaluate.checkpoint=job:{end['job']}", "data.loader_workers=2")
    need = lambda *more: json.loads(d.ctl("validate", f"{SOURCE}/configs/eval.yaml", "--json", *[w for s in (*words, *more) for w in ("--set", s)])[1])["memory_bytes"]
    assert need() - need("evaluate.baselines=[]") == 2 * 4 * 256 * 0.05 * 3600, "traces of baselines"


def main():
    with temporary() as tmp, FakeS3() as s3:
        make_corpus(f"{tmp}/one", seed=31, hours=0.05)
        make_corpus(f"{tmp}/two", seed=32, hours=0.05)
        os.makedirs(f"{tmp}/empty")
        upload(s3, f"{tmp}/two", "two")
        os.environ.update(s3.environment())
        d = Daemon(tmp, [f"stores={{bucket: {{url: 's3://eeg', endpoint: '{s3.endpoint}'}}}}"]).start()
        end, want = check_training(d, tmp)
        check_kill(d, tmp, want)
        check_file(d, tmp)
        check_evaluation(d, tmp, end)
        assert d.stop() == 0
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

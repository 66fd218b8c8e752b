#!/usr/bin/env python3
"""Scores on people that a model has learned from are marked, wherever they are printed; people of the same names in another dataset are
others, where both sides state theirs or somebody declares it; patients follow from a pattern or a table too."""
import glob
import json
import os
import shutil
import sys

from daemon import MINI, SOURCE, Daemon, make_corpus, temporary

EVALUATE = f"{SOURCE}/configs/eval.yaml"


def rows(d, folder, ref, *more):
    code, out, err = d.ctl("benchmark", folder, "--model", ref, "--model", "line_length", "--json", *more)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def check_benchmark(d, tmp, ref):
    first, other = rows(d, f"{tmp}/b", ref, "--output", f"{tmp}/compared")
    assert (first["patients_seen"], first["patients"]) == (2, 2) and (other["patients_seen"], other["patients"]) == (0, 2), (first, other)
    for name in ("benchmark.csv", "benchmark.tex", "benchmark.svg"):
        with open(f"{tmp}/compared/{name}", encoding="utf-8") as f:
            assert f.read().count("seen: 2 of 2 patients") == 1, name
    code, out, err = d.ctl("benchmark", f"{tmp}/b", "--model", ref, "--model", "line_length")
    assert code == 0 and out.splitlines()[2].endswith("seen: 2 of 2 patients") and "seen" not in out.splitlines()[3], out
    assert rows(d, f"{tmp}/b", ref, "--dataset", "beta")[0]["patients_seen"] == 0, "people of another dataset are others"
    assert rows(d, f"{tmp}/b", ref, "--dataset", "alpha")[0]["patients_seen"] == 2


def check_detect(d, tmp, ref):
    """Beside the events, where score and report find it."""
    code, _, err = d.ctl("detect", f"{tmp}/a", "--model", ref, "--out", f"{tmp}/found")
    assert code == 0 and "trained or selected on people of these recordings (seen: 3 of 3 patients)" in err, err
    with open(f"{tmp}/found/.brrd-output.json", encoding="utf-8") as f:
        listed = json.load(f)
    assert listed["model"]["name"] == ref and len(listed["model"]["sha256"]) == 64 and listed["model"]["patients_seen"] == 3, listed["model"]
    code, out, err = d.ctl("score", f"{tmp}/a", f"{tmp}/found")
    assert code == 0 and f"events of {ref}, SHA-256 {listed['model']['sha256'][:12]}; seen: 3 of 3 patients" in out, out
    for form in ("csv", "latex"):
        code, out, err = d.ctl("score", f"{tmp}/a", f"{tmp}/found", "--table", form)
        assert code == 0 and "all (seen: 3 of 3 patients)" in out and f"events of {ref}, SHA-256" in err, (out, err)
    score = json.loads(d.ctl("score", f"{tmp}/a", f"{tmp}/found", "--json")[1])
    assert score["patients_seen"] == 3 and score["patients"] == 3 and score["model"] == ref and "pooled" in score, score
    code, _, err = d.ctl("report", f"{tmp}/found", "--output", f"{tmp}/found.html")
    with open(f"{tmp}/found.html", encoding="utf-8") as f:
        assert code == 0 and "seen: 3 of 3 patients" in f.read(), err
    with open(f"{tmp}/detect.yaml", "w", encoding="utf-8") as f:
        f.write(f"kind: detect\ndata: {{ source: 'file://{tmp}/a' }}\ndetect: {{ model: '{ref}' }}\n")
    code, end, err = d.submit(file=f"{tmp}/detect.yaml")
    assert code == 0 and (end["result"]["patients_seen"], end["result"]["patients"]) == (3, 3), (end, err)
    code, _, err = d.ctl("report", f"job:{end['job']}", "--output", f"{tmp}/job.html")
    with open(f"{tmp}/job.html", encoding="utf-8") as f:
        assert code == 0 and "seen: 3 of 3 patients" in f.read(), err


def check_evaluate(d, tmp, ref):
    sets = [f"data.source=file://{tmp}/b", f"evaluate.checkpoint={ref}", "evaluate.plots=0", "evaluate.patients=unseen"]
    code, end, err = d.submit(*sets, file=EVALUATE)
    assert code == 1 and "evaluate.not_seen: true" in end["reason"] and "data.dataset" in end["reason"], (end, err)
    for more, declared in (("data.dataset=beta", False), ("evaluate.not_seen=true", True)):
        code, end, err = d.submit(*sets, more, file=EVALUATE)
        assert code == 0 and end["result"]["seen_patients"] == 0 and end["result"]["patients"] == 2, (end, err)
        with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
            report = json.load(f)
        assert report["not_seen"] == declared and report["patients"]["unseen"] == ["sub-01", "sub-02"], report["patients"]
    code, out, err = d.ctl("tune", ref, f"{tmp}/a", "--out", f"{tmp}/tuned.safetensors", "--json")
    assert code == 0 and json.loads(out.splitlines()[-1])["patients_seen"] == 3, err


def check_tuned(d, tmp):
    """Whose recordings chose the thresholds, the copy has seen; ward has learned from nobody."""
    tuned = f"{tmp}/ward.safetensors"
    code, out, err = d.ctl("tune", "ward", f"{tmp}/a", "--out", tuned, "--dataset", "alpha", "--json")
    assert code == 0 and json.loads(out.splitlines()[-1])["patients_seen"] == 0, (out, err)
    seen = [rows(d, f"{tmp}/b", tuned, "--dataset", name)[0]["patients_seen"] for name in ("", "alpha", "beta")]
    assert seen == [2, 2, 0], seen
    code, out, err = d.ctl("detect", f"{tmp}/a", "--model", tuned, "--out", f"{tmp}/of-tuned", "--json")
    assert code == 0 and [json.loads(line)["patients_seen"] for line in out.splitlines()] == [3] * 3, (out, err)
    assert json.loads(d.ctl("score", f"{tmp}/a", f"{tmp}/of-tuned", "--json")[1])["patients_seen"] == 3
    sets = [f"data.source=file://{tmp}/a", f"evaluate.checkpoint={tuned}", "evaluate.plots=0"]
    code, end, err = d.submit(*sets, file=EVALUATE)
    assert code == 0 and end["result"]["seen_patients"] == 3, (end, err)
    with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
        patients = json.load(f)["patients"]
    assert (len(patients["validation"]), patients["training"], patients["unseen"]) == (3, [], []), patients
    code, end, err = d.submit(*sets, "evaluate.patients=unseen", file=EVALUATE)
    assert code == 1 and "the model has seen all 3 patients" in end["reason"], (end, err)
    code, out, err = d.ctl("tune", tuned, f"{tmp}/b", "--out", f"{tmp}/twice.safetensors", "--json")
    assert code == 0 and json.loads(out.splitlines()[-1])["patients_seen"] == 2, (out, err)
    assert rows(d, f"{tmp}/a", f"{tmp}/twice.safetensors")[0]["patients_seen"] == 3, "the first ones stay"


def check_patients(d, tmp):
    """Two recordings of one subject whose names have no known form."""
    names = sorted(glob.glob(f"{tmp}/a/**/*_eeg.edf", recursive=True))
    os.makedirs(f"{tmp}/subjects")
    table = "note,patient,file\n"
    for i, path in enumerate(names):
        for ending, to in (("_eeg.edf", ".edf"), ("_events.tsv", "_events.tsv")):
            shutil.copy(path.replace("_eeg.edf", ending), f"{tmp}/subjects/Subject{i // 2:02d}_{i % 2}{to}")
        table += f"\"a, b\",P{i // 2},Subject{i // 2:02d}_{i % 2}.edf\n"
    with open(f"{tmp}/who.csv", "w", encoding="utf-8") as f:
        f.write(table)
    for rule, patients in ((None, 3), (r"(Subject\d+)_", 2), (f"{tmp}/who.csv", 2)):
        words = ["--patient", rule] if rule else []
        code, out, err = d.ctl("dataset", f"{tmp}/subjects", "--json", *words)
        assert code == 0 and sum(s["patients"] for s in json.loads(out)["splits"].values()) == patients, (rule, out, err)
        assert ("3 of 3 recordings name no patient: each counts as one" in out) == (rule is None), out
    code, out, err = d.ctl("dataset", f"{tmp}/subjects", "--patient", "Subject")
    assert code == 1 and "a pattern with one group" in err, (out, err)
    base = [*MINI, f"data.source=file://{tmp}/subjects", "training.max_steps=2"]
    code, out, err = d.ctl("validate", f"{SOURCE}/configs/tiny.yaml", *[a for s in base for a in ("--set", s)])
    assert code == 0 and "3 of 3 recordings name no patient: each counts as one" in out, (out, err)
    for rule, people in ((r"(Subject\d+)_", ["Subject00", "Subject01"]), ("who.csv", ["P0", "P1"])):
        code, out, err = d.ctl("submit", f"{SOURCE}/configs/tiny.yaml", "--json", "--watch", *[a for s in (*base, f"data.patient={rule}") for a in ("--set", s)],
                               cwd=tmp)
        end = json.loads(out.splitlines()[-1])
        assert code == 0, (end, err)
        with open(f"{d.dir}/results/jobs/{end['job']}/report.json", encoding="utf-8") as f:
            split = json.load(f)["split"]
        assert sorted(split["training"] + split["validation"]) == people, split
    code, _, err = d.submit(*base, "data.patient=Subject")
    assert code != 0 and "data.patient" in err and "a pattern with one group" in err, err


def check_unnamed(d, tmp):
    """Recordings that name no patient are known by their paths below the folder; by other paths nobody can tell."""
    paths = sorted(glob.glob(f"{tmp}/a/**/*_eeg.edf", recursive=True))
    for i, path in enumerate(paths):
        for at, name in (("nights", f"night{i}"), ("moved", f"evening{i}")):
            os.makedirs(f"{tmp}/{at}", exist_ok=True)
            shutil.copy(path, f"{tmp}/{at}/{name}.edf")
            shutil.copy(path.replace("_eeg.edf", "_events.tsv"), f"{tmp}/{at}/{name}_events.tsv")
    code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/nights", "training.max_steps=2")
    assert code == 0, err
    ref = f"job:{end['job']}"
    asked = ("nights", ref, 3), ("moved", ref, None), ("moved", "line_length", 0), ("moved", "demo", None)
    for at, model, seen in asked:
        code, _, err = d.ctl("detect", f"{tmp}/{at}", "--model", model, "--out", f"{tmp}/of-{at}-{model}")
        assert code == 0 and ("(seen: 3 of 3 patients)" in err) == (seen == 3), err
        with open(f"{tmp}/of-{at}-{model}/.brrd-output.json", encoding="utf-8") as f:
            listed = json.load(f)["model"]
        assert len(listed["sha256"]) == 64 and (listed["patients_seen"], listed["patients"]) == (seen, 3), (at, listed)
        score = json.loads(d.ctl("score", f"{tmp}/{at}", f"{tmp}/of-{at}-{model}", "--json")[1])
        assert (score["patients_seen"], score["model_sha256"]) == (seen, listed["sha256"]), (at, score)
    for at, seen in (("nights", 3), ("moved", None)):
        with open(f"{tmp}/unnamed.yaml", "w", encoding="utf-8") as f:
            f.write(f"kind: detect\ndata: {{ source: 'file://{tmp}/{at}' }}\ndetect: {{ model: '{ref}' }}\n")
        code, detected, err = d.submit(file=f"{tmp}/unnamed.yaml")
        result = detected["result"]
        assert code == 0 and (result["patients_seen"], result["patients"]) == (seen, 3), (detected, err)
        code, out, err = d.ctl("detect", f"{tmp}/{at}", "--model", ref, "--out", f"{tmp}/lines-{at}", "--json")
        lines = [json.loads(line) for line in out.splitlines()]
        assert code == 0 and [(x["patients_seen"], x["patients"]) for x in lines] == [(seen, 3)] * 3, (lines, err)
        code, end, err = d.submit(f"data.source=file://{tmp}/{at}", f"evaluate.checkpoint={ref}", "evaluate.plots=0", file=EVALUATE)
        assert code == 0 and (end["result"]["seen_patients"], end["result"]["patients"]) == (seen, 3), (end, err)
        assert ("some recordings name no patient" in d.ctl("logs", end["job"])[1]) == (seen is None)
        code, out, err = d.ctl("tune", ref, f"{tmp}/{at}", "--out", f"{tmp}/tuned-{at}.safetensors", "--json")
        assert code == 0 and json.loads(out.splitlines()[-1])["patients_seen"] == seen, (out, err)


def main():
    with temporary() as tmp:
        make_corpus(f"{tmp}/a", seed=31, patients=3)
        make_corpus(f"{tmp}/b", seed=32, patients=2)
        d = Daemon(tmp).start()
        code, end, err = d.submit(*MINI, f"data.source=file://{tmp}/a", "training.max_steps=4", "data.dataset=alpha")
        assert code == 0, err
        ref = f"job:{end['job']}"
        check_benchmark(d, tmp, ref)
        check_detect(d, tmp, ref)
        check_evaluate(d, tmp, ref)
        check_tuned(d, tmp)
        check_patients(d, tmp)
        check_unnamed(d, tmp)
        assert d.stop() == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
